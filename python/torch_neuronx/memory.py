# SPDX-License-Identifier: Apache-2.0
"""Device memory: statistics, snapshots and the allocator's history.

Statistics count memory that tensors hold now. Memory of operations that are still queued may return
later, so compare numbers after ``torch.neuron.synchronize()``. Snapshots have the form of
``torch.cuda.memory``, which pytorch.org/memory_viz and ``torch.cuda._memory_viz`` read.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import Any, Literal

import torch

from torch_neuronx import _C
from torch_neuronx._utils import DeviceLike, _get_device_index

__all__ = [
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
]


def empty_cache() -> None:
    """Gives memory that no tensor uses back to the system."""
    torch.accelerator.empty_cache()


def memory_stats(device: DeviceLike = None) -> OrderedDict[str, Any]:
    """Allocator statistics by names such as ``"allocated_bytes.all.peak"``.

    The names are those of ``torch.accelerator.memory_stats``; empty before a device is used.
    """
    return torch.accelerator.memory_stats(_get_device_index(device, optional=True))


def _stat(name: str, device: DeviceLike) -> int:
    return memory_stats(device).get(name, 0)


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes that tensors hold."""
    return _stat("allocated_bytes.all.current", device)


def max_memory_allocated(device: DeviceLike = None) -> int:
    """The most bytes that tensors held, since the start or ``reset_peak_memory_stats``."""
    return _stat("allocated_bytes.all.peak", device)


def memory_reserved(device: DeviceLike = None) -> int:
    """Bytes that the allocator holds, used and cached."""
    return _stat("reserved_bytes.all.current", device)


def max_memory_reserved(device: DeviceLike = None) -> int:
    """The most bytes that the allocator held."""
    return _stat("reserved_bytes.all.peak", device)


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Free and total bytes of the device."""
    return torch.accelerator.get_memory_info(_get_device_index(device, optional=True))


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    torch.accelerator.reset_peak_memory_stats(_get_device_index(device, optional=True))


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    torch.accelerator.reset_accumulated_memory_stats(_get_device_index(device, optional=True))


_SUMMARY_ROWS = (
    ("allocated_bytes", "Allocated memory", True),
    ("active_bytes", "Active memory", True),
    ("requested_bytes", "Requested memory", True),
    ("reserved_bytes", "Reserved memory", True),
    ("inactive_split_bytes", "Non-releasable memory", True),
    ("allocation", "Allocations", False),
    ("active", "Active allocs", False),
    ("segment", "Reserved segments", False),
    ("inactive_split", "Non-releasable allocs", False),
)
_COLUMNS = ("current", "peak", "allocated", "freed")


def _format(value: int, is_bytes: bool) -> str:
    base, units = (1024, ("B  ", "KiB", "MiB", "GiB", "TiB")) if is_bytes else (1000, "  KMG")
    unit = 0
    while value >= 10 * base and unit + 1 < len(units):
        value //= base
        unit += 1
    return f"{value:7d} {units[unit]:<3}"


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """The statistics as a table for people, by pool unless ``abbreviated``."""
    index = _get_device_index(device, optional=True)
    stats = torch._C._accelerator_getDeviceStats(index)
    counts = f"OOMs: {stats['num_ooms']:<12d} | allocation retries: {stats['num_alloc_retries']}"
    head = ("Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed")
    lines = [
        f" TorchNeuron memory summary, device neuron:{index}",
        None,
        f" {counts}",
        None,
        f" {'Metric':<21} | " + " | ".join(f"{title:<11}" for title in head),
    ]
    pools = (("all", None),) if abbreviated else (
        ("all", None),
        ("large_pool", "      from large pool"),
        ("small_pool", "      from small pool"),
    )  # fmt: skip
    for key, title, is_bytes in _SUMMARY_ROWS:
        lines.append(None)
        for pool, subtitle in pools:
            values = stats[key][pool]
            cells = " | ".join(_format(values[column], is_bytes) for column in _COLUMNS)
            lines.append(f" {subtitle or title:<21} | {cells}")
    lines.append(None)
    width = max(len(line) for line in lines if line is not None) + 1
    return "".join(
        f"|{'=' * width}|\n" if line is None else f"|{line:<{width}}|\n" for line in lines
    )


def memory_snapshot() -> list[dict[str, Any]]:
    """The segments of all devices with their blocks, in address order."""
    return _C.memory_snapshot()["segments"]


def _snapshot(device: DeviceLike = None) -> dict[str, Any]:
    """Segments and history: ``{"segments": [...], "device_traces": [[...] per device]}``."""
    snapshot = _C.memory_snapshot()
    if device is not None:
        index = _get_device_index(device)
        snapshot["segments"] = [s for s in snapshot["segments"] if s["device"] == index]
    return snapshot


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> None:
    """Writes ``_snapshot()`` as a file for pytorch.org/memory_viz."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def _record_memory_history(
    enabled: Literal["state", "all"] | None = "all",
    context: Literal["state", "alloc", "all"] | None = "all",
    stacks: Literal["python", "all"] = "python",
    max_entries: int = 1_000_000,
) -> None:
    """Starts (or with ``None`` stops) keeping the allocator's events for ``_snapshot``.

    Args:
        enabled: ``"all"`` keeps ``max_entries`` events; ``"state"`` does the same here, since the
            stack of a block that is in use comes from its event; ``None`` stops and forgets.
        context: whether events carry the stack of their allocation; ``None`` keeps none.
        stacks: ``"python"`` frames, or ``"all"`` for C++ frames as well.
        max_entries: older events are dropped.
    """
    if enabled is None:
        _C.record_memory_history(0, False, False)
        return
    for name, value, known in (
        ("enabled", enabled, ("state", "all")),
        ("context", context, (None, "state", "alloc", "all")),
        ("stacks", stacks, ("python", "all")),
    ):
        if value not in known:
            raise ValueError(f"{name}={value!r}: expected one of {known}")
    has_context = context is not None
    _C.record_memory_history(max_entries, has_context, has_context and stacks == "all")
