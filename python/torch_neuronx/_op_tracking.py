# SPDX-License-Identifier: Apache-2.0
"""Which operators ran, and which of them fell back to the host."""

from __future__ import annotations

from torch_neuronx import _C


def get_executed_ops() -> dict[str, int]:
    """Calls of every operator since the last clear: ``{"aten::mm.out": 12}``."""
    return _C.executed_ops()


def get_fallback_ops() -> dict[str, dict[str, int]]:
    """Calls of operators without a neuron kernel, by reason: ``{"aten::sort": {reason: 3}}``."""
    return _C.fallback_ops()


def clear_op_tracking() -> None:
    _C.clear_op_tracking()
