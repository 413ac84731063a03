# SPDX-License-Identifier: Apache-2.0
"""Which operators a training step calls, how often, and where each ran."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass(frozen=True)
class OperatorUse:
    name: str
    calls: int
    place: str


def operators_of(work: Callable[[], object], device: torch.device) -> list[OperatorUse]:
    """Runs `work` and returns the operators it called on `device`, the most frequent first."""
    if device.type == "neuron":
        uses = _tracked_by_backend(work, device)
    else:
        uses = _seen_by_dispatcher(work, device)
    return sorted(uses, key=lambda use: (-use.calls, use.name))


def _tracked_by_backend(work: Callable[[], object], device: torch.device) -> list[OperatorUse]:
    import torch_neuronx

    torch.accelerator.synchronize(device)
    torch_neuronx.clear_op_tracking()
    work()
    torch.accelerator.synchronize(device)
    fallbacks = torch_neuronx.get_fallback_ops()
    uses = []
    for name, calls in torch_neuronx.get_executed_ops().items():
        reasons = fallbacks.get(name, {})
        uses += [OperatorUse(name, count, reason) for reason, count in reasons.items()]
        native = calls - sum(reasons.values())
        if native:
            uses.append(OperatorUse(name, native, "neuron"))
    return uses


class _CallCounter(TorchDispatchMode):
    """Counts dispatched operators; views, which compute nothing, are left out."""

    def __init__(self):
        super().__init__()
        self.calls = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if not function.is_view:
            self.calls[str(function).replace("aten.", "aten::", 1)] += 1
        return function(*args, **(kwargs or {}))


def _seen_by_dispatcher(work: Callable[[], object], device: torch.device) -> list[OperatorUse]:
    with _CallCounter() as counter:
        work()
    return [OperatorUse(name, calls, device.type) for name, calls in counter.calls.items()]
