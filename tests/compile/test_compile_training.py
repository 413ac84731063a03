# SPDX-License-Identifier: Apache-2.0
"""Compiled modules, optimizers and training steps give eager's bits."""

import copy

import pytest
import torch
from compile_testing import DEVICE, check, graphs, randn, run, same_bits, training_step
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=16, heads=2, dropout=0.1):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.attention = Attention(width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.GRUCell(8, 8)

    def forward(self, x):
        state = torch.zeros_like(x[0])
        for step in x:
            state = self.body(step, state)
        return state


class TiedEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 8)
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.embed(tokens))


MODELS = {
    "transformer": (lambda: nn.Sequential(Block(), Block()), lambda: randn(2, 8, 16)),
    "convolution": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.SiLU(),
            nn.MaxPool2d(2),
            nn.GroupNorm(2, 8),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(8, 4),
        ),
        lambda: randn(4, 3, 8, 8),
    ),
    "recurrent": (Recurrent, lambda: randn(4, 3, 8)),
    "tied_embedding": (TiedEmbedding, lambda: torch.randint(0, 10, (5,), device=DEVICE)),
    "lstm": (lambda: nn.LSTMCell(8, 8), lambda: randn(4, 8)),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_models(name, training):
    make, make_input = MODELS[name]
    model = make().to(DEVICE).train(training)
    twin = copy.deepcopy(model)
    inputs = make_input()

    def first(model):
        def forward(*args):
            result = model(*args)
            return result[0] if isinstance(result, tuple) else result

        return forward

    if training:
        plain, compiled = copy.deepcopy(model), torch.compile(twin, backend="neuron")
        wanted, found = [], []
        for step in range(2):
            for module, function, results in ((plain, plain, wanted), (twin, compiled, found)):
                torch.manual_seed(step)
                module.zero_grad()
                loss = first(function)(inputs).square().mean()
                loss.backward()
                results.append(loss.detach())
                results.extend(p.grad.clone() for p in module.parameters())
        same_bits(found, wanted)
        same_bits(twin.state_dict(), plain.state_dict())  # running statistics
    else:
        with torch.no_grad():
            check(first(model), inputs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_outside(dtype):
    model = nn.Sequential(Block(), nn.LayerNorm(16)).to(DEVICE)
    compiled = torch.compile(model, backend="neuron")
    x = randn(2, 8, 16)
    with torch.autocast(DEVICE, dtype=dtype):
        want = training_step(model, (x,))
        got = training_step(compiled, (x,))
    same_bits(got, want)
    assert compiled(x).dtype == torch.float32  # a graph of its own


def test_autocast_inside():
    layer = nn.Linear(16, 16).to(DEVICE)

    def function(x):
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            y = layer(x)
            with torch.autocast(DEVICE, enabled=False):
                z = layer(y.float())
            assert y.dtype == torch.bfloat16 and z.dtype == torch.float32
        return y, F.softmax(z, -1)

    check(function, randn(4, 16, requires_grad=True), fullgraph=True)


def test_autocast_does_not_apply_twice():
    """A graph compiled without autocast, in a region where its caller turns it on elsewhere."""
    compiled = torch.compile(lambda x: x @ x, backend="neuron")
    x = randn(4, 4)
    assert compiled(x).dtype == torch.float32
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert compiled(x).dtype == torch.bfloat16
    assert graphs() == 2


def test_no_grad_region():
    weight = randn(8, 8, requires_grad=True)

    def function(x):
        with torch.no_grad():
            scale = (x @ weight).abs().sum()
        return (x @ weight) / scale

    compiled = check(function, randn(4, 8, requires_grad=True), fullgraph=True)
    with torch.no_grad():
        assert not compiled(randn(4, 8)).requires_grad


def test_inference_mode_between_training():
    model = nn.Linear(8, 8).to(DEVICE)
    compiled = torch.compile(model, backend="neuron")
    x = randn(4, 8)
    want = training_step(model, (x,))
    same_bits(training_step(compiled, (x,)), want)
    with torch.inference_mode():
        same_bits(compiled(x), model(x))
        same_bits(compiled(x.clone()), model(x))
    same_bits(training_step(compiled, (x,)), want)


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1, capturable=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, capturable=True),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, capturable=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_step(name):
    shapes = [(4, 4), (7,), (2, 3, 5)]
    parameters = [[randn(*s, requires_grad=True) for s in shapes] for _ in range(2)]
    with torch.no_grad():
        for a, b in zip(*parameters, strict=True):
            b.copy_(a)
    optimizers = [OPTIMIZERS[name](p) for p in parameters]
    steps = [optimizers[0].step, torch.compile(optimizers[1].step, backend="neuron")]
    for _ in range(4):
        for a, b in zip(*parameters, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        for step in steps:
            step()
        same_bits(parameters[1], parameters[0])
    assert graphs() <= 2  # the first step makes the state


def test_learning_rate_in_a_tensor_does_not_recompile():
    parameter = randn(4, requires_grad=True)
    rate = torch.tensor(0.1, device=DEVICE)
    optimizer = torch.optim.SGD([parameter], lr=rate)
    step = torch.compile(optimizer.step, backend="neuron")
    parameter.grad = torch.ones_like(parameter)
    step()
    compiled = graphs()
    for value in (0.2, 0.3):
        rate.fill_(value)
        before = parameter.detach().clone()
        step()
        torch.testing.assert_close(before - parameter.detach(), torch.full_like(before, value))
    assert graphs() == compiled


def train(model, optimizer, step, batches):
    losses = []
    for seed, (x, y) in enumerate(batches):
        torch.manual_seed(seed)
        losses.append(step(model, optimizer, x, y).detach())
    return losses, [p.detach().clone() for p in model.parameters()]


def whole_step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


@pytest.mark.parametrize("trace_backward", [False, True])
def test_whole_training_step(trace_backward):
    def make():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 4))
        model = model.to(DEVICE)
        return model, torch.optim.AdamW(model.parameters(), lr=1e-2, capturable=True)

    batches = [(randn(8, 16), torch.randint(0, 4, (8,), device=DEVICE)) for _ in range(5)]
    want = train(*make(), whole_step, batches)
    compiled = torch.compile(whole_step, backend="neuron")
    with torch._dynamo.config.patch(compiled_autograd=trace_backward):
        got = train(*make(), compiled, batches)
    same_bits(got, want)
    assert want[0][-1] != want[0][0]


def test_compiled_autograd():
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 1)).to(DEVICE)
    x = randn(4, 8)
    want = training_step(model, (x,))
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="neuron")):
        got = training_step(model, (x,))
    same_bits(got, want)
    assert graphs() == 1


def test_gradients_accumulate():
    model = nn.Linear(8, 8).to(DEVICE)
    compiled = torch.compile(model, backend="neuron")
    results = []
    for forward in (model, compiled):
        model.zero_grad()
        for seed in (1, 2, 3):
            torch.manual_seed(seed)
            forward(randn(4, 8)).square().sum().backward()
        results.append([p.grad.clone() for p in model.parameters()])
    same_bits(results[1], results[0])


def test_backward_twice():
    x = randn(4, requires_grad=True)
    loss = torch.compile(lambda x: (x.exp() * x).sum(), backend="neuron")(x)
    loss.backward(retain_graph=True)
    first = x.grad.clone()
    x.grad = None
    loss.backward()
    same_bits(x.grad, first)
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_double_backward_is_refused():
    """By PyTorch, for every backend with AOTAutograd: an error, not a wrong number."""
    x = randn(4, requires_grad=True)
    y = torch.compile(lambda x: (x**3).sum(), backend="neuron")(x)
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        gradient.sum().backward()


def test_hooks():
    model = nn.Linear(4, 4).to(DEVICE)
    model.register_forward_hook(lambda module, inputs, output: output * 2)
    model.register_full_backward_hook(lambda module, grad_in, grad_out: (grad_in[0] * 3,))

    def function(x):
        y = model(x)
        y.register_hook(lambda gradient: gradient * 5)
        return y

    check(function, randn(2, 4, requires_grad=True))


def test_partly_used_outputs():
    """Gradients of some outputs only, and of none."""

    def function(x, y):
        return x.sin() * y, y.exp(), x.detach() + 1

    compiled = torch.compile(function, backend="neuron")
    x, y = randn(4, requires_grad=True), randn(4, requires_grad=True)
    for select in (0, 1):
        want = torch.autograd.grad(function(x, y)[select].sum(), (x, y), allow_unused=True)
        got = torch.autograd.grad(compiled(x, y)[select].sum(), (x, y), materialize_grads=True)
        for a, b in zip(got, want, strict=True):
            same_bits(a, torch.zeros_like(x) if b is None else b)
    assert not compiled(x, y)[2].requires_grad


def test_functional_transforms():
    def loss(weight, x):
        return (x @ weight).tanh().sum()

    def function(weight, xs):
        return torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weight, xs)

    check(function, randn(4, 3), randn(5, 2, 4))


def test_frozen_parameters():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).to(DEVICE)
    model[0].requires_grad_(False)
    x = randn(3, 8)
    results = []
    for forward in (model, torch.compile(model, backend="neuron")):
        model.zero_grad()
        forward(x).sum().backward()
        assert model[0].weight.grad is None
        results.append(model[2].weight.grad.clone())
    same_bits(results[1], results[0])
    assert run(model, (x,))
