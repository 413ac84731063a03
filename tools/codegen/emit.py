# SPDX-License-Identifier: Apache-2.0
"""C++ text of the typed kernels.

Each operator becomes a namespace with one function per variant and `record`, which they share: it
turns the sized outputs and the arguments into a record, lowered where the table says how, else (or
where the core refuses) an OpCall.
"""

from __future__ import annotations

import re
import zlib

from operators import Operator, is_tensor_list
from torchgen import local
from torchgen.api import cpp, meta, structured
from torchgen.api.translate import translate
from torchgen.api.types import CppSignatureGroup, NativeSignature
from torchgen.context import native_function_manager
from torchgen.model import Argument, DeviceCheckType, NativeFunction, SchemaKind

SHARDS = 10
WIDTH = 100

# Types whose values live elsewhere: captured through own(), used through lend().
VIEWS = {"at::IntArrayRef", "at::OptionalIntArrayRef", "c10::string_view"}
OPTIONAL_VIEWS = {"::std::optional<c10::string_view>"}

HEAD = """\
// SPDX-License-Identifier: Apache-2.0
// Typed kernels of structured operators, written by tools/codegen/gen.py.
#include "torch/structured.h"

{includes}
#include <torch/library.h>

namespace neuron::glue {{
namespace {{

using c10::impl::check_and_update_common_device;
"""

TAIL = """\
}}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {{
{registrations}
}}

}}  // namespace neuron::glue
"""


def file_names() -> list[str]:
    return [f"structured_{i:02}.cpp" for i in range(SHARDS)]


def files(operators: list[Operator]) -> dict[str, str]:
    """Text of every file. An operator's file depends on its name alone."""
    names = [_namespace(o) for o in operators]
    assert len(set(names)) == len(names), "two operators share a namespace"
    shards: list[list[Operator]] = [[] for _ in range(SHARDS)]
    for operator in operators:
        base = str(operator.group.functional.func.name.name)
        shards[zlib.crc32(base.encode()) % SHARDS].append(operator)
    return {name: _file(shard) for name, shard in zip(file_names(), shards, strict=True)}


def _file(operators: list[Operator]) -> str:
    bases = sorted({str(o.group.functional.func.name.name) for o in operators})
    headers = [
        f"#include <ATen/ops/{b}_{kind}.h>" for b in bases for kind in ("cpu_dispatch", "meta")
    ]
    registrations = "\n".join(
        line
        for o in operators
        for f in o.variants
        for line in _wrap_text(f'm.impl("{f.func.name}", &{_namespace(o)}::{_variant(f)});', 2)
    )
    body = "\n".join(operator_text(o) for o in operators)
    return "\n".join(
        [HEAD.format(includes="\n".join(headers)), body, TAIL.format(registrations=registrations)]
    )


def operator_text(operator: Operator) -> str:
    """The namespace of one operator."""
    with local.parametrize(
        use_const_ref_for_mutable_tensors=False, use_ilistref_for_tensor_lists=True
    ):
        functions = [_record(operator), *(_kernel(operator, f) for f in operator.variants)]
    name = _namespace(operator)
    outputs = len(operator.outputs)
    return "\n".join(
        [
            f"// {', '.join(str(f.func.name) for f in operator.variants)}",
            f"namespace {name} {{",
            "",
            f"using Op = Structured<at::meta::structured_{meta.name(operator.group)}, {outputs}>;",
            "",
            *functions,
            f"}}  // namespace {name}",
            "",
        ]
    )


def _namespace(operator: Operator) -> str:
    # A prefix keeps operators such as `all` and `index` apart from functions of that name.
    return "op_" + meta.name(operator.group).lstrip("_")


def _variant(f: NativeFunction) -> str:
    kind = f.func.kind()
    return {
        SchemaKind.functional: "functional",
        SchemaKind.inplace: "inplace",
        SchemaKind.out: "out",
    }[kind]


def _signature(f: NativeFunction) -> NativeSignature:
    return NativeSignature(f.func, prefix="", symint=False)


def _input_bindings(operator: Operator) -> dict[str, str]:
    """Argument name -> C++ type, as the functional kernel takes them."""
    f = operator.group.functional
    with native_function_manager(f):
        return {b.name: b.type for b in _signature(f).arguments()}


# ---- record --------------------------------------------------------------------------------------


def _record(operator: Operator) -> str:
    types = _input_bindings(operator)
    outputs = [a.name for a in operator.outputs]
    parameters = ["[[maybe_unused]] at::ScalarType common"]
    parameters += [f"const at::Tensor& {o}" for o in outputs]
    parameters += [f"{_tidy(t)} {n}" for n, t in types.items()]
    empty = " && ".join(f"{o}.numel() == 0" for o in outputs)
    statements = [] if operator.entry.check is None else operator.entry.check.strip().splitlines()
    statements.append(f"if ({empty}) return;")
    if operator.entry.lower is not None:
        statements.append(f"if ({_lower(operator)}) return;")
    statements.append(f'OpCall call("aten::{operator.group.out.func.name}");')
    statements += [f"call.write({o});" for o in outputs]
    for argument in operator.tensors:
        optional_list = is_tensor_list(argument) and "c10::List" in types[argument.name]
        read = (
            f"read_list(call, {argument.name})" if optional_list else f"call.read({argument.name})"
        )
        statements.append(read + ";")
    captures, expressions = _body_arguments(operator, types)
    body = _body(operator, expressions)
    split = _split(operator)
    if operator.entry.when is not None:
        statements.append(f"const Split split = {split};")
        split = "split"
    mask = _mask(operator)
    if "?" in mask:
        statements.append(f"const uint32_t whole = {mask};")
        mask = "whole"
    head = f"call.record({split}, [{', '.join(captures)}](const at::Tensor* t) {{"
    tail = "}" + (f", {mask}" if mask else "") + ");"
    lines = [
        *_wrap_call("void record(", parameters, ") {", 0),
        *(line for s in statements for line in _wrap_text(s, 2)),
        *_wrap_text(head, 2),
        *(line for statement in body for line in _wrap_text(statement, 4)),
        *_wrap_text(tail, 2),
        "}",
        "",
    ]
    return "\n".join(lines)


def _lower(operator: Operator) -> str:
    """The condition that records the operator in lowered form."""
    text = " ".join(operator.entry.lower.split())
    if not re.fullmatch(r"[A-Z]\w*", text):
        return re.sub(r"\bk([A-Z]\w*)\b(?!::)", r"LoweredOp::k\1", text)
    arguments = ", ".join(a.name for a in operator.inputs)
    return f"pointwise(LoweredOp::k{text}, common, {operator.outputs[0].name}, {{{arguments}}})"


def _body_arguments(operator: Operator, types: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """The lambda's captures, and each argument's expression inside it (outputs included)."""
    captures: list[str] = []
    expressions: dict[str, str] = {}
    for index, output in enumerate(operator.outputs):
        expressions[output.name] = f"writable(t[{index}])"
    index = len(operator.outputs)
    for argument in operator.inputs:
        name, type_ = argument.name, types[argument.name]
        if is_tensor_list(argument):
            captures.append(f"count = {name}.size()")
            rebuild = "optional_list" if "c10::List" in type_ else "at::TensorList"
            expressions[name] = f"{rebuild}(t + {index}, count)"
            index += 1
        elif argument.type.is_tensor_like():
            expressions[name] = (
                f"optional(t[{index}])" if argument.type.is_nullable() else f"t[{index}]"
            )
            if _shares_output(operator, argument):
                captures.append(f"inplace = {name}.is_same({operator.outputs[0].name})")
                expressions[name] = f"t[inplace ? 0 : {index}]"
            index += 1
        elif type_ in VIEWS | OPTIONAL_VIEWS:
            captures.append(f"{name} = own({name})")
            expressions[name] = f"lend({name})"
        else:
            captures.append(name)
            expressions[name] = name
    return captures, expressions


def _shares_output(operator: Operator, argument: Argument) -> bool:
    """Kernels that start by copying `self` to the output skip it if both are one tensor."""
    group = operator.group
    return (
        group.inplace is not None
        and group.out.structured_inherits is None
        and argument.name == group.inplace.func.arguments.flat_non_out[0].name
    )


def _body(operator: Operator, expressions: dict[str, str]) -> list[str]:
    if not operator.entry.contiguous:
        return _compute(operator, expressions)
    outputs = [a.name for a in operator.outputs]
    inputs = [a.name for a in operator.tensors if not a.type.is_nullable()]
    names = {**{o: f"{o}.get()" for o in outputs}, **{i: i for i in inputs}}
    return [
        *(f"ContiguousOutput {o}(t[{k}]);" for k, o in enumerate(outputs)),
        *(f"const at::Tensor {i} = {expressions[i]}.contiguous();" for i in inputs),
        *_compute(operator, {**expressions, **names}),
        *(f"{o}.store();" for o in outputs),
    ]


def _compute(operator: Operator, expressions: dict[str, str]) -> list[str]:
    if operator.entry.body is not None:
        text = re.sub(r"\$(\w+)", lambda m: expressions[m.group(1)], operator.entry.body)
        return text.strip().splitlines()
    out = operator.group.out
    with native_function_manager(out):
        signature = CppSignatureGroup.from_native_function(
            out, method=False, fallback_binding=False
        ).most_faithful_signature()
        arguments = ", ".join(expressions[b.name] for b in signature.arguments())
        return [f"at::cpu::{signature.name()}({arguments});"]


def _split(operator: Operator) -> str:
    entry = operator.entry
    split = {"none": "kNone", "pointwise": "kPointwise", "rows": "kRows"}[entry.split]
    if entry.when is None:
        return f"Split::{split}"
    return f"{entry.when} ? Split::{split} : Split::kNone"


def _mask(operator: Operator) -> str:
    bits: list[str] = []
    for index, argument in enumerate(operator.tensors, start=len(operator.outputs)):
        if argument.name not in operator.entry.whole:
            continue
        condition = operator.entry.whole[argument.name]
        bit = f"1u << {index}"
        bits.append(bit if condition is None else f"({condition} ? {bit} : 0u)")
    return " | ".join(bits)


# ---- kernels -------------------------------------------------------------------------------------


def _kernel(operator: Operator, f: NativeFunction) -> str:
    kind = f.func.kind()
    with native_function_manager(f):
        bindings = _signature(f).arguments()
        returns = cpp.returns_type(f.func.returns, symint=False).cpp_type()
        meta_arguments = ", ".join(
            e.expr
            for e in translate(bindings, structured.meta_arguments(operator.group), method=False)
        )
    outputs = [a.name for a in operator.outputs]
    if kind is SchemaKind.functional:
        construct = "Op op;"
        places = [f"op[{i}]" for i in range(len(outputs))]
        result = "std::move(op).take()"
    elif kind is SchemaKind.inplace:
        construct = "Op op(Variant::kInplace, self);"
        places = ["self"]
        result = "self"
    else:
        construct = f"Op op(Variant::kOut, {', '.join(outputs)});"
        places = outputs
        result = outputs[0] if len(outputs) == 1 else f"std::forward_as_tuple({', '.join(outputs)})"
    statements = [*_device_check(f), construct, f"op.meta({meta_arguments});"]
    arguments = ["op.common()", *places, *(a.name for a in operator.inputs)]
    statements.append(f"record({', '.join(arguments)});")
    statements.append(f"return {result};")
    parameters = [f"{_tidy(b.type)} {b.name}" for b in bindings]
    lines = [
        *_wrap_call(f"{_tidy(returns)} {_variant(f)}(", parameters, ") {", 0),
        *(line for s in statements for line in _wrap_text(s, 2)),
        "}",
        "",
    ]
    return "\n".join(lines)


def _device_check(f: NativeFunction) -> list[str]:
    tensors = [
        a.name
        for a in (*f.func.arguments.out, *f.func.arguments.flat_positional)
        if a.type.is_tensor_like()
    ]
    alone = len(tensors) == 1 and not any(
        is_tensor_list(a) for a in f.func.arguments.flat_positional
    )
    if f.device_check is DeviceCheckType.NoCheck or alone:
        return []
    check = "check_and_update_common_device"
    return ["std::optional<c10::Device> device;"] + [
        f'{check}(device, {name}, "aten::{f.func.name}", "{name}");' for name in tensors
    ]


# ---- layout --------------------------------------------------------------------------------------


def _tidy(type_: str) -> str:
    """torchgen's spelling of a type in the project's style."""
    return type_.replace(" &", "&").replace("::std::", "std::").replace(",", ", ")


def _wrap_call(head: str, parts: list[str], tail: str, indent: int) -> list[str]:
    """Parameters aligned after the bracket."""
    lines = [" " * indent + head]
    column = len(lines[0])
    for i, part in enumerate(parts):
        last = i == len(parts) - 1
        piece = part + (tail if last else ",")
        fits = len(lines[-1]) + len(piece) + (0 if lines[-1].endswith("(") else 1) <= WIDTH
        if lines[-1].endswith("("):
            lines[-1] += piece
        elif fits:
            lines[-1] += " " + piece
        else:
            lines.append(" " * column + piece)
    return lines


def _wrap_text(text: str, indent: int) -> list[str]:
    """Breaks a long statement at spaces; continuation by four. Keeps the text's own indent."""
    stripped = text.lstrip(" ")
    indent += len(text) - len(stripped)
    text = stripped.replace("const at::Tensor* t", "const@at::Tensor*@t")
    lines: list[str] = []
    current = " " * indent
    for word in text.split(" "):
        candidate = current + ("" if not current.strip() else " ") + word
        if len(candidate) > WIDTH and current.strip():
            lines.append(current)
            current = " " * (indent + 4) + word
        else:
            current = candidate
    lines.append(current)
    return [line.replace("@", " ") for line in lines]
