# SPDX-License-Identifier: Apache-2.0
"""The workload of training steps. Imported in a side's process."""

from __future__ import annotations

import hashlib
import statistics
import time

import torch

from bench import models
from bench.devices import compiled_kernels, synchronize, warm_up
from bench.sizes import SHAPES

PRECISIONS = {"float32": None, "bf16 autocast": torch.bfloat16}
OPTIMIZERS = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


class Training:
    """Training steps of a model on one batch: forward, backward, AdamW.

    Args:
        model: of ``bench.sizes.SHAPES``.
        device: where it trains.
        precision: of ``PRECISIONS``.
        compiler: backend of ``torch.compile`` for the model with its loss, or None.
    """

    def __init__(
        self,
        model: str,
        device: str,
        precision: str = "float32",
        compiler: str | None = None,
    ):
        self.device = device
        self.shape = SHAPES[model]
        self.precision = PRECISIONS[precision]
        self.model = models.build(model).to(device)
        self.loss = torch.compile(self.model, backend=compiler) if compiler else self.model
        self.use_batch(self.shape.batch, self.shape.sequence)
        self.use_optimizer(None)
        synchronize(device)

    def use_batch(self, batch: int, sequence: int) -> None:
        """Trains on a random batch of that many sequences of that many tokens from now on."""
        generator = torch.Generator().manual_seed(1)
        shape = (batch, sequence + 1)
        tokens = torch.randint(self.shape.vocabulary, shape, generator=generator).to(self.device)
        self.tokens, self.targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def use_optimizer(self, flavour: str | None) -> None:
        """Starts a new optimizer: a flavour of ``OPTIMIZERS``, or PyTorch's choice for None."""
        options = OPTIMIZERS[flavour] if flavour else {}
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, **options)

    def step(self) -> torch.Tensor:
        enabled = self.precision is not None
        with torch.autocast(torch.device(self.device).type, self.precision, enabled=enabled):
            loss = self.loss(self.tokens, self.targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def run(self, steps: int, read_every: int) -> float:
        """Seconds of ``steps`` steps, the loss being read after each ``read_every`` steps."""
        start = time.perf_counter()
        for i in range(1, steps + 1):
            loss = self.step()
            if i % read_every == 0:
                loss.item()
        synchronize(self.device)
        return time.perf_counter() - start

    def turn(self, block: int, seconds: float) -> list[float]:
        """Seconds a step of blocks of ``block`` steps, as many blocks as fit; at least one."""
        end = time.perf_counter() + seconds
        samples = [self.run(block, block) / block]
        while time.perf_counter() < end:
            samples.append(self.run(block, block) / block)
        return samples

    def warm_up(self, minimum: int = 5) -> int:
        """Steps until the device runs its final kernels; returns how many."""
        return warm_up(lambda: self.step().item(), minimum)

    def choose_optimizer(self, block: int, rounds: int) -> str:
        """Goes on with the flavour whose steps have the least median; returns its name."""
        optimizers, samples = {}, {flavour: [] for flavour in OPTIMIZERS}
        for flavour in OPTIMIZERS:
            self.use_optimizer(flavour)
            self.warm_up(minimum=3)
            optimizers[flavour] = self.optimizer
        for _ in range(rounds):
            for flavour, times in samples.items():
                self.optimizer = optimizers[flavour]
                times += self.turn(block, 0)
        best = min(samples, key=lambda flavour: statistics.median(samples[flavour]))
        self.optimizer = optimizers[best]
        return best

    def first_step(self) -> dict[str, float]:
        """Seconds of one step and of reading its loss, and the kernels compiled meanwhile."""
        before = compiled_kernels()
        seconds = self.run(1, 1)
        after = compiled_kernels()
        return {"seconds": seconds, **{kind: after[kind] - before[kind] for kind in after}}

    def peak_bytes(self, steps: int) -> int:
        """The most bytes that tensors of the device held in ``steps`` repeated steps."""
        synchronize(self.device)
        torch.accelerator.reset_peak_memory_stats()
        self.run(steps, steps)
        return torch.accelerator.max_memory_allocated()

    def digest(self, steps: int) -> str:
        """A hash of all parameters' bits after ``steps`` further steps."""
        self.run(steps, 10)
        digest = hashlib.sha256()
        for parameter in self.model.parameters():
            digest.update(parameter.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return digest.hexdigest()
