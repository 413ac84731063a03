# SPDX-License-Identifier: Apache-2.0
"""Loading of the backend: by ``import torch`` (entry point) or by ``import torch_neuronx``.

Four ways lead here, and each loads the backend exactly once:

1. ``import torch``: PyTorch, at the end of its own import, imports this package and calls
   ``_autoload``. A failure is reported on standard error and never reaches PyTorch, since an
   exception would make ``import torch`` fail.
2. ``import torch_neuronx`` first: the package imports torch, which calls ``_autoload`` of the
   package that is still being imported. That call returns at once, and the package goes on.
3. ``TORCH_DEVICE_BACKEND_AUTOLOAD=0`` and ``import torch_neuronx``, before or after torch.
4. ``import torch_neuronx`` after a failed (1).

In 2 to 4 a failure is an ImportError with the same text. Loading means importing
``torch_neuronx._api``, which registers the device and whose ``__all__`` becomes the namespace of
the package. Loading imports nothing slow (a test holds ``import torch`` to it).
"""

import importlib
import sys

TORCH_VERSION = "2.13"  # major and minor version that the libraries are compiled against

_loading = False
_loaded = False


def _autoload() -> None:
    """Entry point of the group ``torch.backends``; raises nothing."""
    if _loading or _loaded:
        return
    try:
        _load()
    except Exception as error:
        sys.modules.pop("torch_neuronx", None)  # an explicit import tries again, and raises
        _report(error)


def import_package() -> None:
    """Called at the end of the package's ``__init__``; raises ImportError if loading fails."""
    torch = sys.modules.get("torch")
    if torch is not None and getattr(torch.__spec__, "_initializing", False):
        return  # way 1: PyTorch calls _autoload next
    try:
        _load()
    except ImportError:
        raise
    except Exception as error:
        raise ImportError(_explain(error)) from error


def _load() -> None:
    global _loading, _loaded
    if _loading or _loaded:
        return
    _loading = True
    try:
        import torch

        _check_version(torch.__version__)
        # By name first: `from torch_neuronx import _C` would hide why it cannot be loaded.
        importlib.import_module("torch_neuronx._C")
        api = importlib.import_module("torch_neuronx._api")
        package = sys.modules["torch_neuronx"]
        for name in api.__all__:
            setattr(package, name, getattr(api, name))
        package.__all__ = list(api.__all__)
        _loaded = True
    finally:
        _loading = False


def _check_version(found: str) -> None:
    if found.split(".")[:2] != TORCH_VERSION.split("."):
        raise ImportError(
            f"this torch_neuronx is built for PyTorch {TORCH_VERSION}, but PyTorch {found} is "
            f"installed; install torch=={TORCH_VERSION}.* or a torchneuron made for {found}"
        )


def _explain(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, ImportError) else f"{type(error).__name__}: {text}"


def _report(error: Exception) -> None:
    # The configuration of the C++ core is out of reach: it may be what failed to load.
    import os

    print(
        f"torch_neuronx: the device 'neuron' is not available: {_explain(error)}", file=sys.stderr
    )
    if os.environ.get("TORCH_NEURONX_LOG_LEVEL") in ("debug", "0"):
        import traceback

        traceback.print_exception(error)
