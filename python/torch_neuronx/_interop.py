# SPDX-License-Identifier: Apache-2.0
"""Places in PyTorch's Python code that know devices by name and need to be told of this one.

Each function below closes one gap of PyTorch 2.13 and says which. ``install`` applies them all.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from multiprocessing import reduction
from types import ModuleType
from typing import Any

import torch
from torch.multiprocessing import reductions as torch_reductions
from torch.nn.parameter import Parameter, UninitializedTensorMixin

from torch_neuronx import _C


def install() -> None:
    _export_dlpack()
    _share_between_processes()
    _move_lazy_parameters()
    _after_import("torch._functorch._aot_autograd.utils", _register_graphsafe_rng)


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
    # process, so a neuron tensor travels as a copy in shared CPU memory.
    for kind in (torch.Tensor, Parameter):
        reduction.register(kind, _reduce_tensor)
    reduction.register(torch.UntypedStorage, _reduce_storage)


def _to_shared_memory(tensor: torch.Tensor) -> torch.Tensor:
    # The thread that pickles need not be the one whose stream computes the tensor.
    _C.synchronize(tensor.device.index)
    return tensor.detach().cpu().share_memory_()


def _reduce_tensor(tensor: torch.Tensor) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if tensor.device.type != "neuron":
        return torch_reductions.reduce_tensor(tensor)
    if tensor.requires_grad and not tensor.is_leaf:
        return torch_reductions.reduce_tensor(tensor)  # raises PyTorch's error
    torch.utils.hooks.warn_if_has_hooks(tensor)
    return _rebuild_tensor, (
        type(tensor),
        _to_shared_memory(tensor),
        tensor.device.index,
        tensor.requires_grad,
    )


def _rebuild_tensor(
    kind: type[torch.Tensor], shared: torch.Tensor, index: int, requires_grad: bool
) -> torch.Tensor:
    tensor = shared.to(torch.device("neuron", index))
    if kind is Parameter:
        return Parameter(tensor, requires_grad=requires_grad)
    return tensor.requires_grad_(requires_grad)


def _reduce_storage(storage: torch.UntypedStorage) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if storage.device.type != "neuron":
        return torch_reductions.reduce_storage(storage)
    tensor = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    return _rebuild_storage, (_to_shared_memory(tensor), tensor.device.index)


def _rebuild_storage(shared: torch.Tensor, index: int) -> torch.UntypedStorage:
    return shared.to(torch.device("neuron", index)).untyped_storage()


def _move_lazy_parameters() -> None:
    # Methods that an uninitialised (lazy) parameter allows before its shape is known.
    UninitializedTensorMixin._allowed_methods.append(torch.Tensor.neuron)


def _register_graphsafe_rng(utils: ModuleType) -> None:
    # Random operators inside activation checkpoints under torch.compile.
    utils.register_graphsafe_rng_device_type("neuron")


class _Loader(importlib.abc.Loader):
    """The loader of another finder, with a call after the module has run."""

    def __init__(self, loader: importlib.abc.Loader, action: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._action = action

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._action(module)


class _Finder(importlib.abc.MetaPathFinder):
    """Wraps the loaders of modules that something waits for; sees each of them once."""

    def __init__(self) -> None:
        self.actions: dict[str, Callable[[ModuleType], None]] = {}

    def find_spec(
        self, name: str, path: Any, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        action = self.actions.pop(name, None)
        if action is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, action)
        return spec


_finder = _Finder()


def _after_import(name: str, action: Callable[[ModuleType], None]) -> None:
    """Calls ``action`` with the module when it has been imported; at once if it is already."""
    module = sys.modules.get(name)
    if module is not None:
        action(module)
        return
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.actions[name] = action
