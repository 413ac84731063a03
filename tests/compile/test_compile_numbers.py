# SPDX-License-Identifier: Apache-2.0
"""Where PyTorch itself computes otherwise when it traces: the list in docs/torch-compile.md.

Every entry is checked both ways: the difference is small, and it is still there (else the entry,
and the exception that other tests make for it, can go).
"""

import pytest
import torch
from compile_testing import DEVICE, check, randn, run, same_bits
from torch.nn import functional as F


def differs_slightly(function, *args):
    want = run(function, args)[0]
    got = run(torch.compile(function, backend="neuron"), args)[0]
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    return not torch.equal(got.cpu(), want.cpu())


def addcdiv(x):
    return torch.addcdiv(x, x.sin() * 3, x.exp(), value=0.37)


def bilinear(x):
    return F.interpolate(x[None, None], scale_factor=1.7, mode="bilinear")


def bicubic(x):
    return F.interpolate(x[None, None], scale_factor=1.7, mode="bicubic")


def singular_values(x):
    return torch.linalg.svdvals(x)


def nuclear_norm(x):
    return torch.linalg.matrix_norm(x @ x.t(), "nuc")


@pytest.mark.parametrize(
    "function", [addcdiv, bilinear, bicubic, singular_values], ids=lambda f: f.__name__
)
def test_other_operators(function):
    assert differs_slightly(function, randn(48, 48))


def test_nuclear_norm():
    differs_slightly(nuclear_norm, randn(8, 8))


def optimizer_steps(compiled, **options):
    torch.manual_seed(0)
    parameter = randn(64, requires_grad=True)
    optimizer = torch.optim.AdamW([parameter], lr=0.05, **options)
    step = torch.compile(optimizer.step, backend="neuron") if compiled else optimizer.step
    for _ in range(5):
        parameter.grad = torch.randn_like(parameter)
        step()
    return parameter.detach()


def test_traced_optimizers_are_capturable():
    """Dynamo traces step counts as tensors: eager's capturable=True is what is computed."""
    default = optimizer_steps(False)
    traced = optimizer_steps(True)
    same_bits(traced, optimizer_steps(False, capturable=True))
    torch.testing.assert_close(traced, default, rtol=1e-4, atol=1e-5)
    assert not torch.equal(traced.cpu(), default.cpu())
    same_bits(optimizer_steps(True, capturable=True), traced)


def test_certain_dropout_moves_the_generator():
    """F.dropout with p = 1: the same zeros, and one draw more than in eager mode."""

    def function(x):
        return F.dropout(x, 1.0)

    got = run(torch.compile(function, backend="neuron"), (randn(4),))
    want = run(function, (randn(4),))
    same_bits(got[0], want[0])
    assert not torch.equal(got[3], want[3])


def test_gradient_of_an_output_that_is_a_view_of_an_argument():
    """It is added after the others; a sum of three numbers may round differently."""

    def function(x):
        return x * 1e8, x * -1e8, x.view(2, 2)

    x = torch.full((4,), 1.0, device=DEVICE, requires_grad=True)
    gradients = []
    for f in (function, torch.compile(function, backend="neuron")):
        a, b, view = f(x)
        loss = (a + b).sum() + view.sum() * 3
        gradients.append(torch.autograd.grad(loss, x)[0])
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=16)


# Operators that AOTAutograd decomposes on its own, with eager's bits: eager runs the same ones.
SAME = {
    "linear": lambda x: F.linear(x, x, x[0]),
    "batch_norm": lambda x: F.batch_norm(
        x, torch.zeros(8, device=DEVICE), torch.ones(8, device=DEVICE), training=True
    ),
    "group_norm": lambda x: F.group_norm(x[None], 2),
    "layer_norm": lambda x: F.layer_norm(x, (8,)),
    "rms_norm": lambda x: F.rms_norm(x, (8,)),
    "softmax_half": lambda x: F.softmax(x.bfloat16(), -1, dtype=torch.float32),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.arange(8, device=DEVICE)),
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mse_loss": lambda x: F.mse_loss(x, x.detach().t()),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "std": lambda x: x.std(1),
    "var_mean": lambda x: torch.var_mean(x, 1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "index_put": lambda x: x.clone().index_put_((torch.arange(4, device=DEVICE),), x[4:]),
    "pad": lambda x: F.pad(x, (1, 2), mode="reflect"),
    "nearest": lambda x: F.interpolate(x[None, None], scale_factor=2, mode="nearest"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.view(1, 4, 4, 4), 2),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "lerp": lambda x: torch.lerp(x, x.t(), 0.3),
    "addmm": lambda x: torch.addmm(x, x, x, beta=0.5, alpha=2),
    "cumsum": lambda x: x.cumsum(1),
    "where": lambda x: torch.where(x > 0, x, 0.5),
    "bfloat16": lambda x: (x.bfloat16() @ x.bfloat16().t()).tanh() + x.bfloat16(),
}


@pytest.mark.parametrize("name", SAME)
def test_same_bits(name):
    check(SAME[name], randn(8, 8, requires_grad=True))


def test_a_read_and_then_written_argument_with_a_gradient_is_refused():
    """Eager accepts it; AOTAutograd raises rather than give a wrong gradient."""

    def function(x, y):
        result = y.clone() * x
        y.add_(1)
        return result

    def loss(function):
        x, y = randn(4, requires_grad=True), randn(4, requires_grad=True) * 1
        return function(x, y).sum()

    loss(function).backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss(torch.compile(function, backend="neuron")).backward()
