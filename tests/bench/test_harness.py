# SPDX-License-Identifier: Apache-2.0
"""The processes of the sides: what they see, that they take turns, how they fail."""

import os
import time
from pathlib import Path

import pytest

from bench.harness import ADAPTIVE, CPU, STRICT, Bench, BenchError, Side, medians, take_turns

WITNESS = "bench_witness:Witness"


@pytest.fixture(autouse=True)
def _workers_find_the_witness(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)


class Harness(Bench):
    """Workers without the probe of the build."""

    def __init__(self):
        pass


def state(worker):
    """The process's state in /proc: T is stopped."""
    return Path(f"/proc/{worker.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def is_stopped(worker):
    """Waits for the signal to arrive, which takes a moment."""
    end = time.monotonic() + 10
    while state(worker) != "T" and time.monotonic() < end:
        time.sleep(0.01)
    return state(worker) == "T"


def is_gone(pid):
    return not Path(f"/proc/{pid}").exists()


def test_sides_take_turns_in_reversing_order():
    order = []

    class Recorder:
        def __init__(self, name):
            self.name = name

        def call(self, method, **arguments):
            order.append(self.name)
            return [len(order)]

    samples = take_turns({name: Recorder(name) for name in "ab"}, 3, "turn")
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert samples == {"a": [1, 4, 5], "b": [2, 3, 6]}
    assert medians(samples) == {"a": 4, "b": 3}


def test_workers_are_stopped_between_turns_and_gone_afterwards():
    with Harness().workers([Side("first", "cpu"), Side("second", "cpu")], WITNESS) as workers:
        pids = [worker.pid for worker in workers.values()]
        samples = take_turns(workers, 2, "turn", value=10)
        assert samples == {"first": [10, 20], "second": [10, 20]}
        assert all(is_stopped(worker) for worker in workers.values())
    assert all(is_gone(pid) for pid in pids)


def test_each_side_has_its_own_clean_environment(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TORCH_NEURONX_EAGER_MODE", "strict")
    monkeypatch.setenv("NEURON_LAUNCH_BLOCKING", "1")
    with Harness().workers([CPU, ADAPTIVE, STRICT], WITNESS) as workers:
        for name in ("OMP_NUM_THREADS", "NEURON_LAUNCH_BLOCKING"):
            assert [worker.call("variable", name=name) for worker in workers.values()] == [None] * 3
        modes = {
            name: worker.call("variable", name="TORCH_NEURONX_EAGER_MODE")
            for name, worker in workers.items()
        }
        assert modes == {"cpu": None, "neuron": None, "strict": "strict"}
        caches = [
            worker.call("variable", name="TORCH_NEURONX_NEFF_CACHE_DIR")
            for worker in workers.values()
        ]
        assert len(set(caches)) == 3 and not any(os.path.exists(path) for path in caches)


def test_the_backend_is_loaded_on_its_own_sides_only():
    with Harness().workers([CPU, ADAPTIVE], WITNESS) as workers:
        available = {name: worker.call("import_torch") for name, worker in workers.items()}
        assert available == {"cpu": False, "neuron": True}
        assert workers["cpu"].call("modules") == ["torch"]
        assert workers["neuron"].call("modules") == ["torch", "torch_neuronx"]


def test_an_exception_of_a_workload_names_the_side():
    with Harness().workers([CPU], WITNESS) as workers:
        pid = workers["cpu"].pid
        with pytest.raises(BenchError, match=r"(?s)^cpu: Traceback.*ValueError: no such thing"):
            workers["cpu"].call("fail")
        assert workers["cpu"].call("turn", value=1) == [1]
    assert is_gone(pid)


def test_a_workload_that_cannot_be_made_leaves_no_process():
    before = set(os.listdir("/proc"))
    with (
        pytest.raises(BenchError, match=r"(?s)cpu: .*has no attribute 'Absent'"),
        Harness().workers([CPU], "bench_witness:Absent"),
    ):
        pass
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    assert not set(children) - before


def test_a_process_that_ends_is_an_error():
    with (
        pytest.raises(BenchError, match="cpu: the process ended with status 3"),
        Harness().workers([CPU], WITNESS) as workers,
    ):
        workers["cpu"].call("end", status=3)
