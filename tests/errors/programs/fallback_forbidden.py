# SPDX-License-Identifier: Apache-2.0
# expect: NotImplementedError: .*aten::bincount has no kernel for neuron, and TORCH_NEURONX_FALLBACK=error
# env: TORCH_NEURONX_FALLBACK=error
import torch

torch.bincount(torch.ones(3, dtype=torch.int64, device="neuron"))
