# SPDX-License-Identifier: Apache-2.0
"""Random numbers: one Philox generator per device, independent of the CPU's.

Generators live on the host: seeding and reading states needs no device and works at any time.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from torch_neuronx import _C
from torch_neuronx._utils import DeviceLike, _get_device_index

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]

default_generators: tuple[torch.Generator, ...] = tuple(
    _C.default_generator(index) for index in range(_C.device_count())
)


def _generator(device: DeviceLike) -> torch.Generator:
    return _C.default_generator(_get_device_index(device, optional=True))


def _get_generator(device: torch.device) -> torch.Generator:
    """The default generator of a device; torch.compile asks for it."""
    return _generator(device)


def get_rng_state(device: DeviceLike = None) -> torch.Tensor:
    """The state of a device's generator: 16 bytes on the CPU, seed then offset."""
    return _generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    return [generator.get_state() for generator in default_generators]


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = None) -> None:
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    _generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices; ``torch.manual_seed`` calls it."""
    for generator in default_generators:
        generator.manual_seed(int(seed))


def seed() -> None:
    """Seeds the current device's generator from the system's entropy."""
    _generator(None).seed()


def seed_all() -> None:
    """Seeds all devices' generators with one seed from the system's entropy."""
    if default_generators:
        manual_seed_all(default_generators[0].seed())


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _generator(None).initial_seed()
