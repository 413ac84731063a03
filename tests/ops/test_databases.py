# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operator and module databases, every sample, device against CPU.

The pass lists hold what passed when they were written (`sweep.py SUITE --write`); a node may not
fall behind. A node that does not pass in full must be named in the notes with its reason, and a
named node must still fail.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import sweep  # noqa: E402


def recorded(path):
    lists = {}
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        node, samples, variants = line.rsplit(" ", 2)
        lists[tuple(node.rstrip(":").split(" "))] = [
            tuple(map(int, part.split("/"))) for part in (samples, variants)
        ]
    return lists


@pytest.mark.parametrize("suite, goal", [("op_db", 0.98), ("module_db", 0.98)])
@pytest.mark.timeout(1500)
def test_database(suite, goal, tmp_path, capsys):
    module = sweep.importlib.import_module(f"sweep_{suite}")
    results = sweep.run(suite, module.nodes(), tmp_path)
    with capsys.disabled():
        print(f"\n{sweep.summary(suite, results)}")

    pass_list = recorded(module.PASS_LIST)
    assert set(results) == set(pass_list), "nodes differ from the pass list"
    problems = []
    for node, result in results.items():
        failures = "\n".join(f["where"] + ": " + f["error"] for f in result["failures"])
        if "crash" in result:
            problems.append(f"{node}: {result['crash']}\n{failures}")
        (passed, _), (variants, _) = pass_list[node]
        if result["passed"] < passed or result["variants_passed"] < variants:
            problems.append(f"{node}: fell behind the pass list\n{failures}")
    failing = {node[0] for node, result in results.items() if result["failures"]}
    expected = set(module.notes()["expected_failures"])
    if failing - expected:
        problems.append(f"failures without a reason in the notes: {sorted(failing - expected)}")
    if expected - failing:
        problems.append(f"named in the notes, but pass: {sorted(expected - failing)}")
    assert not problems, "\n".join(problems)
    samples = sum(r["samples"] for r in results.values())
    assert sum(r["passed"] for r in results.values()) >= goal * samples
