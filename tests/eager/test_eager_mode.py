# SPDX-License-Identifier: Apache-2.0
"""The eager mode: getter, setter, context manager, variable; and which operations it covers."""

import pytest
import torch
import torch_neuronx
from torch_neuronx import metrics

DEVICE = "neuron"


def program(x):
    return torch.softmax((x * 2 + 1).relu() * x, -1)


def test_it_is_adaptive_and_can_be_set():
    assert torch_neuronx.get_eager_mode() == "adaptive"
    torch_neuronx.set_eager_mode("strict")
    assert torch_neuronx.get_eager_mode() == "strict"


def test_a_block_restores_what_was_before():
    with torch_neuronx.eager_mode("strict"):
        assert torch_neuronx.get_eager_mode() == "strict"
        with torch_neuronx.eager_mode("adaptive"):
            assert torch_neuronx.get_eager_mode() == "adaptive"
        assert torch_neuronx.get_eager_mode() == "strict"
    assert torch_neuronx.get_eager_mode() == "adaptive"
    with pytest.raises(KeyError), torch_neuronx.eager_mode("strict"):
        raise KeyError
    assert torch_neuronx.get_eager_mode() == "adaptive"


def test_it_decorates_functions_that_call_themselves():
    @torch_neuronx.eager_mode("strict")
    def count(n):
        assert torch_neuronx.get_eager_mode() == "strict"
        return 1 + count(n - 1) if n else 0

    assert count(3) == 3
    assert torch_neuronx.get_eager_mode() == "adaptive"


@pytest.mark.parametrize("mode", ["lazy", "", None, 1, "Strict"])
def test_bad_modes(mode):
    for use in (torch_neuronx.eager_mode, torch_neuronx.set_eager_mode):
        with pytest.raises(ValueError, match="'adaptive' or 'strict'"):
            use(mode)
    assert torch_neuronx.get_eager_mode() == "adaptive"


def test_strict_runs_each_operation_alone_with_the_same_bits(settle):
    x = torch.randn(32, 64, device=DEVICE)
    settle(lambda: program(x).cpu())
    with metrics.difference() as adaptive:
        expected = program(x).cpu()
    assert adaptive["Launch.Fused"] >= 1
    metrics.clear_all()
    with torch_neuronx.eager_mode("strict"), metrics.difference() as strict:
        found = program(x).cpu()
    assert strict["Launch.Fused"] == 0
    assert strict["Launch.Single"] >= 5
    assert torch.equal(found, expected)
    explanation = torch_neuronx.explain()
    assert set(explanation.ended) == {"Strict"}
    assert set(explanation.why_single) == {"strict"}


def test_what_was_recorded_before_a_block_keeps_its_mode(settle):
    x = torch.randn(512, 512, device=DEVICE)

    def before_and_inside():
        y = program(x)
        with torch_neuronx.eager_mode("strict"):
            z = y.sin()
        return z

    settle(lambda: before_and_inside().cpu())
    metrics.clear_all()
    with metrics.difference() as d:
        before_and_inside().cpu()
    assert d["Launch.Fused"] >= 1
    assert d["Window.Strict"] >= 1
    modes = {
        op.name: window.ended == "Strict"
        for window in torch_neuronx.explain().windows
        for op in window.operations
    }
    assert modes["aten::sin"]
    assert not modes["aten::_softmax"]


def test_leaving_a_block_raises_no_error_of_the_device():
    table = torch.zeros(4, device=DEVICE)
    with torch_neuronx.eager_mode("strict"):
        table[torch.tensor([9], device=DEVICE)]
    with pytest.raises(IndexError):
        torch.neuron.synchronize()


def test_the_variable_sets_the_mode(run_program):
    program = """
        import torch_neuronx
        print(torch_neuronx.get_eager_mode())
    """
    for mode in ("strict", "adaptive"):
        assert run_program(program, TORCH_NEURONX_EAGER_MODE=mode).stdout.strip() == mode
