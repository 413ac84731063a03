# SPDX-License-Identifier: Apache-2.0
"""Counters of the runtime: every slow path, wait and seal has one.

Counters exist from their first event on and count until they are cleared.
"""

from __future__ import annotations

import fnmatch

from torch_neuronx import _C

__all__ = [
    "clear_counters",
    "get_counter_names",
    "get_counter_value",
    "report",
    "report_filtered",
]


def get_counter_names() -> list[str]:
    return list(_C.counters())


def get_counter_value(name: str) -> int | None:
    """The counter's value; ``None`` if nothing of that name was ever counted."""
    return _C.counters().get(name)


def clear_counters() -> None:
    """Sets all counters to zero."""
    _C.clear_counters()


def report() -> str:
    """All counters that are not zero, one a line."""
    return report_filtered("*")


def report_filtered(*patterns: str) -> str:
    """As ``report``, for counters whose name matches one of the patterns (``"Seal.*"``)."""
    rows = [
        (name, value)
        for name, value in _C.counters().items()
        if value and any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    ]
    width = max((len(name) for name, _ in rows), default=0)
    return "".join(f"{name:<{width}}  {value}\n" for name, value in rows)
