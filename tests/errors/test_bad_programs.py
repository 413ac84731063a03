# SPDX-License-Identifier: Apache-2.0
"""One bad program each: every file in ``programs`` must end with the error that its first line names.

A program states the expected end of its standard error as ``# expect: REGEX`` and variables of its
environment as ``# env: NAME=VALUE``. It must fail by itself, quickly, with Python's exit status 1.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))


def declared(text, key):
    return [line.split(f"{key}:", 1)[1].strip() for line in text.splitlines() if line.startswith(f"# {key}:")]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_program_ends_with_its_error(program):
    text = program.read_text()
    environment = dict(os.environ) | dict(item.split("=", 1) for item in declared(text, "env"))
    run = subprocess.run(
        [sys.executable, str(program)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 1, f"exit status {run.returncode}\n{run.stdout}{run.stderr}"
    (expected,) = declared(text, "expect")
    assert re.search(expected, run.stderr), f"expected /{expected}/ in\n{run.stderr}"
