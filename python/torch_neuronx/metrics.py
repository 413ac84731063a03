# SPDX-License-Identifier: Apache-2.0
"""Counters of the runtime and distributions of measured values.

Every wait, seal, launch, cache level and slow path has a counter; ``docs/metrics.md`` lists them,
and ``descriptions()`` returns the list. Counters named ``CompilationCache.*`` are sums of others.
"""

from __future__ import annotations

import contextlib
import fnmatch
from collections.abc import Iterator
from dataclasses import dataclass, field

from torch_neuronx import _C

__all__ = [
    "Difference",
    "clear_all",
    "clear_counters",
    "clear_metrics",
    "descriptions",
    "difference",
    "get_counter_names",
    "get_counter_value",
    "get_fallback_reasons",
    "get_metric_data",
    "get_metric_names",
    "is_enabled",
    "report",
    "report_filtered",
    "set_enabled",
]

# Name -> what it is the sum of, meaning.
_SUMS = {
    "CompilationCache.InMemoryHits": (
        ("Kernel.Hit.Process",),
        "Kernels that the process knew already",
    ),
    "CompilationCache.InMemoryMisses": (
        ("Kernel.Hit.Shipped", "Kernel.Hit.Disk", "Kernel.Miss"),
        "Kernels that the process met for the first time",
    ),
    "CompilationCache.PersistentHits": (
        ("Kernel.Hit.Shipped", "Kernel.Hit.Disk"),
        "Of these, kernels built with the package or found in the persistent cache",
    ),
    "CompilationCache.PersistentMisses": (("Kernel.Miss",), "Of these, kernels found nowhere"),
    "CompilationCache.TotalCompilations": (
        ("Kernel.Compile.Background", "Kernel.Compile.Foreground"),
        "Kernels compiled by this process",
    ),
    "CompilationCache.Evictions": (
        ("Store.Evictions",),
        "Entries of the persistent cache that made room for newer ones",
    ),
}
_METRICS = {
    "CompilationTime": "Seconds to compile one kernel",
    "NeffSize": "Bytes of one compiled kernel",
    "MemoryUsage": "Bytes of one allocation on the current device (smallest and largest unknown)",
}


def _values() -> dict[str, int]:
    values = _C.counters()
    for name, (parts, _) in _SUMS.items():
        values[name] = sum(values.get(part, 0) for part in parts)
    return values


def descriptions() -> dict[str, str]:
    """What each counter and each distribution means."""
    return {
        **dict(_C.counter_descriptions()),
        **{name: meaning for name, (_, meaning) in _SUMS.items()},
        **_METRICS,
    }


def get_counter_names() -> list[str]:
    return sorted(_values())


def get_counter_value(name: str) -> int | None:
    """The counter's value; ``None`` if there is no counter of that name."""
    return _values().get(name)


def get_metric_names() -> list[str]:
    return list(_METRICS)


def get_metric_data(name: str) -> dict[str, float] | None:
    """``{"count", "total", "min", "max"}`` of a distribution; ``None`` if none has the name."""
    if name == "MemoryUsage":
        from torch_neuronx import memory

        stats = memory.memory_stats()
        return {
            "count": stats.get("allocation.all.allocated", 0),
            "total": stats.get("allocated_bytes.all.allocated", 0),
            "min": None,
            "max": None,
        }
    for entry in _C.distributions():
        if entry["name"] == name:
            return {key: entry[key] for key in ("count", "total", "min", "max")}
    return None


def get_fallback_reasons() -> dict[str, int]:
    """Calls of operators that fell back to the host, by reason (since ``clear_op_tracking``)."""
    reasons: dict[str, int] = {}
    for calls_by_reason in _C.fallback_ops().values():
        for reason, calls in calls_by_reason.items():
            reasons[reason] = reasons.get(reason, 0) + calls
    return reasons


def clear_counters() -> None:
    """Sets all counters to zero."""
    _C.clear_counters()


def clear_metrics() -> None:
    """Empties the distributions of compiles; memory has ``reset_accumulated_memory_stats``."""
    _C.clear_distributions()


def clear_all() -> None:
    """Clears the counters, the distributions and what ``explain`` shows."""
    clear_counters()
    clear_metrics()
    _C.clear_windows()


def is_enabled() -> bool:
    """Whether windows are logged for ``explain``."""
    return _C.windows_enabled()


def set_enabled(enabled: bool) -> None:
    """Switches the log of windows; counters cost nothing that could be saved, and always count."""
    _C.enable_windows(bool(enabled))


def report() -> str:
    """All counters and distributions that are not zero, and the fallbacks, one a line."""
    lines = [report_filtered("*")]
    fallbacks = get_fallback_reasons()
    if fallbacks:
        lines.append("Fallbacks\n")
        lines += [f"  {calls:>8}  {reason}\n" for reason, calls in sorted(fallbacks.items())]
    return "".join(lines)


def report_filtered(*patterns: str) -> str:
    """Counters and distributions whose name matches one of the patterns (``"Seal.*"``)."""

    def matches(name: str) -> bool:
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

    rows = [(name, str(value)) for name, value in sorted(_values().items()) if value]
    for name in _METRICS:
        data = get_metric_data(name)
        if data["count"]:
            rows.append((name, f"{data['total']:g} in {data['count']}"))
    rows = [row for row in rows if matches(row[0])]
    width = max((len(name) for name, _ in rows), default=0)
    return "".join(f"{name:<{width}}  {value}\n" for name, value in rows)


@dataclass
class Difference:
    """What ``difference`` counted; complete when its block has ended."""

    counters: dict[str, int] = field(default_factory=dict)  # those that changed
    fallbacks: dict[str, int] = field(default_factory=dict)  # calls by reason

    def __getitem__(self, name: str) -> int:
        if name not in self.counters and name not in _values():
            raise KeyError(name)
        return self.counters.get(name, 0)

    def __str__(self) -> str:
        rows = {**self.counters, **self.fallbacks}
        return "".join(f"{value:>8}  {name}\n" for name, value in rows.items())


@contextlib.contextmanager
def difference() -> Iterator[Difference]:
    """Counts what the operations of a block do.

    Work that is queued runs to its end before and after the block, so that it covers exactly its
    own operations (and those of other threads meanwhile). Counters must not be cleared inside.

    ``with metrics.difference() as d: step()``; then ``d["Launch.Fused"]``, ``print(d)``
    """
    result = Difference()
    _C.drain()
    counters, fallbacks = _values(), get_fallback_reasons()
    try:
        yield result
    finally:
        _C.drain()
        result.counters = _changes(counters, _values())
        result.fallbacks = _changes(fallbacks, get_fallback_reasons())


def _changes(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    changes = {name: after[name] - before.get(name, 0) for name in sorted(after)}
    return {name: value for name, value in changes.items() if value}
