# SPDX-License-Identifier: Apache-2.0
"""What workloads need of a device: waiting, counters, warming up. Imported in a side's process."""

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import torch

# Counters that move as long as a repeated step still runs other kernels than it will in the end.
UNSETTLED = ("Kernel.Compile.", "Launch.FusedNotCompiled")
SETTLED_STEPS = 3
MAX_WARM_UP_SECONDS = 20.0


def synchronize(device: str) -> None:
    """Waits for all work of the device; CPU eager mode has none left."""
    if device != "cpu":
        torch.accelerator.synchronize()


def counters() -> dict[str, int]:
    """The backend's counters by name; none in a process without it."""
    if not torch.accelerator.is_available():
        return {}
    import torch_neuronx

    names = torch_neuronx.metrics.get_counter_names()
    return {name: torch_neuronx.metrics.get_counter_value(name) for name in names}


def compiled_kernels() -> dict[str, int]:
    """Kernels compiled so far, ``foreground`` (something waited) and ``background``."""
    values = counters()
    return {
        kind: values.get(f"Kernel.Compile.{kind.capitalize()}", 0)
        for kind in ("foreground", "background")
    }


def warm_up(step: Callable[[], object], minimum: int) -> int:
    """Repeats ``step`` until the device runs its final kernels; returns how often.

    That is at least ``minimum`` times, and until no kernel was compiled or missed in the last
    ``SETTLED_STEPS`` steps, or ``MAX_WARM_UP_SECONDS`` have passed.
    """
    end = time.perf_counter() + MAX_WARM_UP_SECONDS
    count = calm = 0
    before = _unsettled()
    while count < minimum or (calm < SETTLED_STEPS and time.perf_counter() < end):
        step()
        count += 1
        after = _unsettled()
        calm = calm + 1 if after == before else 0
        before = after
    return count


def _unsettled() -> int:
    return sum(value for name, value in counters().items() if name.startswith(UNSETTLED))


class Probe:
    """Says what this machine and this build of the backend are and can do."""

    def __init__(self, device: str):
        self.device = device

    def report(self) -> dict[str, object]:
        import torch._dynamo
        import torch_neuronx
        from torch_neuronx import _C

        return {
            "variables": [entry["variable"] for entry in _C.config_entries()],
            "compilers": torch._dynamo.list_backends(exclude_tags=()),
            "machine": {
                "processor": _processor(),
                "threads": torch.get_num_threads(),
                "processors": len(os.sched_getaffinity(0)),
                "python": platform.python_version(),
                "torch": torch.__version__,
                "torch_neuronx": torch_neuronx.__version__,
            },
        }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()
