# SPDX-License-Identifier: Apache-2.0
"""Element-wise and row-wise work on a million elements, and the optimizer."""

from __future__ import annotations

from bench.harness import ADAPTIVE, CPU, STRICT, Bench, Worker, medians, take_turns
from bench.sizes import ADAMW, ELEMENTS, PARAMETERS
from bench.tables import Column, Table, goal, show_goal, show_percent, show_ratio, show_time

ADAPTIVE_LIMITS = {  # adaptive / CPU eager: forward, backward
    "chain of 10 pointwise": (0.2, None),
    "softmax": (0.5, 0.5),
    "masked softmax": (0.5, 0.5),
    "layer norm": (0.5, 0.5),
    "RMS norm by hand": (0.5, 0.5),
    "GELU (tanh)": (0.5, 0.5),
    "cross-entropy": (0.5, 0.5),
    "bf16 SiLU-mul": (0.5, None),
    ADAMW: (1.05, None),
}
STRICT_LIMIT = 1.03  # adaptive / strict

# The copy whose working set is an operation's: two tensors of 1M elements, or AdamW's four of 10M.
COPIED_ELEMENTS = {ADAMW: 2 * PARAMETERS}

COLUMNS = [
    Column("operation", "operation"),
    Column("cpu", "CPU eager", show_time),
    Column("strict", "strict", show_time),
    Column("neuron", "adaptive", show_time),
    Column("ratio", "adaptive / CPU", show_ratio),
    Column("goal", "goal", show_goal),
    Column("strict_ratio", "adaptive / strict", show_ratio),
    Column("strict_goal", "goal", show_goal),
    Column("bandwidth", "GB/s", lambda value: f"{value / 1e9:.1f}"),
    Column("share", "of a copy's", show_percent),
]


def run(bench: Bench) -> Table:
    rows = []
    copies = {}  # bytes a second by number of elements
    with bench.workers([CPU, STRICT, ADAPTIVE], "bench.operations:Operations") as workers:
        for elements in (ELEMENTS, 2 * PARAMETERS):
            bench.progress(f"copy of {elements} elements")
            copies[elements] = _copy_bandwidth(bench, workers[CPU.name], elements)
        for name in ADAPTIVE_LIMITS:
            for backward in (False,) if name == ADAMW else (False, True):
                bench.progress(name + (", backward" if backward else ""))
                rows.append(_measure(bench, workers, name, backward, copies))
    notes = [
        "A sample is one call with the wait for its result. Rows are 1024 x 1024 float32 unless "
        "named otherwise. GB/s counts every tensor that the adaptive side must read or write once; "
        "the share is of PyTorch's CPU copy with the same working set: "
        + ", ".join(f"{b / 1e9:.1f} GB/s for {n / 1e6:.0f}M elements" for n, b in copies.items())
        + "."
    ]
    return Table("Operations on 1M elements", COLUMNS, rows, notes)


def _copy_bandwidth(bench: Bench, worker: Worker, elements: int) -> float:
    moved = worker.call("select_copy", elements=elements)
    settings = bench.settings
    samples = take_turns({"copy": worker}, settings.turns, "turn", seconds=settings.seconds / 2)
    return moved / medians(samples)["copy"]


def _measure(
    bench: Bench, workers: dict[str, Worker], name: str, backward: bool, copies: dict[int, float]
) -> dict:
    settings = bench.settings
    for worker in workers.values():
        moved = worker.call("select", name=name, backward=backward)
    times = medians(take_turns(workers, settings.turns, "turn", seconds=settings.seconds / 2))
    adaptive = times[ADAPTIVE.name]
    ratio, strict_ratio = adaptive / times[CPU.name], adaptive / times[STRICT.name]
    row = {
        "operation": name + (", backward" if backward else ""),
        **times,
        "ratio": ratio,
        "strict_ratio": strict_ratio,
        "strict_goal": goal(strict_ratio, STRICT_LIMIT),
        "bytes": moved,
        "bandwidth": moved / adaptive,
        "share": moved / adaptive / copies[COPIED_ELEMENTS.get(name, ELEMENTS)],
    }
    limit = ADAPTIVE_LIMITS[name][backward]
    if limit is not None:
        row["goal"] = goal(ratio, limit)
    return row
