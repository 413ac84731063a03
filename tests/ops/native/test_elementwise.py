# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
import torch.nn.functional as F


def randn(*shape, grad=True):
    torch.manual_seed(sum(shape))
    return torch.randn(shape).requires_grad_(grad)


SHAPES = [(3, 5), (0, 4), (), (300, 400), (2, 3, 4)]

ACTIVATIONS = {
    "relu": F.relu,
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 0.7),
    "relu6": F.relu6,
    "hardswish": F.hardswish,
    "mish": F.mish,
    "logsigmoid": F.logsigmoid,
    "relu in place": lambda x: F.relu(x * 1, inplace=True),
    "hardswish in place": lambda x: F.hardswish(x * 1, inplace=True),
    "hardtanh in place": lambda x: F.hardtanh(x * 1, inplace=True),
    "abs": torch.abs,
    "nan_to_num": torch.nan_to_num,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_activations(same, name, shape):
    same(ACTIVATIONS[name], randn(*shape))


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_of_strided_inputs(same, name):
    fn = ACTIVATIONS[name]
    same(lambda x: fn(x.t()), randn(300, 200))
    same(lambda x: fn(x[:, ::3]), randn(7, 9))
    x = randn(2, 3, 4, 5).detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    same(fn, x)


def test_gated_and_prelu(same):
    for dim in (0, 1, -1):
        same(lambda x, d=dim: F.glu(x, d), randn(4, 600, 40))
    same(lambda x, w: F.prelu(x, w), randn(4, 3, 50, 70), randn(3))
    same(lambda x, w: F.prelu(x, w), randn(4, 3, 5), randn(1))


LOSSES = {
    "mse": F.mse_loss,
    "smooth_l1": F.smooth_l1_loss,
    "huber": F.huber_loss,
    "l1": F.l1_loss,
    "bce_with_logits": lambda x, t, **k: F.binary_cross_entropy_with_logits(x, t.sigmoid(), **k),
    "bce": lambda x, t, **k: F.binary_cross_entropy(x.sigmoid(), t.detach().sigmoid(), **k),
    "kl_div": lambda x, t, **k: F.kl_div(x, t, **{**k, "log_target": True}),
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses(same, name, reduction):
    for shape in ((3, 5), (300, 400), (0, 3)):
        target = randn(*shape, grad=False) * 0.9
        same(lambda x, t: LOSSES[name](x, t, reduction=reduction), randn(*shape), target, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy(same, reduction):
    loss = lambda x, t, w=None: F.cross_entropy(x, t, w, ignore_index=2, reduction=reduction)  # noqa: E731
    same(loss, randn(1024, 96), torch.randint(0, 96, (1024,)), rtol=1e-4, atol=1e-4)
    same(loss, randn(2, 5, 6, 7), torch.randint(0, 5, (2, 6, 7)), torch.rand(5) + 0.1, rtol=1e-4, atol=1e-4)


def test_fills(same):
    same(lambda x: x.fill_(3), torch.randn(300, 300))
    same(lambda x: x[:, ::2].fill_(3), torch.randn(30, 30))
    same(lambda x: x.zero_(), torch.arange(100_000))
    same(lambda x, v: x.fill_(v), torch.randn(3), torch.tensor(2.5))
    same(lambda x: x.fill_(torch.tensor(2.5)), torch.randn(3))
    same(lambda x: x.fill_(1 + 2j), torch.randn(3, dtype=torch.complex64))
    with pytest.raises(RuntimeError, match="0-dimension"):
        torch.ones(2, device="neuron").fill_(torch.ones(2, device="neuron"))


def test_masked_fill(same):
    mask = torch.rand(300, 400) > 0.5
    same(lambda x, m: x.masked_fill(m, -1.5), randn(300, 400), mask)
    same(lambda x, m: x.masked_fill(m, float("-inf")), randn(4, 300, 400, grad=False), mask)
    same(lambda x, m, v: x.masked_fill_(m, v), torch.randn(300, 400), mask[:1], torch.tensor(2.0))
    same(lambda x, m: x.t().masked_fill_(m.t(), 3), torch.arange(120_000).view(300, 400), mask)
    with pytest.raises(RuntimeError, match="boolean masks"):
        torch.ones(2, device="neuron").masked_fill_(torch.ones(2, device="neuron"), 1)


def test_where(same):
    c = torch.rand(30, 1) > 0.5
    same(torch.where, c, randn(30, 40), randn(40))
    same(torch.where, c, torch.arange(30).view(30, 1), randn(40, grad=False))
    same(lambda c, x: torch.where(c, x, 2.5), c, randn(30, 40))
    same(lambda c, x: torch.where(c, 1, x), c, torch.arange(40))
    same(torch.where, torch.rand(300, 400) > 0.3, randn(300, 400), randn(300, 1))
    out = torch.empty(0, device="neuron")
    torch.where(c.to("neuron"), torch.ones(30, 4, device="neuron"), torch.zeros(4, device="neuron"), out=out)
    assert out.shape == (30, 4)


def test_logic_and_division(same):
    a, b = torch.randint(0, 2, (300, 400)), torch.randint(0, 2, (400,))
    for op in (torch.logical_and, torch.logical_or, torch.logical_xor):
        same(op, a, b)
        same(op, a.bool(), b.bool())
        same(lambda x, y, op=op: op(x, y, out=torch.empty(0, device=x.device)), a, b.float())
    same(torch.logical_not, a)
    same(torch.isnan, torch.tensor([1.0, float("nan")]))
    same(torch.isnan, a)
    same(torch.floor_divide, torch.randn(300, 400), torch.rand(400) + 1)
    same(torch.floor_divide, torch.arange(-6, 6), 4)
    same(lambda x: x.floor_divide_(3), torch.arange(-6, 6))
    same(lambda x: x // 2.5, torch.arange(7))


def test_reductions(same):
    for shape in ((5, 7), (600, 300), (3, 4, 5)):
        for dims in (None, (0,), (1,), (0, 1), (-1,)):
            for keep in (False, True):
                same(lambda x, d=dims, k=keep: torch.var(x, d, keepdim=k), randn(*shape), rtol=1e-4, atol=1e-5)
                same(lambda x, d=dims, k=keep: torch.std(x, d, correction=0, keepdim=k), randn(*shape), rtol=1e-4, atol=1e-5)
                same(lambda x, d=dims, k=keep: torch.var_mean(x, d, keepdim=k), randn(*shape), rtol=1e-4, atol=1e-5)
    same(lambda x: torch.std_mean(x), randn(30))
    same(torch.prod, randn(7))
    same(lambda x: torch.prod(x), torch.arange(1, 5, dtype=torch.int32))
    same(lambda x: (x.max(), x.min()), randn(30, 40))
    same(torch.dot, randn(300), randn(300), rtol=1e-4)
    same(torch.dot, torch.randn(5, dtype=torch.complex64), torch.randn(5, dtype=torch.complex64).conj())
    with pytest.raises(RuntimeError, match="numel"):
        torch.empty(0, device="neuron").max()


def test_pooling_and_padding(same):
    for shape in ((2, 3, 9, 11), (3, 9, 11), (40, 8, 33, 31), (0, 3, 4, 4)):
        same(lambda x: F.adaptive_avg_pool2d(x, (4, 3)), randn(*shape), rtol=1e-4)
        same(lambda x: F.adaptive_avg_pool2d(x, 1), randn(*shape), rtol=1e-4)
        same(lambda x: F.pad(x, (1, 2, 3, 0), mode="reflect"), randn(*shape))
        same(lambda x: F.pad(x, (1, 2, 3, 0), mode="replicate"), randn(*shape))
    same(lambda x: F.adaptive_avg_pool3d(x, (2, 1, 3)), randn(2, 3, 4, 5, 6), rtol=1e-4)
    x = randn(2, 6, 9, 11).detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    same(lambda x: F.adaptive_avg_pool2d(x, 2), x)
    same(lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), x)
    with pytest.raises(RuntimeError, match="Padding size"):
        F.pad(torch.ones(1, 2, 3, 3, device="neuron"), (3, 0, 0, 0), mode="reflect")


def test_gradients_of_gradients(same):
    def penalty(x):
        y = F.hardswish(x).sum() + F.mse_loss(x, x.detach() * 0.5) + F.logsigmoid(x).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return g.square().sum()

    same(penalty, randn(5, 6))
