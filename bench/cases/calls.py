# SPDX-License-Identifier: Apache-2.0
"""What a call costs the Python program."""

from __future__ import annotations

from bench.harness import ADAPTIVE, CPU, Bench, medians, take_turns
from bench.tables import Column, Table, goal, show_goal, show_ratio, show_time

COLUMNS = [
    Column("call", "call"),
    Column("cpu", "CPU eager", show_time),
    Column("neuron", "adaptive", show_time),
    Column("ratio", "adaptive / CPU", show_ratio),
    Column("goal", "goal", show_goal),
]
LIMITS = {("add", False): 1.0}


def run(bench: Bench) -> Table:
    settings = bench.settings
    rows = []
    with bench.workers([CPU, ADAPTIVE], "bench.operations:Calls") as workers:
        for name in ("add", "mul"):
            bench.progress(name)
            for worker in workers.values():
                worker.call("select", name=name)
            for wait in (False, True):
                samples = take_turns(
                    workers, settings.turns, "turn", wait=wait, seconds=settings.seconds
                )
                times = medians(samples)
                ratio = times[ADAPTIVE.name] / times[CPU.name]
                part = "1,000 calls and the wait, a call" if wait else "the call alone"
                row = {"call": f"{name} of 4x4: {part}", **times, "ratio": ratio}
                if (name, wait) in LIMITS:
                    row["goal"] = goal(ratio, LIMITS[name, wait])
                rows.append(row)
    return Table("Cost of a call from Python", COLUMNS, rows)
