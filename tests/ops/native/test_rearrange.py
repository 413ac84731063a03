# SPDX-License-Identifier: Apache-2.0
import pytest
import torch
import torch.nn.functional as F


def randn(*shape):
    torch.manual_seed(sum(shape))
    return torch.randn(shape).requires_grad_()


@pytest.mark.parametrize("shape", [(4, 5, 6), (0, 3, 2), (1, 7, 3)])
def test_flip_and_roll(same, shape):
    for dims in ((0,), (1, -1), ()):
        same(lambda x, d=dims: x.flip(d), randn(*shape))
    same(lambda x: x.roll(2), randn(*shape))
    same(lambda x: x.roll((1, -2), (0, 2)), randn(*shape))
    same(lambda x: x.transpose(0, 2).roll(1, 1), randn(*shape))


def test_flip_and_roll_of_scalars_and_bad_dimensions(same):
    same(lambda x: x.flip(()), torch.tensor(3.0))
    same(lambda x: x.roll(1), torch.tensor(3.0))
    x = torch.ones(2, 3, device="neuron")
    with pytest.raises(IndexError):
        x.flip(2)
    with pytest.raises(RuntimeError, match="appears multiple times"):
        x.flip((0, 0))
    with pytest.raises(RuntimeError, match="must align"):
        x.roll((1, 2), 0)


@pytest.mark.parametrize("shape", [(2, 3, 9, 8), (3, 9, 8), (40, 3, 20, 20), (0, 3, 9, 8)])
def test_unfold_and_fold(same, shape):
    options = {"kernel_size": (3, 2), "dilation": 2, "padding": 1, "stride": 2}
    same(lambda x: F.unfold(x, **options), randn(*shape))
    same(lambda x: F.fold(F.unfold(x, **options), shape[-2:], **options), randn(*shape), rtol=1e-4)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_grid_sample(same, mode, padding):
    for batch in (0, 1, 3, 20):
        torch.manual_seed(batch)
        grid = (torch.rand(batch, 9, 7, 2) * 2.4 - 1.2).requires_grad_()
        same(
            lambda x, g: F.grid_sample(x, g, mode=mode, padding_mode=padding, align_corners=False),
            randn(batch, 3, 11, 10),
            grid,
            rtol=1e-3,
            atol=1e-3,
        )


@pytest.mark.parametrize("dim", [0, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weight_norm(same, dim, dtype):
    tolerance = 1e-4 if dtype == torch.float32 else 5e-2
    v = randn(6, 4, 5).detach().to(dtype)
    g = torch.norm_except_dim(v, 2, dim)
    same(
        lambda v, g: torch._weight_norm(v, g, dim),
        v.requires_grad_(),
        g.detach().requires_grad_(),
        rtol=tolerance,
        atol=tolerance,
    )
