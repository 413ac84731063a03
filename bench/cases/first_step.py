# SPDX-License-Identifier: Apache-2.0
"""The first training step of a process whose kernel caches are empty."""

from __future__ import annotations

import statistics

from bench.harness import ADAPTIVE, CPU, INDUCTOR, Bench
from bench.tables import Column, Table, goal, show_goal, show_ratio, show_time

CPU_LIMIT = 2.0  # device / CPU eager
INDUCTOR_LIMIT = 1 / 50  # device / Inductor

COLUMNS = [
    Column("model", "model"),
    Column("cpu", "CPU eager", show_time),
    Column("inductor", "Inductor", show_time),
    Column("neuron", "adaptive", show_time),
    Column("ratio", "adaptive / CPU", show_ratio),
    Column("goal", "goal", show_goal),
    Column("inductor_factor", "sooner than Inductor", lambda factor: f"{factor:.0f}x"),
    Column("inductor_goal", "goal", lambda entry: "50x " + ("met" if entry["met"] else "missed")),
    Column("foreground", "foreground compiles"),
    Column("foreground_goal", "goal", show_goal),
    Column("background", "background compiles"),
]


def run(bench: Bench) -> Table:
    rows = []
    for model in (*bench.settings.models, "llama"):
        bench.progress(model)
        samples = {CPU.name: [], ADAPTIVE.name: []}
        for _ in range(bench.settings.processes):
            for side in (CPU, ADAPTIVE):
                samples[side.name].append(_first(bench, side, model))
        times = {n: statistics.median(s["seconds"] for s in v) for n, v in samples.items()}
        device = samples[ADAPTIVE.name]
        row = {
            "model": model,
            **times,
            "ratio": times[ADAPTIVE.name] / times[CPU.name],
            "goal": goal(times[ADAPTIVE.name] / times[CPU.name], CPU_LIMIT),
            "foreground": max(sample["foreground"] for sample in device),
            "background": max(sample["background"] for sample in device),
        }
        row["foreground_goal"] = goal(row["foreground"], 0)
        if bench.settings.inductor:
            row["inductor"] = _first(bench, INDUCTOR, model)["seconds"]
            row["inductor_factor"] = row["inductor"] / times[ADAPTIVE.name]
            row["inductor_goal"] = goal(1 / row["inductor_factor"], INDUCTOR_LIMIT)
        rows.append(row)
    columns = [column for column in COLUMNS if any(column.key in row for row in rows)]
    note = (
        f"Fresh processes of each side, taking turns, with empty caches: {bench.settings.processes}"
    )
    note += "; Inductor once." if bench.settings.inductor else "."
    return Table("First training step, float32", columns, rows, [note])


def _first(bench: Bench, side, model: str) -> dict[str, float]:
    with bench.workers([side], "bench.training:Training", model=model) as workers:
        return workers[side.name].call("first_step")
