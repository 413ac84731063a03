# SPDX-License-Identifier: Apache-2.0
"""The process of one side: builds a workload, then runs its methods as the harness asks for them.

Requests and answers are lines of JSON on standard input and output:
``{"open": "module:class", "arguments": {...}}`` makes the workload, ``{"call": method, ...}`` runs
a method of it; the answer is ``{"result": ...}`` or ``{"error": traceback}``. The end of the input
ends the process.
"""

import ctypes
import importlib
import json
import os
import signal
import sys
import traceback

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def main() -> None:
    # A stopped process cannot notice that its input has ended, so the kernel has to end it when
    # the harness is killed.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print is no answer
    workload = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "open" in request:
                module, name = request["open"].split(":")
                make = getattr(importlib.import_module(module), name)
                workload = make(**request["arguments"])
                answer = {"result": None}
            else:
                method = getattr(workload, request["call"])
                answer = {"result": method(**request["arguments"])}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
