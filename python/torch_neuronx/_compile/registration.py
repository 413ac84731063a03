# SPDX-License-Identifier: Apache-2.0
"""Tells PyTorch's compiler of the device and the backend, as soon as it is imported.

Importing ``torch._dynamo`` takes a second, so nothing here imports it. Instead, the modules below
are watched, and right after each has been executed the registration that belongs to it runs. That
is before any other module of PyTorch can take a copy of its tables.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType


def _register_interface(module: ModuleType) -> None:
    from torch_neuronx._compile.device_interface import register

    register(module)


def _register_tracing(package: ModuleType) -> None:
    from torch_neuronx._compile import tracing

    tracing.register()


def _register_flex_attention(module: ModuleType) -> None:
    from torch_neuronx._compile.traced import allow_flex_attention

    allow_flex_attention(module)


def _register_backends(registry: ModuleType) -> None:
    from torch_neuronx._compile import neuron, neuron_or_inductor

    registry.register_backend(neuron, name="neuron")
    registry.register_backend(neuron_or_inductor, name="neuron_or_inductor", tags=("experimental",))
    if registry.get_default_backend() == "inductor":
        registry.set_default_backend("neuron_or_inductor")


_REGISTRATIONS: dict[str, Callable[[ModuleType], None]] = {
    "torch._dynamo.device_interface": _register_interface,
    "torch._dynamo.backends.registry": _register_backends,
    "torch._dynamo": _register_tracing,
    "torch.nn.attention.flex_attention": _register_flex_attention,
}


class _Loader(importlib.abc.Loader):
    """A module's own loader, and the registration after it."""

    def __init__(self, loader: importlib.abc.Loader, register: Callable[[ModuleType], None]):
        self._loader = loader
        self._register = register

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # From here on the module has its own loader again: it reads sources for tracebacks.
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._register(module)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        register = _REGISTRATIONS.get(fullname)
        if register is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, register)
        return spec


def install() -> None:
    """Registers now what is imported already, and the rest when it is imported."""
    for name, register in _REGISTRATIONS.items():
        if name in sys.modules:
            register(sys.modules[name])
    sys.meta_path.insert(0, _Finder())
