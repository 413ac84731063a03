# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
import torch.nn.functional as F


def randn(*shape):
    torch.manual_seed(sum(shape))
    return torch.randn(*shape).requires_grad_()


@pytest.mark.parametrize("rows, width, tokens", [(96, 128, (8, 128)), (5, 3, (4,)), (50_000, 16, (300,)), (7, 4, (0,))])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"scale_grad_by_freq": True}], ids=str)
@pytest.mark.parametrize("index", [torch.int64, torch.int32])
def test_embedding(same, rows, width, tokens, options, index):
    tokens = torch.randint(0, rows, tokens).to(index)
    same(lambda i, w: F.embedding(i, w, **options), tokens, randn(rows, width))


def test_embedding_gradient_is_summed_in_the_order_of_the_indices():
    grad, tokens = torch.randn(4000, 64), torch.randint(0, 9, (4000,))
    backward = torch.ops.aten.embedding_dense_backward
    want = backward(grad, tokens, 9, -1, False)
    assert torch.equal(backward(grad.to("neuron"), tokens.to("neuron"), 9, -1, False).cpu(), want)


def test_index_select(same):
    index = torch.tensor([3, 0, 3, 1])
    for dim in (0, 1, -1):
        same(lambda x, i, d=dim: x.index_select(d, i), randn(4, 5, 6), index)
    same(lambda x, i: x.t().index_select(0, i), randn(400, 300), torch.randint(0, 300, (500,)))
    same(lambda x, i: x.index_select(0, i), torch.tensor(2.0), torch.tensor([0]))
    same(lambda x, i: x.index_select(0, i), torch.randn(4) > 0, torch.tensor(2))
    same(lambda x, i: torch.index_select(x, 0, i, out=torch.empty(0, device=x.device)), torch.randn(4, 3), index)
    x = torch.ones(3, device="neuron")
    with pytest.raises(IndexError, match="vector"):
        x.index_select(0, torch.zeros(1, 1, dtype=torch.int64, device="neuron"))
    with pytest.raises(RuntimeError, match="dtype"):
        x.index_select(0, torch.zeros(1, device="neuron"))


def test_index_out_of_range_is_raised_when_the_result_is_read():
    out = F.embedding(torch.tensor([1, 9], device="neuron"), torch.ones(3, 4, device="neuron"))
    with pytest.raises((IndexError, RuntimeError), match="out of range"):
        out.cpu()


def test_index_put(same):
    i, j = torch.tensor([0, 2, 2]), torch.tensor([[1], [3]])
    same(lambda x, i, v: x.index_put_((i,), v), torch.randn(4, 5), i, torch.randn(3, 5))
    same(lambda x, i, v: x.index_put((i,), v, accumulate=True), randn(4, 5), i, randn(3, 5))
    same(lambda x, i, j, v: x.index_put_((i, j), v), torch.randn(4, 5), i, j, torch.randn(2, 3))
    same(lambda x, m: x.index_put_((m,), torch.tensor(7.0, device=x.device)), torch.randn(4, 5), torch.rand(4, 5) > 0.5)

    def assign(x):
        x[x > 0] = 1.5
        x[:, [0, 2]] = 3.0
        x[1] = 0
        return x

    same(assign, torch.randn(4, 5))
    x = torch.zeros(4, device="neuron")
    x[torch.tensor([1, 3])] = 1.0  # an index on the host
    assert x.tolist() == [0, 1, 0, 1]


def test_indexing_gradient(same):
    same(lambda x, i: x[i], randn(50, 3), torch.randint(0, 50, (200,)))
    same(lambda x, m: x[m], randn(5, 6), torch.rand(5, 6) > 0.4)
