# SPDX-License-Identifier: Apache-2.0
"""The report's charts, as SVG text to be put into a page."""

import io
import re
from collections.abc import Callable, Sequence

import matplotlib

matplotlib.use("svg")

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from char_gpt.checks import Comparison
from char_gpt.training import Point

INK = "#1f2933"
MUTED = "#7b8794"
GRID = "#e4e7eb"
BLUE = "#2f6fde"
PALE_BLUE = "#b9cff5"
ORANGE = "#d9622b"

_STYLE = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": GRID,
    "axes.labelcolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": GRID,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",  # the page's own font
    "svg.hashsalt": "char-gpt",
}


def loss_chart(points: Sequence[Point], validation: Sequence[tuple[int, float]]) -> str:
    def draw(axes: Axes) -> None:
        every_step = [loss for point in points for loss in point.losses]
        first = points[-1].step - len(every_step) + 1
        axes.plot(range(first, first + len(every_step)), every_step, color=PALE_BLUE, linewidth=1)
        axes.plot(
            [point.step - (len(point.losses) - 1) / 2 for point in points],
            [point.loss for point in points],
            color=BLUE,
            label="training",
        )
        steps, losses = zip(*validation, strict=True)
        axes.plot(steps, losses, "o-", color=ORANGE, markersize=4, label="validation")
        axes.set_xlabel("step")
        axes.set_ylabel("loss (nats per character)")
        axes.legend()

    return _svg(draw, "Training and validation loss by step", (9.6, 3.4))


def throughput_chart(points: Sequence[Point]) -> str:
    def draw(axes: Axes) -> None:
        axes.plot(
            [point.step for point in points],
            [point.tokens_per_second for point in points],
            color=BLUE,
        )
        _start_at_zero(axes)
        axes.set_xlabel("step")
        axes.set_ylabel("characters per second")
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))

    return _svg(draw, "Characters per second by step", (4.7, 2.9))


def memory_chart(points: Sequence[Point], label: str) -> str:
    def draw(axes: Axes) -> None:
        seconds = [point.seconds for point in points]
        peak = [point.peak_memory / 2**20 for point in points]
        in_use = [point.memory / 2**20 for point in points]
        if peak != in_use:
            axes.plot(seconds, peak, color=ORANGE, label="peak within the steps")
            axes.plot(seconds, in_use, color=BLUE, label="between the steps")
            axes.legend(loc="lower right")
        else:
            axes.plot(seconds, in_use, color=BLUE)
        _start_at_zero(axes)
        axes.set_xlabel("seconds of training")
        axes.set_ylabel(f"{label} (MiB)")

    return _svg(draw, f"{label} over time", (4.7, 2.9))


def step_time_chart(comparison: Comparison) -> str:
    def draw(axes: Axes) -> None:
        for run, color, label in (
            (comparison.reference, ORANGE, "reference: cpu"),
            (comparison.run, BLUE, comparison.run.device),
        ):
            # The first step pays for everything that starts late, and would set the scale alone.
            axes.plot(
                range(2, len(run.step_seconds) + 1),
                [1e3 * seconds for seconds in run.step_seconds[1:]],
                "o-",
                color=color,
                markersize=3.5,
                label=label,
            )
        _start_at_zero(axes)
        axes.set_xlabel("step")
        axes.set_ylabel("milliseconds a step")
        axes.legend(loc="lower right", bbox_to_anchor=(1, 0.98), ncols=2)

    return _svg(draw, "Step times after the first step", (4.7, 2.3))


def _start_at_zero(axes: Axes) -> None:
    axes.set_ylim(0, 1.08 * axes.get_ylim()[1])


def _svg(draw: Callable[[Axes], None], title: str, size: tuple[float, float]) -> str:
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        axes.margins(x=0.02)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=[1, 2, 5, 10], integer=True))
        file = io.StringIO()
        figure.savefig(
            file, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
        )
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :]
    # The page scales the drawing; a fixed size in points would not fit narrow windows.
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)
