# SPDX-License-Identifier: Apache-2.0
"""Functions that write into their arguments, and outputs that share memory with them."""

import pytest
import torch
from compile_testing import DEVICE, check, randn
from torch import nn


def writes_argument(x, y):
    y.add_(x)
    return y.sum()


def writes_through_a_view(x, y):
    y.t()[1].mul_(2)
    y[0] = 3
    y[:, ::2] -= x[:, ::2]
    return y * 2


def writes_and_returns(x, y):
    y.copy_(x * 2)
    return y


def writes_a_copy(x, y):
    z = y.clone()
    z[0] = x[0]
    z += 1
    return z


def returns_argument(x, y):
    return y, x + 1


def returns_views(x, y):
    return y.t(), y.view(-1), x[1:]


def returns_view_of_result(x, y):
    z = x + y
    return z, z[0], z.t()


def same_output_twice(x, y):
    z = x * y
    return z, z


def resizes_metadata(x, y):
    y.unsqueeze_(0)
    y.transpose_(1, 2)
    return x + y


def scatters(x, y):
    index = torch.tensor([[0, 1, 2, 3]], device=x.device)
    y.scatter_add_(0, index, x[:1])
    y.index_fill_(1, index[0, :2], 7.0)
    return y.masked_fill_(y > 1, 0.0)


def outs(x, y):
    torch.add(x.detach(), y, out=y)
    return torch.empty_like(x).copy_(y)


FUNCTIONS = [
    writes_argument,
    writes_through_a_view,
    writes_and_returns,
    writes_a_copy,
    returns_argument,
    returns_views,
    returns_view_of_result,
    same_output_twice,
    resizes_metadata,
    scatters,
    outs,
]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_same_as_eager(function, requires_grad):
    check(function, randn(4, 4, requires_grad=requires_grad), randn(4, 4))


def test_aliases_stay_aliases():
    compiled = torch.compile(returns_views, backend="neuron")
    x, y = randn(4, 4), randn(4, 4)
    transposed, flat, rest = compiled(x, y)
    assert transposed.data_ptr() == flat.data_ptr() == y.data_ptr()
    assert rest.data_ptr() == x[1:].data_ptr()
    assert torch.compile(writes_and_returns, backend="neuron")(x, y) is y


def test_arguments_that_share_memory():
    def function(a, b):
        a.add_(1)
        return a + b

    def call(function):
        base = torch.arange(8.0, device=DEVICE)
        return function(base[:4], base[2:6]), base

    want = call(function)
    got = call(torch.compile(function, backend="neuron"))
    assert torch.equal(got[0].cpu(), want[0].cpu())
    assert torch.equal(got[1].cpu(), want[1].cpu())


def test_an_argument_given_twice():
    def function(a, b):
        a.mul_(2)
        return a + b

    compiled = torch.compile(function, backend="neuron")
    x = torch.ones(3, device=DEVICE)
    assert compiled(x, x).tolist() == [4.0] * 3
    assert (
        compiled(torch.ones(3, device=DEVICE), torch.ones(3, device=DEVICE)).tolist() == [3.0] * 3
    )


def test_buffers_and_version_counters():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x):
            self.count += 1
            return x * self.count

    model = Counter().to(DEVICE)
    compiled = torch.compile(model, backend="neuron")
    version = model.count._version
    assert [compiled(torch.ones(1, device=DEVICE)).item() for _ in range(3)] == [1.0, 2.0, 3.0]
    assert model.count.item() == 3
    assert model.count._version > version


def test_a_write_that_invalidates_a_saved_tensor():
    x = randn(4, requires_grad=True)
    scale = randn(4)
    y = (x * scale).sum()
    torch.compile(lambda t: t.add_(1), backend="neuron")(scale)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_write_into_a_leaf_is_refused_as_in_eager():
    x = randn(4, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        torch.compile(lambda t: t.add_(1), backend="neuron")(x)


def test_writes_to_attributes_and_globals():
    class State:
        last = None

    state = State()

    def function(x):
        state.last = x * 2
        return x + 1

    x = randn(3)
    torch.compile(function, backend="neuron")(x)
    assert torch.equal(state.last.cpu(), (x * 2).cpu())


def test_strides_of_results():
    def function(x):
        return x.to(memory_format=torch.channels_last) * 2, x.permute(0, 2, 3, 1) + 1

    check(function, randn(2, 3, 4, 5))
    got = torch.compile(function, backend="neuron")(randn(2, 3, 4, 5))
    want = function(randn(2, 3, 4, 5))
    assert [t.stride() for t in got] == [t.stride() for t in want]


def reads_before_writing(x, y):
    before = y.clone()
    result = before * x
    y.add_(1)
    return result


def reads_a_view_before_writing(x, y):
    before = y.t()[1:].clone()
    result = (before.exp() * x[1:]).sum(0)
    y[1].mul_(result[:4].detach())
    return result


def writes_what_it_multiplied_with(x, y):
    result = x * y.detach().clone().t() + (x @ y.sin())
    y.zero_()
    return result


@pytest.mark.parametrize(
    "function",
    [reads_before_writing, reads_a_view_before_writing, writes_what_it_multiplied_with],
    ids=lambda f: f.__name__,
)
def test_gradients_use_the_values_from_before_a_write(function):
    """PyTorch's own partitioner would compute them again from what the argument holds later."""
    check(function, randn(4, 4, requires_grad=True), randn(4, 4))
