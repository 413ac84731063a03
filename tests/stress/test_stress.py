# SPDX-License-Identifier: Apache-2.0
"""Long runs: threads with streams of their own, memory that stays flat."""

import os
import threading
import time

import pytest
import torch
from torch import nn

DEVICE = "neuron"


def resident_bytes():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def work_on_streams(index, until, failures):
    """Hands a tensor back and forth between two streams; every value is known."""
    try:
        device = torch.device(DEVICE, index % torch.accelerator.device_count())
        first, second = torch.Stream(device), torch.Stream(device)
        generator = torch.Generator().manual_seed(index)
        while time.monotonic() < until:
            n = int(torch.randint(1, 5000, (), generator=generator))
            with first:
                x = torch.full((n,), float(index), device=device)
                x.add_(1)
                ready = first.record_event()
            second.wait_event(ready)
            with second:
                x.record_stream(second)
                y = x * 2
                total = y.sum()
                done = second.record_event()
            del x
            first.wait_event(done)
            with first:
                y.record_stream(first)
                z = y - 1
            done.synchronize()  # .item() waits for the current stream only
            if total.item() != 2.0 * (index + 1) * n:
                failures.append(f"thread {index}: sum {total.item()} of {n}")
                return
            first.synchronize()
            if not bool((z == 2.0 * (index + 1) - 1).all()):
                failures.append(f"thread {index}: wrong elements")
                return
    except Exception as error:  # noqa: BLE001 - reported by the test
        failures.append(f"thread {index}: {error!r}")


@pytest.mark.parametrize("seconds", [5, pytest.param(60, marks=pytest.mark.full)])
def test_threads_with_their_own_streams(seconds):
    failures = []
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=work_on_streams, args=(i, until, failures)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 60)
    assert not any(thread.is_alive() for thread in threads)
    assert not failures


@pytest.mark.parametrize("steps", [1000, pytest.param(10_000, marks=pytest.mark.full)])
def test_resident_memory_stays_flat(steps):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 8)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    x, y = torch.randn(16, 32, device=DEVICE), torch.randint(0, 8, (16,), device=DEVICE)

    def train(n):
        for i in range(n):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if i % 50 == 0:
                loss.item()
        torch.accelerator.synchronize()

    train(300)
    before, allocated = resident_bytes(), torch.accelerator.memory_allocated()
    train(steps)
    assert torch.accelerator.memory_allocated() == allocated
    assert resident_bytes() <= before * 1.01
