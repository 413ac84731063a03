# SPDX-License-Identifier: Apache-2.0
"""The most memory that tensors hold in a training step."""

from __future__ import annotations

from bench.harness import ADAPTIVE, STRICT, Bench
from bench.tables import Column, Table, goal, show_goal, show_megabytes, show_ratio

STEPS = 5

COLUMNS = [
    Column("model", "model"),
    Column("strict", "strict", show_megabytes),
    Column("neuron", "adaptive", show_megabytes),
    Column("ratio", "adaptive / strict", show_ratio),
    Column("goal", "goal", show_goal),
]


def run(bench: Bench) -> Table:
    rows = []
    for model in (*bench.settings.models, "llama"):
        bench.progress(model)
        with bench.workers([STRICT, ADAPTIVE], "bench.training:Training", model=model) as workers:
            for worker in workers.values():
                worker.call("warm_up")
            peaks = {n: worker.call("peak_bytes", steps=STEPS) for n, worker in workers.items()}
        ratio = peaks[ADAPTIVE.name] / peaks[STRICT.name]
        rows.append({"model": model, **peaks, "ratio": ratio, "goal": goal(ratio, 1.0)})
    note = f"Peak of allocated bytes in {STEPS} steps after warm-up, float32."
    return Table("Memory of a training step", COLUMNS, rows, [note])
