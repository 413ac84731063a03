#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a character-level GPT on the accelerator, checks it against the CPU, writes a report."""

import argparse
import sys
import time
from pathlib import Path

import torch
from char_gpt import terminal
from char_gpt.checks import Comparison, run_steps
from char_gpt.corpus import load_corpus
from char_gpt.errors import DemoError
from char_gpt.operators import operators_of
from char_gpt.report import CHECKPOINT, Results, prepare_folder, write_report
from char_gpt.training import SEQUENCE, Schedule, Trainer, train
from rich.console import Console

COMPARED_STEPS = 20
MEASURE_EVERY = 10
VALIDATIONS = 6
SAMPLE_LENGTH = 400

SUCCESS, MISMATCH, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--data", metavar="FILE", help="UTF-8 text to train on (default: Python's standard library)"
    )
    parser.add_argument(
        "--steps", type=_positive, default=1200, metavar="N", help="training steps (default: 1200)"
    )
    parser.add_argument(
        "--device", metavar="NAME", help="where to train (default: the current accelerator)"
    )
    parser.add_argument(
        "--compile", action="store_true", help="train through torch.compile; the CPU stays eager"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument(
        "--report",
        type=Path,
        default=Path(__file__).resolve().parent / "report",
        metavar="FOLDER",
        help="folder of the report and the checkpoint (default: demo/report)",
    )
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return number


def choose_device(name: str | None) -> torch.device:
    """The device called `name`, or the current accelerator; DemoError if there is none."""
    accelerator = torch.accelerator.current_accelerator()
    if name is None:
        if accelerator is None:
            raise DemoError("PyTorch finds no accelerator here; --device cpu trains on the CPU")
        return accelerator
    usable = ["cpu"] + ([accelerator.type] if accelerator else [])
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    count = torch.accelerator.device_count() if accelerator else 0
    if device is None or device.type not in usable:
        raise DemoError(f"--device {name}: no such device here; there is: {', '.join(usable)}")
    if device.type != "cpu" and (device.index or 0) >= count:
        raise DemoError(f"--device {name}: there are {count} {device.type} devices, counted from 0")
    return device


def run(options: argparse.Namespace, console: Console) -> int:
    device = choose_device(options.device)
    cpu = torch.device("cpu")
    corpus = load_corpus(options.data, SEQUENCE)
    prepare_folder(options.report)
    schedule = Schedule(options.steps)

    def new_trainer(where: torch.device, compiled: bool = False) -> Trainer:
        return Trainer(corpus, where, schedule, options.seed, compiled)

    trainer = new_trainer(device, options.compile)
    terminal.show_heading(console, trainer)

    with console.status(f"the first {COMPARED_STEPS} steps on the CPU and on {trainer.label}"):
        first_steps = Comparison(
            reference=run_steps(new_trainer(cpu), COMPARED_STEPS),
            run=run_steps(new_trainer(device, options.compile), COMPARED_STEPS),
        )
    terminal.show_comparison(console, "The first steps from the same seed", 1, first_steps)

    points = []
    validation = [(0, trainer.validate())]
    validate_every = max(1, options.steps // VALIDATIONS)
    with terminal.TrainingProgress(console, trainer, options.steps) as progress:
        for point in train(trainer, options.steps, min(MEASURE_EVERY, validate_every)):
            points.append(point)
            progress.show(point)
            last = point.step == options.steps
            if last or point.step - validation[-1][0] >= validate_every:
                validation.append((point.step, trainer.validate()))
                progress.show_validation(point, validation[-1][1])

    with console.status("sampling"):
        prompt, sample = trainer.sample(SAMPLE_LENGTH)
    terminal.show_sample(console, prompt, sample)

    checkpoint = options.report / CHECKPOINT
    with console.status("continuing from the checkpoint on the CPU"):
        trainer.save(checkpoint)
        resumed = new_trainer(cpu)
        resumed.load(checkpoint)
        continuation = Comparison(
            reference=run_steps(resumed, COMPARED_STEPS), run=run_steps(trainer, COMPARED_STEPS)
        )
    console.print(f"Saved {checkpoint} and loaded it on the CPU.")
    terminal.show_comparison(
        console, "Training goes on from the checkpoint", options.steps + 1, continuation
    )

    with console.status("writing the report"):
        operators = operators_of(trainer.step, device)
        results = Results(points, validation, prompt, sample, first_steps, continuation, operators)
        page = write_report(options.report, trainer, results)
    console.print(f"Report: {page}", soft_wrap=True, highlight=False)
    return SUCCESS if results.agrees else MISMATCH


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    console = Console(highlight=False)
    start = time.perf_counter()
    try:
        status = run(options, console)
    except DemoError as error:
        print(f"train_gpt: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("train_gpt: interrupted", file=sys.stderr)
        return INTERRUPTED
    if status == MISMATCH:
        print("train_gpt: FAILED: the losses on the device differ from the CPU's", file=sys.stderr)
    console.print(f"Finished in {time.perf_counter() - start:.0f} s.")
    return status


if __name__ == "__main__":
    sys.exit(main())
