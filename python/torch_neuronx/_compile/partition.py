# SPDX-License-Identifier: Apache-2.0
"""Splits a joint graph into its forward and its backward part.

PyTorch's min-cut partitioner chooses what the forward pass saves and what the backward pass
computes again. It takes an input of the graph for something that can be read at any time. But an
input that the graph writes (``copy_`` at the end of the forward pass) has other values in the
backward pass, so what is computed again from it would be wrong: PyTorch 2.13 gives wrong gradients
without a word. Here, whatever reads such an input, or a view of it, is never computed again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule, Node
from torch.utils.checkpoint import CheckpointPolicy

_copy = torch.ops.aten.copy_.default


def partition(
    joint: GraphModule, inputs: Any, *, num_fwd_outputs: int, **kwargs: Any
) -> tuple[GraphModule, GraphModule]:
    _save_readers_of_written_inputs(joint)
    return min_cut_rematerialization_partition(
        joint, inputs, num_fwd_outputs=num_fwd_outputs, **kwargs
    )


def _is_view(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def _save_readers_of_written_inputs(joint: GraphModule) -> None:
    written = [
        node.args[0]
        for node in joint.graph.find_nodes(op="call_function", target=_copy)
        if node.args[0].op == "placeholder"
    ]
    backward = _backward_nodes(joint)
    todo, seen = list(written), set(written)
    while todo:
        memory = todo.pop()  # a written input or a view of it
        late = [user for user in memory.users if user in backward and user.target is not _copy]
        if late:
            _read_early(joint, memory, late)
        for user in memory.users:
            if user in backward or user.target is _copy or user in seen:
                continue
            if _is_view(user):
                seen.add(user)
                todo.append(user)
            elif user.op == "call_function":
                user.meta["recompute"] = CheckpointPolicy.MUST_SAVE


def _backward_nodes(joint: GraphModule) -> set[Node]:
    """Everything that depends on a tangent."""
    result: set[Node] = set()
    for node in joint.graph.nodes:
        is_tangent = node.op == "placeholder" and "tangents" in str(node.target)
        if is_tangent or any(operand in result for operand in node.all_input_nodes):
            result.add(node)
    return result


def _read_early(joint: GraphModule, memory: Node, users: list[Node]) -> None:
    """Gives ``users``, of the backward pass, a copy that the forward pass makes of ``memory``."""
    with joint.graph.inserting_after(memory):
        copy = joint.graph.call_function(torch.ops.aten.clone.default, (memory,))
    copy.meta = {**memory.meta, "recompute": CheckpointPolicy.MUST_SAVE}
    for user in users:
        user.replace_input_with(memory, copy)
