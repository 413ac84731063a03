# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
import torch.nn.functional as F


def randn(*shape, dtype=torch.float32, grad=True, seed=0):
    torch.manual_seed(seed + sum(shape))
    return torch.randn(*shape).to(dtype).requires_grad_(grad)


@pytest.mark.parametrize("shape", [(5, 7), (3, 4, 16), (1024, 128), (0, 8), (2, 0, 8), (1, 1), (600, 513)])
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm(same, shape, affine):
    n = shape[-1]
    w, b = (randn(n), randn(n)) if affine else (None, None)
    same(lambda x, w, b: F.layer_norm(x, (n,), w, b), randn(*shape), w, b, rtol=1e-4, atol=1e-4)


def test_layer_norm_over_two_dimensions_without_gradient_of_input(same):
    same(
        lambda x, w: F.layer_norm(x, (3, 5), w, None),
        randn(4, 3, 5, grad=False),
        randn(3, 5),
        rtol=1e-4,
        atol=1e-4,
    )


@pytest.mark.parametrize("params", [torch.float32, torch.bfloat16])
def test_layer_norm_bfloat16(params):
    """ATen's CPU kernel sums parameter gradients in bfloat16, rows in the order of its threads: both
    sides are far from the exact sums, so each is measured against float64."""
    x, g = randn(700, 64, grad=False).bfloat16(), randn(700, 64, grad=False, seed=1).bfloat16()

    def gradients(device, dtype, params):
        leaves = [x.to(device, dtype), randn(64).to(device, params), randn(64, seed=2).to(device, params)]
        leaves = [t.detach().requires_grad_() for t in leaves]
        y = F.layer_norm(leaves[0], (64,), *leaves[1:])
        return [t.detach().cpu().double() for t in (y, *torch.autograd.grad(y, leaves, g.to(y)))]

    exact = gradients("cpu", torch.float64, torch.float64)
    on_cpu = gradients("cpu", torch.bfloat16, params)
    on_neuron = gradients("neuron", torch.bfloat16, params)
    torch.testing.assert_close(on_neuron[:2], on_cpu[:2], rtol=2e-2, atol=2e-2)
    for got, cpu, want in zip(on_neuron[2:], on_cpu[2:], exact[2:], strict=True):
        assert (got - want).abs().max() <= 2 * (cpu - want).abs().max()


def test_layer_norm_of_a_transposed_input(same):
    same(lambda x: F.layer_norm(x.transpose(0, 1), (6,)), randn(9, 5, 6))


def test_layer_norm_rejects_a_wrong_shape():
    with pytest.raises(RuntimeError, match="Given normalized_shape"):
        F.layer_norm(torch.ones(2, 3, device="neuron"), (4,))


@pytest.mark.parametrize("shape", [(3, 6, 5, 4), (1, 6, 1, 2), (0, 6, 3), (40, 6, 30, 30), (2, 6)])
@pytest.mark.parametrize("groups", [1, 3, 6])
def test_group_norm(same, shape, groups):
    same(
        lambda x, w, b: F.group_norm(x, groups, w, b),
        randn(*shape),
        randn(6),
        randn(6),
        rtol=1e-4,
        atol=1e-3,
    )


def test_group_norm_channels_last(same):
    x = randn(4, 6, 17, 9).detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    same(lambda x, w, b: F.group_norm(x, 2, w, b), x, randn(6), randn(6), rtol=1e-4, atol=1e-3)
    y = F.group_norm(x.detach().to("neuron"), 2)
    assert y.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shape", [(4, 3), (5, 3, 7), (4, 3, 6, 5), (8, 16, 60, 60), (2, 3, 2, 3, 4)])
def test_batch_norm(same, shape, training):
    c = shape[1]
    mean, var = torch.randn(c), torch.rand(c) + 0.5
    same(
        lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, training, 0.1, 1e-5),
        randn(*shape),
        mean,
        var,
        randn(c),
        randn(c),
        rtol=1e-4,
        atol=1e-3,
    )


def test_batch_norm_channels_last_and_without_statistics(same):
    x = randn(4, 8, 9, 9).detach().contiguous(memory_format=torch.channels_last).requires_grad_()
    same(lambda x: F.batch_norm(x, None, None, None, None, True), x, rtol=1e-4, atol=1e-4)
    same(lambda x: F.instance_norm(x), x, rtol=1e-4, atol=1e-4)


def test_batch_norm_module_counts_and_evaluates(same):
    def step(x):
        torch.manual_seed(0)
        m = torch.nn.BatchNorm2d(3).to(x.device)
        y = m(x)
        m.eval()
        return y, m(x), m.running_mean, m.running_var, m.num_batches_tracked

    same(step, randn(4, 3, 5, 5), rtol=1e-4, atol=1e-4)


def test_batch_norm_bfloat16_with_float_parameters(same):
    same(
        lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, True),
        randn(4, 3, 6, 6, dtype=torch.bfloat16).detach().requires_grad_(),
        torch.zeros(3),
        torch.ones(3),
        randn(3),
        randn(3),
        rtol=2e-2,
        atol=5e-2,
    )
