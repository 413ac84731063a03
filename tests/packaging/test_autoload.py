# SPDX-License-Identifier: Apache-2.0
"""`import torch` loads the device, or says in one line why not, and never fails because of it."""

import importlib.metadata

import pytest

USE = "print(torch.ones(2, device='neuron').add(1).cpu().tolist())\n"
USED = "[2.0, 2.0]\n"

# Runs before `import torch`: the module NAME is executed as usual, then EFFECT.
AFTER_IMPORT = """
import importlib.abc, importlib.machinery, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != {name!r}:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        def exec_module(module):
            execute(module)
            {effect}
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
"""
OTHER_VERSION = AFTER_IMPORT.format(
    name="torch.torch_version", effect="module.__version__ = module.TorchVersion('2.12.1+cpu')"
)
BROKEN_LIBRARY = AFTER_IMPORT.format(
    name="torch_neuronx._autoload",
    effect="sys.modules['torch_neuronx._C'] = None  # `import` raises ImportError",
)
UNAVAILABLE = """
import torch
assert torch.ones(2).add(1).tolist() == [2.0, 2.0]
try:
    torch.device("neuron")
except RuntimeError as error:
    print("not registered")
"""


def check(result, stdout, stderr=""):
    assert result.returncode == 0, result.stderr
    assert result.stdout == stdout
    assert result.stderr == stderr


@pytest.mark.parametrize("first", ["import torch", "import torch_neuronx, torch"])
@pytest.mark.parametrize("autoload", [{}, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "1"}])
def test_import_loads_the_device(run, first, autoload):
    check(run(f"{first}\n{USE}", **autoload), USED)


@pytest.mark.parametrize("first", ["import torch", "import torch_neuronx, torch"])
def test_warnings_as_errors(run, first):
    check(run(f"{first}\n{USE}", "-W", "error::UserWarning", "-W", "error::RuntimeWarning"), USED)


def test_the_package_is_one_module(run):
    code = "import torch, sys\nimport torch_neuronx as t\n"
    code += "print(t is sys.modules['torch_neuronx'], bool(t.__all__))"
    check(run(code), "True True\n")


def test_autoload_off(run):
    off = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    code = "import sys\nprint(any(name.startswith('torch_neuronx') for name in sys.modules))\n"
    check(run(UNAVAILABLE + code, **off), "not registered\nFalse\n")
    check(run("import torch, torch_neuronx\n" + USE, **off), USED)
    check(run("import torch_neuronx, torch\n" + USE, **off), USED)


def test_other_torch_version(run):
    result = run(OTHER_VERSION + UNAVAILABLE)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "not registered\n"
    (line,) = result.stderr.splitlines()
    assert line.startswith("torch_neuronx: the device 'neuron' is not available: ")
    assert "2.13" in line
    assert "2.12.1+cpu" in line


@pytest.mark.parametrize("first", ["import torch, torch_neuronx", "import torch_neuronx"])
def test_explicit_import_under_another_torch_version_raises(run, first):
    result = run(OTHER_VERSION + first)
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert last.startswith("ImportError: this torch_neuronx is built for PyTorch 2.13")
    assert "2.12.1+cpu" in last


def test_library_that_does_not_load(run):
    result = run(BROKEN_LIBRARY + UNAVAILABLE)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "not registered\n"
    (line,) = result.stderr.splitlines()
    assert "torch_neuronx._C" in line


def test_the_traceback_is_there_on_request(run):
    result = run(BROKEN_LIBRARY + UNAVAILABLE, TORCH_NEURONX_LOG_LEVEL="debug")
    assert result.returncode == 0, result.stderr
    assert "Traceback (most recent call last)" in result.stderr
    assert "_autoload.py" in result.stderr


def test_import_torch_stays_fast(run):
    """At most 0.15 s of processor time more (wall time would measure the machine's load too)."""
    code = (
        "import sys, time\n"
        "import torch\n"
        "print(time.process_time())\n"
        "print(sorted(name for name in sys.modules if name.startswith('torch.')))\n"
    )
    times = {"0": [], "1": []}
    modules = {}
    for _ in range(3):
        for autoload in times:
            result = run(code, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload)
            assert result.returncode == 0, result.stderr
            seconds, names = result.stdout.splitlines()
            times[autoload].append(float(seconds))
            modules[autoload] = set(eval(names))
    assert not [
        n for n in modules["1"] - modules["0"] if n.startswith(("torch._dynamo", "torch._inductor"))
    ]
    assert min(times["1"]) - min(times["0"]) <= 0.15, times


def test_installed_metadata(project):
    try:
        distribution = importlib.metadata.distribution(project["name"])
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the distribution torchneuron is not installed: run `make build`")
    import torch_neuronx

    assert distribution.version == torch_neuronx.__version__
    (entry,) = distribution.entry_points.select(group="torch.backends")
    assert entry.value == project["entry-points"]["torch.backends"][entry.name]
    assert "torch==2.13.0" in distribution.requires
