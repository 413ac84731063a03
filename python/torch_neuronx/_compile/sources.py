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
from torch.fx import GraphModule, Node

_FRAME = re.compile(r'^\s*File "(.+)", line (\d+), in (.+)$', re.MULTILINE)
_LIBRARIES = tuple(
    os.path.join(os.path.dirname(os.path.abspath(path)), "")
    for path in (torch.__file__, os.path.dirname(__file__))
)


class Origin(NamedTuple):
    """Where an operator call comes from; keeps nothing of the graph alive."""

    operator: str
    stack_trace: str

    @staticmethod
    def of(node: Node) -> Origin:
        return Origin(str(node.target), node.stack_trace or "")

    def __str__(self) -> str:
        called_from = f", called from\n{self.stack_trace.rstrip()}" if self.stack_trace else ""
        return f"operator {self.operator}{called_from}"


class _Frame(NamedTuple):
    file: str
    line: int


@functools.lru_cache(maxsize=4096)
def _frames(stack_trace: str) -> tuple[_Frame, ...]:
    """The user's frames, outermost first; PyTorch's own are left out."""
    frames = (_Frame(file, int(line)) for file, line, _ in _FRAME.findall(stack_trace))
    return tuple(frame for frame in frames if not frame.file.startswith(_LIBRARIES))


class SourceMap:
    """One file of the user's, and a line of it for every origin, in the order of the calls.

    A code object has one file name. The file is the one in which most origins have a frame; one
    that lies elsewhere, or nowhere, gets the line of the one before it.
    """

    def __init__(self, origins: Iterable[Origin], default_file: str):
        stacks = [_frames(origin.stack_trace) for origin in origins]
        files = collections.Counter(file for s in stacks for file in {frame.file for frame in s})
        self.file = files.most_common(1)[0][0] if files else default_file
        self.first_line = next((f.line for s in stacks for f in s if f.file == self.file), 1)
        self.lines: list[int] = []
        line = self.first_line
        for stack in stacks:
            line = next((f.line for f in reversed(stack) if f.file == self.file), line)
            self.lines.append(line)


def location(module: GraphModule) -> str:
    """The user's function from which ``module`` was traced, and the lines it covers so far."""
    found: list[tuple[str, int, str]] = []
    for node in module.graph.nodes:
        frames = _FRAME.findall(node.stack_trace or "")
        outermost = next((f for f in frames if not f[0].startswith(_LIBRARIES)), None)
        if outermost is not None:
            file, line, function = outermost
            found.append((file, int(line), function))
    if not found:
        return "a function without source lines"
    file, _, function = found[0]
    lines = [line for other, line, _ in found if other == file]
    span = f"{min(lines)}-{max(lines)}" if len(set(lines)) > 1 else f"{lines[0]}"
    return f"{function!r} ({file}:{span})"
