# SPDX-License-Identifier: Apache-2.0
"""The generator of typed kernels: complete, deterministic, and strict about its table."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torchgen
import yaml

ROOT = Path(__file__).resolve().parents[2]
GENERATOR = ROOT / "tools" / "codegen" / "gen.py"
GOLDEN = Path(__file__).parent / "golden"

sys.path.insert(0, str(GENERATOR.parent))
import emit  # noqa: E402
import gen  # noqa: E402
import operators  # noqa: E402


def run(*arguments: str, hash_seed: str = "0") -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, str(GENERATOR), *arguments]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout


def registered(files: dict[str, str]) -> Counter[str]:
    return Counter(re.findall(r'm\.impl\("([^"]+)"', "\n".join(files.values())))


@pytest.fixture(scope="module")
def loaded() -> operators.Operators:
    return operators.load()


@pytest.fixture(scope="module")
def files(loaded) -> dict[str, str]:
    return emit.files(loaded.generated)


def structured_overloads() -> set[str]:
    """Read without torchgen's model: overloads whose structured form has a CPU kernel."""
    path = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
    functions = {f["func"].split("(")[0]: f for f in yaml.safe_load(path.read_text())}
    primary = {
        name
        for name, f in functions.items()
        if f.get("structured")
        and (
            "ufunc_inner_loop" in f
            or any("CPU" in re.split(r",\s*", keys) for keys in f["dispatch"])
        )
    }
    delegates = {n for n, f in functions.items() if f.get("structured_delegate") in primary}
    return primary | delegates


def test_no_operator_is_lost(loaded, files):
    skipped = {
        str(f.func.name)
        for group in operators.structured_groups()
        if str(group.functional.func.name) in loaded.skipped
        for f in group.functions()
    }
    kernels = registered(files)
    assert set(kernels) | skipped == structured_overloads()
    assert set(kernels) & skipped == set()
    assert set(kernels.values()) == {1}


def test_output_does_not_depend_on_the_process(tmp_path):
    for seed in ("1", "2"):
        run("--out", str(tmp_path / seed), hash_seed=seed)
    names = run("--list").split()
    assert sorted(p.name for p in (tmp_path / "1").iterdir()) == sorted(names)
    for name in names:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_unchanged_files_keep_their_time_stamp(tmp_path):
    gen.write(tmp_path)
    changed = tmp_path / emit.file_names()[0]
    changed.write_text("// edited\n")
    for path in tmp_path.iterdir():
        os.utime(path, ns=(0, 0))
    gen.write(tmp_path)
    assert [p.name for p in tmp_path.iterdir() if p.stat().st_mtime_ns != 0] == [changed.name]


def test_an_operators_file_depends_on_its_name_alone(loaded, files):
    fewer = emit.files(loaded.generated[::2])
    for name, text in fewer.items():
        assert set(registered({name: text})) <= set(registered({name: files[name]}))


@pytest.mark.parametrize("path", sorted(GOLDEN.iterdir()), ids=lambda p: p.stem)
def test_golden(path):
    shown = gen.show(path.stem)
    assert shown == path.read_text(), (
        f"is the change meant? gen.py --show {path.stem} has the new text"
    )


def test_lines_fit(files):
    assert [line for text in files.values() for line in text.splitlines() if len(line) > 100] == []


def test_report_gives_a_reason_for_every_skipped_operator(monkeypatch):
    table = {**operators.read_table(), "mm": operators.Entry(skip="written by hand")}
    monkeypatch.setattr(operators, "read_table", lambda: table)
    lines = gen.report().splitlines()
    total = len(operators.structured_groups())
    skipped = operators.load().skipped
    assert f"{total} structured operators with a CPU kernel" in lines
    assert f"{len(skipped)} skipped" in lines
    assert [line for line in lines if line.startswith("  ")] == [
        f"  {name}: {reason}" for name, reason in skipped.items()
    ]
    assert all(skipped.values())
    assert skipped["mm"] == "written by hand"
    assert 'm.impl("mm' not in "".join(emit.files(operators.load().generated).values())


def test_table_is_json_of_all_operators(loaded):
    rows = json.loads(run("--table"))
    assert [r["op"] for r in rows] == [f"aten::{o.name}" for o in loaded.generated]
    add = next(r for r in rows if r["op"] == "aten::add.Tensor")
    assert add["variants"] == ["aten::add.Tensor", "aten::add_.Tensor", "aten::add.out"]
    assert add["split"] == "pointwise"


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("mm", {"spilt": "rows"}, "unknown keys"),
        ("mm", {"split": "columns"}, "split must be one of"),
        ("mm", {"split": "none", "whole": ["mat2"]}, "belongs to split: rows"),
        ("mm", {"split": "rows", "whole": ["other"]}, "names no tensor"),
        ("no_such_op", {"split": "rows"}, "not structured operators"),
        ("mm", {"body": "at::cpu::mm_outf($self, $other, $out);"}, "no argument 'other'"),
    ],
)
def test_mistakes_in_the_table_are_errors(tmp_path, name, row, message):
    path = tmp_path / "ops.yaml"
    path.write_text(yaml.safe_dump({name: row}))
    with pytest.raises(operators.TableError, match=message):
        emit.files(operators.load(operators.read_table(path)).generated)


def test_only_tagged_iterator_operators_are_pointwise_by_default():
    plain = operators.load({}).generated
    for operator in plain:
        if operator.entry.split == "pointwise":
            assert "pointwise" in operator.group.functional.tags
            assert operator.group.out.structured_inherits == "TensorIteratorBase"
            assert len(operator.outputs) == 1
        else:
            assert operator.entry.split == "none"
