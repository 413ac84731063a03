# SPDX-License-Identifier: Apache-2.0
"""``torch.compile(backend="neuron")``.

Importing this package is cheap: PyTorch's compiler is imported by the first compile, not before.
The way of a graph:

    torch.compile -> Dynamo -> ``backend`` -> AOTAutograd, ``partition`` -> ``graphs`` -> Executable

``registration``  tells PyTorch of the backend, when PyTorch's compiler is imported
``device_interface``  what Dynamo asks about the device
``tracing``, ``traced``  what Dynamo does with the functions of ``torch.neuron``
``backend``       the function that Dynamo calls with a graph
``graphs``        what becomes of one forward or backward graph of AOTAutograd
``executable``    the interface of a compiled graph, and the one implementation: ``codegen``
``sources``       the user's lines of a graph
``metrics``       what ``torch_neuronx.get_dynamo_metrics`` reports
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from torch_neuronx._compile.errors import NEFFCompilationError as NEFFCompilationError
from torch_neuronx._compile.metrics import get_dynamo_metrics as get_dynamo_metrics
from torch_neuronx._compile.metrics import reset_dynamo_metrics as reset_dynamo_metrics

if TYPE_CHECKING:
    from torch.fx import GraphModule


def neuron(module: GraphModule, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
    """The Dynamo backend ``neuron``; its keywords are ``mode`` and ``options``."""
    from torch_neuronx._compile.backend import compile_graph

    return compile_graph(module, example_inputs, **kwargs)


def neuron_or_inductor(
    module: GraphModule, example_inputs: Sequence[Any], **kwargs: Any
) -> Callable[..., Any]:
    """The default backend: ``neuron`` for graphs with a tensor on the device, else Inductor."""
    from torch_neuronx._compile.choice import compile_by_device

    return compile_by_device(module, example_inputs, **kwargs)
