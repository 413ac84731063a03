# SPDX-License-Identifier: Apache-2.0
"""Generated pages are those that the code gives."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_environment_page_is_current():
    tool = [sys.executable, str(ROOT / "tools" / "docs" / "environment.py")]
    printed = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
    assert printed == (ROOT / "docs" / "environment.md").read_text()
