# SPDX-License-Identifier: Apache-2.0
"""Counts of what ``torch.compile(backend="neuron")`` did in this process.

One lock guards all of them. They hold numbers and short texts only, never a graph or a tensor, and
at most ``_MAX_REASONS`` different reasons of a kind.
"""

from __future__ import annotations

import collections
import threading
from typing import Any

_MAX_REASONS = 256
_OTHER = "(further reasons)"

_lock = threading.Lock()
_numbers: collections.Counter[str] = collections.Counter()
_seconds: collections.Counter[str] = collections.Counter()
_reasons: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)


def count(name: str, amount: int = 1) -> None:
    with _lock:
        _numbers[name] += amount


def add_seconds(name: str, seconds: float) -> None:
    with _lock:
        _seconds[name] += seconds


def count_reason(name: str, reason: str) -> None:
    with _lock:
        reasons = _reasons[name]
        if reason not in reasons and len(reasons) >= _MAX_REASONS:
            reason = _OTHER
        reasons[reason] += 1


def get_dynamo_metrics() -> dict[str, Any]:
    """What the backend ``neuron`` of ``torch.compile`` has done since the last reset.

    ``graphs``           graphs that Dynamo handed over and that run now
    ``executables``      what they became, by kind: ``forward``, ``backward`` and ``inference``
    ``ops``              operator calls in all executables
    ``runs``             calls of executables
    ``seconds``          time in the backend: ``aot_autograd`` (which includes the tracing of the
                         backward pass) and ``executables`` (the part of it that generates them)
    ``recompiles``       for each guard that caused one, how often
    ``fallbacks``        for each failure that makes a graph run eagerly, how often
    ``graph_breaks``     Dynamo's reasons for splitting a function, for all backends
    """
    with _lock:
        result = {
            "graphs": _numbers["graphs"],
            "executables": {kind: _numbers[kind] for kind in ("forward", "backward", "inference")},
            "ops": _numbers["ops"],
            "runs": _numbers["runs"],
            "seconds": {name: _seconds[name] for name in ("aot_autograd", "executables")},
            "recompiles": dict(_reasons["recompiles"]),
            "fallbacks": dict(_reasons["fallbacks"]),
        }
    result["graph_breaks"] = _graph_breaks()
    return result


def _graph_breaks() -> dict[str, int]:
    import sys

    utils = sys.modules.get("torch._dynamo.utils")
    return {} if utils is None else dict(utils.counters["graph_break"])


def reset_dynamo_metrics() -> None:
    """Sets every number of ``get_dynamo_metrics`` to zero."""
    import sys

    with _lock:
        _numbers.clear()
        _seconds.clear()
        _reasons.clear()
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is not None:
        utils.counters["graph_break"].clear()
