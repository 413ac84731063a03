# SPDX-License-Identifier: Apache-2.0
# expect: TORCH_NEURONX_EAGER_MODE=lazy is not valid: expected adaptive or strict
# env: TORCH_NEURONX_EAGER_MODE=lazy
import torch

torch.ones(3, device="neuron")
