# SPDX-License-Identifier: Apache-2.0
# expect: IndexError: index 7 is out of bounds for dimension 0 with size 4\n\[operator aten::index\.Tensor_out, called at .*asynchronous_failure\.py:9 in pick
import torch

table = torch.zeros(4, device="neuron")


def pick(index):
    return table[index]


picked = pick(torch.tensor([7], device="neuron"))
later = picked + 1
print("the call returned")
torch.accelerator.synchronize()
