# SPDX-License-Identifier: Apache-2.0
# expect: (NotImplementedError|RuntimeError): .*(sparse|strided)
import torch

torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), device="neuron")
