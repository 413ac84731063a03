# SPDX-License-Identifier: Apache-2.0
"""The structured operators of the installed PyTorch, joined with the operator table.

The operators come from `native_functions.yaml` as packaged in the wheel, through torchgen's parser;
csrc/torch/ops.yaml adds what PyTorch does not say (see its head).
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import torchgen
import yaml
from torchgen.gen import get_grouped_native_functions, parse_native_yaml
from torchgen.model import (
    Argument,
    BaseTy,
    BaseType,
    DispatchKey,
    ListType,
    NativeFunction,
    NativeFunctionsGroup,
)

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "csrc" / "torch" / "ops.yaml"

SPLITS = ("none", "pointwise", "rows")
ENTRY_KEYS = {"split", "when", "whole", "contiguous", "check", "lower", "body", "skip"}


class TableError(Exception):
    """The operator table contradicts PyTorch or itself."""


@dataclass(frozen=True)
class Entry:
    """One operator's row of the table."""

    split: str | None = None  # None: by PyTorch's tag
    when: str | None = None
    whole: dict[str, str | None] = field(default_factory=dict)  # operand -> condition
    contiguous: bool = False
    check: str | None = None
    lower: str | None = None
    body: str | None = None
    skip: str | None = None


@dataclass(frozen=True)
class Operator:
    """A structured group: functional, out and maybe in-place form of one operator."""

    group: NativeFunctionsGroup
    entry: Entry

    @property
    def name(self) -> str:
        return str(self.group.functional.func.name)

    @property
    def variants(self) -> list[NativeFunction]:
        g = self.group
        return [f for f in (g.functional, g.inplace, g.out) if f is not None]

    @property
    def outputs(self) -> list[Argument]:
        return list(self.group.out.func.arguments.out)

    @property
    def inputs(self) -> list[Argument]:
        """All arguments but the outputs, in schema order."""
        return list(self.group.out.func.arguments.flat_non_out)

    @property
    def tensors(self) -> list[Argument]:
        return [a for a in self.inputs if a.type.is_tensor_like()]


def is_tensor_list(argument: Argument) -> bool:
    return isinstance(argument.type, ListType) and argument.type.is_tensor_like()


@dataclass(frozen=True)
class Operators:
    generated: list[Operator]
    skipped: dict[str, str]  # operator -> reason


def _read_entry(name: str, row: dict) -> Entry:
    unknown = set(row) - ENTRY_KEYS
    if unknown:
        raise TableError(f"{name}: unknown keys {sorted(unknown)}")
    split = row.get("split")
    if split is not None and split not in SPLITS:
        raise TableError(f"{name}: split must be one of {SPLITS}, not {split!r}")
    whole: dict[str, str | None] = {}
    for item in row.get("whole", []):
        whole.update({item: None} if isinstance(item, str) else item)
    if whole and split != "rows":
        raise TableError(f"{name}: 'whole' belongs to split: rows")
    return Entry(
        split=split,
        when=row.get("when"),
        whole=whole,
        contiguous=row.get("contiguous", False),
        check=row.get("check"),
        lower=row.get("lower"),
        body=row.get("body"),
        skip=row.get("skip"),
    )


def read_table(path: Path = TABLE) -> dict[str, Entry]:
    rows = yaml.safe_load(path.read_text())
    return {name: _read_entry(name, row) for name, row in rows.items()}


@functools.cache
def structured_groups() -> tuple[NativeFunctionsGroup, ...]:
    """Every structured group with a CPU kernel, in PyTorch's order."""
    native = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    parsed = parse_native_yaml(str(native / "native_functions.yaml"), str(native / "tags.yaml"))
    cpu = parsed.backend_indices[DispatchKey.CPU]
    return tuple(
        g
        for g in get_grouped_native_functions(parsed.native_functions)
        if isinstance(g, NativeFunctionsGroup) and g.structured and cpu.has_kernel(g)
    )


def _reason_to_skip(operator: Operator) -> str | None:
    if operator.entry.skip:
        return operator.entry.skip
    functional = operator.group.functional
    if "nondeterministic_seeded" in functional.tags:
        return "draws random numbers: the random host path seeds it"
    if any(a.type.is_base_ty_like(BaseTy.Generator) for a in operator.inputs):
        return "takes a generator: the random host path seeds it"
    if any(is_tensor_list(a) for a in operator.tensors[:-1]):
        return "a tensor list is not its last tensor argument"
    if any(r.type != BaseType(BaseTy.Tensor) for r in functional.func.returns):
        return "returns something other than tensors"
    return None


def _default_split(group: NativeFunctionsGroup) -> str:
    pointwise = (
        "pointwise" in group.functional.tags
        and group.out.structured_inherits is not None
        and len(group.out.func.returns) == 1
        and not any(is_tensor_list(a) for a in group.out.func.arguments.flat_non_out)
    )
    return "pointwise" if pointwise else "none"


def _check(operator: Operator) -> None:
    tensors = {a.name for a in operator.tensors if not is_tensor_list(a)}
    unknown = set(operator.entry.whole) - tensors
    if unknown:
        raise TableError(f"{operator.name}: 'whole' names no tensor: {sorted(unknown)}")
    if operator.entry.contiguous and any(is_tensor_list(a) for a in operator.tensors):
        raise TableError(f"{operator.name}: 'contiguous' does not take tensor lists")
    known = {a.name for a in (*operator.inputs, *operator.outputs)}
    for name in re.findall(r"\$(\w+)", operator.entry.body or ""):
        if name not in known:
            raise TableError(f"{operator.name}: 'body' has no argument '{name}'")


def load(table: dict[str, Entry] | None = None) -> Operators:
    table = read_table() if table is None else table
    groups = {str(g.functional.func.name): g for g in structured_groups()}
    unknown = set(table) - set(groups)
    if unknown:
        raise TableError(f"not structured operators with a CPU kernel: {sorted(unknown)}")
    generated: list[Operator] = []
    skipped: dict[str, str] = {}
    for name, group in groups.items():
        entry = table.get(name, Entry())
        if entry.split is None:
            entry = replace(entry, split=_default_split(group))
        operator = Operator(group, entry)
        _check(operator)
        reason = _reason_to_skip(operator)
        if reason is None:
            generated.append(operator)
        else:
            skipped[name] = reason
    return Operators(generated, skipped)
