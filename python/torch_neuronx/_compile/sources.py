# SPDX-License-Identifier: Apache-2.0
"""The user's lines behind the nodes of a graph."""

from __future__ import annotations

import collections
import functools
import os
import re
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch.fx import Node

_FRAME = re.compile(r'^\s*File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
_LIBRARIES = tuple(
    os.path.join(os.path.dirname(os.path.abspath(path)), "")
    for path in (torch.__file__, os.path.dirname(__file__))
)


class Frame(NamedTuple):
    file: str
    line: int


@functools.lru_cache(maxsize=4096)
def _frames(stack_trace: str) -> tuple[Frame, ...]:
    """The user's frames, outermost first; PyTorch's own are left out."""
    frames = (Frame(file, int(line)) for file, line, _ in _FRAME.findall(stack_trace))
    return tuple(frame for frame in frames if not frame.file.startswith(_LIBRARIES))


class SourceMap:
    """One file of the user's, and a line of it for every node of a graph.

    A code object has one file name. The file is the one in which most nodes have a frame; a node
    that was called from elsewhere, or by nobody, gets the line of the node before it.
    """

    def __init__(self, nodes: Iterable[Node], default_file: str):
        stacks = {node: _frames(node.stack_trace or "") for node in nodes}
        files = collections.Counter(file for s in stacks.values() for file in {f.file for f in s})
        self.file = files.most_common(1)[0][0] if files else default_file
        self._lines: dict[Node, int] = {}
        line = next((f.line for s in stacks.values() for f in s if f.file == self.file), 1)
        self.first_line = line
        for node, stack in stacks.items():
            line = next((f.line for f in reversed(stack) if f.file == self.file), line)
            self._lines[node] = line

    def line(self, node: Node) -> int:
        return self._lines[node]


def describe(node: Node) -> str:
    """The operator and where it was called, for error messages."""
    text = f"operator {node.target}"
    if node.stack_trace:
        text += f", called from\n{node.stack_trace.rstrip()}"
    return text
