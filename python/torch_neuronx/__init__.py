# SPDX-License-Identifier: Apache-2.0
"""PyTorch backend for the device ``neuron``.

``import torch`` loads it. The public names are those of ``torch_neuronx._api``.
"""

from torch_neuronx._autoload import _autoload as _autoload
from torch_neuronx._autoload import import_package as _import_package
from torch_neuronx._version import __version__ as __version__

_import_package()
