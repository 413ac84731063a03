# SPDX-License-Identifier: Apache-2.0
# expect: NotImplementedError: .*sparse
import torch

torch.eye(3, device="neuron").to_sparse()
