# SPDX-License-Identifier: Apache-2.0
"""The eager mode: ``adaptive`` fuses windows of operations, ``strict`` runs each alone."""

from __future__ import annotations

import contextlib

from torch_neuronx import _C

_MODES = ("adaptive", "strict")


def get_eager_mode() -> str:
    """``"adaptive"`` or ``"strict"``, for the whole process."""
    return _C.eager_mode()


def set_eager_mode(mode: str) -> None:
    """Sets the mode of the process.

    It covers the operations recorded from now on: what is queued runs in the old mode first. Other
    threads that record meanwhile may see either mode.
    """
    _C.set_eager_mode(_checked(mode))


class eager_mode(contextlib.ContextDecorator):  # noqa: N801
    """Context manager, and decorator, that sets the mode and restores the one before.

    ``with torch_neuronx.eager_mode("strict"): ...``
    """

    def __init__(self, mode: str) -> None:
        self._mode = _checked(mode)
        self._before: list[str] = []

    def __enter__(self) -> None:
        self._before.append(get_eager_mode())
        set_eager_mode(self._mode)

    def __exit__(self, *exception: object) -> None:
        set_eager_mode(self._before.pop())


def _checked(mode: str) -> str:
    if mode not in _MODES:
        raise ValueError(f"the eager mode is 'adaptive' or 'strict', not {mode!r}")
    return mode
