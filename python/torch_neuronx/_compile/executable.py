# SPDX-License-Identifier: Apache-2.0
"""What a graph of AOTAutograd becomes.

An Executable runs one graph. It is called with a *list* of the graph's inputs and empties it, so
that an input dies after its last use and not at the end of the call (AOTAutograd's "boxed" calling
convention), and returns the graph's outputs in order. Any thread may call it, several at once. It
has the effects of the graph's operators called one after the other: same numbers, same errors.

    executable = build_executable(graph_module, "forward_0")
    outputs = executable([x, weight])
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from torch.fx import GraphModule

from torch_neuronx._compile import metrics
from torch_neuronx._compile.codegen import GeneratedFunction


class Executable(abc.ABC):
    def __init__(self, name: str, num_ops: int):
        # AOTAutograd looks for this name, also in the __dict__ of what wraps this object.
        self._boxed_call = True
        self.name = name
        self.num_ops = num_ops

    @abc.abstractmethod
    def __call__(self, args: list[Any]) -> Sequence[Any]: ...

    @abc.abstractmethod
    def text(self) -> str:
        """What will run, for people."""


class PythonExecutable(Executable):
    """A generated Python function that calls the operators."""

    def __init__(self, module: GraphModule, name: str):
        self._function = GeneratedFunction(module, name)
        super().__init__(name, self._function.num_ops)
        self._run = self._function.run

    def __call__(self, args: list[Any]) -> Sequence[Any]:
        metrics.count("runs")
        try:
            return self._run(args)
        except Exception as error:
            origin = self._function.failed(error.__traceback__)
            if origin is not None:
                error.add_note(f"In compiled graph {self.name}: {origin}")
            raise

    def text(self) -> str:
        return self._function.text


def build_executable(module: GraphModule, name: str) -> Executable:
    return PythonExecutable(module, name)
