# SPDX-License-Identifier: Apache-2.0
"""Results as rows of plain values, and their three forms: terminal, Markdown, JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable


@dataclass(frozen=True)
class Column:
    """A column shows ``row[key]`` by way of ``form``; a row without the key leaves it empty."""

    key: str
    header: str
    form: Callable[[Any], str] = str


@dataclass
class Table:
    """One table of a case.

    Attributes:
        rows: plain values by name; times in seconds, memory in bytes. A row may hold more values
            than the columns show.
        notes: sentences below the table.
        failed: a check, not a measurement, has failed.
    """

    title: str
    columns: list[Column]
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failed: bool = False

    def cells(self) -> list[list[str]]:
        return [
            ["" if row.get(c.key) is None else c.form(row[c.key]) for c in self.columns]
            for row in self.rows
        ]

    def as_dict(self) -> dict[str, Any]:
        return {"title": self.title, "rows": self.rows, "notes": self.notes, "failed": self.failed}


def goal(value: float, limit: float) -> dict[str, Any]:
    """The entry of a goal column: ``value`` should be at most ``limit``."""
    return {"limit": limit, "met": value <= limit}


def show_goal(entry: dict[str, Any]) -> str:
    return f"{entry['limit']:g} {'met' if entry['met'] else 'missed'}"


def show_time(seconds: float) -> str:
    for unit, scale in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}" if seconds < 100 else f"{seconds:.0f} s"
    return f"{seconds * 1e9:.0f} ns"


def show_ratio(value: float) -> str:
    return f"{value:.2f}"


def show_percent(value: float) -> str:
    return f"{value:.0%}"


def show_megabytes(value: float) -> str:
    return f"{value / 1e6:.1f} MB"


def print_table(table: Table, console: Console) -> None:
    shown = RichTable(title=escape(table.title), title_justify="left", title_style="bold")
    for i, column in enumerate(table.columns):
        shown.add_column(escape(column.header), justify="left" if i == 0 else "right")
    for cells in table.cells():
        shown.add_row(*map(escape, cells))
    if table.rows:
        console.print(shown)
    else:
        console.print(f"[bold]{escape(table.title)}[/bold]")
    for note in table.notes:
        console.print(escape(note))
    console.print()


def markdown(table: Table) -> str:
    """The table under a heading, for documentation."""
    lines = [f"### {table.title}", ""]
    if table.rows:
        lines.append("| " + " | ".join(column.header for column in table.columns) + " |")
        lines.append("|---" + "|---:" * (len(table.columns) - 1) + "|")
        lines += ["| " + " | ".join(cells) + " |" for cells in table.cells()]
        lines.append("")
    lines += [line for note in table.notes for line in (note, "")]
    return "\n".join(lines)
