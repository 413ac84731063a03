# SPDX-License-Identifier: Apache-2.0
"""The layers of csrc/, read from its includes; and bad samples that the check has to find."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from check_sources import ARROWS, LICENCE, MAX_LINES, cpp_sources, violations

ROOT = Path(__file__).resolve().parents[2]


def test_sources_keep_the_layers():
    assert len(cpp_sources(ROOT)) > 20  # the check looks at the right place
    assert violations(ROOT) == []


def write(root: Path, name: str, *lines: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join((LICENCE, *lines)) + "\n")


@pytest.mark.parametrize(
    ("name", "line", "problem"),
    [
        ("csrc/neuron/base/a.h", '#include "neuron/ir/op.h"', "base must not depend on ir"),
        ("csrc/neuron/ir/a.h", '#include "neuron/runtime/x.h"', "ir must not depend on runtime"),
        ("csrc/neuron/runtime/a.h", '# include "neuron/eager/x.h"', "must not depend on eager"),
        ("csrc/neuron/runtime/a.h", '#include "neuron/host/x.h"', "must not depend on host"),
        ("csrc/neuron/store/a.cpp", '#include "neuron/host/x.h"', "must not depend on host"),
        ("csrc/neuron/fuse/a.cpp", '#include "neuron/host/kernel.h"', "must not depend on host"),
        (
            "csrc/neuron/host/loop_nest_a.cpp",
            '#include "neuron/host/kernel.h"',
            "loop_nest must not depend on host",
        ),
        ("csrc/neuron/new/a.cpp", '#include "neuron/base/x.h"', "new is not in ARROWS"),
        ("csrc/neuron/ir/a.cpp", "#include <ATen/core/Tensor.h>", "knows no PyTorch"),
        ("csrc/neuron/ir/a.cpp", "  #include <torch/library.h>", "knows no PyTorch"),
        ("csrc/neuron/ir/a.cpp", "#include <c10/util/Half.h>", "knows no PyTorch"),
        ("csrc/neuron/ir/a.cpp", "#include <pybind11/pybind11.h>", "knows no PyTorch"),
        ("csrc/neuron/ir/a.cpp", "#include <Python.h>", "knows no PyTorch"),
        ("csrc/neuron/ir/a.cpp", '#include "torch/op_call.h"', "knows no glue"),
        ("csrc/neuron/host/a.cpp", "#include <llvm/IR/Module.h>", "LLVM belongs into"),
        ("csrc/neuron/host/a.cpp", "#include <llvm-c/Core.h>", "LLVM belongs into"),
        ("csrc/torch/a.cpp", "#include <llvm/IR/Module.h>", "LLVM belongs into"),
        ("csrc/torch/a.cpp", '#include "neuron/host/codegen/emit.h"', "through its C interface"),
        ("csrc/torch/a.cpp", '#include "a.h"', "quoted includes start with"),
        ("csrc/torch/a.cpp", 'auto* v = std::getenv("X");', "reads the environment"),
        ("csrc/neuron/base/a.cpp", "extern char** environ;", "reads the environment"),
    ],
)
def test_a_bad_line_is_found(tmp_path, name, line, problem):
    write(tmp_path, name, line)
    (found,) = violations(tmp_path)
    assert found.startswith(name)
    assert problem in found


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("csrc/neuron/runtime/a.h", '#include "neuron/trace/x.h"'),
        ("csrc/neuron/runtime/a.h", '#include "neuron/runtime/x.h"'),
        ("csrc/neuron/runtime/a.h", "// nothing calls getenv here"),
        ("csrc/neuron/fuse/a.cpp", '#include "neuron/host/loop_nest.h"'),
        ("csrc/neuron/host/a.cpp", '#include "neuron/host/codegen/codegen_api.h"'),
        ("csrc/neuron/host/codegen/a.cpp", "#include <llvm/IR/Module.h>"),
        ("csrc/neuron/base/config.cpp", 'auto* v = std::getenv("X");'),
        ("csrc/torch/a.cpp", "#include <ATen/core/Tensor.h>"),
        ("csrc/torch/a.cpp", '#include "neuron/eager/x.h"'),
    ],
)
def test_a_good_line_passes(tmp_path, name, line):
    write(tmp_path, name, line)
    assert violations(tmp_path) == []


def test_long_files_and_missing_licences_are_found(tmp_path):
    write(tmp_path, "csrc/torch/long.cpp", *[""] * MAX_LINES)
    write(tmp_path, "csrc/torch/bare.cpp")
    (tmp_path / "csrc/torch/bare.cpp").write_text("int x;\n")
    bare, long = violations(tmp_path)
    assert bare.startswith("csrc/torch/bare.cpp: the first line is not")
    assert long == f"csrc/torch/long.cpp: {MAX_LINES + 1} lines, more than {MAX_LINES}"


def test_a_cycle_between_layers_is_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(ARROWS, "base", {"eager"})
    with pytest.raises(ValueError, match="cycle"):
        violations(tmp_path)
