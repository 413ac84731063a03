# SPDX-License-Identifier: Apache-2.0
"""The cases with as little work as possible, and the command's forms of output. Times are noise
here: nothing is said about how fast a side is."""

import contextlib
import dataclasses
import io
import json
import math

import pytest

from bench import run as command
from bench import tables
from bench.cases import CASES, bits, slow_compiler, training
from bench.harness import ADAPTIVE, CPU, QUICK, STRICT, Bench

LEAST = dataclasses.replace(QUICK, turns=1, seconds=0.0, processes=1, models=("tiny",), bit_steps=2)


@pytest.fixture(scope="module")
def bench():
    return Bench(LEAST)


def is_time(value):
    return math.isfinite(value) and value > 0


def test_the_build_is_described(bench):
    assert bench.has_variable("TORCH_NEURONX_EAGER_MODE")
    assert not bench.has_variable("TORCH_NEURONX_ABSENT")
    assert "inductor" in bench.build["compilers"]
    assert bench.build["machine"]["processors"] >= 1
    sides = bench.training_sides()
    assert sides[:3] == [CPU, STRICT, ADAPTIVE]


def test_training_steps_of_the_device_and_the_cpu(bench, monkeypatch):
    monkeypatch.setitem(training.BLOCKS, "tiny", 2)
    table = training.gpt(bench)
    assert [(row["model"], row["precision"]) for row in table.rows] == [
        ("tiny", "float32"),
        ("tiny", "bf16 autocast"),
    ]
    for row in table.rows:
        assert is_time(row["cpu"]) and is_time(row["neuron"]) and is_time(row["strict"])
        assert row["ratio"] == row["neuron"] / row["cpu"]
        assert set(row["optimizers"]) >= {"cpu", "neuron", "strict"}
        assert row["first"]["cpu"]["foreground"] == 0
    assert table.rows[0]["goal"]["limit"] == training.ADAPTIVE_GOALS["tiny", "float32"]


def test_memory_of_a_training_step(bench):
    table = CASES["memory"](bench)
    assert [row["model"] for row in table.rows] == ["tiny", "llama"]
    # AdamW alone holds parameters, gradients and two moments: 16 bytes a parameter.
    assert all(row["neuron"] > 16 * 100_000 and row["strict"] > 16 * 100_000 for row in table.rows)


def test_bits_are_compared_with_adaptive_mode():
    equal = dict.fromkeys((side.name for side in bits.SIDES), "0a")
    assert bits.different(equal) == []
    unequal = equal | {"blocking": "0b", "threads=4": "0c"}
    assert bits.different(unequal) == ["blocking", "threads=4"]
    row = {"model": "tiny", "different": bits.different(unequal)}
    table = bits.table([{"model": "tiny", "different": []}, row])
    assert table.failed
    assert [row["result"] for row in table.rows] == ["equal", "DIFFERENT: blocking, threads=4"]
    assert not bits.table([{"model": "tiny", "different": []}]).failed


def test_baselines_of_the_emulated_compiler():
    baselines = slow_compiler.baselines(0.050)
    assert baselines["whole step first"] == pytest.approx(0.2 + 0.02 * 253 + 30 * 0.050)
    alone = 50 * 0.22 / 4 + 30 * (0.050 + 253 * 500e-6)
    assert baselines["each operation alone"] == pytest.approx(alone)


def test_an_emulation_that_the_build_lacks_is_named():
    class Old:
        def has_variable(self, name):
            return not name.startswith("TORCH_NEURONX_EMULATE")

    table = slow_compiler.run(Old())
    assert table.rows == []
    assert table.notes == ["Not available: this build has no TORCH_NEURONX_EMULATE_COMPILE_MS."]


@pytest.fixture
def least(monkeypatch):
    monkeypatch.setattr(command, "QUICK", LEAST)


def run_command(*arguments):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        status = command.main(arguments)
    return status, printed.getvalue()


def test_the_command_writes_results_as_json(least, tmp_path):
    file = tmp_path / "results.json"
    status, printed = run_command("--quick", "--case", "calls", "--json", str(file))
    assert status == 0
    assert "Cost of a call from Python" in printed
    results = json.loads(file.read_text())
    assert results["machine"]["torch"]
    assert results["settings"]["turns"] == 1
    rows = results["cases"]["calls"]["rows"]
    assert [row["call"].split(":")[0] for row in rows] == ["add of 4x4"] * 2 + ["mul of 4x4"] * 2
    for row in rows:
        assert is_time(row["cpu"]) and is_time(row["neuron"])
    assert rows[0]["goal"] == {"limit": 1.0, "met": rows[0]["ratio"] <= 1.0}


def test_a_busy_machine_is_pointed_out(monkeypatch):
    monkeypatch.setattr(command, "busy_share", lambda: 0.04)
    assert command.warnings() == []
    monkeypatch.setattr(command, "busy_share", lambda: 0.31)
    assert command.warnings() == [
        "Other programs used 31% of the processors before this case: its figures mean little."
    ]


def test_a_failed_check_is_the_commands_status(least, monkeypatch, tmp_path):
    table = bits.table([{"model": "tiny", "different": ["strict"]}])
    monkeypatch.setitem(CASES, "bits", lambda bench: table)
    status, printed = run_command("--quick", "--case", "bits", "--markdown")
    assert status == command.UNEQUAL
    assert "| tiny |  |  | DIFFERENT: strict |" in printed


def test_an_unknown_case_is_refused(capsys):
    with pytest.raises(SystemExit) as refusal:
        command.main(["--case", "nothing"])
    assert refusal.value.code == 2
    assert "'nothing'" in capsys.readouterr().err


def test_tables_as_text_and_as_markdown():
    table = tables.Table(
        "Title",
        [
            tables.Column("name", "name"),
            tables.Column("time", "time", tables.show_time),
            tables.Column("goal", "goal", tables.show_goal),
        ],
        [
            {"name": "[a]", "time": 0.00123, "goal": tables.goal(0.5, 0.5)},
            {"name": "b", "time": 2.5e-7, "goal": tables.goal(0.6, 0.5), "more": 1},
            {"name": "c", "time": 250.0},
        ],
        ["A note."],
    )
    assert tables.markdown(table).splitlines() == [
        "### Title",
        "",
        "| name | time | goal |",
        "|---|---:|---:|",
        "| [a] | 1.23 ms | 0.5 met |",
        "| b | 250 ns | 0.5 missed |",
        "| c | 250 s |  |",
        "",
        "A note.",
    ]
    printed = io.StringIO()
    tables.print_table(table, tables.Console(file=printed, width=80))
    assert "[a]" in printed.getvalue() and "0.5 missed" in printed.getvalue()
