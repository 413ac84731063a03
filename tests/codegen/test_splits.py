# SPDX-License-Identifier: Apache-2.0
"""Structured kernels that are cut into tiles compute what the uncut CPU kernels compute.

The sizes are large enough to be cut, and extents coincide where a wrong cut would go unnoticed
otherwise: a bias as long as the rows, an index as long as the batch.
"""

from __future__ import annotations

import pytest
import torch

torch.manual_seed(0)
r = torch.randn
aten = torch.ops.aten
N = 384
INDEX = torch.randint(0, N, (N,))
COLUMNS = torch.randint(0, N, (N, N))

ROWS = {
    "mm": (aten.mm, r(N, N), r(N, N)),
    "mm of few rows": (aten.mm, r(3, N), r(N, N)),
    "addmm, bias of rows' length": (aten.addmm, r(N), r(N, N), r(N, N)),
    "addmm, scalar": (aten.addmm, r(()), r(N, N), r(N, N)),
    "addmm, column": (aten.addmm, r(N, 1), r(N, N), r(N, N)),
    "addmm, row": (aten.addmm, r(1, N), r(N, N), r(N, N)),
    "addmm, full": (aten.addmm, r(N, N), r(N, N), r(N, N)),
    "_addmm_activation": (aten._addmm_activation, r(N), r(N, N), r(N, N)),
    "bmm": (aten.bmm, r(64, 40, 40), r(64, 40, 40)),
    "baddbmm, matrix of the batch's extent": (aten.baddbmm, r(64, 64), r(64, 64, 8), r(64, 8, 64)),
    "baddbmm, batch": (aten.baddbmm, r(64, 1, 64), r(64, 64, 8), r(64, 8, 64)),
    "baddbmm, one batch": (aten.baddbmm, r(1, 64, 64), r(64, 64, 8), r(64, 8, 64)),
    "addmv, vector of the rows' length": (aten.addmv, r(N), r(N, N), r(N)),
    **{
        f"{op.__name__}, dim {dim}": (op, r(N, N), dim)
        for op in (aten.cumsum, aten.amax, aten.argmax, aten.glu)
        for dim in (0, 1, -1, -2)
    },
    **{
        f"softmax, dim {dim}": (op, r(N, N), dim, False)
        for op in (aten._softmax, aten._log_softmax)
        for dim in (0, 1, -1, -2)
    },
    **{
        f"sum, dims {dims}": (aten.sum.dim_IntList, r(64, 64, 64), dims)
        for dims in ([0], [1], [0, 1], [1, 2], [-3], [-1], [], None)
    },
    "mean, keepdim": (aten.mean.dim, r(64, 64, 64), [1], True),
    "max": (aten.max.dim, r(N, N), 1),
    "sort": (lambda x: aten.sort.stable(x, stable=True, dim=1), r(N, N)),
    "topk": (aten.topk, r(N, N), 7),
    "vector norm": (aten.linalg_vector_norm, r(N, N), 2, [1]),
    "cat, dim 0": (aten.cat, [r(N, N), r(N, N)], 0),
    "cat, dim 1": (aten.cat, [r(N, N), r(N, 2), torch.empty(0)], 1),
    "gather": (aten.gather, r(N, N), 1, COLUMNS),
    "gather, fewer rows": (aten.gather, r(N + 1, N), 1, COLUMNS),
    "gather, dim 0": (aten.gather, r(N, N), 0, COLUMNS),
    "scatter": (aten.scatter.src, r(N, N), 1, COLUMNS.argsort(1), r(N, N)),
    "scatter, fewer rows": (aten.scatter.value, r(N, N), 1, COLUMNS[:9], 2.0),
    "scatter_add, larger source": (aten.scatter_add, r(N, N), 1, COLUMNS, r(N + 1, N)),
    "index_add": (aten.index_add, r(N, N), 1, INDEX, r(N, N)),
    "index_add, dim 0": (aten.index_add, r(N, N), 0, INDEX, r(N, N)),
    "index_copy": (aten.index_copy, r(N, N), 1, torch.randperm(N), r(N, N)),
    "tril, matrix": (aten.tril, r(N, N)),
    "tril, batch": (aten.tril, r(64, 64, 64)),
    "avg_pool2d, batch": (aten.avg_pool2d, r(8, 4, 64, 64), [2, 2]),
    "avg_pool2d, image": (aten.avg_pool2d, r(4, 256, 256), [2, 2]),
    "max_pool2d, batch": (aten.max_pool2d_with_indices, r(8, 4, 96, 96), [2, 2]),
    "max_pool2d, channels last": (
        aten.max_pool2d_with_indices,
        r(8, 4, 96, 96).contiguous(memory_format=torch.channels_last),
        [2, 2],
    ),
    "upsample": (aten.upsample_bilinear2d, r(8, 4, 32, 32), [64, 64], False),
    "reflection_pad1d": (aten.reflection_pad1d, r(256, 4, 128), [3, 5]),
}

POINTWISE = {
    "add": (aten.add.Tensor, r(300, 300), r(300, 300)),
    "add, broadcast row of rows' length": (aten.add.Tensor, r(300, 300), r(300)),
    "add, broadcast column": (aten.add.Tensor, r(300, 300), r(300, 1)),
    "add, both broadcast": (aten.add.Tensor, r(300, 1), r(1, 300)),
    "add, scalar": (aten.add.Tensor, r(300, 300), 2.0),
    "mul, few long rows": (aten.mul.Tensor, r(2, 100_000), r(100_000)),
    "mul, transposed": (aten.mul.Tensor, r(300, 300).t(), r(300, 300)),
    "gelu, few long rows": (aten.gelu, r(2, 100_000)),
    "addcmul": (aten.addcmul, r(300, 300), r(300, 1), r(300)),
    "clamp, bounds": (aten.clamp.Tensor, r(300, 300), r(300), None),
    "mse_loss, elements": (aten.mse_loss, r(300, 300), r(300, 300), 0),
    "mse_loss, mean": (aten.mse_loss, r(300, 300), r(300, 300), 1),
    "lerp": (aten.lerp.Tensor, r(4, 1, 300, 100), r(3, 1, 1), r(100)),
}


def _there(argument):
    if isinstance(argument, list):
        return [_there(a) for a in argument]
    return argument.to("neuron") if isinstance(argument, torch.Tensor) else argument


def _results(value) -> list[torch.Tensor]:
    return [value] if isinstance(value, torch.Tensor) else list(value)


@pytest.mark.parametrize("name", [*ROWS, *POINTWISE])
def test_tiles(name):
    compute, *arguments = {**ROWS, **POINTWISE}[name]
    expected = _results(compute(*arguments))
    actual = _results(compute(*[_there(a) for a in arguments]))
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.cpu(), e, rtol=1e-4, atol=1e-3)


IN_PLACE = {
    "add_": lambda x, y: x.add_(y),
    "mul_ by itself": lambda x, y: x.mul_(x),
    "addmm_": lambda x, y: x.addmm_(y, y),
    "add to self": lambda x, y: torch.add(x, y, out=x),
    "addmm to a new tensor": lambda x, y: torch.addmm(y[0], x, y, out=torch.empty_like(y)),
    "tril_": lambda x, y: x.tril_(),
    "cumsum_": lambda x, y: x.cumsum_(1),
    "scatter_": lambda x, y: x.scatter_(1, y.argsort(1), 3.0),
    "index_add_": lambda x, y: x.index_add_(1, y[0].argsort(), y),
    "add_ transposed": lambda x, y: x.t().add_(y),
}


@pytest.mark.parametrize("call", IN_PLACE.values(), ids=IN_PLACE)
def test_in_place(call):
    x, y = r(N, N), r(N, N)
    there = x.to("neuron")
    actual = call(there, y.to("neuron"))
    expected = call(x, y)
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(there.cpu(), x, rtol=1e-4, atol=1e-3)
