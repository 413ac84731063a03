# SPDX-License-Identifier: Apache-2.0
"""Counts recompiles with the guard that caused them, and warns before PyTorch stops compiling.

PyTorch compiles one function ``torch._dynamo.config.recompile_limit`` times; after that, inputs
that fit no compiled graph run eagerly, with one line in the log.
"""

from __future__ import annotations

import re
import warnings

import torch
from torch._dynamo.utils import get_metrics_context
from torch._guards import CompileContext
from torch.fx import GraphModule

from torch_neuronx._compile import sources


def note(module: GraphModule) -> str | None:
    """Called in the backend: the guard that made Dynamo compile again, None the first time.

    Dynamo tells the reason to its own metrics only.
    """
    compile_id = CompileContext.current_compile_id()
    if compile_id is None or not compile_id.frame_compile_id:
        return None
    reason = getattr(get_metrics_context(), "_metrics", {}).get("recompile_reason")
    if reason is None:  # a restart, or a resume function of another one
        return None
    reason = _shorten(reason)
    limit = torch._dynamo.config.recompile_limit
    if compile_id.frame_compile_id + 1 == limit:
        _warn(sources.location(module), reason, limit)
    return reason


def _shorten(reason: str) -> str:
    """The guard with its line, without Dynamo's number of the frame and the stack."""
    reason = re.sub(r"^\d+/\d+: ", "", " ".join(reason.split()))
    return reason.split(" User stack trace:")[0]


def _warn(where: str, reason: str, limit: int) -> None:
    warnings.warn(
        f"torch.compile has compiled {where} {limit} times, which is the limit: inputs that fit "
        f"none of the graphs will run eagerly from now on. The guard that failed last: {reason}. "
        "What to do: torch._dynamo.mark_dynamic(tensor, dim) or torch.compile(dynamic=True) for "
        "sizes that vary, tensors in place of Python numbers that vary, or a higher "
        "torch._dynamo.config.recompile_limit.",
        stacklevel=2,
    )
