# SPDX-License-Identifier: Apache-2.0
"""Places in PyTorch's Python code that know devices by name and need to be told of this one.

Each function below closes one gap of PyTorch 2.13 and says which. ``install`` applies them all.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable
from multiprocessing import context, reduction
from typing import Any

import torch
from torch._functorch._aot_autograd.utils import register_graphsafe_rng_device_type
from torch.multiprocessing import reductions as torch_reductions
from torch.nn.parameter import Parameter, UninitializedTensorMixin

from torch_neuronx import _C


def install() -> None:
    _export_dlpack()
    _share_between_processes()
    _move_lazy_parameters()
    # Random operators inside activation checkpoints under torch.compile.
    register_graphsafe_rng_device_type("neuron")


def _export_dlpack() -> None:
    # Tensor.__dlpack_device__ compares the device's name with the literal "privateuse1", which no
    # tensor has after the device is renamed. The C++ side of DLPack knows the device.
    original = torch.Tensor.__dlpack_device__

    @functools.wraps(original)
    def dlpack_device(self: torch.Tensor) -> tuple[Any, int]:
        if type(self) is torch.Tensor and self.device.type == "neuron":
            from torch.utils.dlpack import DLDeviceType

            return (DLDeviceType.kDLExtDev, self.device.index)
        return original(self)

    torch.Tensor.__dlpack_device__ = dlpack_device


def _share_between_processes() -> None:
    # torch.multiprocessing shares CPU and CUDA memory only. Memory of a virtual core belongs to its
    # process, so a neuron tensor travels as a copy.
    for kind in (torch.Tensor, Parameter):
        reduction.register(kind, _reduce_tensor)
    reduction.register(torch.UntypedStorage, _reduce_storage)


def _host_copy(tensor: torch.Tensor) -> torch.Tensor | bytes:
    """What is sent: shared memory through queues and pipes, the values to a process that starts.

    Such a process opens shared memory only when the sender's copy is gone already.
    """
    # The thread that pickles need not be the one whose stream computes the tensor.
    _C.synchronize(tensor.device.index)
    copy = tensor.detach().cpu()
    return pickle.dumps(copy) if context.get_spawning_popen() is not None else copy.share_memory_()


def _from_host_copy(copy: torch.Tensor | bytes, index: int) -> torch.Tensor:
    if isinstance(copy, bytes):
        copy = pickle.loads(copy)
    return copy.to(torch.device("neuron", index))


def _reduce_tensor(tensor: torch.Tensor) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if tensor.device.type != "neuron":
        return torch_reductions.reduce_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        return torch_reductions.reduce_tensor(tensor)  # raises PyTorch's error
    torch.utils.hooks.warn_if_has_hooks(tensor)
    index = tensor.device.index
    return _rebuild_tensor, (type(tensor), _host_copy(tensor), index, tensor.requires_grad)


def _rebuild_tensor(
    kind: type[torch.Tensor], copy: torch.Tensor | bytes, index: int, requires_grad: bool
) -> torch.Tensor:
    tensor = _from_host_copy(copy, index)
    if kind is Parameter:
        return Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_(requires_grad)


def _reduce_storage(storage: torch.UntypedStorage) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if storage.device.type != "neuron":
        return torch_reductions.reduce_storage(storage)
    tensor = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    return _rebuild_storage, (_host_copy(tensor), tensor.device.index)


def _rebuild_storage(copy: torch.Tensor | bytes, index: int) -> torch.UntypedStorage:
    return _from_host_copy(copy, index).untyped_storage()


def _move_lazy_parameters() -> None:
    # Methods that an uninitialised (lazy) parameter allows before its shape is known.
    UninitializedTensorMixin._allowed_methods.append(torch.Tensor.neuron)
