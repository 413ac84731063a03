# SPDX-License-Identifier: Apache-2.0
"""Streams and events. Work of one stream runs in order; streams are ordered by events only."""

from __future__ import annotations

import torch

from torch_neuronx import _C
from torch_neuronx._utils import DeviceLike, _get_device_index


class _EventType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Event) and instance.device.type == "neuron"


class Event(torch.Event, metaclass=_EventType):
    """A point on a stream's timeline.

    The object made is a plain ``torch.Event``, since some of PyTorch's methods take no subclass
    (``torch.Stream.record_event``, ``torch.Event.elapsed_time``); every event of the device counts
    as an instance.

    Args:
        enable_timing: measure when the point is passed, for ``elapsed_time``.
        blocking: accepted for compatibility; waits never keep a processor busy for long.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False) -> torch.Event:
        return torch.Event("neuron", enable_timing=enable_timing, blocking=blocking)


class Stream(torch.Stream):
    """An in-order queue of a device, from the device's pool of streams.

    Args:
        device: the device, the current one by default.
        priority: 0, or -1 for more urgent work; other values are clamped.
    """

    def __new__(cls, device: DeviceLike = None, priority: int = 0, **identity: int) -> Stream:
        if identity:  # stream_id, device_index, device_type: a stream that exists
            return super().__new__(cls, **identity)
        index = _get_device_index(device, optional=True)
        return super().__new__(cls, torch.device("neuron", index), priority=priority)

    @property
    def priority(self) -> int:
        return _C.stream_priority(self.device_index, self.stream_id)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the most urgent priority."""
        return _C.stream_priority_range()

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Marks ``event`` (a new one by default) at the current end of the stream."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def __repr__(self) -> str:
        return f"torch.neuron.Stream(device={self.device}, id={self.stream_id})"


def _wrap(stream: torch.Stream) -> Stream:
    return Stream(
        stream_id=stream.stream_id,
        device_index=stream.device_index,
        device_type=stream.device_type,
    )


def _stream(index: int, stream_id: int) -> Stream:
    device_type = int(torch._C._autograd.DeviceType.PrivateUse1)
    return Stream(stream_id=stream_id, device_index=index, device_type=device_type)


def current_stream(device: DeviceLike = None) -> Stream:
    """The calling thread's current stream of ``device``."""
    return _wrap(torch._C._accelerator_getStream(_get_device_index(device, optional=True)))


def default_stream(device: DeviceLike = None) -> Stream:
    return _stream(_get_device_index(device, optional=True), 0)


def get_stream_from_external(native_handle: int, device: DeviceLike = None) -> Stream:
    """The stream whose ``native_handle`` this is, as passed through another library."""
    index = _get_device_index(device, optional=True)
    return _stream(index, _C.stream_of_handle(index, native_handle))


def set_stream(stream: torch.Stream | None) -> None:
    """Makes ``stream`` current, and its device; ``None`` changes nothing."""
    if stream is not None:
        torch._C._accelerator_setStream(stream)


class StreamContext:
    """Context manager that makes ``stream`` and its device current; ``None`` changes nothing."""

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._previous: list[tuple[int, Stream]] = []

    def __enter__(self) -> None:
        if self.stream is not None:
            self._previous.append((_C.current_device(), current_stream(self.stream.device)))
            set_stream(self.stream)

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            device, stream = self._previous.pop()
            set_stream(stream)
            _C.set_device(device)


def stream(stream: torch.Stream | None) -> StreamContext:
    return StreamContext(stream)


# The methods of torch.cuda's streams, as functions on the current stream.


def wait_stream(stream: torch.Stream) -> None:
    """Lets later work of the current stream wait for what is queued on ``stream`` now."""
    current_stream().wait_stream(stream)


def wait_event(event: torch.Event) -> None:
    """Lets later work of the current stream wait for ``event``."""
    current_stream().wait_event(event)


def record_event(event: torch.Event | None = None) -> torch.Event:
    """Marks ``event`` (a new one by default) at the current end of the current stream."""
    return current_stream().record_event(event)


def query() -> bool:
    """True if everything queued on the current stream has run."""
    return current_stream().query()
