# SPDX-License-Identifier: Apache-2.0
"""Random numbers under compile are eager's, and the generator ends where eager leaves it."""

import pytest
import torch
from compile_testing import DEVICE, check, randn, same_bits
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def dropouts(x):
    return F.dropout(x, 0.3) + F.dropout(x, 0.5) * F.dropout1d(x, 0.2)


def certain_dropouts(x):
    return F.dropout(x, 0.0), F.dropout(x, 0.5, training=False)


def alpha_dropout(x):
    return F.alpha_dropout(x, 0.4, training=True)


def factories(x):
    return (
        torch.rand(4, device=DEVICE),
        torch.randn(4, device=DEVICE),
        torch.rand(4, device=DEVICE),
        torch.randint(0, 9, (3,), device=DEVICE),
        torch.randperm(5, device=DEVICE),
        torch.rand_like(x) + x,
    )


def distributions(x):
    return (
        torch.bernoulli(x.sigmoid()),
        x.clone().normal_(),
        torch.normal(x, 2.0),
        x.clone().uniform_(-1, 1),
        x.clone().exponential_(),
        torch.multinomial(x.softmax(-1), 2),
        F.rrelu(x, training=True),
    )


def unused(x):
    """Results that nobody uses still move the generator."""
    torch.rand(3, device=DEVICE)
    F.dropout(x, 0.5)
    return torch.rand(4, device=DEVICE)


def equal_calls(x):
    return torch.rand(4, device=DEVICE), torch.rand(4, device=DEVICE), x.bernoulli(), x.bernoulli()


def attention(x):
    q = x.view(1, 2, 4, 8)
    return F.scaled_dot_product_attention(q, q, q, dropout_p=0.3)


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(
    "function",
    [dropouts, certain_dropouts, alpha_dropout, factories, distributions, unused, attention],
    ids=lambda f: f.__name__,
)
def test_same_numbers(function, requires_grad):
    check(function, randn(8, 8, requires_grad=requires_grad))


def test_equal_calls_give_different_numbers():
    check(equal_calls, torch.full((64,), 0.5, device=DEVICE))


def test_each_call_draws_again():
    compiled = torch.compile(lambda x: F.dropout(x, 0.5), backend="neuron")
    x = torch.ones(256, device=DEVICE)
    assert not torch.equal(compiled(x).cpu(), compiled(x).cpu())


def test_seed_inside_the_function():
    def function(x):
        torch.manual_seed(7)
        return x + torch.rand(4, device=DEVICE)

    check(function, randn(4))


def test_own_generator():
    generator = torch.Generator(device=DEVICE)
    compiled = torch.compile(
        lambda: torch.rand(4, device=DEVICE, generator=generator), backend="neuron"
    )
    generator.manual_seed(3)
    got = compiled()
    generator.manual_seed(3)
    same_bits(got, torch.rand(4, device=DEVICE, generator=generator))


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("preserve", [True, False])
def test_checkpoint_repeats_the_forward_pass(use_reentrant, preserve):
    """The mask of the backward pass is the one of the forward pass, and eager's."""
    block = nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.5), nn.GELU(), nn.Dropout(0.2)).to(DEVICE)

    def function(x):
        return checkpoint(block, x, use_reentrant=use_reentrant, preserve_rng_state=preserve) + x

    if preserve:
        check(function, randn(4, 32, requires_grad=True))
    else:  # eager draws again in the backward pass, compile does not
        compiled = torch.compile(function, backend="neuron")
        x = randn(4, 32, requires_grad=True)
        torch.manual_seed(1)
        got = compiled(x)
        torch.manual_seed(1)
        same_bits(got, function(x))
        got.sum().backward()


def test_checkpoint_leaves_the_generator_alone_in_backward():
    layer = nn.Dropout(0.5)
    compiled = torch.compile(lambda x: checkpoint(layer, x, use_reentrant=False), backend="neuron")
    y = compiled(randn(16, requires_grad=True))
    before = torch.neuron.get_rng_state()
    y.sum().backward()
    assert torch.equal(torch.neuron.get_rng_state(), before)


def test_dropout_gradient_fits_its_mask():
    x = torch.ones(512, device=DEVICE, requires_grad=True)
    y = torch.compile(lambda x: F.dropout(x, 0.25), backend="neuron")(x)
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal((gradient != 0).cpu(), (y != 0).cpu())
    assert 0.6 < (y != 0).float().mean().item() < 0.9


def test_training_with_dropout_equals_eager():
    def train(compile_model):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.3), nn.ReLU(), nn.Linear(32, 4))
        model = model.to(DEVICE)
        forward = torch.compile(model, backend="neuron") if compile_model else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x, y = randn(8, 16), torch.randint(0, 4, (8,), device=DEVICE)
        losses = []
        for _ in range(6):
            optimizer.zero_grad()
            loss = F.cross_entropy(forward(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        return losses, [p.detach() for p in model.parameters()]

    same_bits(train(True), train(False))
