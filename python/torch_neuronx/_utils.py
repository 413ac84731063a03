# SPDX-License-Identifier: Apache-2.0
"""Arguments that name a device. PyTorch's serialization finds ``_get_device_index`` here."""

from __future__ import annotations

import torch

from torch_neuronx import _C

DeviceLike = torch.device | str | int | None


def _get_device_index(device: DeviceLike = None, optional: bool = False) -> int:
    """The index of a neuron device; the current one if ``device`` names none.

    ``optional`` allows ``None``, as in PyTorch's functions of this name.
    """
    if device is None:
        if not optional:
            raise ValueError("expected a neuron device, but got None")
        return _C.current_device()
    if isinstance(device, int):
        return _C.current_device() if device < 0 else device
    device = torch.device(device)
    if device.type != "neuron":
        raise ValueError(f"expected a neuron device, but got {device}")
    return _C.current_device() if device.index is None else device.index
