# SPDX-License-Identifier: Apache-2.0
"""The first step at a new sequence length or batch size."""

from __future__ import annotations

import statistics
from typing import Any

from bench.harness import ADAPTIVE, CPU, Bench
from bench.sizes import SHAPES
from bench.tables import Column, Table, goal, show_goal, show_ratio, show_time

MODEL = "small"
SEQUENCES = (96, 112, 120, 72, 64, 104)
BATCHES = (6, 7, 4)
REPEATS = 7  # repeated steps at each size
MEDIAN_LIMIT, WORST_LIMIT = 1.2, 2.0  # first step / repeated step

COLUMNS = [
    Column("size", "batch x sequence"),
    Column("first", "first step", show_time),
    Column("repeated", "repeated step", show_time),
    Column("ratio", "ratio", show_ratio),
    Column("goal", "goal", show_goal),
    Column("kernels", "new kernels"),
    Column("kernels_goal", "goal", show_goal),
    Column("cpu_ratio", "CPU eager's ratio", show_ratio),
]


def run(bench: Bench) -> Table:
    full = SHAPES[MODEL]
    sizes = [(full.batch, length) for length in SEQUENCES]
    sizes += [(batch, full.sequence) for batch in BATCHES]
    samples = {side.name: {size: [] for size in sizes} for side in (CPU, ADAPTIVE)}
    for i in range(bench.settings.processes):
        bench.progress(f"process {i + 1} of {bench.settings.processes}")
        sides = [CPU, ADAPTIVE]
        with bench.workers(sides, "bench.training:Training", model=MODEL) as workers:
            for worker in workers.values():
                worker.call("warm_up")
            for size in sizes:
                for name, worker in workers.items():
                    samples[name][size].append(_visit(worker, *size))
    rows = [_row(size, samples[ADAPTIVE.name][size], samples[CPU.name][size]) for size in sizes]
    ratios = [row["ratio"] for row in rows]
    cpu_ratios = [row["cpu_ratio"] for row in rows]
    kernels = [row["kernels"] for row in rows]
    for size, pick, limit in (
        ("median", statistics.median, MEDIAN_LIMIT),
        ("worst", max, WORST_LIMIT),
    ):
        rows.append(
            {
                "size": size,
                "ratio": pick(ratios),
                "goal": goal(pick(ratios), limit),
                "kernels": pick(kernels),
                "kernels_goal": goal(pick(kernels), 0) if size == "median" else None,
                "cpu_ratio": pick(cpu_ratios),
            }
        )
    note = (
        f"The {MODEL} model, after steps at {full.batch} x {full.sequence}, at one size after the "
        f"other; processes of each side: {bench.settings.processes}."
    )
    return Table("First step at a new size", COLUMNS, rows, [note])


def _visit(worker, batch: int, sequence: int) -> dict[str, Any]:
    worker.call("use_batch", batch=batch, sequence=sequence)
    first = worker.call("first_step")
    repeated = [worker.call("first_step") for _ in range(REPEATS)]
    return {
        "first": first["seconds"],
        "repeated": statistics.median(step["seconds"] for step in repeated),
        "kernels": sum(s["foreground"] + s["background"] for s in (first, *repeated)),
    }


def _row(size: tuple[int, int], device: list[dict], cpu: list[dict]) -> dict[str, Any]:
    def median(samples, key):
        return statistics.median(sample[key] for sample in samples)

    return {
        "size": f"{size[0]} x {size[1]}",
        "first": median(device, "first"),
        "repeated": median(device, "repeated"),
        "ratio": median(device, "first") / median(device, "repeated"),
        "kernels": max(sample["kernels"] for sample in device),
        "cpu_ratio": median(cpu, "first") / median(cpu, "repeated"),
    }
