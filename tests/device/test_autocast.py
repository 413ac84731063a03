# SPDX-License-Identifier: Apache-2.0
"""Automatic mixed precision: operator lists, nesting, training with a scaler."""

import pytest
import torch
import torch.nn.functional as F

DTYPES = [torch.bfloat16, torch.float16]


@pytest.fixture
def x():
    return torch.ones(4, 4, device="neuron")


@pytest.mark.parametrize("dtype", DTYPES)
def test_lower_precision(x, dtype):
    with torch.autocast("neuron", dtype=dtype):
        assert (x @ x).dtype == dtype
        assert F.linear(x, x).dtype == dtype
        assert torch.addmm(x, x, x).dtype == dtype
        assert F.conv1d(x[None], x[:, :, None]).dtype == dtype
        assert F.scaled_dot_product_attention(x[None], x[None], x[None]).dtype == dtype
    assert (x @ x).dtype == torch.float32


@pytest.mark.parametrize("dtype", DTYPES)
def test_float32(x, dtype):
    low = x.to(dtype)
    with torch.autocast("neuron", dtype=dtype):
        for result in (
            low.exp(),
            low.log(),
            low.pow(2),
            low.softmax(-1),
            low.sum(),
            low.norm(),
            F.layer_norm(low, (4,)),
            F.mse_loss(low, low),
            F.nll_loss(F.log_softmax(low, -1), torch.zeros(4, dtype=torch.long, device="neuron")),
        ):
            assert result.dtype == torch.float32


@pytest.mark.parametrize("dtype", DTYPES)
def test_promote(x, dtype):
    low = x.to(dtype)
    with torch.autocast("neuron", dtype=dtype):
        assert torch.addcmul(x, low, low).dtype == torch.float32
        assert torch.atan2(x, low).dtype == torch.float32
        assert torch.dot(x[0], low[0]).dtype == torch.float32


def test_others_keep_their_type(x):
    with torch.autocast("neuron", dtype=torch.bfloat16):
        assert (x + x).dtype == torch.float32
        assert x.relu().dtype == torch.float32
        assert (x.bfloat16() * 2).dtype == torch.bfloat16


def test_binary_cross_entropy_is_refused(x):
    with (
        torch.autocast("neuron", dtype=torch.bfloat16),
        pytest.raises(RuntimeError, match="unsafe to autocast"),
    ):
        F.binary_cross_entropy(x.sigmoid(), x)
    with torch.autocast("neuron", dtype=torch.bfloat16):
        assert F.binary_cross_entropy_with_logits(x, x).dtype == torch.float32


def test_enabled_and_nesting(x):
    with torch.autocast("neuron", dtype=torch.bfloat16):
        with torch.autocast("neuron", enabled=False):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == torch.bfloat16
    with torch.autocast("neuron", enabled=False):
        assert (x @ x).dtype == torch.float32


def test_cpu_autocast_does_not_reach_the_device(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (x @ x).dtype == torch.float32


def test_values_equal_explicit_casts(x):
    x = torch.randn(8, 8, device="neuron")
    with torch.autocast("neuron", dtype=torch.bfloat16):
        y = x @ x
    assert y.equal(x.bfloat16() @ x.bfloat16())


def test_unsupported_type_disables(x):
    with (
        pytest.warns(UserWarning, match="[Ss]upport"),
        torch.autocast("neuron", dtype=torch.float64),
    ):
        assert (x @ x).dtype == torch.float32


def test_supported_types():
    assert set(torch.neuron.get_amp_supported_dtype()) == {
        torch.float32,
        torch.float16,
        torch.bfloat16,
    }
    assert torch.neuron.is_bf16_supported()
    assert torch.amp.is_autocast_available("neuron")


@pytest.mark.parametrize("dtype", DTYPES)
def test_training(dtype):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 1)
    ).neuron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("neuron", enabled=dtype == torch.float16)
    x = torch.randn(64, 8).neuron()
    target = x.sum(1, keepdim=True)
    losses = []
    for _ in range(40):
        optimizer.zero_grad()
        with torch.autocast("neuron", dtype=dtype):
            loss = F.mse_loss(model(x), target)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert all(p.grad.dtype == torch.float32 for p in model.parameters())


def test_scaler_skips_steps_with_infinities():
    p = torch.nn.Parameter(torch.ones(3, device="neuron"))
    optimizer = torch.optim.SGD([p], lr=1.0)
    scaler = torch.amp.GradScaler("neuron", init_scale=4.0)
    scaler.scale((p * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [1.0] * 3
    assert scaler.get_scale() == 2.0
