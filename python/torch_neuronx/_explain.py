# SPDX-License-Identifier: Apache-2.0
"""What the last operations became: windows, kernels, and why."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field

from torch_neuronx import _C

# Why a window ended, in words.
_ENDED = {
    "HostRead": "the host read a value",
    "Synchronize": "somebody waited for the device",
    "Query": "somebody asked whether the work was done",
    "BackPressure": "too much was queued",
    "Memory": "memory was needed back",
    "Blocking": "NEURON_LAUNCH_BLOCKING=1",
    "StreamOp": "an event follows",
    "Cut": "a cut point of the operation sequence",
    "Size": "the limit of operations",
    "HostStalled": "the host recorded nothing for a while",
    "HostOp": "a host call in front of a window runs at once",
    "Strict": "strict mode",
    "Drained": "everything had to run",
}


@dataclass(frozen=True)
class Operation:
    """One recorded operation."""

    name: str
    source: str  # "file:line in function"; of a backward operation that of its forward one
    backward: bool
    backward_call: str  # of a backward operation: the line that runs the backward pass
    outputs: tuple[tuple[str, tuple[int, ...]], ...]  # dtype and shape; empty for host calls
    inputs: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def where(self) -> str:
        """The lines in one text, files relative to the working directory."""
        text = _shorten(self.source)
        if not self.backward:
            return text
        call = f": {_shorten(self.backward_call)}" if self.backward_call else ""
        return f"{text} (backward{call})"


@dataclass(frozen=True)
class Step:
    """One thing that a window did."""

    how: str  # "fused": one kernel for all; "single": a kernel for each; "host": a host call
    why_single: str  # "alone", "strict", "first sighting", "not compiled yet", ...
    operations: tuple[int, ...]  # indices of Window.operations
    schedule: str  # of the kernel: how it walks its data
    kernel: str  # the kernel's name, also in the files of TORCH_NEURONX_DUMP_DIR
    seconds: float


@dataclass(frozen=True)
class Window:
    """A run of operations that was planned and run together.

    Consecutive windows of one operation that ended for the same reason share one object.
    """

    number: int  # counts windows from 1
    windows: int  # how many share the object
    device: int
    stream: int
    ended: str  # name of the reason
    plan: str  # "hit", "miss", or "" if the window had no plan: its operations ran one by one
    seconds: float
    operations: tuple[Operation, ...]
    steps: tuple[Step, ...]

    @property
    def elided(self) -> tuple[int, ...]:
        """Operations that did not run because nobody can see their result."""
        ran = {i for step in self.steps for i in step.operations}
        return tuple(i for i in range(len(self.operations)) if i not in ran)

    @property
    def kernels(self) -> int:
        """Kernels launched."""
        return sum(
            1 if s.how == "fused" else len(s.operations) for s in self.steps if s.how != "host"
        )

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self):
        name = f"window {self.number}"
        if self.windows > 1:
            name = f"windows {self.number}-{self.number + self.windows - 1}"
        plan = f", plan {self.plan}" if self.plan else ""
        ended = _ENDED.get(self.ended, "")
        yield (
            f"{name} on neuron:{self.device} stream {self.stream}: "
            f"{len(self.operations)} operations, {_time(self.seconds)}{plan}, ended by {self.ended}"
            + (f" ({ended})" if ended else "")
        )
        for step in self.steps:
            yield f"  {self._title(step)}, {_time(step.seconds)}"
            yield from (self._line(i) for i in step.operations)
        if self.elided:
            yield "  not run: nobody can see the result"
            yield from (self._line(i) for i in self.elided)

    @staticmethod
    def _title(step: Step) -> str:
        if step.how == "host":
            return "host call"
        if step.how == "fused":
            return f"fused {step.schedule} kernel {step.kernel}"
        kind = (
            "kernel of one operation"
            if len(step.operations) == 1
            else "kernels of one operation each"
        )
        schedule = f"{step.schedule} " if step.schedule and len(step.operations) == 1 else ""
        return f"{schedule}{kind} ({step.why_single})"

    def _line(self, index: int) -> str:
        op = self.operations[index]
        shapes = ", ".join(f"{dtype}{list(shape)}" for dtype, shape in op.outputs)
        return f"    %{index:<3} {op.name:<32} {shapes:<20} {op.where}".rstrip()


@dataclass(frozen=True)
class Explanation:
    """The result of ``explain``; ``print`` it, or read its windows."""

    windows: tuple[Window, ...] = field(default_factory=tuple)

    @property
    def ended(self) -> dict[str, int]:
        """Windows by the reason that ended them."""
        counts: Counter[str] = Counter()
        for window in self.windows:
            counts[window.ended] += window.windows
        return dict(counts.most_common())

    @property
    def ran(self) -> dict[str, int]:
        """Operations by the way they ran: ``fused``, ``single``, ``host``, ``elided``."""
        counts: Counter[str] = Counter()
        for window in self.windows:
            counts["elided"] += len(window.elided)
            for step in window.steps:
                counts[step.how] += len(step.operations)
        return {how: counts[how] for how in ("fused", "single", "host", "elided")}

    @property
    def why_single(self) -> dict[str, int]:
        """Operations that ran in a kernel of their own, by reason."""
        counts: Counter[str] = Counter()
        for window in self.windows:
            for step in window.steps:
                if step.how == "single":
                    counts[step.why_single] += len(step.operations)
        return dict(counts.most_common())

    def __str__(self) -> str:
        if not self.windows:
            return "No operation has run" + (
                "." if _C.windows_enabled() else ", or the log is off (metrics.set_enabled)."
            )
        ran, fused = self.ran, sum(s.how == "fused" for w in self.windows for s in w.steps)
        lines = [str(window) for window in self.windows]
        lines += [
            "",
            f"{sum(w.windows for w in self.windows)} windows, "
            f"{sum(len(w.operations) for w in self.windows)} operations: {ran['fused']} in {fused} "
            f"fused kernels, {ran['single']} in kernels of their own, {ran['host']} host calls, "
            f"{ran['elided']} not run",
            f"ended by: {_counts(self.ended)}",
        ]
        if self.why_single:
            lines.append(f"in kernels of their own: {_counts(self.why_single)}")
        return "\n".join(lines)


def explain(last: int = 16) -> Explanation:
    """What the last windows were: operations with their source lines, the kernels that they became,
    why operations ran alone, and why each window ended.

    ``last`` is a number of windows, up to 128. What is queued runs first, so that the last window
    may have ended because of this call. Errors of operations stay for the next wait.
    """
    if isinstance(last, bool) or not isinstance(last, int):
        raise TypeError(f"last is a number of windows, not {type(last).__name__}")
    if not 1 <= last <= _C.max_windows:
        raise ValueError(f"last is between 1 and {_C.max_windows}, not {last}")
    _C.drain()
    return Explanation(tuple(_window(entry) for entry in _C.last_windows(last)))


def _window(entry: dict) -> Window:
    operations = tuple(
        Operation(**{**op, "outputs": tuple(op["outputs"]), "inputs": tuple(op["inputs"])})
        for op in entry.pop("ops")
    )
    steps = tuple(Step(operations=tuple(step.pop("ops")), **step) for step in entry.pop("steps"))
    return Window(operations=operations, steps=steps, **entry)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def _shorten(source: str) -> str:
    directory = os.path.join(os.getcwd(), "")
    return source.removeprefix(directory)
