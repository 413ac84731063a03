# SPDX-License-Identifier: Apache-2.0
"""What ``torch.autocast("neuron")`` asks a device module."""

import torch


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float32, torch.float16, torch.bfloat16]


def is_bf16_supported() -> bool:
    return True
