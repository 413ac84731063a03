# SPDX-License-Identifier: Apache-2.0
"""``mode`` and ``options`` of ``torch.compile``."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

from torch_neuronx._compile import config

# PyTorch's other modes tune Inductor's code generation.
_IGNORED_MODES = ("reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


@dataclasses.dataclass(frozen=True)
class Options:
    """What a user may choose; every field is a key of ``options``.

    ``fallback_execution``  run a graph that cannot be compiled eagerly, instead of raising
    ``model_name``          names the graphs in metrics, messages and kept artifacts
    """

    fallback_execution: bool
    model_name: str = ""

    @staticmethod
    def parse(mode: str | None, options: Mapping[str, Any] | None) -> Options:
        _check_mode(mode)
        fields = {"fallback_execution": _default_fallback(), **(options or {})}
        known = {field.name: field.type for field in dataclasses.fields(Options)}
        for name, value in fields.items():
            if name == "dynamic":
                raise ValueError(
                    "'dynamic' is an argument of torch.compile, not one of its options"
                )
            if name not in known:
                raise ValueError(
                    f"unknown option {name!r} of the backend 'neuron'; it knows "
                    f"{', '.join(sorted(known))}"
                )
            if type(value).__name__ != known[name]:
                raise TypeError(
                    f"option {name!r} of the backend 'neuron' must be a {known[name]}, "
                    f"but got {value!r}"
                )
        return Options(**fields)


def _default_fallback() -> bool:
    return not config.get_bool("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION")


def _check_mode(mode: str | None) -> None:
    if mode in (None, "default"):
        return
    if mode not in _IGNORED_MODES:
        raise ValueError(
            f"unknown mode {mode!r}; torch.compile knows default, {', '.join(_IGNORED_MODES)}"
        )
    warnings.warn(
        f"Neuron backend does not support mode={mode!r}, falling back to default mode.",
        stacklevel=2,
    )
