# SPDX-License-Identifier: Apache-2.0
# expect: TypeError: can't convert neuron:0 device type tensor to numpy. Use Tensor.cpu\(\)
import torch

torch.ones(3, device="neuron").numpy()
