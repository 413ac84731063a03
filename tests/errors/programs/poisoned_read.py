# SPDX-License-Identifier: Apache-2.0
# expect: IndexError: index out of range in self
import torch

rows = torch.zeros(4, 2, device="neuron")
bad = torch.nn.functional.embedding(torch.tensor([9], device="neuron"), rows)
derived = bad * 2
try:
    torch.accelerator.synchronize()
except IndexError:
    fresh = torch.ones(2, device="neuron") * 3  # what does not depend on it goes on
    assert fresh.tolist() == [3.0, 3.0]
    derived.cpu()  # reading what depends on it raises again
