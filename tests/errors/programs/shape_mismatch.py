# SPDX-License-Identifier: Apache-2.0
# expect: RuntimeError: The size of tensor a \(3\) must match the size of tensor b \(4\) at non-singleton dimension 0
import torch

torch.ones(3, device="neuron") + torch.ones(4, device="neuron")
