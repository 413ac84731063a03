# SPDX-License-Identifier: Apache-2.0
"""Each test of the compiler starts without compiled code and with metrics at zero."""

import os
import subprocess
import sys
import textwrap

import pytest
import torch
import torch_neuronx


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    torch_neuronx.reset_dynamo_metrics()
    torch.manual_seed(0)
    yield
    torch.neuron.set_device(0)


@pytest.fixture(scope="session")
def run_program():
    """Runs a program in a fresh interpreter; it must succeed. Returns what it printed."""

    def run(program, **env):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, **env},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
