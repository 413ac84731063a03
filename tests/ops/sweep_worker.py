# SPDX-License-Identifier: Apache-2.0
"""Runs nodes of a sweep: one JSON list a line on standard input, one JSON result a line back.

A process of its own, so that a crash ends one worker and is charged to the node that ran.
"""

import faulthandler
import importlib
import json
import os
import sys
import time


def main():
    suite = importlib.import_module(f"sweep_{sys.argv[1]}")
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what operators print does not mix with results
    faulthandler.enable()
    import torch

    torch.set_num_threads(1)
    for line in sys.stdin:
        node = json.loads(line)
        started = time.monotonic()
        result = suite.run_node(*node)
        result["seconds"] = round(time.monotonic() - started, 3)
        print(json.dumps(result), file=results, flush=True)


if __name__ == "__main__":
    main()
