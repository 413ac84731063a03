#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Says which ATen operators the device `neuron` can run, by which route.

op_report.py            print how many operator overloads are reachable, by route
op_report.py --missing  print the overloads without a route
op_report.py --write    write docs/operators.md (needs the pass list tests/ops/op_db_pass.txt)
op_report.py --check    fail unless docs/operators.md is what --write would write
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "operators.md"
PASS_LIST = ROOT / "tests" / "ops" / "op_db_pass.txt"

KERNEL, NATIVE, HOST, COMPOSED = "kernel", "native", "host op", "composed"
ROUTES = {
    KERNEL: "a generated kernel of its own (`tools/codegen/gen.py`), queued",
    NATIVE: "a kernel of its own, written by hand, queued",
    HOST: "no kernel: PyTorch's CPU kernel on the device's memory, counted as a fallback",
    COMPOSED: "made of other operators by PyTorch",
}
COMPOSITES = (
    "CompositeExplicitAutogradNonFunctional",
    "CompositeExplicitAutograd",
    "CompositeImplicitAutograd",
)


def generated() -> dict[str, str]:
    """Overloads with a generated kernel, and how a call of each is split into tiles."""
    table = subprocess.run(
        [sys.executable, ROOT / "tools" / "codegen" / "gen.py", "--table"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {v: row["split"] for row in json.loads(table) for v in row["variants"]}


def routes() -> dict[str, str | None]:
    """The route of every ATen overload, as the dispatcher chooses it; None: no route."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    kernels = generated()
    result: dict[str, str | None] = {}
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if not name.startswith("aten::"):
            continue
        if has_kernel(name, "PrivateUse1"):
            result[name] = KERNEL if name in kernels else NATIVE
        elif any(has_kernel(name, key) for key in COMPOSITES):
            result[name] = COMPOSED
        else:
            result[name] = HOST if has_kernel(name, "CPU") else None
    return result


def base_name(overload: str) -> str:
    """`aten::add_.Tensor` and `aten::add.out` belong to `add`."""
    name = overload.removeprefix("aten::").split(".")[0]
    is_in_place = name.endswith("_") and not name.endswith("__")
    return name[:-1] if is_in_place else name


def passing() -> dict[str, list[str]]:
    """Data types for which every sample of the operator database passes, by operator."""
    from torch.testing._internal.common_methods_invocations import op_db

    operators = defaultdict(set)  # name in the database -> operators
    for op in op_db:
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        operators[name].add(op.aten_name.removeprefix("aten::"))
    verdicts: dict[str, dict[str, bool]] = defaultdict(dict)
    for line in PASS_LIST.read_text().splitlines():
        if line.startswith("#"):
            continue
        node, counts = line.split(": ")
        name, dtype = node.split(" ")
        good = all(len(set(part.split("/"))) == 1 for part in counts.split(" "))
        for operator in operators[name]:
            verdicts[operator][dtype] = verdicts[operator].get(dtype, True) and good
    return {
        name: sorted(dtype for dtype, good in dtypes.items() if good)
        for name, dtypes in verdicts.items()
    }


def summary(found: dict[str, str | None]) -> str:
    count = Counter(found.values())
    reachable = len(found) - count[None]
    lines = [f"ATen operator overloads reachable on neuron: {reachable} of {len(found)}"]
    lines += [f"  {route}: {count[route]}" for route in ROUTES]
    return "\n".join(lines)


def document(found: dict[str, str | None]) -> str:
    splits = generated()
    dtypes = passing()
    grouped: dict[str, list[str]] = defaultdict(list)
    for overload, route in found.items():
        if route is not None:
            grouped[base_name(overload)].append(overload)
    count = Counter(found.values())
    lines = [
        "# Operators",
        "",
        f"{len(found) - count[None]} of {len(found)} operator overloads of PyTorch "
        f"{torch.__version__.split('+')[0]} run on the device `neuron`. The others belong to other "
        "devices, or to sparse, quantized and nested tensors, which the device does not support.",
        "",
        "| route | overloads | meaning |",
        "|---|---|---|",
        *(f"| {route} | {count[route]} | {text} |" for route, text in ROUTES.items()),
        "",
        "Data types: those for which every sample of PyTorch's operator database agrees with the "
        "CPU (of float32, int64 and bool; empty where the database has no entry for the operator). "
        "This file is written by `tools/op_report.py --write`.",
        "",
        "| operator | overloads | route | tiles | data types |",
        "|---|---|---|---|---|",
    ]
    for name, overloads in sorted(grouped.items()):
        own = [found[o] for o in overloads]
        shown = [route for route in ROUTES if route in own]
        tiles = sorted({splits[o] for o in overloads if o in splits} - {"none"})
        variants = ", ".join(
            suffix.removeprefix(".") or "default" if not suffix.startswith("_") else name + suffix
            for suffix in (o.removeprefix("aten::").removeprefix(name) for o in overloads)
        )
        lines.append(
            f"| `{name}` | {variants} | {', '.join(shown)} | {', '.join(tiles)} | "
            f"{', '.join(dtypes.get(name, []))} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--missing", action="store_true")
    mode.add_argument("--write", action="store_true")
    mode.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if not hasattr(torch, "neuron"):
        sys.exit("op_report.py: the device neuron is not loaded; install the package first")
    found = routes()
    if arguments.missing:
        print("\n".join(name for name, route in found.items() if route is None))
        return
    if (arguments.write or arguments.check) and not PASS_LIST.exists():
        sys.exit(f"op_report.py: {PASS_LIST} is missing; tests/ops/sweep.py op_db --write makes it")
    if arguments.write:
        DOCUMENT.write_text(document(found))
    elif arguments.check and (not DOCUMENT.exists() or DOCUMENT.read_text() != document(found)):
        sys.exit(f"op_report.py: {DOCUMENT} is out of date; --write updates it")
    print(summary(found))


if __name__ == "__main__":
    main()
