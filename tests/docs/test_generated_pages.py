# SPDX-License-Identifier: Apache-2.0
"""Generated pages are those that the code gives."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COUNTER = re.compile(r'"([A-Z]\w+(?:\.[A-Z]\w+)+)"')


@pytest.mark.parametrize("page", ["environment", "metrics"])
def test_page_is_current(page):
    tool = [sys.executable, str(ROOT / "tools" / "docs" / f"{page}.py")]
    printed = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
    assert printed == (ROOT / "docs" / f"{page}.md").read_text()


def test_the_list_of_counters_is_complete():
    listed, used = set(), set()
    for path in (ROOT / "csrc").rglob("*"):
        if path.suffix in (".h", ".cpp"):
            names = listed if path.name == "counter_list.h" else used
            names.update(COUNTER.findall(path.read_text()))
    assert len(listed) > 20  # the expression finds names
    assert listed == used
