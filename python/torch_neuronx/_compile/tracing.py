# SPDX-License-Identifier: Apache-2.0
"""What Dynamo does with the functions of ``torch.neuron`` in code that it traces.

By default tracing walks into their Python code and ends at the C++ module, with a warning that asks
users to report it, or with an internal error (random states of fake tensors). Here they split the
graph at the call, as most functions of ``torch.cuda`` do, and some are known to Dynamo.
"""

from __future__ import annotations

import torch
from torch._dynamo import trace_rules
from torch._dynamo.variables import TorchInGraphFunctionVariable, ctx_manager
from torch._dynamo.variables import torch as torch_variables

from torch_neuronx import neuron
from torch_neuronx._compile import device_interface, traced

# Known while tracing; a guard checks the one that can change.
_CONSTANTS = (neuron.is_available, neuron.device_count)
_GUARDED_CONSTANTS = (neuron.current_device,)


class _DeviceVariable(ctx_manager.GenericDeviceVariable):
    """``with torch.neuron.device(index):``"""

    _exchange_fn = staticmethod(device_interface.exchange_device)
    _maybe_exchange_fn = staticmethod(device_interface.maybe_exchange_device)
    _get_device_index_fn = staticmethod(neuron._utils._get_device_index)

    def module_name(self) -> str:
        return "torch.neuron"

    def python_type(self) -> type:
        return neuron.device


def register() -> None:
    trace_rules.add("torch_neuronx")
    trace_rules.get_mod_inlinelist().add(traced.__file__)
    ctx_manager.register_device_context_manager(neuron.device, _DeviceVariable)
    rules = trace_rules.get_torch_obj_rule_map()
    rules[neuron.stream] = TorchInGraphFunctionVariable  # as the device interface names it
    rules[neuron.current_stream] = TorchInGraphFunctionVariable
    handlers = TorchInGraphFunctionVariable._get_handlers()
    handlers[neuron.current_stream] = handlers[torch.accelerator.current_stream]
    for function in _CONSTANTS + _GUARDED_CONSTANTS:
        rules[function] = TorchInGraphFunctionVariable
        torch_variables.constant_fold_functions[function] = None
    for function in _GUARDED_CONSTANTS:
        torch_variables.constant_fold_functions_need_guards[function] = None
