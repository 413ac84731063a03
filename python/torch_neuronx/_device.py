# SPDX-License-Identifier: Apache-2.0
"""Devices: the virtual NeuronCores of this process."""

from __future__ import annotations

import torch

from torch_neuronx import _C
from torch_neuronx._C import NeuronDeviceProperties
from torch_neuronx._utils import DeviceLike, _get_device_index


def is_available() -> bool:
    """True if there is at least one device. Creates none."""
    return _C.device_count() > 0


def is_initialized() -> bool:
    """True once a device has been used in this process."""
    return _C.is_initialized() and not _C.is_in_bad_fork()


def init() -> None:
    """Creates the current device now instead of at its first use. Calling it again does nothing."""
    _C.initialize()


def device_count() -> int:
    return _C.device_count()


def current_device() -> int:
    """The index of the calling thread's current device."""
    return _C.current_device()


def set_device(device: DeviceLike) -> None:
    """Makes ``device`` the calling thread's current device."""
    _C.set_device(_get_device_index(device))


class device:  # noqa: N801
    """Context manager that changes the current device; ``None`` or -1 changes nothing."""

    def __init__(self, device: DeviceLike) -> None:
        self.index = _get_device_index(device, optional=True)
        self._previous: list[int] = []

    def __enter__(self) -> device:
        self._previous.append(_C.current_device())
        _C.set_device(self.index)
        return self

    def __exit__(self, *_: object) -> None:
        _C.set_device(self._previous.pop())


class device_of(device):  # noqa: N801
    """Context manager that makes the device of ``tensor`` current if it is a neuron device."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__(tensor.device if tensor.device.type == "neuron" else None)


def synchronize(device: DeviceLike = None) -> None:
    """Waits until everything queued on ``device`` has run; raises the first pending error."""
    _C.synchronize(_get_device_index(device, optional=True))


def get_device_name(device: DeviceLike = None) -> str:
    return f"neuron:{_get_device_index(device, optional=True)}"


def get_device_properties(device: DeviceLike = None) -> NeuronDeviceProperties:
    """Name, memory and kind of a device. ``is_virtual``: the host CPU computes its values."""
    return _C.device_properties(_get_device_index(device, optional=True))


def _is_in_bad_fork() -> bool:
    return _C.is_in_bad_fork()


def _lazy_init() -> None:
    _C.initialize()
