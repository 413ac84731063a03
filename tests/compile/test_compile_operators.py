# SPDX-License-Identifier: Apache-2.0
"""Operators that take functions, custom operators, and code that is compiled only in part."""

import pytest
import torch
from compile_testing import DEVICE, check, graphs, randn, run, same_bits
from torch import nn
from torch._higher_order_ops import associative_scan, while_loop
from torch._higher_order_ops.map import map as map_operator
from torch._higher_order_ops.scan import scan
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_cond(sign, requires_grad):
    scale = randn(4)

    def function(x):
        return torch.cond(
            x.sum() > 0, lambda x: x.sin() * scale, lambda x: (x @ x).expand(4) - scale, (x,)
        )

    x = (sign * torch.ones(4, device=DEVICE)).requires_grad_(requires_grad)
    check(function, x, fullgraph=True)


def test_while_loop():
    def loop(i, x):
        return while_loop(
            lambda i, x: (i < 5) & (x.abs().sum() < 1e6), lambda i, x: (i + 1, x * 1.5), (i, x)
        )

    def plain(i, x):
        for _ in range(5):
            i, x = i + 1, x * 1.5
        return i, x

    start = torch.zeros((), dtype=torch.int64, device=DEVICE)
    x = randn(4)
    same_bits(torch.compile(loop, backend="neuron", fullgraph=True)(start, x), plain(start, x))


def test_scan():
    def scanned(carry, xs):
        return scan(lambda c, x: (c + x, c * x), carry, xs, dim=0)

    def plain(carry, xs):
        outputs = []
        for x in xs:
            outputs.append(carry * x)
            carry = carry + x
        return carry, torch.stack(outputs)

    carry, xs = torch.zeros(3, device=DEVICE), randn(5, 3)
    got = torch.compile(scanned, backend="neuron", fullgraph=True)(carry, xs)
    same_bits(got, plain(carry, xs))


def test_associative_scan():
    def function(x):
        return associative_scan(lambda a, b: a + b, x, dim=0, combine_mode="generic")

    x = torch.arange(8.0, device=DEVICE)
    got = torch.compile(function, backend="neuron", fullgraph=True)(x)
    same_bits(got, x.cumsum(0))


def test_map():
    def function(xs, y):
        return map_operator(lambda x, y: x.sin() + y, xs, y)

    xs, y = randn(3, 4), randn(4)
    got = torch.compile(function, backend="neuron", fullgraph=True)(xs, y)
    same_bits(got, xs.sin() + y)


def test_nested_compile_region():
    @torch.compiler.nested_compile_region
    def region(x):
        return x.sin() + 1

    check(lambda x: region(region(x)), randn(4, requires_grad=True), fullgraph=True)


def test_autograd_function():
    class Clipped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.clamp(-1, 1)

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * (x.abs() < 2)

    check(lambda x: Clipped.apply(x * 3), randn(16, requires_grad=True), fullgraph=True)


def test_flex_attention():
    q, k, v = (randn(1, 2, 64, 16, requires_grad=True) for _ in range(3))
    mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 64, 64, device=DEVICE)

    def bias(score, b, h, i, j):
        return score + 0.1 * (j - i)

    def flex(q, k, v):
        return flex_attention(q, k, v, score_mod=bias, block_mask=mask)

    def plain(q, k, v):
        place = torch.arange(64, device=DEVICE)
        distance = 0.1 * (place[None, :] - place[:, None])
        distance = distance.masked_fill(place[:, None] < place[None, :], -torch.inf)
        return scaled_dot_product_attention(q, k, v, attn_mask=distance)

    got = run(torch.compile(flex, backend="neuron", fullgraph=True), (q, k, v))
    want = run(plain, (q, k, v))
    torch.testing.assert_close(got[0], want[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(got[2], want[2], rtol=1e-4, atol=1e-4)


@torch.library.custom_op("neuron_compile_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


twice.register_autograd(lambda ctx, gradient: gradient * 2)


@torch.library.custom_op("neuron_compile_test::increment", mutates_args=("x",))
def increment(x: torch.Tensor, by: int) -> None:
    x.add_(by)


@torch.library.custom_op("neuron_compile_test::unknown_shape", mutates_args=())
def unknown_shape(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


@unknown_shape.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@torch.library.custom_op("neuron_compile_test::no_fake", mutates_args=())
def no_fake(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def test_custom_operator():
    check(lambda x: twice(x + 1).sin(), randn(4, requires_grad=True), fullgraph=True)


def test_custom_operator_that_writes():
    def argument(x):
        increment(x, 3)
        return x * 2

    def view(x):
        y = x * 2
        increment(y[1:], 1)
        return y

    check(argument, randn(4), fullgraph=True)
    check(view, randn(4), fullgraph=True)


def test_custom_operator_with_a_size_from_data():
    check(lambda x: unknown_shape(x) * 2, randn(16), fullgraph=True)


def test_custom_operator_without_fake_kernel():
    with pytest.raises(torch._dynamo.exc.TorchRuntimeError, match="no fake impl"):
        torch.compile(no_fake, backend="neuron")(randn(4))


def test_graph_breaks():
    def function(x):
        y = x * 2
        print("", end="")
        torch._dynamo.graph_break()
        z = y.sum().item()
        return (y + z).relu() if z > -1e9 else y

    check(function, randn(4, requires_grad=True))
    assert graphs() >= 2


def test_eager_region():
    @torch.compiler.disable
    def eager(x):
        return x.cos()

    check(lambda x: eager(x * 2) + 1, randn(4, requires_grad=True))


def test_compile_inside_compile():
    inner = torch.compile(lambda x: x.sin(), backend="neuron")
    check(lambda x: inner(x) * 2, randn(4, requires_grad=True))
    block = nn.Linear(4, 4).to(DEVICE)
    model = nn.Sequential(torch.compile(block, backend="neuron"), nn.ReLU())
    check(model, randn(2, 4, requires_grad=True))


def test_exported_program():
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.ReLU()).to(DEVICE).eval()
    x = randn(3, 8)
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: batch},))
    compiled = torch.compile(program.module(), backend="neuron", dynamic=True)
    for inputs in (x, randn(7, 8)):
        same_bits(compiled(inputs), model(inputs))
    lowered = program.run_decompositions().module()
    same_bits(torch.compile(lowered, backend="neuron")(x), lowered(x))


def test_program_exported_on_the_host():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    program = torch.export.export(model, (torch.randn(3, 8),))
    module = program.module().to(DEVICE)
    x = randn(3, 8)
    same_bits(torch.compile(module, backend="neuron")(x), model.to(DEVICE)(x))


def test_several_devices():
    def function(x, y):
        return x.to("neuron:1") * y, (x + 1).cpu()

    check(function, randn(4), torch.randn(4, device="neuron:1"))


def test_host_scalars_and_tensors():
    def function(x, scale, host):
        return x * scale + host.to(DEVICE), host * 2

    check(function, randn(4, requires_grad=True), torch.tensor(3.0), torch.randn(4))


def test_python_containers():
    def function(inputs):
        x, (y, n) = inputs["x"], inputs["rest"]
        return {"sum": x + y * n, "parts": [x, (y,)], "n": n}

    check(function, {"x": randn(4), "rest": (randn(4), 3)})


def test_no_tensor_results():
    compiled = torch.compile(lambda x: (x * 2, 3)[1], backend="neuron")
    assert compiled(randn(3)) == 3


def test_constants():
    table = torch.tensor([1.0, 2.0, 3.0], device=DEVICE)

    def function(x):
        x = x.clamp(max=float("inf"))
        return x + table + torch.tensor([1.0, 2.0, 3.0], device=DEVICE)

    check(function, randn(3))
