# SPDX-License-Identifier: Apache-2.0
# expect: OutOfMemoryError: Neuron OOM: requested_size=\d+ total_hbm=\d+ \(OOM\)
# env: TORCH_NEURONX_VIRTUAL_HBM_GB=0.125
import torch

kept = torch.ones(1 << 20, device="neuron")
try:
    torch.empty(1 << 30, device="neuron")
except torch.OutOfMemoryError:
    # The program goes on, with all of the memory but what it holds.
    big = torch.full((24 << 20,), 2.0, device="neuron")
    assert (big.sum() + kept.sum()).item() == 2 * (24 << 20) + (1 << 20)
    raise
