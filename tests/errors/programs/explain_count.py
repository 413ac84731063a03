# SPDX-License-Identifier: Apache-2.0
# expect: ValueError: last is between 1 and 128, not 0
import torch_neuronx

torch_neuronx.explain(0)
