# SPDX-License-Identifier: Apache-2.0
"""Python in a process of its own, where the package is installed as pyproject.toml says."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture
def run(tmp_path, project):
    """run(code, **environment) -> CompletedProcess; the environment replaces our variables."""
    site = tmp_path / "site"
    metadata = site / f"{project['name']}-0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n"
    )
    groups = project["entry-points"].items()
    (metadata / "entry_points.txt").write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
            for group, entries in groups
        )
    )

    def run(code, *options, **environment):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("TORCH_", "NEURON_"))}
        env["PYTHONPATH"] = f"{site}{os.pathsep}{ROOT / 'python'}"
        return subprocess.run(
            [sys.executable, *options, "-c", code],
            env={**env, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=120,
        )

    return run
