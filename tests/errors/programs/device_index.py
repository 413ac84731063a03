# SPDX-License-Identifier: Apache-2.0
# expect: RuntimeError: Device index 9 is out of range: neuron has 4 virtual NeuronCores
import torch

torch.ones(3, device="neuron:9")
