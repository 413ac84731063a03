# SPDX-License-Identifier: Apache-2.0
# expect: TORCH_NEURONX_FALLBACK=never is not valid: expected allow, warn or error
# env: TORCH_NEURONX_FALLBACK=never
import torch

torch.ones(3, device="neuron")
