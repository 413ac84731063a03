# SPDX-License-Identifier: Apache-2.0
"""Helpers of the tests of adaptive eager."""

import os
import subprocess
import sys
import textwrap

import pytest
import torch
import torch_neuronx
from torch_neuronx import _C, metrics


@pytest.fixture(autouse=True)
def clean():
    """Each test starts with empty counters and an empty log, in adaptive mode."""
    torch.neuron.synchronize()
    torch_neuronx.set_eager_mode("adaptive")
    metrics.clear_all()
    yield
    torch_neuronx.set_eager_mode("adaptive")
    metrics.set_enabled(True)


@pytest.fixture
def settle():
    """Runs a function until its windows are known and their kernels compiled."""

    def run(function):
        for _ in range(3):  # first sighting, plan, kernels
            function()
            torch.neuron.synchronize()
            _C.wait_for_compiles()

    return run


@pytest.fixture(scope="session")
def run_program():
    """Runs a program in a fresh interpreter; it must succeed."""

    def run(program, **env):
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, **env},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    return run
