# SPDX-License-Identifier: Apache-2.0
"""A check: every mode and thread count gives the same parameters, to the bit."""

from __future__ import annotations

from collections.abc import Mapping

from bench.harness import ADAPTIVE, STRICT, Bench, Side
from bench.tables import Column, Table

PRECISIONS = ("float32", "bf16 autocast")

SIDES = [
    ADAPTIVE,
    Side("again"),
    STRICT,
    Side("blocking", environment={"NEURON_LAUNCH_BLOCKING": "1"}),
    *(Side(f"threads={n}", environment={"TORCH_NEURONX_NUM_THREADS": str(n)}) for n in (1, 2, 4)),
]

COLUMNS = [
    Column("model", "model"),
    Column("precision", "precision"),
    Column("steps", "steps"),
    Column("result", "parameters"),
]


def run(bench: Bench) -> Table:
    rows = []
    for model in (*bench.settings.models, "llama"):
        for precision in PRECISIONS:
            digests = {}
            for side in SIDES:
                bench.progress(f"{model}, {precision}, {side.name}")
                with bench.workers(
                    [side], "bench.training:Training", model=model, precision=precision
                ) as workers:
                    digests[side.name] = workers[side.name].call(
                        "digest", steps=bench.settings.bit_steps
                    )
            rows.append(
                {
                    "model": model,
                    "precision": precision,
                    "steps": bench.settings.bit_steps,
                    "digests": digests,
                    "different": different(digests),
                }
            )
    return table(rows)


def different(digests: Mapping[str, str]) -> list[str]:
    """The sides whose digest is not that of adaptive mode."""
    return [name for name, digest in digests.items() if digest != digests[ADAPTIVE.name]]


def table(rows: list[dict]) -> Table:
    for row in rows:
        names = ", ".join(row["different"])
        row["result"] = f"DIFFERENT: {names}" if names else "equal"
    note = f"Compared with adaptive mode: {', '.join(side.name for side in SIDES[1:])}."
    failed = any(row["different"] for row in rows)
    return Table("Bits of the parameters after training", COLUMNS, rows, [note], failed)
