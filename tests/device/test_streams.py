# SPDX-License-Identifier: Apache-2.0
"""Streams: identity, order within one, real ordering between them."""

import threading

import pytest
import torch


def test_default_stream():
    default = torch.neuron.default_stream()
    assert torch.neuron.current_stream() == default
    assert isinstance(torch.neuron.current_stream(), torch.neuron.Stream)
    assert isinstance(default, torch.Stream)
    assert default.priority == 0


def test_stream_from_the_pool():
    a, b = torch.neuron.Stream(), torch.neuron.Stream()
    assert len({a, b, torch.neuron.default_stream()}) == 3
    assert torch.Stream(device="neuron").device == torch.device("neuron", 0)
    # The pool hands streams out in turns, so making them for ever does not pile them up.
    assert len({torch.neuron.Stream() for _ in range(2000)}) <= 64


@pytest.mark.parametrize(("asked", "given"), [(0, 0), (-1, -1), (-7, -1), (5, 0)])
def test_priority_is_clamped(asked, given):
    assert torch.neuron.Stream(priority=asked).priority == given
    assert torch.neuron.Stream.priority_range() == (0, -1)


def test_stream_context_restores():
    stream = torch.neuron.Stream()
    default = torch.neuron.current_stream()
    with torch.neuron.stream(stream):
        assert torch.neuron.current_stream() == stream
        with torch.neuron.stream(None):
            assert torch.neuron.current_stream() == stream
        with torch.neuron.stream(default):
            assert torch.accelerator.current_stream() == default
        assert torch.neuron.current_stream() == stream
    assert torch.neuron.current_stream() == default
    with stream:  # torch.Stream is a context manager as well
        assert torch.neuron.current_stream() == stream
    assert torch.neuron.current_stream() == default


def test_stream_context_of_another_device():
    stream = torch.neuron.Stream("neuron:1")
    with torch.neuron.stream(stream):
        assert torch.neuron.current_device() == 1
        assert torch.neuron.current_stream() == stream
    assert torch.neuron.current_device() == 0
    assert torch.neuron.current_stream(1) == torch.neuron.default_stream(1)


def test_current_stream_belongs_to_the_thread():
    seen = []
    with torch.neuron.stream(torch.neuron.Stream()):
        thread = threading.Thread(target=lambda: seen.append(torch.neuron.current_stream()))
        thread.start()
        thread.join()
    assert seen == [torch.neuron.default_stream()]


def test_work_is_asynchronous_and_in_order(busy):
    _, y = busy()
    z = y + 1
    stream = torch.neuron.current_stream()
    assert not stream.query()
    stream.synchronize()
    assert stream.query()
    assert torch.allclose(z.cpu(), torch.tensor(1.0), atol=0.1)


def test_wait_stream_orders_work(busy):
    producer, consumer = torch.neuron.Stream(), torch.neuron.Stream()
    data = torch.zeros(1000, device="neuron")
    torch.neuron.synchronize()
    with torch.neuron.stream(producer):
        busy()
        data.fill_(7)
    consumer.wait_stream(producer)
    with torch.neuron.stream(consumer):
        copy = data * 1
    assert not producer.query()
    consumer.synchronize()
    assert copy.tolist() == [7.0] * 1000


def test_streams_are_independent(busy):
    slow, fast = torch.neuron.Stream(), torch.neuron.Stream(priority=-1)
    x = torch.ones(4, device="neuron")
    torch.neuron.synchronize()
    with torch.neuron.stream(slow):
        busy()
        busy()
    with torch.neuron.stream(fast):
        y = x + 1
    fast.synchronize()
    assert not slow.query()
    assert y.tolist() == [2.0] * 4


def test_wait_functions_of_the_module(busy):
    producer = torch.neuron.Stream()
    data = torch.zeros(10, device="neuron")
    torch.neuron.synchronize()
    with torch.neuron.stream(producer):
        busy()
        data.fill_(3)
        event = torch.neuron.record_event()
    torch.neuron.wait_event(event)
    torch.neuron.wait_stream(producer)
    assert data.tolist() == [3.0] * 10
    assert torch.neuron.query()


def test_native_handle_round_trip():
    stream = torch.neuron.Stream()
    assert torch.neuron.get_stream_from_external(stream.native_handle) == stream
    with pytest.raises(RuntimeError):
        torch.neuron.get_stream_from_external(12345)


def test_record_stream_keeps_memory_until_the_other_stream_is_done(busy):
    other = torch.neuron.Stream()
    data = torch.full((1 << 18,), 5.0, device="neuron")
    other.wait_stream(torch.neuron.current_stream())
    with torch.neuron.stream(other):
        busy()
        result = data * 2
    data.record_stream(other)
    address = data.data_ptr()
    del data
    reused = [torch.zeros(1 << 18, device="neuron") for _ in range(8)]
    assert address not in [t.data_ptr() for t in reused]
    other.synchronize()
    assert result.eq(10).all().item()


def test_streams_of_several_threads():
    failures = []

    def work(seed):
        stream = torch.neuron.Stream()
        with torch.neuron.stream(stream):
            x = torch.full((64,), float(seed), device="neuron")
            for step in range(200):
                x = x + 1
                if step % 50 == 0:
                    stream.synchronize()
            if x.tolist() != [seed + 200.0] * 64:
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_backward_runs_on_the_streams_of_the_forward():
    stream = torch.neuron.Stream()
    with torch.neuron.stream(stream):
        w = torch.ones(8, 8, device="neuron", requires_grad=True)
        loss = (w @ w).sum()
        loss.backward()
        assert w.grad.eq(16).all().item()
