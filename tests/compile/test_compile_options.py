# SPDX-License-Identifier: Apache-2.0
"""Arguments of torch.compile."""

import pytest
import torch
import torch_neuronx
from compile_testing import DEVICE, check, graphs, randn
from torch._dynamo.exc import BackendCompilerFailed


def function(x):
    return torch.nn.functional.gelu(x) * x.shape[0]


@pytest.mark.parametrize("mode", [None, "default"])
def test_default_mode(mode, recwarn):
    check(function, randn(3, 4), mode=mode)
    assert not [w for w in recwarn if "mode" in str(w.message)]


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_other_modes_are_ignored_with_a_warning(mode):
    text = f"Neuron backend does not support mode='{mode}', falling back to default mode"
    with pytest.warns(UserWarning, match=text):
        check(function, randn(3, 4), mode=mode)


def test_unknown_mode():
    with pytest.raises(BackendCompilerFailed, match="unknown mode 'fastest'"):
        torch.compile(function, backend="neuron", mode="fastest")(randn(3, 4))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"epilogue_fusion": True}, "unknown option 'epilogue_fusion' of the backend 'neuron'; it"),
        ({"dynamic": True}, "'dynamic' is an argument of torch.compile"),
        ({"fallback_execution": 1}, "option 'fallback_execution' .* must be a bool, but got 1"),
        ({"model_name": None}, "option 'model_name' .* must be a str, but got None"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(BackendCompilerFailed, match=message):
        torch.compile(function, backend="neuron", options=options)(randn(3, 4))


def test_bad_options_do_not_stay():
    """The function compiles with other arguments afterwards."""
    with pytest.raises(BackendCompilerFailed):
        torch.compile(function, backend="neuron", options={"typo": 1})(randn(3, 4))
    check(function, randn(3, 4))


def test_model_name_names_what_was_kept(run_program, tmp_path):
    run_program(
        """
        import torch
        x = torch.ones(4, 4, device="neuron", requires_grad=True)
        f = torch.compile(lambda x: (x @ x).sum(), options={"model_name": "my model"})
        f(x).backward()
        """,
        TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS="1",
        TORCH_NEURONX_DEBUG_DIR=str(tmp_path),
    )
    (directory,) = tmp_path.iterdir()
    names = sorted(path.name for path in directory.iterdir())
    assert names == [
        "my_model_backward_1.graph.txt",
        "my_model_backward_1.py",
        "my_model_forward_0.graph.txt",
        "my_model_forward_0.py",
    ]
    assert "OP_mm(" in (directory / "my_model_forward_0.py").read_text()
    assert "torch.ops.aten.mm" in (directory / "my_model_forward_0.graph.txt").read_text()


@pytest.mark.parametrize(
    "dynamic, expected",
    # Sizes 3, 5, 7, 1: specialise, then go dynamic, where 1 needs a graph of its own.
    [(None, 3), (True, 2), (False, 4)],
)
def test_dynamic(dynamic, expected):
    compiled = torch.compile(function, backend="neuron", dynamic=dynamic)
    for n in (3, 5, 7, 1, 5):
        x = randn(n, 4)
        assert torch.equal(compiled(x).cpu(), function(x).cpu())
    assert graphs() == expected


def test_mark_dynamic():
    x = randn(5, 4)
    torch._dynamo.mark_dynamic(x, 0)
    compiled = torch.compile(function, backend="neuron")
    for inputs in (x, randn(9, 4), randn(2, 4)):
        assert torch.equal(compiled(inputs).cpu(), function(inputs).cpu())
    assert graphs() == 1


def test_dynamic_training():
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.GELU(), torch.nn.Linear(16, 2)
    ).to(DEVICE)
    compiled = torch.compile(model, backend="neuron", dynamic=True)
    for batch in (2, 3, 9, 33):
        x = randn(batch, 8)
        want = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
        got = torch.autograd.grad(compiled(x).square().sum(), list(model.parameters()))
        assert all(torch.equal(a.cpu(), b.cpu()) for a, b in zip(got, want, strict=True))
    assert graphs() == 1


def test_sizes_that_depend_on_data():
    def positive(x):
        return x[x > 0] * 2

    check(positive, randn(20), fullgraph=True)


def test_numbers_that_depend_on_data():
    def ones(x):
        n = x.sum().item()
        torch._check(n > 1)
        return torch.ones(n, device=DEVICE) * 2

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        check(ones, torch.tensor([2, 3], device=DEVICE), fullgraph=True)


def test_fullgraph_refuses_a_graph_break():
    def broken(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    check(broken, randn(3))
    assert graphs() == 2
    assert any("graph_break" in text for text in torch_neuronx.get_dynamo_metrics()["graph_breaks"])
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(broken, backend="neuron", fullgraph=True)(randn(3))


def test_disable():
    assert torch.compile(function, backend="neuron", disable=True) is function


def test_decorator():
    @torch.compile(backend="neuron")
    def decorated(x):
        return x + 1

    assert decorated(torch.zeros(2, device=DEVICE)).tolist() == [1.0, 1.0]


def test_stance():
    compiled = torch.compile(function, backend="neuron")
    with torch.compiler.set_stance("force_eager"):
        compiled(randn(3, 4))
    assert graphs() == 0
    compiled(randn(3, 4))
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RuntimeError):
        compiled(randn(3, 4).double())
