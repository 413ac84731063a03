# SPDX-License-Identifier: Apache-2.0
"""Runs the GoogleTest programs that `make test` builds: plain and under two sanitizers."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("NEURON_BUILD_ROOT", ROOT / "build"))

SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_init_order=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


@pytest.mark.parametrize(
    "program",
    ["release/core_tests", "release/codegen_tests", "address/core_tests", "thread/core_tests"],
)
def test_program(program):
    path = BUILD / program
    if not path.exists():
        pytest.skip(f"{program} is not built: run `make test`")
    command = [str(path), "--gtest_brief=1"]
    if program.startswith("thread/") and shutil.which("setarch"):
        # ThreadSanitizer of older compilers cannot place its shadow memory when the kernel
        # randomises addresses with more bits than it knows.
        command = ["setarch", "-R", *command]
    result = subprocess.run(
        command,
        env={**os.environ, **SANITIZER_OPTIONS},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=540,
    )
    assert result.returncode == 0, f"{program} failed:\n{result.stdout[-20000:]}"
    assert re.search(r"^\[  PASSED  \] [1-9]", result.stdout, re.MULTILINE), (
        f"{program} ran no test:\n{result.stdout}"
    )
