# SPDX-License-Identifier: Apache-2.0
"""Arguments that only PyTorch's CPU kernels check are refused at the call, with their message."""

from __future__ import annotations

import pytest
import torch

CALLS = {
    "gelu": lambda x: torch.ops.aten.gelu(x, approximate="sigmoid"),
    "gelu_backward": lambda x: torch.ops.aten.gelu_backward(x, x, approximate="sigmoid"),
    "svd": lambda x: torch.ops.aten._linalg_svd(x, driver="gesvd"),
    "lu": lambda x: torch.linalg.lu(x, pivot=False),
    "lu_factor_ex": lambda x: torch.linalg.lu_factor_ex(x, pivot=False),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_refused_at_the_call(call):
    x = torch.randn(3, 3)
    with pytest.raises(RuntimeError) as on_cpu:
        call(x)
    with pytest.raises(RuntimeError) as on_device:
        call(x.to("neuron"))
    assert str(on_device.value).splitlines()[0] == str(on_cpu.value).splitlines()[0]
