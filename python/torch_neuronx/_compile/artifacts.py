# SPDX-License-Identifier: Apache-2.0
"""Graphs and generated functions as text: in PyTorch's trace, and as files on request."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch.fx import GraphModule

from torch_neuronx._compile import config
from torch_neuronx._compile.executable import Executable


def keep(module: GraphModule, executable: Executable) -> None:
    torch._logging.trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": f"neuron_{executable.name}", "encoding": "string"},
        payload_fn=executable.text,
    )
    if not config.get_bool("TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS"):
        return
    directory = Path(config.get_str("TORCH_NEURONX_DEBUG_DIR")) / str(os.getpid())
    directory.mkdir(parents=True, exist_ok=True)
    graph = module.print_readable(print_output=False)
    (directory / f"{executable.name}.graph.txt").write_text(graph)
    (directory / f"{executable.name}.py").write_text(executable.text())
