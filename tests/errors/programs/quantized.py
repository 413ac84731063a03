# SPDX-License-Identifier: Apache-2.0
# expect: NotImplementedError: .*quantized
import torch

torch.quantize_per_tensor(torch.randn(3, device="neuron"), 0.1, 0, torch.qint8)
