# SPDX-License-Identifier: Apache-2.0
# expect: RuntimeError: Expected all tensors to be on the same device, but found at least two devices, neuron:0 and cpu!
import torch

torch.ones(3, device="neuron") + torch.ones(3)
