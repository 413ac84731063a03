# SPDX-License-Identifier: Apache-2.0
# expect: RuntimeError: Expected all tensors to be on the same device, but .*neuron:1
import torch

torch.mm(torch.ones(3, 3, device="neuron:0"), torch.ones(3, 3, device="neuron:1"))
