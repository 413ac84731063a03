# SPDX-License-Identifier: Apache-2.0
"""PyTorch's module database on the device: forward and backward of every sample against CPU."""

import copy
import functools
import json
import warnings
from pathlib import Path

import torch
from sweep_compare import DEVICE, Mover, compare, describe, in_double, tensors_in
from torch.utils._pytree import tree_map

HERE = Path(__file__).parent
PASS_LIST = HERE / "module_db_pass.txt"
TITLE = "module_db forward and backward"
MODES = ("train", "eval")


@functools.cache
def database():
    from torch.testing._internal.common_modules import module_db

    return {info.name: info for info in module_db}


@functools.cache
def notes():
    """Modules whose values are not compared, or that fail: each with its reason."""
    return json.loads((HERE / "module_db_notes.json").read_text())


def nodes():
    """(module, mode) of everything."""
    return [(name, mode) for name in database() for mode in MODES]


def loss_of(result):
    """A scalar that depends on every floating-point output."""
    outputs = [t for t in tensors_in(result) if t.requires_grad]
    return sum(t.double().square().mean() for t in outputs) if outputs else None


def as_leaf(value):
    """Gradients are asked for by leaf, and a leaf is what the device's copy of an argument is."""
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().requires_grad_(value.requires_grad)


def gradients(loss, module, arguments):
    leaves = [p for p in module.parameters() if p.requires_grad]
    leaves += [t for t in tensors_in(arguments) if t.requires_grad and t.is_leaf]
    if loss is None or not leaves:
        return []
    found = torch.autograd.grad(loss, leaves, allow_unused=True)
    return [g for g in found if g is not None]


def exact_result(host, arguments):
    """The result, the module and the arguments in double precision."""
    module, moved = copy.deepcopy(host).double(), in_double(arguments)
    return module(*moved[0], **moved[1]), module, moved


def exact_gradients(host, arguments):
    result, module, moved = exact_result(host, arguments)
    return gradients(loss_of(result), module, moved)


def run_sample(info, mode, sample, values, result):
    torch.manual_seed(0)
    host = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
    host = host.float().train(mode == "train")
    arguments = tree_map(as_leaf, (sample.forward_input.args, sample.forward_input.kwargs))
    if isinstance(host, torch.nn.modules.lazy.LazyModuleMixin):
        host(*arguments[0], **arguments[1])  # makes the parameters
    device = copy.deepcopy(host).to(DEVICE)
    moved = Mover()(arguments)
    expected = host(*arguments[0], **arguments[1])
    expected_gradients = gradients(loss_of(expected), host, arguments)
    result["samples"] += 1
    try:
        actual = device(*moved[0], **moved[1])
        compare(
            tensors_in(expected),
            tensors_in(actual),
            values=values,
            exact=lambda: tensors_in(exact_result(host, arguments)[0]),
        )
        compare(
            expected_gradients,
            gradients(loss_of(actual), device, moved),
            values=values,
            tolerance={"rtol": 1e-4, "atol": 1e-5},
            where="gradient",
            exact=lambda: exact_gradients(host, arguments),
        )
        compare(
            tensors_in(dict(host.named_buffers())),
            tensors_in(dict(device.named_buffers())),
            values=values,
        )
        torch.neuron.synchronize()
        result["passed"] += 1
    except Exception as error:  # the sweep's finding, whatever it is
        text = "\n".join(str(error).splitlines()[:12])
        result["failures"].append(
            {
                "where": f"sample {result['samples'] - 1}",
                "call": f"{describe(sample.constructor_input.args)} {describe(arguments)}",
                "error": f"{type(error).__name__}: {text}",
            }
        )


def run_node(name, mode):
    info = database()[name]
    values = name not in notes()["uncompared"]
    result = {"samples": 0, "passed": 0, "variants": 0, "variants_passed": 0, "failures": []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(1234)
        samples = info.module_inputs_func(
            info, device="cpu", dtype=torch.float32, requires_grad=True, training=mode == "train"
        )
        for sample in samples:
            run_sample(info, mode, sample, values, result)
    return result
