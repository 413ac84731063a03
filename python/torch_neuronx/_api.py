# SPDX-License-Identifier: Apache-2.0
"""Registers the device ``neuron`` with PyTorch; its names become those of ``torch_neuronx``.

Imported once, by ``_autoload``. The order matters: the library first (it registers the kernels),
then the name, then the Python module of the device, then what generates methods from the name.
"""

import atexit
import os

import torch

from torch_neuronx import _C


def is_neuron_runtime_initialized() -> bool:
    """True once a device has been used in this process."""
    return _C.is_initialized()


torch.utils.rename_privateuse1_backend("neuron")

from torch_neuronx import _interop, memory, metrics, neuron  # noqa: E402
from torch_neuronx._compile import (  # noqa: E402
    NEFFCompilationError,
    get_dynamo_metrics,
    registration,
    reset_dynamo_metrics,
)
from torch_neuronx._eager_mode import (  # noqa: E402
    eager_mode,
    get_eager_mode,
    set_eager_mode,
)
from torch_neuronx._explain import explain  # noqa: E402
from torch_neuronx._op_tracking import (  # noqa: E402
    clear_op_tracking,
    get_executed_ops,
    get_fallback_ops,
)
from torch_neuronx.neuron import (  # noqa: E402
    Event,
    Stream,
    StreamContext,
    current_device,
    current_stream,
    default_stream,
    device,
    device_count,
    empty_cache,
    get_device_name,
    get_device_properties,
    init,
    is_available,
    is_initialized,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
    set_device,
    set_stream,
    stream,
    synchronize,
)

torch._register_device_module("neuron", neuron)
torch.utils.generate_methods_for_privateuse1_backend(
    for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
)
_interop.install()
registration.install()

# Source lines of reports name the user's code: frames of these packages are skipped.
_C.set_library_paths([os.path.dirname(os.path.abspath(p)) for p in (torch.__file__, __file__)])

# A backward pass runs on the thread that asked for it. The hand-off to autograd's own thread costs
# several times the work of recording the operations, and the device is asynchronous anyway. It
# holds for the importing thread; torch.autograd.set_multithreading_enabled(True) undoes it.
torch.autograd.set_multithreading_enabled(False)

# Queued work runs to its end and the threads are joined while the interpreter still lives.
atexit.register(_C.shutdown)

__all__ = [
    "Event",
    "NEFFCompilationError",
    "Stream",
    "StreamContext",
    "clear_op_tracking",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "eager_mode",
    "empty_cache",
    "explain",
    "get_device_name",
    "get_device_properties",
    "get_eager_mode",
    "get_dynamo_metrics",
    "get_executed_ops",
    "get_fallback_ops",
    "init",
    "is_available",
    "is_initialized",
    "is_neuron_runtime_initialized",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "metrics",
    "reset_accumulated_memory_stats",
    "reset_dynamo_metrics",
    "reset_peak_memory_stats",
    "set_device",
    "set_eager_mode",
    "set_stream",
    "stream",
    "synchronize",
]
