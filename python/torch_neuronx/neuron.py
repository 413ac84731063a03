# SPDX-License-Identifier: Apache-2.0
"""The device module ``torch.neuron``."""

from torch_neuronx import _utils as _utils
from torch_neuronx import memory as memory
from torch_neuronx import random as random
from torch_neuronx._amp import get_amp_supported_dtype, is_bf16_supported
from torch_neuronx._compile import get_dynamo_metrics, reset_dynamo_metrics
from torch_neuronx._device import (
    _is_in_bad_fork as _is_in_bad_fork,
)
from torch_neuronx._device import (
    _lazy_init as _lazy_init,
)
from torch_neuronx._device import (
    current_device,
    device,
    device_count,
    device_of,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_initialized,
    set_device,
    synchronize,
)
from torch_neuronx._streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    query,
    record_event,
    set_stream,
    stream,
    wait_event,
    wait_stream,
)
from torch_neuronx.memory import *  # noqa: F403
from torch_neuronx.memory import __all__ as _memory_names
from torch_neuronx.random import *  # noqa: F403
from torch_neuronx.random import __all__ as _random_names
from torch_neuronx.random import _get_generator as _get_generator
from torch_neuronx.random import default_generators

# Activation checkpointing saves random states only of modules that say this. The generators live on
# the host and exist from the start, whether a device does or not.
_initialized = True

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "get_amp_supported_dtype",
    "get_device_name",
    "get_device_properties",
    "get_dynamo_metrics",
    "get_stream_from_external",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "memory",
    "query",
    "random",
    "record_event",
    "reset_dynamo_metrics",
    "set_device",
    "set_stream",
    "stream",
    "synchronize",
    "wait_event",
    "wait_stream",
    *_memory_names,
    *_random_names,
]
