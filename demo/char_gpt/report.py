# SPDX-License-Identifier: Apache-2.0
"""The report of a run: one HTML page that needs no other file and no network."""

import platform
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import jinja2
import torch

from char_gpt import charts
from char_gpt.checks import RELATIVE_TOLERANCE, Comparison
from char_gpt.errors import DemoError
from char_gpt.operators import OperatorUse
from char_gpt.training import BATCH, SEQUENCE, Point, Trainer, memory_meter

PAGE = "index.html"
CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True)
class Results:
    """Everything the page tells."""

    points: Sequence[Point]
    validation: Sequence[tuple[int, float]]
    prompt: str
    sample: str
    first_steps: Comparison
    continuation: Comparison
    operators: Sequence[OperatorUse]

    @property
    def agrees(self) -> bool:
        return self.first_steps.agrees and self.continuation.agrees


def prepare_folder(folder: Path) -> None:
    """Finds out before the training whether the report can be written after it."""
    probe = folder / ".writable"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise DemoError(
            f"{folder}: cannot write the report there: {error.strerror or error}"
        ) from None


def write_report(folder: Path, trainer: Trainer, results: Results) -> Path:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["bytes"] = format_bytes
    page = environment.get_template("report.html.jinja").render(_context(trainer, results))
    path = folder / PAGE
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise DemoError(f"{path}: cannot write the report: {error.strerror or error}") from None
    return path


def format_bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


def _context(trainer: Trainer, results: Results) -> dict:
    points = results.points
    corpus = trainer.corpus
    places = Counter()
    for use in results.operators:
        places[use.place] += use.calls
    return {
        "results": results,
        "device": trainer.device,
        "label": trainer.label,
        "model": trainer.model.config,
        "parameters": trainer.model.parameter_count(),
        "source": corpus.source,
        "train_characters": len(corpus.train.tokens),
        "validation_characters": len(corpus.validation.tokens),
        "batch": BATCH,
        "sequence": SEQUENCE,
        "steps": points[-1].step,
        "seconds": points[-1].seconds,
        "throughput": median(point.tokens_per_second for point in points),
        "peak_memory": max(point.peak_memory for point in points),
        "memory_label": memory_meter(trainer.device).label,
        "tolerance": RELATIVE_TOLERANCE,
        "loss_chart": charts.loss_chart(points, results.validation),
        "throughput_chart": charts.throughput_chart(points),
        "memory_chart": charts.memory_chart(points, memory_meter(trainer.device).label),
        "step_time_chart": charts.step_time_chart(results.first_steps),
        "places": places.most_common(),
        "torch_version": torch.__version__,
        "python_version": platform.python_version(),
        "written": time.strftime("%Y-%m-%d %H:%M"),
    }
