# SPDX-License-Identifier: Apache-2.0
"""Environment variables of the compiler, as the C++ core has read them."""

from __future__ import annotations

import functools

from torch_neuronx import _C


@functools.cache
def _values() -> dict[str, str]:
    return {entry["variable"]: entry["value"] for entry in _C.config_entries()}


def get_str(variable: str) -> str:
    return _values()[variable]


def get_bool(variable: str) -> bool:
    return _values()[variable] == "1"
