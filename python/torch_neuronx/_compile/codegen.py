# SPDX-License-Identifier: Apache-2.0
"""A Python function from an FX graph: one statement an operator call, everything else precomputed.

The statements of a graph that computes ``gelu(x @ w)``:

    x, w = args
    args.clear()
    mm = OP_mm(x, w)
    del x, w
    gelu = OP_gelu(mm)
    del mm
    return (gelu,)

``OP_mm`` is the operator overload itself. Arguments that do not change from call to call are bound
when the function is made, and values are deleted right after their last use. The function's code
claims the user's file and lines, so that tracebacks, and the operators that the device queues with
the line that called them, name the user's code.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import math
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from torch_neuronx._compile import rng
from torch_neuronx._compile.sources import Origin, SourceMap

_LITERALS = (bool, int, str, type(None))


class GeneratedFunction:
    """``run(args)`` empties the list ``args`` and returns the outputs of ``module``'s graph."""

    def __init__(self, module: GraphModule, name: str, boxed: bool = True):
        self._name = name
        self._constants: dict[str, Any] = {"__builtins__": builtins}
        self._constant_names: dict[int, str] = {}
        self._taken = {node.name for node in module.graph.nodes}
        self._statements: list[str] = []
        self._origins: list[Origin] = []  # one for each statement
        self._inner_texts: list[str] = []
        self.num_ops = 0
        self._generate(module, boxed)
        self._constant_names.clear()  # by id: means nothing once the graph is gone
        signature = "args" if boxed else "*args"
        body = "".join(f"    {text}\n" for text in self._statements)
        self._own_text = f"def {name}({signature}):\n{body}"
        self.text = "\n".join([*self._inner_texts, self._own_text])
        self._file = f"<{name}>"
        code = self._compile()
        self.run: Callable[..., Any] = types.FunctionType(code, self._constants, name)

    def failed(self, traceback: types.TracebackType | None) -> Origin | None:
        """The call in this function that raised, if one did."""
        while traceback is not None and traceback.tb_frame.f_code is not self.run.__code__:
            traceback = traceback.tb_next
        if traceback is None:
            return None
        # The same statements with their own lines: the instructions are the same.
        twin = self._code_object(ast.parse(self._own_text), self._file)
        for begin, end, line in twin.co_lines():
            if begin <= traceback.tb_lasti < end and line is not None and line >= 2:
                return self._origins[line - 2]
        return None

    def _generate(self, module: GraphModule, boxed: bool) -> None:
        graph = module.graph
        frees = _last_uses(graph)
        placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        if placeholders:
            self._emit(f"{', '.join(n.name for n in placeholders)}, = args")
        if boxed:
            self._emit("args.clear()")
        else:
            self._emit("del args")
        unused = [node.name for node in placeholders if not node.users]
        if unused:
            self._emit(f"del {', '.join(unused)}")
        for node in graph.nodes:
            if node.op == "output":
                self._emit(f"return {self._expression(node.args[0])}", node)
            elif node.op == "get_attr":
                self._bind_attribute(module, node)
            elif node.op != "placeholder":
                self._emit(self._call(module, node), node)
                if names := frees.get(node):
                    self._emit(f"del {', '.join(names)}", node)

    def _emit(self, text: str, node: Node | None = None) -> None:
        self._statements.append(text)
        self._origins.append(Origin("", "") if node is None else Origin.of(node))

    def _call(self, module: GraphModule, node: Node) -> str:
        target = node.target
        self.num_ops += 1
        static = False
        if node.op == "call_method":
            receiver, *rest = node.args
            callee = f"{self._expression(receiver)}.{target}"
        else:
            rest = list(node.args)
            if node.op == "call_module":
                target = module.get_submodule(target)
            elif type(target) is torch._ops.OpOverload:
                # The bound C++ function, without the Python method around it. The dispatcher copies
                # list arguments, so those that are static can be bound once.
                static = True
            callee = self._operator(target)
        args = [self._argument(arg, static) for arg in rest]
        args += [f"{key}={self._argument(arg, static)}" for key, arg in node.kwargs.items()]
        call = f"{callee}({', '.join(args)})"
        return f"{node.name} = {call}" if node.users else call

    def _operator(self, target: Any) -> str:
        hint = getattr(target, "__name__", type(target).__name__).replace(".", "_")
        if hint.endswith("_default"):
            hint = hint.removesuffix("_default")
        if type(target) is torch._ops.OpOverload:
            target = target._op
        return self._constant(rng.REPLACEMENTS.get(target, target), f"OP_{hint}")

    def _argument(self, value: Any, static: bool) -> str:
        if static and isinstance(value, (list, tuple)) and value and not list(_nodes(value)):
            return self._constant(value, "CONST")
        return self._expression(value)

    def _expression(self, value: Any) -> str:
        if isinstance(value, Node):
            return self._constant_names.get(id(value), value.name)
        if type(value) in _LITERALS or (type(value) is float and math.isfinite(value)):
            return repr(value)
        if isinstance(value, (list, tuple)):
            items = "".join(f"{self._expression(item)}, " for item in value)
            return f"[{items}]" if isinstance(value, list) else f"({items})"
        if isinstance(value, dict):
            items = (f"{self._expression(k)}: {self._expression(v)}" for k, v in value.items())
            return f"{{{', '.join(items)}}}"
        if isinstance(value, slice):
            parts = (value.start, value.stop, value.step)
            return f"slice({', '.join(self._expression(part) for part in parts)})"
        return self._constant(value, "CONST")

    def _constant(self, value: Any, hint: str) -> str:
        known = self._constant_names.get(id(value))
        if known is not None:
            return known
        names = itertools.chain([hint], (f"{hint}_{i}" for i in itertools.count(1)))
        hint = "".join(c if c.isidentifier() or c.isdigit() else "_" for c in hint)
        name = next(n for n in names if n not in self._taken)
        self._taken.add(name)
        self._constants[name] = value  # also keeps the id in use
        self._constant_names[id(value)] = name
        return name

    def _bind_attribute(self, module: GraphModule, node: Node) -> None:
        value: Any = module
        for part in node.target.split("."):
            value = getattr(value, part)
        if isinstance(value, GraphModule):  # of a higher-order operator
            inner = GeneratedFunction(value, f"{self._name}_{node.name}", boxed=False)
            self.num_ops += inner.num_ops
            value = inner.run
            self._inner_texts.append(inner.text)
        self._constant_names[id(node)] = self._constant(value, f"CONST_{node.name}")

    def _compile(self) -> types.CodeType:
        sources = SourceMap(self._origins, self._file)
        tree = ast.parse(self._own_text)
        (function,) = tree.body
        for part in (function, *ast.walk(function.args)):
            _place(part, sources.first_line)
        for statement, line in zip(function.body, sources.lines, strict=True):
            for part in ast.walk(statement):
                _place(part, line)
        return self._code_object(tree, sources.file)

    @staticmethod
    def _code_object(tree: ast.Module, file: str) -> types.CodeType:
        module = compile(tree, file, "exec", dont_inherit=True)
        return next(c for c in module.co_consts if isinstance(c, types.CodeType))


def _place(part: ast.AST, line: int) -> None:
    if isinstance(part, (ast.expr, ast.stmt, ast.arg, ast.keyword)):
        part.lineno = part.end_lineno = line
        part.col_offset = part.end_col_offset = -1  # none: tracebacks mark no part of the line


def _nodes(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _nodes(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _nodes(item)
    elif isinstance(value, slice):
        yield from _nodes((value.start, value.stop, value.step))


def _last_uses(graph: torch.fx.Graph) -> dict[Node, list[str]]:
    """For each node, the values that die after it."""
    result: dict[Node, list[str]] = {}
    seen: set[Node] = set()
    for user in reversed(graph.nodes):
        for value in user.all_input_nodes:
            if value not in seen:
                seen.add(value)
                if value.op != "get_attr" and user.op != "output":
                    result.setdefault(user, []).append(value.name)
    return result
