# SPDX-License-Identifier: Apache-2.0
"""Repeated training steps: the device's modes against CPU eager and Inductor."""

from __future__ import annotations

from typing import Any

from bench.harness import ADAPTIVE, COMPILED, CPU, INDUCTOR, STRICT, Bench, medians, take_turns
from bench.tables import Column, Table, goal, show_goal, show_ratio, show_time

BLOCKS = {"tiny": 10, "small": 5, "mid": 2, "llama": 5}  # steps between two reads of the loss
PRECISIONS = ("float32", "bf16 autocast")
PRE_RUN_ROUNDS = 3

# Limits of median / median: against the better of CPU eager and Inductor.
ADAPTIVE_GOALS = {
    ("tiny", "float32"): 0.8,
    ("small", "float32"): 0.8,
    ("mid", "float32"): 0.85,
    ("small", "bf16 autocast"): 0.65,
    ("mid", "bf16 autocast"): 0.65,
}
COMPILED_GOALS = {
    ("tiny", "float32"): 0.5,
    ("small", "float32"): 0.75,
    ("mid", "float32"): 0.82,
    ("small", "bf16 autocast"): 0.6,
    ("mid", "bf16 autocast"): 0.6,
}
STRICT_GOALS = {("small", "float32"): 0.9, ("llama", "float32"): 0.75}  # adaptive / strict
STRICT_LIMIT = 1.03  # everywhere else

COLUMNS = [
    Column("model", "model"),
    Column("precision", "precision"),
    Column("block", "steps a read"),
    Column("cpu", "CPU eager", show_time),
    Column("inductor", "Inductor", show_time),
    Column("strict", "strict", show_time),
    Column("neuron", "adaptive", show_time),
    Column("ratio", "adaptive / best other", show_ratio),
    Column("goal", "goal", show_goal),
    Column("strict_ratio", "adaptive / strict", show_ratio),
    Column("strict_goal", "goal", show_goal),
    Column("compiled", "compiled", show_time),
    Column("compiled_ratio", "compiled / best other", show_ratio),
    Column("compiled_goal", "goal", show_goal),
]


def gpt(bench: Bench) -> Table:
    """GPT of several sizes, float32 and bfloat16 autocast."""
    runs = [(m, p, BLOCKS[m]) for m in bench.settings.models for p in PRECISIONS]
    if "small" in bench.settings.models:
        runs.insert(
            runs.index(("small", PRECISIONS[0], BLOCKS["small"])) + 1, ("small", PRECISIONS[0], 1)
        )
    return _table("GPT training step, median", bench, runs)


def llama(bench: Bench) -> Table:
    """A Llama-style model."""
    runs = [("llama", precision, BLOCKS["llama"]) for precision in PRECISIONS]
    return _table("Llama-style training step, median", bench, runs)


def _table(title: str, bench: Bench, runs: list[tuple[str, str, int]]) -> Table:
    rows = [_measure(bench, *run) for run in runs]
    columns = [column for column in COLUMNS if any(column.key in row for row in rows)]
    notes = [
        "Best flavour of AdamW: "
        + "; ".join(
            f"{row['model']} {row['precision']} "
            + ", ".join(f"{side} {flavour}" for side, flavour in row["optimizers"].items())
            for row in rows
        )
        + "."
    ]
    return Table(title, columns, rows, notes)


def _measure(bench: Bench, model: str, precision: str, block: int) -> dict[str, Any]:
    bench.progress(f"{model}, {precision}, loss read every {block} steps")
    settings = bench.settings
    sides = bench.training_sides()
    rounds = min(PRE_RUN_ROUNDS, settings.turns)
    with bench.workers(
        sides, "bench.training:Training", model=model, precision=precision
    ) as workers:
        first = {name: worker.call("first_step") for name, worker in workers.items()}
        optimizers = {
            name: worker.call("choose_optimizer", block=block, rounds=rounds)
            for name, worker in workers.items()
        }
        samples = take_turns(workers, settings.turns, "turn", block=block, seconds=settings.seconds)
    times = medians(samples)
    others = min(times[name] for name in (CPU.name, INDUCTOR.name) if name in times)
    adaptive, strict = times[ADAPTIVE.name], times[STRICT.name]
    key = (model, precision)
    row = {
        "model": model,
        "precision": precision,
        "block": block,
        "optimizers": optimizers,
        "first": first,
        **times,
        "ratio": adaptive / others,
        "strict_ratio": adaptive / strict,
        "strict_goal": goal(adaptive / strict, STRICT_GOALS.get(key, STRICT_LIMIT)),
    }
    if key in ADAPTIVE_GOALS:
        row["goal"] = goal(adaptive / others, ADAPTIVE_GOALS[key])
    if COMPILED.name in times:
        row["compiled_ratio"] = times[COMPILED.name] / others
        if key in COMPILED_GOALS:
            row["compiled_goal"] = goal(row["compiled_ratio"], COMPILED_GOALS[key])
    return row
