# SPDX-License-Identifier: Apache-2.0
"""The end of a process: queued work runs, nothing hangs or crashes."""

import signal
import subprocess
import sys
import time

import pytest

QUEUE = """
import torch
x = torch.full((1024, 1024), 1e-3, device="neuron")
for _ in range(20):
    x = x @ x
"""


def test_exit_with_work_queued(check_python):
    started = time.perf_counter()
    check_python(QUEUE)
    assert time.perf_counter() - started < 60


def test_queued_copies_have_run_at_exit(check_python):
    # Handlers run in reverse order: one registered before torch is imported sees the end.
    out = check_python(
        """
        import atexit
        atexit.register(lambda: print(result.tolist()))
        import torch
        result = torch.zeros(4, pin_memory=True)
        x = torch.full((1024, 1024), 1e-3, device="neuron")
        for _ in range(10):
            x = x @ x
        result.copy_(torch.full((4,), 2.0, device="neuron"), non_blocking=True)
        """
    )
    assert out.strip() == "[2.0, 2.0, 2.0, 2.0]"


@pytest.mark.parametrize(
    ("ending", "code"),
    [("raise SystemExit(3)", 3), ("raise ValueError('x')", 1), ("import os; os._exit(4)", 4)],
)
def test_other_endings(run_python, ending, code):
    assert run_python(QUEUE + ending).returncode == code


def test_tensors_that_outlive_the_interpreter(check_python):
    check_python(
        """
        import builtins, sys, torch
        class Late:
            def __init__(self): self.x = torch.ones(10, device="neuron")
            def __del__(self): del self.x
        builtins.late = Late()
        sys.late = [torch.neuron.Event(), torch.neuron.Stream(), torch.Generator("neuron")]
        sys.late[0].record()
        """
    )


def test_use_in_an_exit_handler_registered_later(check_python):
    out = check_python(
        """
        import atexit, torch
        atexit.register(lambda: print(torch.ones(3, device="neuron").sum().item()))
        """
    )
    assert out.strip() == "3.0"


def test_daemon_thread_waiting_at_exit(check_python):
    check_python(
        """
        import threading, torch
        x = torch.full((1024, 1024), 1e-3, device="neuron")
        for _ in range(20):
            x = x @ x
        waiting = threading.Event()
        def work():
            waiting.set()
            torch.neuron.synchronize()
        threading.Thread(target=work, daemon=True).start()
        waiting.wait()
        """
    )


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_killed_while_running(how):
    program = (
        "import torch\nx = torch.full((1024, 1024), 1e-3, device='neuron')\n"
        "print('up', flush=True)\nwhile True:\n    x = x @ x\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert process.stdout.readline() == b"up\n"
        process.send_signal(how)
        assert process.wait(30) == -how
    finally:
        process.kill()
        process.stdout.close()
