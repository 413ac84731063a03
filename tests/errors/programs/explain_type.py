# SPDX-License-Identifier: Apache-2.0
# expect: TypeError: last is a number of windows, not str
import torch_neuronx

torch_neuronx.explain("all")
