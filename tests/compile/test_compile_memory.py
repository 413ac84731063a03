# SPDX-License-Identifier: Apache-2.0
"""Memory of the device under compile: nothing kept, and never more than eager needs."""

import gc
import weakref

import pytest
import torch
from compile_testing import DEVICE, randn
from torch import nn

MB = 1 << 20


def settle():
    gc.collect()
    torch.neuron.synchronize()


def peak(function):
    """Bytes above the start that the second of two calls needed, and what was left."""
    function()
    settle()
    before = torch.neuron.memory_allocated()
    torch.neuron.reset_peak_memory_stats()
    function()
    settle()
    return torch.neuron.max_memory_allocated() - before, torch.neuron.memory_allocated() - before


def chain(x):
    for _ in range(8):
        x = x.sin() + 1
    return x


def test_values_die_after_their_last_use():
    x = torch.zeros(MB // 4, device=DEVICE)  # 1 MB
    with torch.no_grad():
        eager, _ = peak(lambda: chain(x))
        function = torch.compile(chain, backend="neuron")
        compiled, left = peak(lambda: function(x))
    assert compiled <= eager
    assert left == 0


def test_arguments_die_in_the_call():
    """The caller's last reference is in the argument list."""
    compiled = torch.compile(lambda x: (x + 1).sum(), backend="neuron")
    compiled(torch.zeros(MB, device=DEVICE))
    seen = []
    x = torch.zeros(MB, device=DEVICE)
    weakref.finalize(x, seen.append, True)
    result = compiled(x)
    del x
    gc.collect()
    assert seen == [True]
    assert result.item() == MB


@pytest.mark.parametrize("activation", [nn.GELU, nn.SiLU, nn.ReLU])
def test_training_needs_no_more_than_eager(activation):
    layers = [m for _ in range(4) for m in (nn.Linear(256, 256), nn.LayerNorm(256), activation())]
    model = nn.Sequential(*layers).to(DEVICE)
    x = randn(512, 256)

    def step(forward):
        def run():
            model.zero_grad()
            forward(x).square().mean().backward()

        return run

    eager, _ = peak(step(model))
    compiled, left = peak(step(torch.compile(model, backend="neuron")))
    assert compiled <= eager
    assert left == 0


def test_saved_tensors_go_with_the_backward_pass():
    """They are gone when the gradient arrives, though the loss is still there."""

    def function(x):
        for _ in range(8):
            x = x.exp().sin()  # both are needed for the gradient
        return x.sum()

    x = torch.zeros(MB // 4, device=DEVICE, requires_grad=True)
    settle()
    before = torch.neuron.memory_allocated()
    loss = torch.compile(function, backend="neuron")(x)
    settle()
    assert torch.neuron.memory_allocated() - before >= 8 * MB
    left = []

    def arrived(gradient):
        settle()
        left.append(torch.neuron.memory_allocated() - before)

    x.register_hook(arrived)
    loss.backward()
    assert left[0] <= 1.5 * MB  # the gradient


def test_no_leak_over_compiles():
    """Neither tensors nor graphs outlive their function."""
    counts = []
    for i in range(8):
        model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.ReLU()).to(DEVICE)
        compiled = torch.compile(model, backend="neuron", options={"model_name": f"model {i}"})
        compiled(randn(4, 8)).sum().backward()
        with torch.no_grad():
            compiled(randn(4, 8))
        del model, compiled
        torch._dynamo.reset()
        settle()
        modules = sum(issubclass(type(obj), torch.fx.GraphModule) for obj in gc.get_objects())
        counts.append((torch.neuron.memory_allocated(), modules))
    assert counts[-1][0] == counts[2][0]
    assert counts[-1][1] <= counts[2][1]


def test_compiling_allocates_nothing_on_the_device():
    x = torch.zeros(MB, device=DEVICE)
    settle()
    torch.neuron.reset_peak_memory_stats()
    before = torch.neuron.memory_allocated()
    compiled = torch.compile(lambda x: (x.sin() + x.cos())[:4] * 2, backend="neuron")
    with torch.no_grad():
        compiled(x)
    settle()
    eager_peak = 4 * MB * 3  # sine, cosine and their sum
    assert torch.neuron.max_memory_allocated() - before <= eager_peak
