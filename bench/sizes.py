# SPDX-License-Identifier: Apache-2.0
"""Sizes of what is measured. The harness reads them as well, so nothing here needs PyTorch."""

from dataclasses import dataclass

# Single operations.
ROWS, COLUMNS = 1024, 1024
ELEMENTS = ROWS * COLUMNS
PARAMETERS = 10_000_000  # of the optimizer that is measured alone
ADAMW = "fused AdamW, 10M parameters"


@dataclass(frozen=True)
class Shape:
    """Size of a model and of its training batch.

    Attributes:
        family: ``gpt`` or ``llama``.
        sequence: longest sequence, and the one that is trained on; in tokens.
        batch: sequences of a training step.
        kv_heads: heads of keys and values, where they are fewer than ``heads``.
    """

    family: str
    vocabulary: int
    width: int
    layers: int
    heads: int
    sequence: int
    batch: int
    kv_heads: int = 0


SHAPES = {
    "tiny": Shape("gpt", 96, 64, 2, 4, 64, 4),
    "small": Shape("gpt", 96, 128, 4, 4, 128, 8),
    "mid": Shape("gpt", 256, 384, 6, 6, 256, 4),
    "llama": Shape("llama", 96, 128, 4, 4, 128, 8, kv_heads=2),
}
