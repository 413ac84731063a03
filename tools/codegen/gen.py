#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the typed kernels of PyTorch's structured operators for the device `neuron`.

gen.py --out DIR   write the C++ files (unchanged files keep their time stamp)
gen.py --list      print the names of the files
gen.py --report    print what is generated, and what is skipped and why
gen.py --table     print the operators as JSON: name, variants, split
gen.py --show OP   print the kernels of one operator ("add.Tensor")
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import emit
import operators


def write(directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in emit.files(operators.load().generated).items():
        path = directory / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def report() -> str:
    loaded = operators.load()
    kernels = sum(len(o.variants) for o in loaded.generated)
    splits = Counter(o.entry.split for o in loaded.generated)
    lines = [
        f"{len(operators.structured_groups())} structured operators with a CPU kernel",
        f"{len(loaded.generated)} generated, {kernels} kernels",
        "split: " + ", ".join(f"{splits[s]} {s}" for s in operators.SPLITS),
        f"{len(loaded.skipped)} skipped",
        *(f"  {name}: {reason}" for name, reason in loaded.skipped.items()),
    ]
    return "\n".join(lines)


def show(name: str) -> str:
    for operator in operators.load().generated:
        if operator.name == name:
            return emit.operator_text(operator)
    sys.exit(f"gen.py: no kernel is generated for {name!r}; --table lists the operators")


def table() -> str:
    rows = [
        {
            "op": f"aten::{o.name}",
            "variants": [f"aten::{f.func.name}" for f in o.variants],
            "split": o.entry.split,
            "when": o.entry.when,
        }
        for o in operators.load().generated
    ]
    return json.dumps(rows, indent=1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--out", type=Path, metavar="DIR")
    mode.add_argument("--list", action="store_true")
    mode.add_argument("--report", action="store_true")
    mode.add_argument("--table", action="store_true")
    mode.add_argument("--show", metavar="OP")
    arguments = parser.parse_args()
    if arguments.out is not None:
        write(arguments.out)
    elif arguments.list:
        print("\n".join(emit.file_names()))
    elif arguments.report:
        print(report())
    elif arguments.show is not None:
        print(show(arguments.show), end="")
    else:
        print(table())


if __name__ == "__main__":
    main()
