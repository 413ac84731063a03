# SPDX-License-Identifier: Apache-2.0
"""Training of one model on one device, and what is measured on the way.

The loop is a generator, so that the caller decides what happens between two measurements:

    trainer = Trainer(corpus, device, Schedule(steps=600), seed=1)
    for point in train(trainer, steps=600, interval=10):
        print(point.step, point.loss, point.tokens_per_second)
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch

from char_gpt.corpus import Corpus
from char_gpt.errors import DemoError
from char_gpt.model import GPT, GPTConfig

BATCH = 8
SEQUENCE = 128
VALIDATION_BATCHES = 16
SAMPLE_PROMPT = 48


@dataclass(frozen=True)
class Schedule:
    """Linear warm-up, then a cosine down to a tenth of the peak, which later steps keep."""

    steps: int
    peak: float = 2e-3
    warmup: int = 50

    def learning_rate(self, step: int) -> float:
        if step < self.warmup:
            return self.peak * (step + 1) / self.warmup
        done = min(1.0, (step - self.warmup) / max(1, self.steps - self.warmup))
        return self.peak * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))


class Trainer:
    """A model, its optimizer and a step count on one device.

    The state after n steps depends on the corpus, the schedule and the seed alone: weights are
    drawn on the CPU, and each step's batch follows from the seed and the step's number.
    """

    def __init__(
        self,
        corpus: Corpus,
        device: torch.device,
        schedule: Schedule,
        seed: int,
        compiled: bool = False,
    ):
        self.corpus = corpus
        self.device = device
        self.schedule = schedule
        self.seed = seed
        self.step_count = 0
        torch.manual_seed(seed)
        config = GPTConfig(vocabulary=len(corpus.vocabulary), sequence=SEQUENCE)
        self.model = GPT(config).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), weight_decay=0.1)
        self.label = f"{device}, compiled" if compiled else str(device)
        self._loss = torch.compile(self.model.loss) if compiled else self.model.loss

    def step(self) -> torch.Tensor:
        """One training step; returns the loss without waiting for the device."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.schedule.learning_rate(self.step_count)
        batch_seed = self.seed * 1_000_003 + self.step_count
        inputs, targets = self.corpus.train.random_batch(BATCH, SEQUENCE, batch_seed)
        loss = self._loss(inputs.to(self.device), targets.to(self.device))
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.step_count += 1
        return loss.detach()

    @torch.no_grad()
    def validate(self) -> float:
        self.model.eval()
        losses = [
            self.model.loss(inputs.to(self.device), targets.to(self.device))
            for inputs, targets in self.corpus.validation.even_batches(
                VALIDATION_BATCHES, BATCH, SEQUENCE
            )
        ]
        self.model.train()
        return torch.stack(losses).mean().item()

    def sample(self, length: int) -> tuple[str, str]:
        """The opening of the validation text, and how the model goes on from there."""
        prompt = self.corpus.validation.tokens[:SAMPLE_PROMPT].long()
        self.model.eval()
        following = self.model.sample(prompt.to(self.device), length)
        self.model.train()
        decode = self.corpus.vocabulary.decode
        return decode(prompt), decode(following)

    def save(self, path: Path) -> None:
        checkpoint = {
            "config": self.model.config.as_dict(),
            "characters": self.corpus.vocabulary.characters,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "step": self.step_count,
        }
        try:
            torch.save(checkpoint, path)
        except (OSError, RuntimeError) as error:
            raise DemoError(f"{path}: cannot write the checkpoint: {error}") from error

    def load(self, path: Path) -> None:
        checkpoint = torch.load(path, map_location=self.device, weights_only=True)
        if checkpoint["characters"] != self.corpus.vocabulary.characters:
            raise DemoError(f"{path}: the checkpoint was trained on another text")
        self.model.load_state_dict(checkpoint["model"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        self.step_count = checkpoint["step"]


@dataclass(frozen=True)
class Point:
    """What was measured over the steps since the point before."""

    step: int
    losses: tuple[float, ...]
    seconds: float  # since training began, validation and sampling left out
    tokens_per_second: float
    memory: int  # bytes in use at the end
    peak_memory: int

    @property
    def loss(self) -> float:
        return sum(self.losses) / len(self.losses)


def train(trainer: Trainer, steps: int, interval: int) -> Iterator[Point]:
    """Trains `steps` steps; every `interval` steps reads the losses back and yields a Point.

    Losses are read together because each read makes the host wait for the device. The time that
    the consumer spends between two points is not counted.
    """
    seconds = 0.0
    done = 0
    meter = memory_meter(trainer.device)
    while done < steps:
        count = min(interval, steps - done)
        start = time.perf_counter()
        losses = torch.stack([trainer.step() for _ in range(count)]).tolist()
        elapsed = time.perf_counter() - start
        seconds += elapsed
        done += count
        memory, peak = meter.read()
        yield Point(
            trainer.step_count,
            tuple(losses),
            seconds,
            count * BATCH * SEQUENCE / elapsed,
            memory,
            peak,
        )


class AcceleratorMemory:
    """Bytes of tensors on an accelerator, and the most there were since the read before."""

    label = "device memory"

    def __init__(self, device: torch.device):
        self._device = device
        torch.accelerator.reset_peak_memory_stats(device)

    def read(self) -> tuple[int, int]:
        torch.accelerator.synchronize(self._device)
        now = torch.accelerator.memory_allocated(self._device)
        peak = torch.accelerator.max_memory_allocated(self._device)
        torch.accelerator.reset_peak_memory_stats(self._device)
        return now, peak


class ProcessMemory:
    """Resident memory of this process: what there is to say of the CPU."""

    label = "process memory"

    def __init__(self):
        self._process = psutil.Process()

    def read(self) -> tuple[int, int]:
        resident = self._process.memory_info().rss
        return resident, resident


def memory_meter(device: torch.device) -> AcceleratorMemory | ProcessMemory:
    return ProcessMemory() if device.type == "cpu" else AcceleratorMemory(device)
