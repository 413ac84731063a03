#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the device against PyTorch's CPU eager mode and Inductor: ``make bench``.

Ratios compare medians of one run in which every side has a process of its own and the processes
take turns. Below 1 the device is faster (or smaller). The exit status is 1 if the check of bits
fails, 2 if a side fails; a missed goal is shown, and is no failure.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

# The package is imported by its name, here and in the processes of the sides.
sys.path[0] = str(Path(__file__).resolve().parents[1])

import psutil  # noqa: E402
from rich.console import Console  # noqa: E402

from bench import tables  # noqa: E402
from bench.cases import CASES  # noqa: E402
from bench.harness import QUICK, Bench, BenchError, Settings  # noqa: E402

BUSY_LIMIT = 0.1
REPORT_WIDTH = 180  # characters, where the output is no terminal
SUCCESS, UNEQUAL, FAILED, INTERRUPTED = 0, 1, 2, 130


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--case",
        action="append",
        choices=CASES,
        metavar="NAME",
        help=f"only this case; may be repeated ({', '.join(CASES)})",
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer turns, small models, no Inductor: a rough look"
    )
    parser.add_argument(
        "--inductor",
        action=argparse.BooleanOptionalAction,
        help="measure Inductor as well (default: yes, without --quick)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results to FILE")
    parser.add_argument(
        "--markdown", action="store_true", help="print the tables as Markdown for the documentation"
    )
    return parser.parse_args(arguments)


def settings_of(options: argparse.Namespace) -> Settings:
    settings = QUICK if options.quick else Settings()
    if options.inductor is not None:
        settings = dataclasses.replace(settings, inductor=options.inductor)
    return settings


def busy_share() -> float:
    """Share of the processors' time that others use while no side runs, from 0 to 1."""
    return psutil.cpu_percent(interval=0.5) / 100


def warnings() -> list[str]:
    busy = busy_share()
    if busy <= BUSY_LIMIT:
        return []
    return [
        f"Other programs used {busy:.0%} of the processors before this case: "
        "its figures mean little."
    ]


def run(
    names: Sequence[str], settings: Settings, use_markdown: bool, json_file: Path | None
) -> int:
    """Runs the cases and prints each table as it is done; returns the exit status."""
    width = None if sys.stdout.isatty() else REPORT_WIDTH
    output = Console(highlight=False, width=width)
    errors = Console(stderr=True, highlight=False)
    with errors.status("starting") as status:
        bench = Bench(settings)
        machine = bench.build["machine"]
        heading = ", ".join(f"{key} {value}" for key, value in machine.items())
        output.print(heading, "", sep="\n", markup=False, soft_wrap=True)
        results = {"machine": machine, "settings": dataclasses.asdict(settings), "cases": {}}
        failed = False
        for name in names:
            bench.progress = lambda text, name=name: status.update(f"{name}: {text}")
            bench.progress("starting")
            found = warnings()
            table = CASES[name](bench)
            table.notes += found
            failed |= table.failed
            results["cases"][name] = table.as_dict()
            if use_markdown:
                output.print(tables.markdown(table), markup=False, soft_wrap=True)
            else:
                tables.print_table(table, output)
            if json_file:
                json_file.write_text(json.dumps(results, indent=2) + "\n")
    return UNEQUAL if failed else SUCCESS


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    try:
        return run(
            options.case or list(CASES), settings_of(options), options.markdown, options.json
        )
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("bench: interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
