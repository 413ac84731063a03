# SPDX-License-Identifier: Apache-2.0
"""A graph that cannot be compiled: an error, unless running it eagerly is asked for."""

from __future__ import annotations

import warnings

from torch_neuronx._compile import metrics
from torch_neuronx._compile.errors import NEFFCompilationError
from torch_neuronx._compile.options import Options


def raise_or_count(error: Exception, options: Options, what: str) -> None:
    """Called while ``error`` is handled; returns if ``what`` shall run eagerly."""
    reason = f"{type(error).__name__}: {error}"
    if not options.fallback_execution:
        if isinstance(error, NEFFCompilationError):
            raise error
        notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
        raise NEFFCompilationError(
            f"{what} cannot be compiled: {reason}{notes}\n"
            "(torch.compile(..., options={'fallback_execution': True}) or "
            "TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION=0 runs such graphs eagerly)"
        ) from error
    metrics.count_reason("fallbacks", reason.splitlines()[0])
    warnings.warn(f"{what} cannot be compiled and runs eagerly: {reason}", stacklevel=2)
