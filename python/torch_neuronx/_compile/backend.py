# SPDX-License-Identifier: Apache-2.0
"""The function that Dynamo calls with each graph it captured."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.exc import TorchDynamoException
from torch._dynamo.utils import flatten_graph_inputs
from torch._functorch import config as functorch_config
from torch._functorch.aot_autograd import aot_module_simplified
from torch._inductor import config as inductor_config
from torch.fx import GraphModule

from torch_neuronx._compile import config, failures, metrics, recompiles, sources
from torch_neuronx._compile.errors import NEFFCompilationError
from torch_neuronx._compile.graphs import GraphCompiler
from torch_neuronx._compile.options import Options
from torch_neuronx._compile.partition import partition


def compile_graph(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    parsed = Options.parse(mode, options)
    if config.get_bool("TORCH_NEURONX_DYNAMO_DISABLE_CPU_AUTOCOPY"):
        _refuse_host_inputs(module, example_inputs)
    started = time.perf_counter()
    try:
        function = _compile_flat(module, example_inputs, parsed)
    except TorchDynamoException:  # Dynamo traces the function again, with other assumptions
        raise
    except Exception as error:
        failures.raise_or_count(error, parsed, f"the graph of {sources.location(module)}")
        function = module.forward
    metrics.add_seconds("aot_autograd", time.perf_counter() - started)
    metrics.count("graphs")
    if reason := recompiles.note(module):
        metrics.count_reason("recompiles", reason)
    return function


def _compile_flat(
    module: GraphModule, example_inputs: Sequence[Any], options: Options
) -> Callable[..., Any]:
    if any(isinstance(value, (list, tuple, dict)) for value in example_inputs):
        # Compiled autograd passes lists.
        return flatten_graph_inputs(
            module, example_inputs, lambda m, inputs: _compile_flat(m, inputs, options)
        )
    # Settings of this context alone (threads do not share them).
    # cse: PyTorch's pass imports all of Inductor, which takes seconds, and knows only some of the
    # random operators. donated_buffer: nothing here writes into saved tensors, and with it
    # backward(retain_graph=True) would raise. fallback_random: eager's random numbers, also in
    # checkpoints and where a result is not used.
    with (
        functorch_config.patch(cse=False, donated_buffer=False),
        inductor_config.patch(fallback_random=True),
    ):
        function = aot_module_simplified(
            module,
            example_inputs,
            fw_compiler=GraphCompiler("forward", options),
            bw_compiler=_untraced(GraphCompiler("backward", options)),
            inference_compiler=GraphCompiler("inference", options),
            partition_fn=partition,
            keep_inference_input_mutations=True,
        )
    return torch._dynamo.disable(function, reason="compiled by the backend 'neuron'")


def _untraced(compiler: GraphCompiler) -> Callable[..., Any]:
    """``compiler``, which Dynamo neither traces itself, nor what it makes.

    A backward pass may run, and be compiled, inside a function that Dynamo is tracing.
    """

    def compile_untraced(module: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        disable = torch._dynamo.disable
        executable = disable(compiler, reason="compiler of backward graphs")(module, example_inputs)
        return disable(executable, reason="compiled by the backend 'neuron'")

    return compile_untraced


def _refuse_host_inputs(module: GraphModule, example_inputs: Sequence[Any]) -> None:
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    for name, value in zip(names, example_inputs, strict=True):
        if isinstance(value, torch.Tensor) and value.device.type == "cpu" and value.dim() > 0:
            raise NEFFCompilationError(
                f"Non-scalar tensor {name} is on cpu device, expected neuron "
                "(TORCH_NEURONX_DYNAMO_DISABLE_CPU_AUTOCOPY=1)"
            )
