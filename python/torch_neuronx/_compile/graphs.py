# SPDX-License-Identifier: Apache-2.0
"""What becomes of one graph of AOTAutograd."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from torch._functorch._aot_autograd.utils import make_boxed_func
from torch.fx import GraphModule

from torch_neuronx._compile import artifacts, failures, metrics, sources
from torch_neuronx._compile.executable import build_executable
from torch_neuronx._compile.options import Options

_numbers = itertools.count()


class GraphCompiler:
    """AOTAutograd calls it with a functional graph of ATen operators and fake inputs.

    ``kind`` is ``forward``, ``backward`` or ``inference``.
    """

    def __init__(self, kind: str, options: Options):
        self._kind = kind
        self._options = options

    def __call__(self, module: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        started = time.perf_counter()
        try:
            executable = build_executable(module, self._name())
            artifacts.keep(module, executable)
        except Exception as error:
            where = sources.location(module)
            failures.raise_or_count(error, self._options, f"the {self._kind} graph of {where}")
            return make_boxed_func(module.forward)
        finally:
            metrics.add_seconds("executables", time.perf_counter() - started)
        metrics.count(self._kind)
        metrics.count("ops", executable.num_ops)
        return executable

    def _name(self) -> str:
        label = re.sub(r"\W", "_", self._options.model_name)
        return "_".join(part for part in (label, self._kind, str(next(_numbers))) if part)
