# SPDX-License-Identifier: Apache-2.0
"""Several threads compile, and run one compiled function, at the same time."""

import threading

import torch
import torch_neuronx
from compile_testing import DEVICE, graphs, randn
from torch import nn


def in_threads(count, work):
    errors = []
    barrier = threading.Barrier(count)

    def target(index):
        try:
            barrier.wait()
            work(index)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=target, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def test_different_functions():
    def work(index):
        model = nn.Sequential(nn.Linear(8, 8 + index), nn.GELU()).to(DEVICE)
        compiled = torch.compile(model, backend="neuron")
        x = randn(4, 8)
        want = torch.autograd.grad(model(x).square().sum(), list(model.parameters()))
        got = torch.autograd.grad(compiled(x).square().sum(), list(model.parameters()))
        for a, b in zip(got, want, strict=True):
            assert torch.equal(a.cpu(), b.cpu())

    in_threads(4, work)
    assert graphs() == 4


def test_one_function():
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh()).to(DEVICE)
    compiled = torch.compile(model, backend="neuron")
    inputs = [randn(2 + i % 2, 8) for i in range(4)]
    with torch.no_grad():
        wanted = [model(x).cpu() for x in inputs]

    def work(index):
        with torch.no_grad():
            for _ in range(50):
                assert torch.equal(compiled(inputs[index]).cpu(), wanted[index])

    in_threads(4, work)
    assert torch_neuronx.get_dynamo_metrics()["runs"] == 200


def test_settings_of_a_compile_are_not_seen_by_other_threads():
    """The backend changes PyTorch's configuration in its own context only."""
    from torch._functorch import config as functorch_config
    from torch._inductor import config as inductor_config
    from torch_neuronx._compile import backend

    inside, checked = threading.Event(), threading.Event()
    seen = []
    original = backend.aot_module_simplified

    def slow(*args, **kwargs):
        seen.append((functorch_config.cse, inductor_config.fallback_random))
        inside.set()
        assert checked.wait(60)
        return original(*args, **kwargs)

    backend.aot_module_simplified = slow
    try:
        thread = threading.Thread(
            target=lambda: torch.compile(lambda x: x + 1, backend="neuron")(randn(3))
        )
        thread.start()
        assert inside.wait(60)
        seen.append((functorch_config.cse, inductor_config.fallback_random))
        checked.set()
        thread.join()
    finally:
        backend.aot_module_simplified = original
    assert seen == [(False, True), (True, False)]
