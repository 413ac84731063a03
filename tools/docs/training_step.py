# SPDX-License-Identifier: Apache-2.0
"""Draws what a training step became: docs/training_step.svg, from a real run.

python tools/docs/training_step.py            prints explain() of the step
python tools/docs/training_step.py --write    updates the picture
"""

import argparse
from html import escape
from pathlib import Path

import torch
import torch_neuronx
from torch import nn
from torch.nn import functional as F
from torch_neuronx import _C, metrics

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "training_step.svg"
COLORS = {"fused": "#2a9d8f", "single": "#e9c46a", "host": "#adb5bd", "elided": "#ffffff"}
LABELS = {
    "fused": "one kernel for all",
    "single": "a kernel of its own",
    "host": "host call (library)",
    "elided": "not run: nobody sees it",
}
CELL, GAP, ROW, LEFT, WIDTH = 92, 6, 30, 14, 1000


class Block(nn.Module):
    """The feed-forward half of a transformer block, with the normalisation written out."""

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        normal = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.scale
        return x + self.down(F.gelu(self.up(normal)))


def explain_step():
    torch.manual_seed(0)
    model = Block(64).to("neuron")
    x, target = torch.randn(2, 32, 64, device="neuron")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(6):  # seen, planned, compiled
        step()
        torch.neuron.synchronize()
        _C.wait_for_compiles()
    metrics.clear_all()
    step()
    return torch_neuronx.explain(128)


def short(name):
    name = name.removeprefix("aten::").removeprefix("_").split(".")[0]
    return name if len(name) <= 13 else name[:11] + "…"


def picture(explanation):
    """One box a window, one bar a step, one cell an operation; bars wrap at the page's width."""
    parts, y = [], 64
    for window in explanation.windows:
        top, x = y, LEFT + 10
        y += 30
        steps = [(s.how, s.operations) for s in window.steps]
        if window.elided:
            steps.append(("elided", window.elided))
        for how, operations in steps:
            for index, number in enumerate(operations):
                if x + CELL > WIDTH - LEFT - 10:
                    x, y = LEFT + 10, y + ROW + GAP
                op = window.operations[number]
                parts.append(cell(x, y, how, op, last=index + 1 == len(operations)))
                x += CELL + (GAP if index + 1 == len(operations) else 0)
        y += ROW + 12
        title = f"window {window.number}"
        if window.windows > 1:
            title = f"windows {window.number}-{window.number + window.windows - 1}"
        title += f": {len(window.operations)} operations, ended by {window.ended}"
        parts.append(
            f'<rect x="{LEFT}" y="{top}" width="{WIDTH - 2 * LEFT}" height="{y - top - 4}" rx="6" '
            'fill="none" stroke="#495057"/>'
            f'<text x="{LEFT + 10}" y="{top + 19}" font-weight="bold">{escape(title)}</text>'
        )
        y += 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 8}" '
        f'viewBox="0 0 {WIDTH} {y + 8}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{WIDTH}" height="{y + 8}" fill="#ffffff"/>\n'
        + legend(explanation)
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def cell(x, y, how, op, last):
    width = CELL if last else CELL + 1  # the cells of one kernel touch
    dash = ' stroke-dasharray="3 2"' if how == "elided" else ""
    weight = "" if op.backward else ' font-weight="bold"'
    return (
        f"<g><title>{escape(op.name)} {escape(op.where)}</title>"
        f'<rect x="{x}" y="{y}" width="{width}" height="{ROW}" fill="{COLORS[how]}" '
        f'stroke="#343a40" stroke-width="0.6"{dash}/>'
        f'<text x="{x + CELL / 2}" y="{y + 19}" text-anchor="middle"{weight}>'
        f"{escape(short(op.name))}</text></g>"
    )


def legend(explanation):
    ran = explanation.ran
    parts = [
        f'<text x="{LEFT}" y="20" font-size="14" font-weight="bold">One training step: '
        f"{sum(len(w.operations) for w in explanation.windows)} operations. Bold: forward and "
        "optimizer; plain: backward. Cells that touch are one kernel.</text>"
    ]
    x = LEFT
    for how, color in COLORS.items():
        parts.append(
            f'<rect x="{x}" y="34" width="16" height="16" fill="{color}" stroke="#343a40"/>'
            f'<text x="{x + 22}" y="47">{LABELS[how]} ({ran[how]})</text>'
        )
        x += 230
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="update docs/training_step.svg")
    explanation = explain_step()
    if parser.parse_args().write:
        PICTURE.write_text(picture(explanation))
    else:
        print(explanation)
