# SPDX-License-Identifier: Apache-2.0
"""Runs a sweep (op_db, module_db) in worker processes.

python sweep.py op_db                      everything; prints failures and the summary
python sweep.py op_db -k fft -d float32    operators whose name contains `fft`, one dtype
python sweep.py op_db --json FILE          the results as JSON
python sweep.py op_db --write              updates the pass list
"""

import argparse
import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
LIMIT = 240  # seconds for one node


class Worker:
    """One worker process; restarted after a node that ended it."""

    def __init__(self, suite, directory):
        self.suite = suite
        self.errors = open(directory / f"worker-{id(self)}.txt", "w+")  # noqa: SIM115
        self.process = None

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "sweep_worker.py"), self.suite],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def run(self, node):
        if self.process is None:
            self.start()
        self.errors.seek(0)
        self.errors.truncate()
        expired = threading.Timer(LIMIT, self.process.kill)
        try:
            print(json.dumps(node), file=self.process.stdin, flush=True)
            expired.start()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timed_out = expired.finished.is_set()
            expired.cancel()
        if line:
            return json.loads(line)
        code = self.process.wait()
        self.process = None
        self.errors.seek(0)
        end = (
            f"no result after {LIMIT} s"
            if timed_out
            else (f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}")
        )
        return {
            "samples": 1,
            "passed": 0,
            "variants": 0,
            "variants_passed": 0,
            "seconds": 0.0,
            "crash": end,
            "failures": [
                {"where": "process", "call": "", "error": f"{end}\n{self.errors.read()[-4000:]}"}
            ],
        }

    def close(self):
        if self.process is not None:
            self.process.stdin.close()
            self.process.wait()
            self.process = None
        self.errors.close()


def run(suite, nodes, directory, workers=None, report=None):
    """Results by node."""
    if not hasattr(torch, "neuron"):
        raise RuntimeError("the device neuron is not loaded; is the package installed?")
    waiting = queue.SimpleQueue()
    for node in nodes:
        waiting.put(node)
    results = {}

    def serve():
        worker = Worker(suite, directory)
        try:
            while True:
                try:
                    node = waiting.get_nowait()
                except queue.Empty:
                    return
                results[node] = worker.run(node)
                if report is not None:
                    report(node, results[node])
        finally:
            worker.close()

    count = min(workers or len(os.sched_getaffinity(0)), max(1, len(nodes)))
    threads = [threading.Thread(target=serve) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def summary(suite, results):
    samples = sum(r["samples"] for r in results.values())
    passed = sum(r["passed"] for r in results.values())
    share = 100.0 * passed / samples if samples else 100.0
    title = importlib.import_module(f"sweep_{suite}").TITLE
    return f"{title}: {passed} of {samples} samples ({share:.2f} %)"


def pass_list(results):
    """The text of the pass list."""
    lines = ["# node: samples passed/all, variants passed/all (written by sweep.py --write)"]
    for node, r in sorted(results.items()):
        lines.append(
            f"{' '.join(node)}: {r['passed']}/{r['samples']} {r['variants_passed']}/{r['variants']}"
        )
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", choices=["op_db", "module_db"])
    parser.add_argument("-k", default="", help="part of the name")
    parser.add_argument("-x", action="store_true", help="-k is the whole name")
    parser.add_argument("-d", default="", help="the second part of the node (dtype)")
    parser.add_argument("-j", type=int, help="worker processes")
    parser.add_argument("-v", action="store_true", help="a line for each node")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", action="store_true", help="update the pass list")
    a = parser.parse_args()
    suite = importlib.import_module(f"sweep_{a.suite}")
    nodes = [
        n
        for n in suite.nodes()
        if (a.k == n[0] if a.x else a.k in n[0]) and (not a.d or n[1] == a.d)
    ]

    def report(node, result):
        if a.v:
            print(*node, result["passed"], result["samples"], result["seconds"], flush=True)
        for failure in result["failures"]:
            print(
                f"FAIL {' '.join(node)} | {failure['where']} | {failure['call']}\n  "
                + failure["error"].replace("\n", "\n  "),
                flush=True,
            )

    with tempfile.TemporaryDirectory() as directory:
        results = run(a.suite, nodes, Path(directory), a.j, report)
    if a.json:
        a.json.write_text(json.dumps([[list(n), r] for n, r in sorted(results.items())], indent=0))
    if a.write:
        suite.PASS_LIST.write_text(pass_list(results))
    print(summary(a.suite, results))


if __name__ == "__main__":
    main()
