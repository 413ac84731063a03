# SPDX-License-Identifier: Apache-2.0
"""Rules on the C++ sources that the compiler does not check.

``violations(root)`` reads every file under ``root/csrc`` and returns one line for each breach of:

* the arrows between the folders of ``csrc/neuron`` (``ARROWS``; the table has no cycle);
* no header of PyTorch, pybind11 or Python, and none of the glue, in ``csrc/neuron``;
* LLVM only in ``csrc/neuron/host/codegen``, and that folder's headers nowhere else except its C
  interface ``codegen_api.h``;
* the environment is read in ``csrc/neuron/base/config.cpp`` only;
* quoted includes start at ``csrc``, so that each is checked;
* at most ``MAX_LINES`` lines a file, and the licence in the first line.
"""

import re
from graphlib import TopologicalSorter
from pathlib import Path

MAX_LINES = 600
LICENCE = "// SPDX-License-Identifier: Apache-2.0"

# What describes a kernel (fusion writes it, the host target compiles it) is a layer below both.
LOOP_NEST = ("neuron/host/loop_nest", "neuron/host/kernel_args.h", "neuron/host/half.h")

# Layer of csrc/neuron -> layers that it may include beside itself. Other layers are folders.
ARROWS = {
    "base": set(),
    "ir": {"base"},
    "trace": {"base", "ir"},
    "store": {"base", "trace"},
    "lower": {"base", "ir"},
    "loop_nest": {"base", "ir"},
    "fuse": {"base", "ir", "lower", "loop_nest"},
    "target": {"base", "ir", "fuse"},
    "host": {"base", "ir", "lower", "loop_nest", "fuse", "store", "target", "trace"},
    "runtime": {"base", "ir", "target", "trace"},
    "eager": {"base", "ir", "lower", "loop_nest", "fuse", "host", "target", "trace", "runtime"},
}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
PYTORCH = re.compile(r"^(torch|ATen|c10|caffe2|pybind11)/|^Python\.h$")
LLVM = re.compile(r"^llvm(-c)?/")
ENVIRONMENT = re.compile(r"\b(secure_)?getenv\b|\benviron\b")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
CODEGEN = "csrc/neuron/host/codegen/"
CODEGEN_API = "neuron/host/codegen/codegen_api.h"


def cpp_sources(root: Path) -> list[Path]:
    return sorted(p for p in (root / "csrc").rglob("*") if p.suffix in (".h", ".cpp"))


def violations(root: Path) -> list[str]:
    tuple(TopologicalSorter(ARROWS).static_order())  # raises CycleError
    found = []
    for path in cpp_sources(root):
        name = path.relative_to(root).as_posix()
        text = path.read_text()
        found += [f"{name}: {problem}" for problem in _file_problems(name, text)]
        for bracket, header in INCLUDE.findall(text):
            problem = _include_problem(name, bracket, header)
            if problem:
                found.append(f"{name}: includes {header}: {problem}")
    return found


def _file_problems(name: str, text: str):
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        yield f"{len(lines)} lines, more than {MAX_LINES}"
    if not lines or lines[0] != LICENCE:
        yield f"the first line is not '{LICENCE}'"
    code = COMMENT.sub("", text)
    if name != "csrc/neuron/base/config.cpp" and ENVIRONMENT.search(code):
        yield "reads the environment; variables belong into csrc/neuron/base/config.h"


def _include_problem(name: str, bracket: str, header: str) -> str | None:
    in_core = name.startswith("csrc/neuron/")
    if LLVM.match(header):
        return None if name.startswith(CODEGEN) else "LLVM belongs into host/codegen"
    if bracket == "<":
        return "the core knows no PyTorch" if in_core and PYTORCH.match(header) else None
    if header.startswith("torch/"):
        return "the core knows no glue" if in_core else None
    target = _layer(header)
    if target is None:
        return "quoted includes start with neuron/ or torch/"
    if header.startswith("neuron/host/codegen/") and not name.startswith(CODEGEN):
        return None if header == CODEGEN_API else "host/codegen is reached through its C interface"
    if in_core:
        source = _layer(name.removeprefix("csrc/"))
        if source not in ARROWS:
            return f"the layer {source} is not in ARROWS"
        if target != source and target not in ARROWS[source]:
            return f"{source} must not depend on {target}"
    return None


def _layer(path: str) -> str | None:
    if path.startswith(LOOP_NEST):
        return "loop_nest"
    match = re.match(r"neuron/([^/]+)/", path)
    return match[1] if match else None
