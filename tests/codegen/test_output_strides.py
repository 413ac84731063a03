# SPDX-License-Identifier: Apache-2.0
"""Structured kernels write outputs of any strides, and read inputs of any strides.

Several of PyTorch's CPU kernels take tensors for contiguous that are not; the operator table marks
them `contiguous`. The reference: the CPU kernel on contiguous inputs, its own outputs.
"""

from __future__ import annotations

import pytest
import torch

torch.manual_seed(0)
r = torch.randn


def _max_indices(name: str, x: torch.Tensor, *args) -> torch.Tensor:
    return getattr(torch.ops.aten, name)(x, *args)[1]


def _square(n: int) -> torch.Tensor:
    a = r(2, n, n)
    return a @ a.mT + n * torch.eye(n)


def _cases() -> list[tuple[str, str, tuple]]:
    """(functional, out overload, arguments); the arguments end before the output."""
    cases = []

    def case(name: str, out: str, *arguments) -> None:
        cases.append((name, out, arguments))

    x4, x5, x3 = r(2, 3, 4, 4), r(2, 3, 4, 4, 4), r(2, 3, 4)
    images = {1: x3, 2: x4, 3: x5}
    pooled = {2: r(2, 3, 2, 2), 3: r(2, 3, 2, 2, 2)}
    for d in (2, 3):
        x, g, two, one, zero = images[d], pooled[d], [2] * d, [1] * d, [0] * d
        case(f"avg_pool{d}d", "out", x, two)
        tail = (two, two, zero, False, True, None)
        case(f"avg_pool{d}d_backward", "grad_input", g, x, *tail)
        case(f"adaptive_max_pool{d}d", "out", x, two)
        at = _max_indices(f"adaptive_max_pool{d}d", x, two)
        case(f"adaptive_max_pool{d}d_backward", "grad_input", g, x, at)
        samples = torch.full((2, 3, d), 0.3)
        case(f"fractional_max_pool{d}d", "output", x, two, two, samples)
    at = _max_indices("max_pool2d_with_indices", x4, [2, 2])
    case("max_pool2d_with_indices", "out", x4, [2, 2])
    tail = ([2, 2], [2, 2], [0, 0], [1, 1], False, at)
    case("max_pool2d_with_indices_backward", "grad_input", pooled[2], x4, *tail)
    at = _max_indices("fractional_max_pool2d", x4, [2, 2], [2, 2], torch.full((2, 3, 2), 0.3))
    tail = ([2, 2], [2, 2], at)
    case("fractional_max_pool2d_backward", "grad_input", pooled[2], x4, *tail)

    for d in (1, 2, 3):
        x, one = images[d], [1, 1] * d
        larger = r([2, 3] + [6] * d)
        case(f"replication_pad{d}d", "out", x, one)
        if d != 2:
            case(f"reflection_pad{d}d", "out", x, one)
            case(f"reflection_pad{d}d_backward", "grad_input", larger, x, one)
        for name in (f"upsample_nearest{d}d", f"_upsample_nearest_exact{d}d"):
            case(name, "out", x, [8] * d)
            case(f"{name}_backward", "grad_input", x, [4] * d, [2, 3] + [2] * d)
    case("replication_pad1d_backward", "grad_input", r(2, 3, 6), x3, [1, 1])
    for name, d in (("linear1d", 1), ("bilinear2d", 2), ("bicubic2d", 2), ("trilinear3d", 3)):
        case(f"upsample_{name}", "out", images[d], [8] * d, False)
        tail = ([4] * d, [2, 3] + [2] * d, False)
        case(f"upsample_{name}_backward", "grad_input", images[d], *tail)
    for name in ("bilinear", "bicubic", "lanczos"):
        case(f"_upsample_{name}2d_aa", "out", x4, [3, 3], False)
        case(f"_upsample_{name}2d_aa_backward", "grad_input", x4, [4, 4], [2, 3, 8, 8], False)
    case("slow_conv_transpose2d", "out", x4, r(3, 4, 2, 2), [2, 2])

    for shape in ((5, 5), (2, 5, 5), (3, 3, 5, 5)):
        case("tril", "out", r(shape))
        case("triu", "out", r(shape))

    x = r(4, 6, 6)
    index, source = torch.randint(0, 4, (4, 6, 6)), r(4, 6, 6)
    picks, picked = torch.tensor([0, 2]), {0: r(2, 6, 6), 1: r(4, 2, 6), -1: r(4, 6, 2)}
    for dim in (0, 1, -1):
        case("cumsum", "out", x, dim)
        case("cumprod", "out", x, dim)
        case("_softmax", "out", x, dim, False)
        case("_log_softmax", "out", x, dim, False)
        y = x.softmax(dim)
        case("_softmax_backward_data", "out", x, y, dim, torch.float32)
        case("_log_softmax_backward_data", "out", x, y.log(), dim, torch.float32)
        case("glu", "out", x, dim)
        case("topk", "values", x, 2, dim)
        case("gather", "out", x, dim, index)
        case("scatter.value", "value_out", x, dim, index, 1.5)
        case("scatter_add", "out", x, dim, index, source)
        case("scatter_reduce.two", "two_out", x, dim, index, source, "amax")
        case("index_copy", "out", x, dim, picks, picked[dim])
        case("index_add", "out", x, dim, picks, picked[dim])
        case("index_reduce", "out", x, dim, picks, picked[dim], "prod")
        case("sum.dim_IntList", "IntList_out", x, [dim])
        case("amax", "out", x, [dim])
        case("argmax", "out", x, dim)
        case("max.dim", "dim_max", x, dim)
        case("prod.dim_int", "int_out", x, dim)
        case("linalg_vector_norm", "out", x, 2, [dim])
        case("renorm", "out", x, 2, dim, 1.0)

    m, v = r(6, 6), r(6)
    case("mm", "out", m, r(6, 6))
    case("bmm", "out", x, r(4, 6, 6))
    case("addmm", "out", v, m, r(6, 6))
    case("_addmm_activation", "out", v, m, r(6, 6))
    case("addmv", "out", v, m, r(6))
    case("baddbmm", "out", v, x, r(4, 6, 6))
    case("linalg_cross", "out", r(4, 3), r(4, 3))
    case("linalg_cholesky_ex", "L", _square(3))
    case("linalg_lu_factor_ex", "out", _square(3))
    case("linalg_inv_ex", "inverse", _square(3))
    case("linalg_qr", "out", _square(3))
    case("triangular_solve", "X", r(2, 3, 3), _square(3))

    for approximate in ("none", "tanh"):
        cases.append(("gelu", "out", (r(10, 6), {"approximate": approximate})))
        arguments = (r(10, 6), r(10, 6), {"approximate": approximate})
        cases.append(("gelu_backward", "grad_input", arguments))
    case("silu", "out", m)
    case("mish", "out", m)
    case("mse_loss", "out", m, r(6, 6), 0)
    return cases


def _spread(t: torch.Tensor) -> torch.Tensor:
    """Every second element of a larger tensor."""
    base = torch.zeros([2 * s for s in t.shape], dtype=t.dtype, device=t.device)
    return base[tuple(slice(None, None, 2) for _ in t.shape)]


def _reversed(t: torch.Tensor) -> torch.Tensor:
    return torch.zeros(t.shape[::-1], dtype=t.dtype, device=t.device).permute(
        *reversed(range(t.dim()))
    )


def _channels_last(t: torch.Tensor) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return torch.zeros_like(t, memory_format=formats.get(t.dim(), torch.contiguous_format))


LAYOUTS = {
    "contiguous": lambda t: torch.zeros_like(t, memory_format=torch.contiguous_format),
    "spread": _spread,
    "reversed": _reversed,
    "channels_last": _channels_last,
}


def _on_device(argument, layout):
    if not isinstance(argument, torch.Tensor):
        return argument
    there = argument.to("neuron")
    return layout(there).copy_(there)


def _check(actual, expected) -> None:
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.cpu(), e, rtol=1e-4, atol=1e-4)


def _split(arguments: tuple) -> tuple[tuple, dict]:
    if isinstance(arguments[-1], dict):
        return arguments[:-1], arguments[-1]
    return arguments, {}


def _tuple(result) -> tuple:
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)


@pytest.mark.parametrize("inputs", LAYOUTS)
@pytest.mark.parametrize(
    ("name", "overload", "arguments"), _cases(), ids=lambda v: v if isinstance(v, str) else ""
)
def test_any_strides(name, overload, arguments, inputs):
    arguments, keywords = _split(arguments)
    base, _, functional = name.partition(".")
    packet = getattr(torch.ops.aten, base)
    compute = getattr(packet, functional or "default")
    into = getattr(packet, overload)
    expected = _tuple(compute(*arguments, **keywords))

    there = [_on_device(a, LAYOUTS[inputs]) for a in arguments]
    actual = _tuple(compute(*there, **keywords))
    _check(actual, expected)
    names = [a.name for a in into._schema.arguments if a.is_out]
    for layout in LAYOUTS.values():
        outputs = [layout(t) for t in actual]
        strides = [t.stride() for t in outputs]
        into(*there, **keywords, **dict(zip(names, outputs, strict=True)))
        _check(outputs, expected)
        assert [t.stride() for t in outputs] == strides
