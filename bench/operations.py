# SPDX-License-Identifier: Apache-2.0
"""Workloads of single operations and of Python calls. Imported in a side's process."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from bench.devices import synchronize, warm_up
from bench.sizes import ADAMW, COLUMNS, ELEMENTS, PARAMETERS, ROWS


@dataclass
class Operation:
    """One operation on about a million elements.

    Attributes:
        function: of ``inputs``, the tensors that get gradients.
        forward_bytes, backward_bytes: the least that each direction has to move, every tensor it
            needs read or written once.
    """

    function: Callable[..., torch.Tensor]
    inputs: list[torch.Tensor]
    forward_bytes: float
    backward_bytes: float


def _chain(device: str) -> Operation:
    def function(x, y):
        x = x * y
        x = x + 0.5
        x = F.relu(x)
        x = x - y
        x = x * 0.25
        x = torch.abs(x)
        x = torch.maximum(x, y)
        x = x * x
        x = -x
        return x + y

    return Operation(function, [_random(device), _random(device)], 12 * ELEMENTS, 20 * ELEMENTS)


def _softmax(device: str) -> Operation:
    return Operation(lambda x: F.softmax(x, -1), [_random(device)], 8 * ELEMENTS, 12 * ELEMENTS)


def _masked_softmax(device: str) -> Operation:
    mask = torch.ones(ROWS, COLUMNS, dtype=torch.bool).triu(1).to(device)

    def function(x):
        return F.softmax(x.masked_fill(mask, float("-inf")), -1)

    return Operation(function, [_random(device)], 9 * ELEMENTS, 13 * ELEMENTS)


def _layer_norm(device: str) -> Operation:
    def function(x, weight, bias):
        return F.layer_norm(x, (COLUMNS,), weight, bias)

    inputs = [_random(device), torch.ones(COLUMNS, device=device), torch.zeros(COLUMNS).to(device)]
    return Operation(function, inputs, 8 * ELEMENTS, 12 * ELEMENTS)


def _rms_norm(device: str) -> Operation:
    def function(x, weight):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight

    inputs = [_random(device), torch.ones(COLUMNS, device=device)]
    return Operation(function, inputs, 8 * ELEMENTS, 12 * ELEMENTS)


def _gelu(device: str) -> Operation:
    def function(x):
        return F.gelu(x, approximate="tanh")

    return Operation(function, [_random(device)], 8 * ELEMENTS, 12 * ELEMENTS)


def _cross_entropy(device: str) -> Operation:
    generator = torch.Generator().manual_seed(1)
    targets = torch.randint(COLUMNS, (ROWS,), generator=generator).to(device)

    def function(x):
        return F.cross_entropy(x, targets)

    return Operation(function, [_random(device)], 4 * ELEMENTS, 8 * ELEMENTS)


def _silu_mul(device: str) -> Operation:
    def function(x, y):
        return F.silu(x) * y

    inputs = [_random(device).bfloat16(), _random(device).bfloat16()]
    return Operation(function, inputs, 6 * ELEMENTS, 10 * ELEMENTS)


OPERATIONS = {
    "chain of 10 pointwise": _chain,
    "softmax": _softmax,
    "masked softmax": _masked_softmax,
    "layer norm": _layer_norm,
    "RMS norm by hand": _rms_norm,
    "GELU (tanh)": _gelu,
    "cross-entropy": _cross_entropy,
    "bf16 SiLU-mul": _silu_mul,
}


def _random(device: str) -> torch.Tensor:
    return torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0)).to(device)


class Operations:
    """Repeats one operation at a time; a sample is a call with the wait for its result.

    The result is held until it is there, so nothing may be left out as unused.
    """

    def __init__(self, device: str):
        self.device = device

    def select(self, name: str, backward: bool) -> float:
        """Prepares an operation and warms it up; returns the least bytes that a call moves.

        ``name`` is of ``OPERATIONS``, or ``ADAMW``.
        """
        if name == ADAMW:
            self.call, moved = self._adamw()
        else:
            self.call, moved = self._operation(OPERATIONS[name](self.device), backward)
        warm_up(self._timed, 10)
        return moved

    def select_copy(self, elements: int) -> float:
        """As ``select``, for the copy of that many float32 elements."""
        source = torch.ones(elements, device=self.device)
        target = torch.empty_like(source)
        self.call = lambda: target.copy_(source)
        warm_up(self._timed, 10)
        return 8 * elements

    def turn(self, seconds: float) -> list[float]:
        """Seconds of each call, for as many calls as fit into the time; at least one."""
        end = time.perf_counter() + seconds
        samples = [self._timed()]
        while time.perf_counter() < end:
            samples.append(self._timed())
        return samples

    def _timed(self) -> float:
        start = time.perf_counter()
        result = self.call()
        synchronize(self.device)
        seconds = time.perf_counter() - start
        del result
        return seconds

    def _operation(self, operation: Operation, backward: bool) -> tuple[Callable, float]:
        if not backward:
            return lambda: operation.function(*operation.inputs), operation.forward_bytes
        for tensor in operation.inputs:
            tensor.requires_grad_()
        output = operation.function(*operation.inputs)
        gradient = torch.ones_like(output)

        def call():
            return torch.autograd.grad(output, operation.inputs, gradient, retain_graph=True)

        return call, operation.backward_bytes

    def _adamw(self) -> tuple[Callable, float]:
        parameters = [torch.ones(PARAMETERS // 10, device=self.device) for _ in range(10)]
        for parameter in parameters:
            parameter.grad = torch.full_like(parameter, 1e-3)
        optimizer = torch.optim.AdamW(parameters, fused=True)
        return optimizer.step, 7 * 4 * PARAMETERS  # reads four tensors, writes three


class Calls:
    """What a call costs the Python program, on tensors that are too small to matter."""

    BLOCK = 1000  # calls

    def __init__(self, device: str):
        self.device = device

    def select(self, name: str) -> None:
        """Prepares ``add`` or ``mul`` of two 4x4 tensors and warms it up."""
        self.function = {"add": torch.add, "mul": torch.mul}[name]
        self.x, self.y = torch.ones(4, 4, device=self.device), torch.ones(4, 4, device=self.device)
        warm_up(self._block, 5)

    def turn(self, wait: bool, seconds: float) -> list[float]:
        """Seconds a call, of blocks of ``BLOCK`` calls, with or without the wait at their end."""
        end = time.perf_counter() + seconds
        samples = [self._block()[wait]]
        while time.perf_counter() < end:
            samples.append(self._block()[wait])
        return [sample / self.BLOCK for sample in samples]

    def _block(self) -> tuple[float, float]:
        """Seconds of the calls alone, and with the wait; each call takes the last one's result."""
        function, x, y = self.function, self.x, self.y
        start = time.perf_counter()
        for _ in range(self.BLOCK):
            x = function(x, y)
        called = time.perf_counter()
        synchronize(self.device)
        return called - start, time.perf_counter() - start
