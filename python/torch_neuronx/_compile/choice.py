# SPDX-License-Identifier: Apache-2.0
"""The choice of a backend by device, for ``torch.compile(model)`` without a backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree


def _tensors(module: GraphModule, example_inputs: Sequence[Any]) -> Iterator[torch.Tensor]:
    """The graph's inputs and every value in it."""
    values = (node.meta.get("example_value") for node in module.graph.nodes)
    for leaf in pytree.tree_leaves([list(example_inputs), list(values)]):
        if isinstance(leaf, torch.Tensor):
            yield leaf


def compile_by_device(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    if any(t.device.type == "neuron" for t in _tensors(module, example_inputs)):
        from torch_neuronx._compile.backend import compile_graph

        return compile_graph(module, example_inputs, mode=mode, options=options)
    # What torch.compile itself makes of backend="inductor".
    return torch._TorchCompileInductorWrapper(mode, options, None)(module, example_inputs)
