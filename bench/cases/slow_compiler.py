# SPDX-License-Identifier: Apache-2.0
"""The policy on an emulated target whose compiler takes seconds.

Two analytic baselines bound what simpler policies reach: compile the whole step first and then run
it, or compile each distinct operation on its own and launch every operation of every step.
"""

from __future__ import annotations

import statistics

from bench.harness import ADAPTIVE, Bench, Side, medians, take_turns
from bench.tables import Column, Table, goal, show_goal, show_ratio, show_time

MODEL = "small"
STEPS = 30
READ_EVERY = 10

# The emulated target.
BASE, PER_OP = 0.200, 0.020  # seconds to compile a subgraph: a constant, and for each operation
LAUNCH = 500e-6  # seconds
WORKERS = 4  # subgraphs compiled side by side
EMULATED = Side(
    "emulated",
    environment={
        "TORCH_NEURONX_EMULATE_COMPILE_MS": f"{BASE * 1e3:g},{PER_OP * 1e3:g}",
        "TORCH_NEURONX_EMULATE_LAUNCH_US": f"{LAUNCH * 1e6:g}",
        "TORCH_NEURONX_COMPILE_WORKERS": str(WORKERS),
    },
)

# A step of the model: operations (a foreach call is one, a view none), and distinct ones.
OPERATIONS, DISTINCT = 253, 50

TOTAL_LIMIT = 0.6  # total / the better baseline
STEADY_LIMIT = 1.05  # steady step / (plain step + STEADY_LAUNCHES launches)
STEADY_LAUNCHES = 10

COLUMNS = [
    Column("measure", "measure"),
    Column("value", "measured", show_time),
    Column("reference", "reference", show_time),
    Column("ratio", "ratio", show_ratio),
    Column("goal", "goal", show_goal),
]
TITLE = "Emulated slow compiler"


def baselines(plain: float) -> dict[str, float]:
    """Seconds to the end of step ``STEPS`` of the simpler policies; ``plain``: of a plain step."""
    return {
        "whole step first": BASE + PER_OP * OPERATIONS + STEPS * plain,
        "each operation alone": DISTINCT * (BASE + PER_OP) / WORKERS
        + STEPS * (plain + OPERATIONS * LAUNCH),
    }


def run(bench: Bench) -> Table:
    missing = [name for name in EMULATED.environment if not bench.has_variable(name)]
    if missing:
        return Table(TITLE, COLUMNS, notes=[f"Not available: this build has no {missing[0]}."])
    totals, samples = [], {ADAPTIVE.name: [], EMULATED.name: []}
    for i in range(bench.settings.processes):
        bench.progress(f"process {i + 1} of {bench.settings.processes}")
        with bench.workers([ADAPTIVE, EMULATED], "bench.training:Training", model=MODEL) as workers:
            totals.append(workers[EMULATED.name].call("run", steps=STEPS, read_every=READ_EVERY))
            for worker in workers.values():
                worker.call("warm_up")
            turns = take_turns(workers, bench.settings.turns, "turn", block=READ_EVERY, seconds=0)
            for name, values in turns.items():
                samples[name] += values
    times = medians(samples)
    plain, steady, total = times[ADAPTIVE.name], times[EMULATED.name], statistics.median(totals)
    rows = [
        _row(f"to step {STEPS}, against: {name}", total, reference, TOTAL_LIMIT)
        for name, reference in baselines(plain).items()
    ]
    rows.append(
        _row(
            f"steady step, against: plain step + {STEADY_LAUNCHES} launches",
            steady,
            plain + STEADY_LAUNCHES * LAUNCH,
            STEADY_LIMIT,
        )
    )
    note = (
        f"The {MODEL} model, loss read every {READ_EVERY} steps; a subgraph compiles in "
        f"{BASE * 1e3:g} ms + {PER_OP * 1e3:g} ms an operation, {WORKERS} side by side, and takes "
        f"{LAUNCH * 1e6:g} us to launch. Plain step: {show_time(plain)}."
    )
    return Table(TITLE, COLUMNS, rows, [note])


def _row(measure: str, value: float, reference: float, limit: float) -> dict:
    ratio = value / reference
    return {
        "measure": measure,
        "value": value,
        "reference": reference,
        "ratio": ratio,
        "goal": goal(ratio, limit),
    }
