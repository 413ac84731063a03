# SPDX-License-Identifier: Apache-2.0
"""Sides in processes of their own that take turns.

A claim about speed is a ratio of medians from one run: each side has a process, with an environment
of its own and empty kernel caches; one process works at a time while the others are stopped, so
neither idle thread pools nor background compiles of one side disturb another; and the order of the
sides is reversed from turn to turn, so a machine that drifts favours none.

    bench = Bench(Settings())
    with bench.workers([CPU, ADAPTIVE], "bench.operations:Operations") as workers:
        samples = take_turns(workers, bench.settings.turns, "turn", name="softmax", seconds=0.2)
    ratio = median(samples["neuron"]) / median(samples["cpu"])
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

# Variables that change what is measured; a side starts without those of the caller.
CLEANED = (
    "ATEN_",
    "DNNL_",
    "GOMP_",
    "KMP_",
    "MKL_",
    "NEURON_",
    "OMP_",
    "ONEDNN_",
    "PYTORCH_",
    "TORCH",
)
CLOSE_SECONDS = 60.0  # for a process to end by itself once its input has ended


class BenchError(Exception):
    """A side failed; the text says which and how."""


@dataclass(frozen=True)
class Side:
    """One of the things compared.

    Attributes:
        name: in tables and results.
        device: of the tensors; the backend is loaded for ``neuron`` only.
        environment: variables of the process beyond a cleaned environment.
        compiler: backend of ``torch.compile`` for the model, or None for eager mode.
    """

    name: str
    device: str = "neuron"
    environment: Mapping[str, str] = field(default_factory=dict)
    compiler: str | None = None


CPU = Side("cpu", "cpu")
INDUCTOR = Side("inductor", "cpu", compiler="inductor")
ADAPTIVE = Side("neuron")
STRICT = Side("strict", environment={"TORCH_NEURONX_EAGER_MODE": "strict"})
COMPILED = Side("compiled", compiler="neuron")


@dataclass(frozen=True)
class Settings:
    """How much is measured.

    Attributes:
        turns: of each side.
        seconds: of one turn; a turn has at least one sample.
        processes: fresh processes of each side where each gives one sample.
        models: GPT models by name.
        bit_steps: training steps after which parameters are compared.
        inductor: measure Inductor as well (20 s and more to compile a model).
    """

    turns: int = 9
    seconds: float = 0.5
    processes: int = 5
    models: tuple[str, ...] = ("tiny", "small", "mid")
    bit_steps: int = 50
    inductor: bool = True


QUICK = Settings(turns=3, seconds=0.2, processes=2, models=("tiny", "small"), inductor=False)


class Worker:
    """The process of one side; it is stopped except while it answers.

    The environment and the process group are its own. ``caches`` is an empty folder for the kernel
    caches of the side.
    """

    def __init__(self, side: Side, caches: str):
        self.side = side
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker"],
            cwd=ROOT,
            env=_environment(side, caches),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def open(self, workload: str, **arguments: Any) -> None:
        """Makes the workload ``module:class`` in the process, in place of an earlier one."""
        self._ask({"open": workload, "arguments": arguments})

    def call(self, method: str, **arguments: Any) -> Any:
        """The result of a method of the workload; BenchError if it raises or the process ends."""
        return self._ask({"call": method, "arguments": arguments})

    def close(self) -> None:
        """Lets the process end; BenchError if it ends badly."""
        self._signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            status = self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            raise BenchError(f"{self.side.name}: the process does not end") from None
        if status:
            raise BenchError(f"{self.side.name}: the process ended with status {status}")

    def kill(self) -> None:
        """Ends the process if it still runs."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _ask(self, request: dict[str, Any]) -> Any:
        self._signal(signal.SIGCONT)
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            status = self._process.wait()
            raise BenchError(f"{self.side.name}: the process ended with status {status}")
        self._signal(signal.SIGSTOP)
        answer = json.loads(line)
        if "error" in answer:
            raise BenchError(f"{self.side.name}: {answer['error']}")
        return answer["result"]

    def _signal(self, number: int) -> None:
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)


def _environment(side: Side, caches: str) -> dict[str, str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(CLEANED)
    }
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "1" if side.device == "neuron" else "0"
    environment["TORCH_NEURONX_NEFF_CACHE_DIR"] = os.path.join(caches, "neuron")
    environment["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(caches, "inductor")
    environment.update(side.environment)
    return environment


class Bench:
    """What a case needs: the settings, what this build can do, and processes for the sides.

    Attributes:
        settings: how much is measured.
        build: the result of ``bench.devices.Probe.report``.
    """

    def __init__(self, settings: Settings, progress: Callable[[str], None] = lambda text: None):
        self.settings = settings
        self.progress = progress
        with self.workers([ADAPTIVE], "bench.devices:Probe") as workers:
            self.build = workers[ADAPTIVE.name].call("report")

    def has_variable(self, name: str) -> bool:
        """Whether this build of the backend reads the environment variable."""
        return name in self.build["variables"]

    def training_sides(self) -> list[Side]:
        """CPU eager and the device's eager modes, and the compilers where they are there."""
        sides = [CPU, STRICT, ADAPTIVE]
        if self.settings.inductor:
            sides.insert(1, INDUCTOR)
        if COMPILED.compiler in self.build["compilers"]:
            sides.append(COMPILED)
        return sides

    @contextlib.contextmanager
    def workers(
        self, sides: Iterable[Side], workload: str, **arguments: Any
    ) -> Iterator[dict[str, Worker]]:
        """A process for each side, by its name, with the workload open.

        The workload gets the side's ``device``, and ``compiler`` if the side has one, beside
        ``arguments``.
        """
        workers: dict[str, Worker] = {}
        with tempfile.TemporaryDirectory(prefix="torchneuron-bench-") as folder:
            try:
                for side in sides:
                    worker = workers[side.name] = Worker(side, os.path.join(folder, side.name))
                    own = {"compiler": side.compiler} if side.compiler else {}
                    worker.open(workload, device=side.device, **own, **arguments)
                yield workers
                for worker in workers.values():
                    worker.close()
            finally:
                for worker in workers.values():
                    worker.kill()


def take_turns(
    workers: Mapping[str, Worker], turns: int, method: str, **arguments: Any
) -> dict[str, list[float]]:
    """The samples that ``method`` of every worker gives in ``turns`` alternating turns, by side."""
    samples: dict[str, list[float]] = {name: [] for name in workers}
    names = list(workers)
    for _ in range(turns):
        for name in names:
            samples[name] += workers[name].call(method, **arguments)
        names.reverse()
    return samples


def medians(samples: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in samples.items()}
