# SPDX-License-Identifier: Apache-2.0
# expect: RuntimeError: .*(same device|device)
import torch

torch.add(torch.ones(3, device="neuron"), 1, out=torch.empty(3))
