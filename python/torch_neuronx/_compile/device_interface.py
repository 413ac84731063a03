# SPDX-License-Identifier: Apache-2.0
"""What Dynamo and Inductor ask about the device.

The base class grows with every PyTorch version; members of newer ones are harmless in older ones,
and ``register`` takes the base class from the running PyTorch.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from torch_neuronx import _C, _version, memory
from torch_neuronx import neuron as device_module
from torch_neuronx._utils import DeviceLike, _get_device_index


def exchange_device(index: int) -> int:
    previous = device_module.current_device()
    device_module.set_device(index)
    return previous


def maybe_exchange_device(index: int) -> int:
    """As above; a negative index changes nothing and gives -1."""
    return exchange_device(index) if index >= 0 else -1


def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
    device_module.set_stream(
        torch.Stream(stream_id=stream_id, device_index=device_index, device_type=device_type)
    )


class _Members:
    """Everything of the interface that needs no base class."""

    device = device_module.device
    Event = device_module.Event
    Stream = device_module.Stream

    current_device = staticmethod(device_module.current_device)
    set_device = staticmethod(device_module.set_device)
    exchange_device = staticmethod(exchange_device)
    maybe_exchange_device = staticmethod(maybe_exchange_device)
    device_count = staticmethod(device_module.device_count)
    is_available = staticmethod(device_module.is_available)
    stream = staticmethod(device_module.stream)
    current_stream = staticmethod(device_module.current_stream)
    set_stream = staticmethod(device_module.set_stream)
    _set_stream_by_id = staticmethod(_set_stream_by_id)
    synchronize = staticmethod(device_module.synchronize)
    get_device_properties = staticmethod(device_module.get_device_properties)
    memory_allocated = staticmethod(memory.memory_allocated)

    class Worker:
        """Asked by compile processes too: nothing here creates a device."""

        _current: int | None = None

        @classmethod
        def set_device(cls, device: int) -> None:
            cls._current = device

        @classmethod
        def current_device(cls) -> int:
            return device_module.current_device() if cls._current is None else cls._current

        @classmethod
        def get_device_properties(cls, device: DeviceLike = None) -> Any:
            if device is None:
                return device_module.get_device_properties(cls.current_device())
            return device_module.get_device_properties(_get_device_index(device))

    @staticmethod
    def get_raw_stream(device_idx: int) -> int:
        return device_module.current_stream(device_idx).stream_id

    @staticmethod
    def get_compute_capability(device: DeviceLike = None) -> str:
        return ""  # virtual cores have none; the text goes into cache keys

    @staticmethod
    def is_bf16_supported(including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def is_dtype_supported(dtype: torch.dtype, including_emulation: bool = False) -> bool:
        return True

    @staticmethod
    def is_triton_capable(device: DeviceLike = None) -> bool:
        return False

    @staticmethod
    def raise_if_triton_unavailable(device: DeviceLike = None) -> None:
        raise RuntimeError("Triton kernels cannot run on the device 'neuron'")

    # Members that PyTorch 2.13 does not ask for yet.

    @staticmethod
    def is_gpu() -> bool:
        return True

    @staticmethod
    def exposes_streams() -> bool:
        return True

    @staticmethod
    def is_graph_capture_supported() -> bool:
        return False

    @staticmethod
    def get_multi_processor_count(device: DeviceLike = None) -> int:
        return 1

    @staticmethod
    def get_cache_system_info() -> dict[str, str]:
        """Goes into the keys of PyTorch's own code caches."""
        return {"backend": "neuron", "version": _version.__version__}


def register(module: ModuleType) -> None:
    """Registers with ``torch._dynamo.device_interface``, the argument."""
    interface = type("NeuronInterface", (_Members, module.DeviceInterface), {})
    module.register_interface_for_device("neuron", interface)
    for index in range(_C.device_count()):
        module.register_interface_for_device(f"neuron:{index}", interface)
