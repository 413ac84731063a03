# SPDX-License-Identifier: Apache-2.0
"""The wheel: what is in it, and that it works in an empty environment by `import torch` alone."""

import os
import re
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]

PROGRAM = """
import torch
device = torch.accelerator.current_accelerator()
x = torch.randn(8, 8, device=device, requires_grad=True)
(x @ x).relu().sum().backward()
print(device, x.grad.isfinite().all().item())
"""


def clean_environment():
    names = ("PYTHON", "TORCH_", "NEURON_", "VIRTUAL_ENV")
    return {k: v for k, v in os.environ.items() if not k.startswith(names)}


def output_of(*command, **options):
    result = subprocess.run(
        [str(part) for part in command],
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )
    assert result.returncode == 0, f"{command}:\n{result.stdout[-20000:]}"
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    target = tmp_path_factory.mktemp("wheel")
    output_of(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", target, ROOT)
    (path,) = target.glob("*.whl")
    return path


def test_contents(wheel):
    assert re.fullmatch(r"torchneuron-[\d.]+-cp\d+-cp\d+-linux_x86_64\.whl", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    metadata = {name for name in names if name.split("/")[0].endswith(".dist-info")}
    libraries = {name for name in names if name.endswith(".so")}
    python = {name for name in names if name.endswith((".py", ".pyi", "/py.typed"))}
    kernels = {f"torch_neuronx/kernels/{level}.pack" for level in ("avx512", "avx2", "baseline")}
    assert names == metadata | libraries | python | kernels
    assert {re.sub(r"\.cpython-\w+-x86_64-linux-gnu", "", name) for name in libraries} == {
        "torch_neuronx/_C.so",
        "torch_neuronx/libneuron_codegen.so",
    }
    sources = {p.relative_to(ROOT / "python").as_posix() for p in (ROOT / "python").rglob("*.py")}
    assert python == sources
    assert any(name.endswith("/licenses/LICENSE") for name in metadata)


def test_libraries_name_no_path_of_the_building_machine(wheel):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(".so"):
                assert str(ROOT).encode() not in archive.read(name), name


def test_empty_environment(wheel, tmp_path):
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env/bin/python"
    output_of(python, "-m", "pip", "install", wheel)
    assert output_of(python, "-c", PROGRAM, cwd=tmp_path).splitlines()[-1] == "neuron True"
    off = "import os\nos.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\nimport torch\n"
    off += "print(torch.accelerator.current_accelerator())"
    assert output_of(python, "-c", off, cwd=tmp_path).splitlines()[-1] == "None"
    output_of(python, "-m", "pip", "check")
