# SPDX-License-Identifier: Apache-2.0
"""What the demo shows on the terminal."""

import torch
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from char_gpt.checks import RELATIVE_TOLERANCE, Comparison
from char_gpt.report import format_bytes
from char_gpt.training import BATCH, SEQUENCE, Point, Trainer, memory_meter


def show_heading(console: Console, trainer: Trainer) -> None:
    config = trainer.model.config
    corpus = trainer.corpus
    console.print(
        f"[bold]A character-level GPT on {trainer.label}[/bold], PyTorch {torch.__version__}\n"
        f"model  {config.layers} layers, width {config.width}, {config.heads} heads, "
        f"{trainer.model.parameter_count():,} parameters, batches of {BATCH} x {SEQUENCE}\n"
        f"text   {escape(corpus.source)}\n"
        f"       {len(corpus.train.tokens):,} characters to train on, "
        f"{len(corpus.validation.tokens):,} held out, {config.vocabulary} tokens\n"
    )


def show_comparison(console: Console, title: str, first: int, comparison: Comparison) -> None:
    table = Table(title=title, title_justify="left")
    for heading in ("step", "loss on cpu", f"loss on {comparison.run.device}", "difference"):
        table.add_column(heading, justify="right")
    for step, (expected, actual, difference, agrees) in enumerate(comparison.rows, first):
        table.add_row(
            str(step),
            f"{expected:.6f}",
            f"{actual:.6f}",
            f"{difference:.1e}" + ("" if agrees else " !"),
            style=None if agrees else "bold red",
        )
    console.print(table)
    verdict = "equal" if comparison.agrees else "NOT EQUAL"
    console.print(
        f"{verdict} to {RELATIVE_TOLERANCE:g} relative (largest difference "
        f"{comparison.largest_difference:.1e})\na step takes "
        f"{1e3 * comparison.reference.typical_step:.1f} ms on cpu, "
        f"{1e3 * comparison.run.typical_step:.1f} ms on {comparison.run.device}\n",
        style="green" if comparison.agrees else "bold red",
    )


def show_sample(console: Console, prompt: str, sample: str) -> None:
    text = Text(prompt, style="dim") + Text(sample, style="default")
    console.print(Panel(text, title="What the model writes", title_align="left"))


class TrainingProgress:
    """A progress bar with loss, speed and memory; a context manager."""

    def __init__(self, console: Console, trainer: Trainer, steps: int):
        self._progress = Progress(
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            expand=True,
        )
        self._task = self._progress.add_task("training", total=steps, figures="")
        self._memory_label = memory_meter(trainer.device).label

    def __enter__(self) -> "TrainingProgress":
        self._progress.start()
        return self

    def __exit__(self, *_) -> None:
        self._progress.stop()

    def show(self, point: Point) -> None:
        self._progress.update(
            self._task,
            completed=point.step,
            figures=f"loss {point.loss:.3f}, {point.tokens_per_second:,.0f} tokens/s, "
            f"{self._memory_label} {format_bytes(point.memory)}",
        )

    def show_validation(self, point: Point, loss: float) -> None:
        self._progress.console.print(
            f"step {point.step:>5}   training loss {point.loss:.4f}   validation loss {loss:.4f}"
        )
