# SPDX-License-Identifier: Apache-2.0
"""``torch_neuronx.explain``: what operations became, and why."""

import pytest
import torch
import torch_neuronx
from torch_neuronx import metrics

DEVICE = "neuron"


def operations(explanation):
    return [op for window in explanation.windows for op in window.operations]


def chain(x):
    return torch.softmax((x * 2 + 1).relu() * x, -1)


def test_operations_have_the_line_that_called_them():
    x = torch.ones(4, 8, device=DEVICE)
    y = x * 3
    z = torch.exp(y)
    torch.neuron.synchronize()
    first = test_operations_have_the_line_that_called_them.__code__.co_firstlineno
    found = {op.name.split(".")[0]: op for op in operations(torch_neuronx.explain())}
    for name, line in (("aten::mul", 2), ("aten::exp", 3)):
        expected = f"{__file__}:{first + line} in test_operations_have_the_line_that_called_them"
        assert found[name].source == expected
        assert not found[name].backward
    assert z.shape == (4, 8)


def test_operations_run_alone_until_their_sequence_is_known_and_compiled(run_program):
    program = """
        import torch, torch_neuronx
        from torch_neuronx import _C, metrics
        x = torch.rand(7, 13, device="neuron")
        for expected in ({"first sighting": 4}, {"not compiled yet": 4}, {}):
            torch.neuron.synchronize()
            metrics.clear_all()
            (x.cos() * 0.37 - x.abs()).cpu()
            explanation = torch_neuronx.explain()
            assert explanation.why_single == expected, explanation
            assert explanation.ran["fused"] == 4 - sum(expected.values()), explanation
            _C.wait_for_compiles()
    """
    run_program(program, TORCH_NEURONX_DISABLE_NEFF_CACHE="1")


def test_a_repeated_chain_becomes_one_kernel(settle):
    x = torch.rand(32, 64, device=DEVICE)
    settle(lambda: chain(x).cpu())
    metrics.clear_all()
    with metrics.difference() as d:
        result = chain(x)
        result.cpu()
    explanation = torch_neuronx.explain()
    fused = [s for w in explanation.windows for s in w.steps if s.how == "fused"]
    assert len(fused) == d["Launch.Fused"] == 1
    (window,) = [w for w in explanation.windows if fused[0] in w.steps]
    assert window.plan == "hit"
    names = [window.operations[i].name for i in fused[0].operations]
    assert names == ["aten::mul", "aten::add", "aten::relu", "aten::mul", "aten::_softmax"]
    assert window.operations[fused[0].operations[-1]].outputs == (("f32", (32, 64)),)
    assert len(fused[0].kernel) == 16
    torch.testing.assert_close(result.cpu(), chain(x.cpu()))


def test_the_text_shows_kernels_lines_and_reasons(settle):
    x = torch.rand(8, 8, device=DEVICE)
    settle(lambda: chain(x).cpu())
    metrics.clear_all()
    chain(x).cpu()
    text = str(torch_neuronx.explain())
    for part in (
        "fused",
        "aten::_softmax",
        "f32[8, 8]",
        "test_explain.py:",
        "ended by",
        "in chain",
    ):
        assert part in text, text


def test_a_result_that_nobody_sees_is_not_computed(settle):
    def program():
        (other + 1).cos()
        return x * 2

    x, other = torch.rand(16, device=DEVICE), torch.rand(5, 3, device=DEVICE)
    settle(lambda: program().cpu())
    metrics.clear_all()
    program().cpu()
    explanation = torch_neuronx.explain()
    elided = [w.operations[i].name for w in explanation.windows for i in w.elided]
    assert elided == ["aten::add", "aten::cos"]
    assert explanation.ran["elided"] == 2
    assert "not run" in str(explanation)


@pytest.mark.parametrize(
    "wait, reason",
    [
        (lambda t: t.sum().item(), "HostRead"),
        (lambda t: t.cpu(), "HostRead"),
        (lambda t: torch.neuron.synchronize(), "Synchronize"),
    ],
)
def test_a_window_tells_who_waited(wait, reason):
    # The device would take a short window by itself, so many run and one is caught recording.
    x = torch.ones(64, device=DEVICE)
    for _ in range(50):
        wait(x + 1)
    assert reason in torch_neuronx.explain(128).ended


def test_the_last_windows_only():
    x = torch.ones(3, device=DEVICE)
    for _ in range(5):
        (x + 1).cpu()
    assert len(torch_neuronx.explain(1).windows) == 1
    numbers = [w.number for w in torch_neuronx.explain().windows]
    assert numbers == sorted(numbers)


def test_nothing_has_run():
    explanation = torch_neuronx.explain()
    assert explanation.windows == ()
    assert "No operation" in str(explanation)


def test_the_log_can_be_switched_off():
    x = torch.ones(3, device=DEVICE)
    torch.neuron.synchronize()
    metrics.clear_all()
    metrics.set_enabled(False)
    assert not metrics.is_enabled()
    (x + 1).cpu()
    assert torch_neuronx.explain().windows == ()
    assert "metrics.set_enabled" in str(torch_neuronx.explain())
    metrics.set_enabled(True)
    (x + 1).cpu()
    assert operations(torch_neuronx.explain())


def test_what_depends_on_a_failure_runs_alone(settle):
    table = torch.zeros(4, device=DEVICE)

    def program(index):
        return chain(table[index].view(1, -1))

    good, bad = torch.tensor([1, 2], device=DEVICE), torch.tensor([1, 9], device=DEVICE)
    settle(lambda: program(good).cpu())
    metrics.clear_all()
    with pytest.raises(IndexError):
        program(bad).cpu()
    assert torch_neuronx.explain().ran["fused"] == 0


def test_explain_leaves_errors_to_the_next_wait():
    table = torch.zeros(4, device=DEVICE)
    table[torch.tensor([9], device=DEVICE)]
    assert operations(torch_neuronx.explain())
    with pytest.raises(IndexError):
        torch.neuron.synchronize()


@pytest.mark.parametrize(
    "last, error", [(0, ValueError), (129, ValueError), (1.0, TypeError), (True, TypeError)]
)
def test_bad_arguments(last, error):
    with pytest.raises(error, match="last is"):
        torch_neuronx.explain(last)
