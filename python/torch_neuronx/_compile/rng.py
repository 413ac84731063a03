# SPDX-License-Identifier: Apache-2.0
"""Random operators that the backward pass repeats (activation checkpointing).

The forward graph keeps the generator's state from before such an operator, and the backward graph
runs the operator again from that state: eager's numbers in both. PyTorch's operators for it know
other devices only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

from torch_neuronx import random


def _device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device | None:
    device = kwargs.get("device")
    if device is not None:
        return torch.device(device)
    return next((arg.device for arg in args if isinstance(arg, torch.Tensor)), None)


def _run_and_save(op: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[torch.Tensor, Any]:
    device = _device(args, kwargs)
    if device is None or device.type != "neuron":
        return run_and_save_rng_state(op, *args, **kwargs)
    return random.get_rng_state(device), op(*args, **kwargs)


def _run_with(state: torch.Tensor, op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    device = _device(args, kwargs)
    if device is None or device.type != "neuron":
        return run_with_rng_state(state, op, *args, **kwargs)
    current = random.get_rng_state(device)
    random.set_rng_state(state, device)
    try:
        return op(*args, **kwargs)
    finally:
        random.set_rng_state(current, device)


REPLACEMENTS: dict[Any, Callable[..., Any]] = {
    run_and_save_rng_state: _run_and_save,
    run_with_rng_state: _run_with,
}
