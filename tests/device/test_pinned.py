# SPDX-License-Identifier: Apache-2.0
"""Pinned host memory and copies that do not wait."""

import torch


def test_is_pinned():
    plain = torch.zeros(10)
    pinned = plain.pin_memory()
    assert not plain.is_pinned()
    assert pinned.is_pinned()
    assert pinned[3:].is_pinned()
    assert pinned.device.type == "cpu"
    assert torch.empty(5, pin_memory=True).is_pinned()
    assert pinned.pin_memory() is pinned
    assert pinned.data_ptr() % 4096 == 0


def test_contents_survive():
    x = torch.arange(1000)
    assert x.pin_memory().equal(x)


def test_copies_both_ways():
    source = torch.arange(10000.0).pin_memory()
    on_device = source.to("neuron", non_blocking=True)
    back = torch.empty(10000, pin_memory=True)
    back.copy_(on_device * 2, non_blocking=True)
    torch.neuron.synchronize()
    assert back.equal(torch.arange(10000.0) * 2)


def test_queued_copy_keeps_its_source(busy):
    # The pinned block is freed while the copy out of it is still queued; the next pinned tensor of
    # the same size must get other memory.
    busy()
    source = torch.full((50_000,), 1.0).pin_memory()
    address = source.data_ptr()
    target = torch.empty(50_000, device="neuron")
    target.copy_(source, non_blocking=True)
    assert not torch.neuron.query()
    del source
    for _ in range(4):
        again = torch.empty(50_000, pin_memory=True)
        assert again.data_ptr() != address
        again.fill_(-1.0)
    torch.neuron.synchronize()
    assert target.eq(1).all().item()


def test_queued_copy_keeps_its_target(busy):
    data = torch.full((50_000,), 6.0, device="neuron")
    torch.neuron.synchronize()
    busy()
    target = torch.empty(50_000, pin_memory=True)
    address = target.data_ptr()
    target.copy_(data, non_blocking=True)
    del target
    others = [torch.full((50_000,), 2.0).pin_memory() for _ in range(4)]
    assert address not in [t.data_ptr() for t in others]
    torch.neuron.synchronize()
    assert all(t.eq(2).all().item() for t in others)


def test_memory_is_cached_and_emptied():
    x = torch.empty(123_457, dtype=torch.uint8, pin_memory=True)
    address = x.data_ptr()
    del x
    y = torch.empty(123_457, dtype=torch.uint8, pin_memory=True)
    assert y.data_ptr() == address
    del y
    torch.accelerator.memory.empty_host_cache()
    z = torch.empty(10, pin_memory=True)
    assert z.is_pinned()


def test_pinned_tensors_outlive_the_interpreters_end(check_python):
    check_python(
        """
        import builtins, torch
        builtins.kept = [torch.zeros(1000, pin_memory=True), torch.ones(3, device="neuron")]
        """
    )
