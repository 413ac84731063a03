# SPDX-License-Identifier: Apache-2.0
"""A process that is killed or interrupted while the device works ends, and leaves nothing behind."""

import signal
import subprocess
import sys
import time

import pytest

BUSY = """
import torch
x = torch.randn(512, 512, device="neuron")
print("running", flush=True)
while True:
    x = torch.tanh(x @ x)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda s: s.name)
def test_ends_when_signalled(number):
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout.readline().strip() == "running"
        start = time.monotonic()
        process.send_signal(number)
        process.wait(timeout=30)
        assert time.monotonic() - start < 30
        assert process.returncode != 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
