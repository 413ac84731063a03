# SPDX-License-Identifier: Apache-2.0
"""Signals while the program waits for the device."""

import time

# One thread, so that the queued products take seconds on any machine.
SLOW = {"TORCH_NEURONX_NUM_THREADS": "1"}


def test_interrupt_ends_a_wait(check_python):
    started = time.perf_counter()
    out = check_python(
        """
        import os, signal, threading, time, torch
        x = torch.full((2048, 2048), 1e-4, device="neuron")
        torch.neuron.synchronize()
        for _ in range(12):
            y = x @ x
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        begin = time.perf_counter()
        try:
            torch.neuron.synchronize()
            print("not interrupted")
        except KeyboardInterrupt:
            waited = time.perf_counter() - begin
            print("interrupted", waited < 1.5, not torch.neuron.current_stream().query())
        # The queue is intact: the same wait succeeds afterwards.
        torch.neuron.synchronize()
        print(torch.ones(2, device="neuron").tolist())
        """,
        **SLOW,
    )
    assert out.splitlines() == ["interrupted True True", "[1.0, 1.0]"]
    assert time.perf_counter() - started < 100


def test_interrupt_ends_a_read(check_python):
    out = check_python(
        """
        import os, signal, threading, torch
        x = torch.full((2048, 2048), 1e-4, device="neuron")
        torch.neuron.synchronize()
        for _ in range(12):
            y = x @ x
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            y.sum().item()
            print("not interrupted")
        except KeyboardInterrupt:
            print("interrupted")
        """,
        **SLOW,
    )
    assert out.strip() == "interrupted"


def test_handler_runs_and_the_wait_goes_on(check_python):
    out = check_python(
        """
        import os, signal, threading, torch
        calls = []
        signal.signal(signal.SIGUSR1, lambda *_: calls.append(1))
        x = torch.full((2048, 2048), 1e-4, device="neuron")
        torch.neuron.synchronize()
        for _ in range(6):
            y = x @ x
        threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
        torch.neuron.synchronize()
        print(calls, torch.neuron.current_stream().query())
        """,
        **SLOW,
    )
    assert out.strip() == "[1] True"


def test_other_threads_run_while_one_waits(check_python):
    out = check_python(
        """
        import threading, torch
        x = torch.full((2048, 2048), 1e-4, device="neuron")
        torch.neuron.synchronize()
        for _ in range(4):
            y = x @ x
        ticks, done = [], threading.Event()
        def tick():
            while not done.wait(0.005):
                ticks.append(1)
        thread = threading.Thread(target=tick)
        thread.start()
        before = len(ticks)
        torch.neuron.synchronize()
        during = len(ticks) - before
        done.set()
        thread.join()
        print(during > 10)
        """,
        **SLOW,
    )
    assert out.strip() == "True"
