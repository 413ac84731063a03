# SPDX-License-Identifier: Apache-2.0
"""Analytical against numerical gradients in float64, first and second order, on a spread of ops."""

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import gradcheck, gradgradcheck

DEVICE = "neuron"


def real(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def positive(*shape):
    return torch.rand(*shape, dtype=torch.float64) + 0.5


def distinct(*shape):
    """No two elements close: where an operator chooses, a small step does not change the choice."""
    count = torch.Size(shape).numel()
    return (torch.randperm(count).double() - count / 2 + 0.25).reshape(shape) / 4


def spd(n):
    a = real(n, n)
    return a @ a.mT + n * torch.eye(n, dtype=torch.float64)


def index(*values):
    return torch.tensor(values, device=DEVICE)


# name: (function, inputs that need gradients)
CASES = {
    "add broadcast": (torch.add, lambda: (real(3, 4), real(4))),
    "mul": (torch.mul, lambda: (real(3, 4), real(3, 1))),
    "div": (torch.div, lambda: (real(3, 4), positive(3, 4))),
    "pow": (torch.pow, lambda: (positive(3, 4), real(3, 4))),
    "exp": (torch.exp, lambda: (real(3, 4),)),
    "log": (torch.log, lambda: (positive(3, 4),)),
    "sqrt": (torch.sqrt, lambda: (positive(3, 4),)),
    "tanh": (torch.tanh, lambda: (real(3, 4),)),
    "sigmoid": (torch.sigmoid, lambda: (real(3, 4),)),
    "erf": (torch.erf, lambda: (real(3, 4),)),
    "atan2": (torch.atan2, lambda: (positive(3, 4), positive(3, 4))),
    "where": (
        lambda x, y: torch.where(torch.arange(4, device=DEVICE) > 1, x, y),
        lambda: (real(3, 4), real(3, 4)),
    ),
    "clamp": (lambda x: x.clamp(-1, 1), lambda: (distinct(3, 4),)),
    "gelu": (F.gelu, lambda: (real(3, 4),)),
    "silu": (F.silu, lambda: (real(3, 4),)),
    "relu": (F.relu, lambda: (distinct(3, 4),)),
    "elu": (F.elu, lambda: (distinct(3, 4),)),
    "mish": (F.mish, lambda: (real(3, 4),)),
    "softplus": (F.softplus, lambda: (real(3, 4),)),
    "log_sigmoid": (F.logsigmoid, lambda: (real(3, 4),)),
    "softmax": (lambda x: x.softmax(-1), lambda: (real(3, 4),)),
    "log_softmax, first dimension": (lambda x: x.log_softmax(0), lambda: (real(3, 4),)),
    "sum": (lambda x: x.sum(1), lambda: (real(3, 4),)),
    "mean": (lambda x: x.mean((0, 2), keepdim=True), lambda: (real(2, 3, 4),)),
    "var": (lambda x: x.var(1), lambda: (real(3, 4),)),
    "prod": (lambda x: x.prod(1), lambda: (positive(3, 4),)),
    "norm": (lambda x: torch.linalg.vector_norm(x, dim=1), lambda: (real(3, 4),)),
    "logsumexp": (lambda x: x.logsumexp(1), lambda: (real(3, 4),)),
    "amax": (lambda x: x.amax(1), lambda: (distinct(3, 4),)),
    "cumsum": (lambda x: x.cumsum(1), lambda: (real(3, 4),)),
    "sort": (lambda x: x.sort(1).values, lambda: (distinct(3, 4),)),
    "topk": (lambda x: x.topk(2).values, lambda: (distinct(3, 4),)),
    "mm": (torch.mm, lambda: (real(3, 4), real(4, 2))),
    "addmm, transposed operand": (
        lambda b, x, w: torch.addmm(b, x, w.mT),
        lambda: (real(2), real(3, 4), real(2, 4)),
    ),
    "bmm": (torch.bmm, lambda: (real(2, 3, 4), real(2, 4, 2))),
    "einsum": (
        lambda x, y: torch.einsum("bij,bkj->bik", x, y),
        lambda: (real(2, 3, 4), real(2, 2, 4)),
    ),
    "linear": (F.linear, lambda: (real(3, 4), real(2, 4), real(2))),
    "conv1d": (lambda x, w: F.conv1d(x, w, stride=2), lambda: (real(2, 3, 7), real(2, 3, 3))),
    "conv2d": (
        lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=2),
        lambda: (real(2, 4, 5, 5), real(4, 2, 3, 3), real(4)),
    ),
    "conv_transpose2d": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2),
        lambda: (real(1, 2, 3, 3), real(2, 3, 2, 2)),
    ),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), lambda: (distinct(1, 2, 4, 4),)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), lambda: (real(1, 2, 4, 4),)),
    "interpolate": (
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        lambda: (real(1, 2, 3, 3),),
    ),
    "pad reflect": (lambda x: F.pad(x, (1, 2), mode="reflect"), lambda: (real(2, 3, 5),)),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, (4,), w, b),
        lambda: (real(3, 4), real(4), real(4)),
    ),
    "group_norm": (
        lambda x, w, b: F.group_norm(x, 2, w, b),
        lambda: (real(2, 4, 3), real(4), real(4)),
    ),
    "batch_norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        lambda: (real(4, 3, 2), real(3), real(3)),
    ),
    "embedding": (lambda w: F.embedding(index(0, 2, 2), w), lambda: (real(4, 3),)),
    "index": (lambda x: x[index(0, 2, 2), 1:], lambda: (real(4, 3),)),
    "index_put": (
        lambda x, v: x.index_put((index(0, 2, 2),), v, accumulate=True),
        lambda: (real(4, 3), real(3, 3)),
    ),
    "gather": (lambda x: x.gather(1, index([0, 1], [2, 2])), lambda: (real(2, 3),)),
    "scatter_add": (
        lambda x, v: x.scatter_add(1, index([0, 1], [2, 2]), v),
        lambda: (real(2, 3), real(2, 2)),
    ),
    "cat": (lambda x, y: torch.cat((x, y), 1), lambda: (real(2, 3), real(2, 1))),
    "as_strided": (lambda x: x.as_strided((3, 3), (1, 2)), lambda: (real(8),)),
    "in place on a view": (
        lambda x, y: x.clone().select(0, 1).mul_(y).sin(),
        lambda: (real(3, 4), real(4)),
    ),
    "attention": (
        F.scaled_dot_product_attention,
        lambda: (real(1, 2, 3, 4), real(1, 2, 5, 4), real(1, 2, 5, 4)),
    ),
    "cross_entropy": (lambda x: F.cross_entropy(x, index(0, 2, 1)), lambda: (real(3, 4),)),
    "mse_loss": (F.mse_loss, lambda: (real(3, 4), real(3, 4))),
    "bce with logits": (
        lambda x: F.binary_cross_entropy_with_logits(x, torch.full_like(x, 0.25)),
        lambda: (real(3, 4),),
    ),
    "cdist": (torch.cdist, lambda: (real(3, 4), real(2, 4))),
    "cholesky": (torch.linalg.cholesky, lambda: (spd(3),)),
    "solve": (torch.linalg.solve, lambda: (spd(3), real(3, 2))),
    "slogdet": (lambda x: torch.linalg.slogdet(x).logabsdet, lambda: (spd(3),)),
    "fft": (lambda x: torch.view_as_real(torch.fft.rfft(x)), lambda: (real(3, 4),)),
}

# The formulas of these backward functions have no derivative in PyTorch, on any device.
FIRST_ORDER_ONLY = {"attention", "cdist"}


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    function, inputs = CASES[name]
    torch.manual_seed(0)

    def symmetric(*tensors):
        if name == "cholesky":  # a step off the symmetric matrices leaves the operator's domain
            tensors = ((tensors[0] + tensors[0].mT) / 2,)
        return function(*tensors)

    moved = tuple(t.to(DEVICE).requires_grad_() for t in inputs())
    assert gradcheck(symmetric, moved, fast_mode=True)
    if name not in FIRST_ORDER_ONLY:
        assert gradgradcheck(symmetric, moved, fast_mode=True)
