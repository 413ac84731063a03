# SPDX-License-Identifier: Apache-2.0
"""The same training on the CPU and on the device, loss by loss."""

import math
import time
from dataclasses import dataclass
from statistics import median

from char_gpt.training import Trainer

RELATIVE_TOLERANCE = 1e-4
# Below a loss of 0.01 the rounding of float32 itself comes near the relative bound.
ABSOLUTE_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Run:
    device: str  # and how, if not eagerly
    losses: list[float]
    step_seconds: list[float]

    @property
    def typical_step(self) -> float:
        """Median over the second half, when caches of every kind are warm."""
        return median(self.step_seconds[len(self.step_seconds) // 2 :])


def run_steps(trainer: Trainer, count: int) -> Run:
    """Trains `count` steps and waits for the loss of each."""
    losses = []
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        losses.append(trainer.step().item())
        seconds.append(time.perf_counter() - start)
    return Run(trainer.label, losses, seconds)


@dataclass(frozen=True)
class Comparison:
    reference: Run
    run: Run

    @property
    def rows(self) -> list[tuple[float, float, float, bool]]:
        """Per step: reference loss, loss, relative difference, whether they agree."""
        return [
            (expected, actual, _relative_difference(expected, actual), _agree(expected, actual))
            for expected, actual in zip(self.reference.losses, self.run.losses, strict=True)
        ]

    @property
    def agrees(self) -> bool:
        return all(agrees for *_, agrees in self.rows)

    @property
    def largest_difference(self) -> float:
        differences = [difference for _, _, difference, _ in self.rows]
        return math.nan if any(map(math.isnan, differences)) else max(differences)

    @property
    def step_time_ratio(self) -> float:
        return self.run.typical_step / self.reference.typical_step


def _agree(expected: float, actual: float) -> bool:
    return math.isfinite(expected) and math.isclose(
        expected, actual, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE
    )


def _relative_difference(expected: float, actual: float) -> float:
    if expected == actual:
        return 0.0
    return abs(actual - expected) / max(abs(expected), abs(actual))
