# SPDX-License-Identifier: Apache-2.0
"""Events: states, waiting, timing."""

import time

import pytest
import torch


def test_types():
    event = torch.neuron.Event()
    assert isinstance(event, torch.Event)
    assert event.device.type == "neuron"
    assert isinstance(event, torch.neuron.Event)
    assert issubclass(torch.neuron.Event, torch.Event)
    assert isinstance(torch.neuron.current_stream().record_event(), torch.neuron.Event)
    assert torch.Stream(device="neuron").record_event(event) is event


def test_unrecorded_event_is_done():
    event = torch.neuron.Event()
    assert event.query()
    event.synchronize()
    event.wait()


def test_query_and_synchronize(busy):
    busy()
    event = torch.neuron.Event()
    event.record()
    assert not event.query()
    event.synchronize()
    assert event.query()


def test_recording_again_moves_the_event(busy):
    event = torch.neuron.Event()
    event.record()
    event.synchronize()
    busy()
    event.record()
    assert not event.query()
    event.synchronize()
    assert event.query()


def test_wait_keeps_the_point_it_saw(busy):
    first, second = torch.neuron.Stream(), torch.neuron.Stream()
    event = first.record_event()
    event.synchronize()
    event.wait(second)
    with torch.neuron.stream(first):
        busy()
        event.record()
    second.synchronize()  # waits for the first point only
    assert not event.query()
    event.synchronize()


def test_elapsed_time(busy):
    begin, end = (torch.neuron.Event(enable_timing=True) for _ in range(2))
    started = time.perf_counter()
    begin.record()
    busy()
    end.record()
    end.synchronize()
    wall = (time.perf_counter() - started) * 1e3
    elapsed = begin.elapsed_time(end)
    assert 0.3 * wall < elapsed <= wall
    assert end.elapsed_time(begin) == -elapsed


def test_elapsed_time_needs_timing_and_completion(busy):
    plain, timed = torch.neuron.Event(), torch.neuron.Event(enable_timing=True)
    with pytest.raises(ValueError, match="recorded"):
        timed.elapsed_time(torch.neuron.Event(enable_timing=True))
    plain.record()
    timed.record()
    torch.neuron.synchronize()
    with pytest.raises(ValueError, match="enable_timing"):
        plain.elapsed_time(timed)
    later = torch.neuron.Event(enable_timing=True)
    busy()
    later.record()
    with pytest.raises(RuntimeError, match="completed"):
        timed.elapsed_time(later)


def test_event_across_devices(busy):
    source, target = torch.neuron.Stream("neuron:0"), torch.neuron.Stream("neuron:1")
    data = torch.zeros(100, device="neuron:0")
    torch.neuron.synchronize()
    with torch.neuron.stream(source):
        busy()
        data.fill_(4)
        event = source.record_event()
    target.wait_event(event)
    marker = target.record_event()
    assert not marker.query()
    marker.synchronize()
    assert event.query()
    assert data.tolist() == [4.0] * 100


def test_generic_event():
    event = torch.Event("neuron", enable_timing=True)
    event.record(torch.neuron.current_stream())
    event.synchronize()
    assert event.query()
