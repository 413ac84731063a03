# SPDX-License-Identifier: Apache-2.0
"""Measures the device against PyTorch's CPU eager mode: ``make bench``.

Each side runs in processes of its own that alternate, since the two thread pools would disturb each
other in one process and the machine's speed drifts. A row shows the medians of both sides and the
ratio of the medians; below 1 the device is faster.

    python bench/run.py [--rounds N] [--json FILE] [case ...]
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "demo"))

DEVICES = ("cpu", "neuron")


def elementwise(device):
    """One 4x4 `mul`, seen from Python: the cost of a call."""
    import torch

    x, y = torch.ones(4, 4, device=device), torch.ones(4, 4, device=device)

    def run():
        for _ in range(1000):
            torch.mul(x, y)

    return run, 1000


def training_step(device):
    """One training step of the demo's model: forward, backward, AdamW."""
    import torch
    import torch.nn.functional as F
    from char_gpt.model import GPT, GPTConfig

    torch.manual_seed(0)
    config = GPTConfig(vocabulary=96)
    model = GPT(config).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(config.vocabulary, (8, config.sequence + 1)).to(device)

    def run():
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()

    return run, 1


CASES = {"mul 4x4": elementwise, "GPT training step": training_step}


def measure(case, device, seconds):
    """Seconds of one call, for as many calls as fit into the time; prints them as JSON."""
    import torch

    run, calls = CASES[case](device)

    def timed():
        start = time.perf_counter()
        run()
        if device != "cpu":
            torch.accelerator.synchronize()
        return (time.perf_counter() - start) / calls

    for _ in range(5):
        timed()
    end = time.perf_counter() + seconds
    samples = [timed()]
    while time.perf_counter() < end:
        samples.append(timed())
    print(json.dumps(samples))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="case", help=f"of {', '.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side")
    parser.add_argument("--seconds", type=float, default=3.0, help="time of one process")
    parser.add_argument("--json", type=Path, help="write the medians to this file as well")
    parser.add_argument("--measure", nargs=2, metavar=("CASE", "DEVICE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure(*options.measure, options.seconds)
    unknown = [case for case in options.cases if case not in CASES]
    if unknown:
        parser.error(f"unknown case {unknown[0]!r}; choose from {', '.join(CASES)}")

    results = {}
    print(f"{'case':24}{'cpu':>12}{'neuron':>12}{'ratio':>8}")
    for case in options.cases or CASES:
        samples = {device: [] for device in DEVICES}
        for _ in range(options.rounds):
            for device in DEVICES:
                command = [sys.executable, __file__, "--seconds", str(options.seconds)]
                output = subprocess.run(
                    [*command, "--measure", case, device], check=True, stdout=subprocess.PIPE
                ).stdout
                samples[device] += json.loads(output)
        cpu, neuron = (statistics.median(samples[device]) for device in DEVICES)
        results[case] = {"cpu": cpu, "neuron": neuron, "ratio": neuron / cpu}
        print(f"{case:24}{_time(cpu):>12}{_time(neuron):>12}{neuron / cpu:8.2f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


def _time(seconds):
    for unit, scale in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


if __name__ == "__main__":
    main()
