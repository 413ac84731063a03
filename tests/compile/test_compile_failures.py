# SPDX-License-Identifier: Apache-2.0
"""What a user sees when something goes wrong: their own line, and what to do."""

import inspect
import re
import traceback

import pytest
import torch
import torch_neuronx
from compile_testing import DEVICE, check, graphs, randn, same_bits
from torch._dynamo.exc import BackendCompilerFailed
from torch_neuronx._compile import config
from torch_neuronx._compile import graphs as graph_compiler


def line_of(function, text):
    """``file:line`` of the first line of ``function`` that contains ``text``."""
    lines, first = inspect.getsourcelines(function)
    offset = next(i for i, line in enumerate(lines) if text in line)
    return __file__, first + offset


@torch.library.custom_op("neuron_compile_test::picky", mutates_args=())
def picky(x: torch.Tensor) -> torch.Tensor:
    if (x > 2).any():
        raise ValueError("too large")
    return x.clone()


@picky.register_fake
def _(x):
    return torch.empty_like(x)


def calls_picky(x):
    y = x + 1
    return picky(y) * 2  # here


def test_an_operator_that_raises():
    """The traceback shows the user's line although generated code ran it."""
    compiled = torch.compile(calls_picky, backend="neuron")
    assert compiled(torch.zeros(2, device=DEVICE)).tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="too large") as caught:
        compiled(torch.full((2,), 5.0, device=DEVICE))
    file, line = line_of(calls_picky, "# here")
    frames = [(f.filename, f.lineno, f.line) for f in traceback.extract_tb(caught.tb)]
    assert (file, line, "return picky(y) * 2  # here") in frames
    (note,) = caught.value.__notes__
    assert note.startswith("In compiled graph inference_")
    assert "operator neuron_compile_test.picky.default, called from" in note
    assert f'File "{file}", line {line}, in calls_picky' in note
    # The graph runs again afterwards.
    assert compiled(torch.zeros(2, device=DEVICE)).tolist() == [2.0, 2.0]


def gathers(table, index):
    scaled = table * 2
    return scaled[index] + 1  # here


def test_an_error_on_the_device_names_the_line():
    """Found when the operator runs, long after the call."""
    compiled = torch.compile(gathers, backend="neuron")
    result = compiled(randn(3), torch.tensor([10], device=DEVICE))
    file, line = line_of(gathers, "# here")
    with pytest.raises(IndexError, match=f"out of bounds(.|\n)*{re.escape(file)}:{line}"):
        result.tolist()


def test_shapes_are_refused_while_tracing():
    def function(x, y):
        return x @ y

    with pytest.raises(RuntimeError, match=r"(?s)same reduction dim.*in function"):
        torch.compile(function, backend="neuron")(randn(2, 3), randn(2, 3))


@torch.library.custom_op("neuron_compile_test::reads_gradient", mutates_args=())
def reads_gradient(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@reads_gradient.register_fake
def _(x):
    return torch.empty_like(x)


# A backward pass that cannot be traced: it reads a value.
reads_gradient.register_autograd(lambda ctx, gradient: gradient * float(gradient.sum()))


def not_traceable(x):
    y = x + 1
    return reads_gradient(y).sum()


FAILURE = r"the graph of 'not_traceable' \({}:{}-{}\) cannot be compiled: DataDependentOutput"


def not_traceable_failure():
    file, first = line_of(not_traceable, "x + 1")
    return FAILURE.format(re.escape(file), first, first + 1)


def test_a_graph_that_cannot_be_compiled_raises():
    x = randn(3, requires_grad=True)
    with pytest.raises(BackendCompilerFailed, match=not_traceable_failure()) as caught:
        torch.compile(not_traceable, backend="neuron")(x)
    assert isinstance(caught.value.inner_exception, torch_neuronx.NEFFCompilationError)
    assert "fallback_execution" in str(caught.value)
    assert torch_neuronx.get_dynamo_metrics()["fallbacks"] == {}
    assert graphs() == 0


def test_fallback_runs_it_eagerly_and_says_so():
    x = randn(3, requires_grad=True)
    (want,) = torch.autograd.grad(not_traceable(x), x)
    compiled = torch.compile(not_traceable, backend="neuron", options={"fallback_execution": True})
    with pytest.warns(
        UserWarning, match=not_traceable_failure().replace("cannot be compiled", ".*")
    ):
        loss = compiled(x)
    (got,) = torch.autograd.grad(loss, x)
    same_bits(got, want)
    (reason,) = torch_neuronx.get_dynamo_metrics()["fallbacks"]
    assert "DataDependentOutputException" in reason


@pytest.fixture
def fallback_variable(monkeypatch):
    values = {**config._values(), "TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION": "0"}
    monkeypatch.setattr(config, "_values", lambda: values)


def test_fallback_by_environment(fallback_variable):
    with pytest.warns(UserWarning, match="runs eagerly"):
        torch.compile(not_traceable, backend="neuron")(randn(3, requires_grad=True))
    assert torch_neuronx.get_dynamo_metrics()["fallbacks"]


def test_the_option_overrides_the_environment(fallback_variable):
    with pytest.raises(BackendCompilerFailed, match="NEFFCompilationError"):
        torch.compile(not_traceable, backend="neuron", options={"fallback_execution": False})(
            randn(3, requires_grad=True)
        )


def test_the_default_is_to_raise():
    assert config.get_bool("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION")
    assert not config.get_bool("TORCH_NEURONX_DYNAMO_DISABLE_CPU_AUTOCOPY")


@pytest.mark.parametrize("kind", ["forward", "backward", "inference"])
@pytest.mark.parametrize("fallback", [False, True])
def test_a_graph_that_cannot_be_generated(monkeypatch, kind, fallback):
    """The last step fails, for one graph of several."""
    build = graph_compiler.build_executable

    def broken(module, name):
        if name.startswith(kind):
            raise KeyError("no such thing")
        return build(module, name)

    monkeypatch.setattr(graph_compiler, "build_executable", broken)
    x = randn(4, requires_grad=kind != "inference")

    def function(x):
        return (x.sin() * 2).sum()

    def call():
        compiled = torch.compile(
            function, backend="neuron", options={"fallback_execution": fallback}
        )
        loss = compiled(x)
        return loss, torch.autograd.grad(loss, x) if x.requires_grad else ()

    if fallback:
        with pytest.warns(UserWarning, match=f"the {kind} graph of 'function'.*runs eagerly"):
            got = call()
        loss = function(x)
        same_bits(got, (loss, torch.autograd.grad(loss, x) if x.requires_grad else ()))
        assert torch_neuronx.get_dynamo_metrics()["fallbacks"] == {"KeyError: 'no such thing'": 1}
    else:
        with pytest.raises((BackendCompilerFailed, torch_neuronx.NEFFCompilationError)) as caught:
            call()
        assert f"the {kind} graph of 'function' ({__file__}" in str(caught.value)
        assert "no such thing" in str(caught.value)


def test_host_tensors_can_be_refused(monkeypatch):
    values = {**config._values(), "TORCH_NEURONX_DYNAMO_DISABLE_CPU_AUTOCOPY": "1"}
    monkeypatch.setattr(config, "_values", lambda: values)

    def function(x, y):
        return x * y.to(DEVICE)

    with pytest.raises(BackendCompilerFailed, match="Non-scalar tensor l_y_ is on cpu device"):
        torch.compile(function, backend="neuron")(randn(3), torch.ones(3))
    check(function, randn(3), torch.tensor(2.0))


def test_recompiles_are_counted_with_their_guard():
    compiled = torch.compile(lambda x: x * 2, backend="neuron", dynamic=False)
    for n in (2, 3, 3, 4, 2):
        compiled(torch.ones(n, device=DEVICE))
    compiled(torch.ones(2, 2, device=DEVICE))
    compiled(torch.ones(2, device=DEVICE, dtype=torch.bfloat16))
    metrics = torch_neuronx.get_dynamo_metrics()
    assert metrics["graphs"] == 5
    assert len(metrics["recompiles"]) == 4
    reasons = " | ".join(metrics["recompiles"])
    assert "size mismatch at index 0. expected 2, actual 3" in reasons
    assert "rank mismatch" in reasons
    assert "dtype mismatch" in reasons


def test_the_recompile_limit_is_announced():
    def varying(x, n):
        return x * n

    compiled = torch.compile(varying, backend="neuron", dynamic=False, recompile_limit=3)
    x = torch.ones(2, device=DEVICE)
    compiled(x, 10)
    compiled(x, 11)
    message = (
        rf"has compiled 'varying' \({re.escape(__file__)}:\d+\) 3 times, which is the limit"
        r".*The guard that failed last: n == 11.*mark_dynamic.*recompile_limit"
    )
    with pytest.warns(UserWarning, match=message):
        compiled(x, 12)
    assert compiled(x, 13).tolist() == [13.0, 13.0]  # eagerly, and right
    assert graphs() == 3


def test_metrics_count_and_reset():
    compiled = torch.compile(lambda x: (x.sin() + 1).sum(), backend="neuron")
    for _ in range(3):
        compiled(randn(4, requires_grad=True)).backward()
    compiled(randn(4))
    metrics = torch_neuronx.get_dynamo_metrics()
    assert metrics["graphs"] == 2
    assert metrics["executables"] == {"forward": 1, "backward": 1, "inference": 1}
    assert metrics["runs"] == 7
    assert metrics["ops"] >= 8
    assert metrics["seconds"]["aot_autograd"] >= metrics["seconds"]["executables"] > 0
    torch.neuron.reset_dynamo_metrics()
    metrics = torch.neuron.get_dynamo_metrics()
    assert metrics["graphs"] == metrics["runs"] == metrics["ops"] == 0
    assert metrics["recompiles"] == metrics["fallbacks"] == metrics["graph_breaks"] == {}


def test_reasons_are_bounded():
    from torch_neuronx._compile import metrics

    for i in range(1000):
        metrics.count_reason("recompiles", f"guard {i}")
    recompiles = torch_neuronx.get_dynamo_metrics()["recompiles"]
    assert len(recompiles) == metrics._MAX_REASONS + 1
    assert sum(recompiles.values()) == 1000


def test_an_exception_in_the_traced_function():
    def function(x):
        y = x + 1
        if x.shape[0] == 2:
            raise ValueError("two")
        return y

    compiled = torch.compile(function, backend="neuron")
    for _ in range(2):
        with pytest.raises(ValueError, match="two"):
            compiled(randn(2))
    assert compiled(torch.zeros(3, device=DEVICE)).tolist() == [1.0] * 3


def test_out_of_memory_in_a_graph():
    def function(x):
        return x.expand(1 << 38, -1) + 1  # 1 TiB

    with pytest.raises(torch.OutOfMemoryError) as caught:
        torch.compile(function, backend="neuron")(randn(1))
    assert any("aten.add" in note for note in caught.value.__notes__)
    check(lambda x: x + 1, randn(4))


INTERRUPTED = """
import os, signal, threading, torch, torch_neuronx
from torch_neuronx._compile import graphs

build = graphs.build_executable
def interrupted(module, name):
    os.kill(os.getpid(), signal.SIGINT)  # Ctrl-C while the graph is compiled
    return build(module, name)

@torch.compile
def function(x):
    return (x * 2).sin().sum()

x = torch.ones(4, device="neuron", requires_grad=True)
graphs.build_executable = interrupted
try:
    function(x)
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted")
graphs.build_executable = build
function(x).backward()
print((x.grad - 2 * torch.cos(x * 2)).abs().max().item(), torch.compiler.is_compiling())
print(torch_neuronx.get_dynamo_metrics()["graphs"])
"""


def test_interrupt_while_compiling(run_program):
    assert run_program(INTERRUPTED).splitlines() == ["interrupted", "0.0 False", "1"]
