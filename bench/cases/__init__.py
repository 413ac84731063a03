# SPDX-License-Identifier: Apache-2.0
"""The cases of the suite by name: functions of a ``Bench`` that give a ``Table``."""

from bench.cases import (
    bits,
    calls,
    first_step,
    memory,
    operations,
    shapes,
    slow_compiler,
    training,
)

CASES = {
    "training": training.gpt,
    "llama": training.llama,
    "first-step": first_step.run,
    "calls": calls.run,
    "operations": operations.run,
    "shapes": shapes.run,
    "slow-compiler": slow_compiler.run,
    "memory": memory.run,
    "bits": bits.run,
}
