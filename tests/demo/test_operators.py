# SPDX-License-Identifier: Apache-2.0
import torch
from char_gpt.operators import operators_of


def test_counts_forward_and_backward_but_no_views():
    x = torch.ones(3, 4, requires_grad=True)
    uses = operators_of(lambda: x.t().exp().sum().backward(), torch.device("cpu"))
    calls = {use.name: use.calls for use in uses}
    assert calls["aten::exp.default"] == 1
    assert calls["aten::mul.Tensor"] == 1  # exp's backward
    assert not any(name.startswith("aten::t.") for name in calls)
    assert {use.place for use in uses} == {"cpu"}


def test_accelerator_says_where_each_operator_ran():
    device = torch.accelerator.current_accelerator()
    x = torch.ones(8, 8, device=device)
    uses = operators_of(lambda: (x @ x).exp() + x.sort().values, device)
    for operator in ("mm", "exp", "sort"):
        found = [use for use in uses if use.name.startswith(f"aten::{operator}")]
        assert sum(use.calls for use in found) == 1
        assert all(use.place for use in found)
