# SPDX-License-Identifier: Apache-2.0
"""Functions that Dynamo traces as if they were the user's; ``tracing`` names this module to it."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import torch


def allow_flex_attention(module: ModuleType) -> None:
    """``module``, torch.nn.attention.flex_attention, refuses devices that it does not know."""
    validate: Callable[..., None] = module._validate_device

    def validate_device(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != "neuron":
            validate(query, key, value)

    module._validate_device = validate_device
