# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
import torch.nn.functional as F


def randn(*shape, grad=True):
    torch.manual_seed(sum(shape))
    return (torch.randn(*shape) * 0.5).requires_grad_(grad)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    "dims, x, w, options",
    [
        (1, (2, 3, 17), (4, 3, 3), {"padding": 1}),
        (1, (3, 17), (4, 3, 5), {"stride": 2}),
        (2, (2, 3, 9, 8), (4, 3, 3, 3), {}),
        (2, (2, 4, 9, 8), (6, 2, 3, 3), {"groups": 2, "padding": 1, "stride": 2}),
        (2, (2, 4, 9, 8), (4, 1, 3, 3), {"groups": 4, "padding": (1, 0)}),
        (2, (2, 3, 12, 11), (4, 3, 3, 2), {"dilation": 2, "padding": 2}),
        (2, (32, 16, 28, 28), (32, 16, 3, 3), {"padding": 1}),
        (2, (3, 9, 8), (4, 3, 3, 3), {"padding": "same"}),
        (3, (2, 3, 6, 5, 4), (4, 3, 3, 2, 2), {"padding": 1}),
        (3, (1, 2, 5, 5, 5), (2, 1, 3, 3, 3), {"groups": 2, "dilation": 2}),
    ],
)
def test_convolution(same, dims, x, w, options, bias):
    conv = getattr(F, f"conv{dims}d")
    b = randn(w[0]) if bias else None
    same(lambda x, w, b: conv(x, w, b, **options), randn(*x), randn(*w), b, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    "dims, x, w, options",
    [
        (1, (2, 3, 7), (3, 4, 3), {"stride": 2, "output_padding": 1}),
        (2, (2, 4, 5, 6), (4, 3, 3, 3), {"stride": 2, "padding": 1}),
        (2, (2, 4, 5, 6), (4, 2, 3, 3), {"groups": 2, "dilation": 2}),
        (3, (1, 2, 3, 4, 3), (2, 3, 2, 2, 2), {"stride": 2}),
    ],
)
def test_transposed(same, dims, x, w, options):
    conv = getattr(F, f"conv_transpose{dims}d")
    b = randn(w[1] * options.get("groups", 1))
    same(lambda x, w, b: conv(x, w, b, **options), randn(*x), randn(*w), b, rtol=1e-3, atol=1e-3)


def test_channels_last(same):
    x = randn(8, 6, 15, 13).detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    w = randn(8, 6, 3, 3).detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    same(lambda x, w: F.conv2d(x, w, padding=1), x, w, rtol=1e-3, atol=1e-3)
    y = F.conv2d(x.detach().to("neuron"), w.detach().to("neuron"))
    assert y.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("shape", [(0, 3, 8, 8)])
def test_empty_batch(same, shape):
    same(lambda x, w, b: F.conv2d(x, w, b), randn(*shape), randn(4, 3, 3, 3), randn(4))


def test_gradient_of_only_the_weight_or_the_input(same):
    same(lambda x, w: F.conv2d(x, w), randn(2, 3, 8, 8, grad=False), randn(4, 3, 3, 3), rtol=1e-3, atol=1e-3)
    same(lambda x, w: F.conv2d(x, w), randn(2, 3, 8, 8), randn(4, 3, 3, 3, grad=False), rtol=1e-3, atol=1e-3)


def test_bfloat16(same):
    x = randn(2, 8, 10, 10).detach().bfloat16().requires_grad_()
    w = randn(8, 8, 3, 3).detach().bfloat16().requires_grad_()
    same(lambda x, w: F.conv2d(x, w, padding=1), x, w, rtol=3e-2, atol=2e-1)


def test_double_backward(same):
    def penalty(x, w):
        y = F.conv2d(x, w).square().sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return g.square().sum()

    same(penalty, randn(2, 3, 6, 6), randn(4, 3, 3, 3), rtol=1e-2, atol=1e-1)


def test_wrong_channels_raise_at_the_call():
    with pytest.raises(RuntimeError, match="expected input"):
        F.conv2d(torch.ones(1, 3, 5, 5, device="neuron"), torch.ones(2, 4, 3, 3, device="neuron"))
