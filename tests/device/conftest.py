# SPDX-License-Identifier: Apache-2.0
"""Helpers of the device tests."""

import os
import subprocess
import sys
import textwrap

import pytest
import torch


@pytest.fixture(scope="session")
def run_python():
    """Runs a program in a fresh interpreter and returns the finished process."""

    def run(program, timeout=120, **env):
        return subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, **env},
        )

    return run


@pytest.fixture(scope="session")
def check_python(run_python):
    """As ``run_python``; the program must succeed. Returns what it printed."""

    def run(program, timeout=120, **env):
        done = run_python(program, timeout, **env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def busy():
    """Queues about a fifth of a second of work on the current stream: returns input, output."""

    def queue(device="neuron"):
        n = 1536
        x = torch.full((n, n), 1.0 / n, device=device)
        y = x
        for _ in range(4):
            y = y @ x
        return x, y

    return queue


@pytest.fixture(autouse=True)
def restore_device():
    """Each test starts and ends on device 0 with its default streams."""
    yield
    torch.neuron.set_device(0)
    for index in range(torch.neuron.device_count()):
        torch.neuron.set_stream(torch.neuron.default_stream(index))
    torch.neuron.set_device(0)
