# SPDX-License-Identifier: Apache-2.0
"""PyTorch finds the backend by name and chooses it by device; its compiler knows the device."""

import importlib
import tomllib
from pathlib import Path

import pytest
import torch
from compile_testing import DEVICE, check, graphs, randn
from torch._dynamo import device_interface
from torch_neuronx import _compile
from torch_neuronx._compile import choice

ROOT = Path(__file__).resolve().parents[2]


def test_importing_torch_imports_no_compiler(run_program):
    out = run_program(
        """
        import sys, torch
        torch.neuron.get_dynamo_metrics(), torch.neuron.reset_dynamo_metrics()
        print([n for n in sys.modules if n.startswith(("torch._dynamo", "torch._inductor"))])
        """
    )
    assert out.strip() == "[]"


@pytest.mark.parametrize(
    "imports, autoload",
    [
        ("import torch, torch._dynamo, torch_neuronx", "0"),  # the compiler is there already
        ("import torch, torch._inductor.utils", "1"),
    ],
)
def test_registered_whatever_is_imported_first(run_program, imports, autoload):
    out = run_program(
        f"""
        {imports}
        import torch_neuronx
        from torch._dynamo.backends.registry import lookup_backend
        from torch._dynamo.device_interface import get_interface_for_device
        print(lookup_backend("neuron").__name__, torch.compiler.get_default_backend())
        print(get_interface_for_device("neuron:1").__name__, torch._dynamo.list_backends())
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD=autoload,
    )
    first, second = out.splitlines()
    assert first == "neuron neuron_or_inductor"
    assert second.startswith("NeuronInterface ")
    assert "'neuron'" in second
    assert "neuron_or_inductor" not in second


def test_a_default_that_the_user_chose_stays(run_program):
    out = run_program(
        """
        import torch
        torch.compiler.set_default_backend("eager")
        import torch_neuronx
        print(torch.compiler.get_default_backend())
        """,
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert out.strip() == "eager"


def test_entry_point():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, name = project["entry-points"]["torch_dynamo_backends"]["neuron"].split(":")
    assert getattr(importlib.import_module(module), name) is _compile.neuron


def test_chosen_for_models_on_the_device():
    model = torch.nn.Linear(4, 4).to(DEVICE)
    torch.compile(model)(randn(2, 4))
    assert graphs() == 1


def test_chosen_for_a_tensor_made_inside():
    assert torch.compile(lambda n: torch.ones(n, device=DEVICE))(3).tolist() == [1.0] * 3
    assert graphs() == 1


def test_module_compile_method():
    class Model(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) * 2

    model = Model(4, 4).to(DEVICE)
    model.compile()
    model(randn(2, 4))
    assert graphs() == 1


def test_inductor_is_left_to_other_devices(monkeypatch):
    calls = []

    class Inductor:
        def __init__(self, mode, options, dynamic):
            calls.append((mode, options))

        def __call__(self, module, example_inputs):
            return module.forward

    monkeypatch.setattr(torch, "_TorchCompileInductorWrapper", Inductor)
    assert torch.compile(lambda x: x + 1, options={"size_asserts": True})(torch.ones(2)).sum() == 4
    assert calls == [(None, {"size_asserts": True})]
    assert graphs() == 0


def test_graphs_on_the_host_run_when_the_backend_is_named():
    compiled = torch.compile(lambda x: (x + 1).relu(), backend="neuron")
    assert compiled(torch.tensor([-3.0, 1.0])).tolist() == [0.0, 2.0]
    assert graphs() == 1


def test_every_graph_is_looked_at():
    """One function, two graphs, two devices."""
    seen = []
    original = choice._tensors

    def spy(module, example_inputs):
        tensors = list(original(module, example_inputs))
        seen.append({t.device.type for t in tensors})
        return tensors

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choice, "_tensors", spy)
        patch.setattr(
            torch, "_TorchCompileInductorWrapper", lambda *_: lambda module, _: module.forward
        )

        @torch.compile
        def function(x, y):
            x = x * 2
            torch._dynamo.graph_break()
            return y + 1

        function(randn(2), torch.ones(2))
    assert seen == [{"neuron"}, {"cpu"}]


INTERFACE = device_interface.get_interface_for_device(DEVICE)


def test_device_interface_leaves_nothing_to_the_base_class():
    base = device_interface.DeviceInterface
    inherited = [
        name
        for name in dir(base)
        if not name.startswith("__") and getattr(INTERFACE, name) is getattr(base, name, None)
    ]
    assert inherited == []
    workers = [name for name in dir(base.Worker) if not name.startswith("__")]
    assert all(getattr(INTERFACE.Worker, n) is not getattr(base.Worker, n) for n in workers)


def test_device_interface_answers():
    assert INTERFACE.is_available()
    assert INTERFACE.device_count() == torch.neuron.device_count()
    with device_interface.DeviceGuard(INTERFACE, 1):
        assert INTERFACE.current_device() == 1
    assert INTERFACE.current_device() == 0
    assert INTERFACE.exchange_device(1) == 0
    assert INTERFACE.maybe_exchange_device(-1) == -1
    assert INTERFACE.maybe_exchange_device(0) == 1
    INTERFACE.Worker.set_device(1)
    assert INTERFACE.Worker.current_device() == 1
    properties = INTERFACE.Worker.get_device_properties("neuron:0")
    assert properties.total_memory == INTERFACE.get_device_properties(0).total_memory
    assert INTERFACE.is_bf16_supported()
    assert INTERFACE.is_dtype_supported(torch.bfloat16)
    assert INTERFACE.memory_allocated() == torch.neuron.memory_allocated()
    assert isinstance(INTERFACE.get_cache_system_info(), dict)
    with pytest.raises(RuntimeError, match="Triton"):
        INTERFACE.raise_if_triton_unavailable()


def test_device_interface_streams():
    stream = torch.neuron.Stream()
    before = INTERFACE.current_stream()
    INTERFACE._set_stream_by_id(stream.stream_id, stream.device_index, stream.device_type)
    try:
        assert INTERFACE.current_stream() == stream
        assert INTERFACE.get_raw_stream(0) == stream.stream_id
    finally:
        INTERFACE.set_stream(before)


def in_stream(x):
    stream = torch.Stream(device=DEVICE)
    with torch.neuron.stream(stream):
        y = x * 2
    torch.neuron.current_stream().wait_stream(stream)
    return y + 1


def on_other_device(x):
    with torch.neuron.device(1):
        y = torch.ones(4, device=DEVICE)
    return x + y.to("neuron:0")


def asks_the_device(x):
    if torch.neuron.is_available() and torch.neuron.device_count() > 0:
        return x * (torch.neuron.current_device() + 3)
    return x


@pytest.mark.parametrize("function", [in_stream, on_other_device, asks_the_device])
def test_device_functions_stay_in_the_graph(function, recwarn):
    check(function, randn(4), fullgraph=True)
    assert graphs() == 1
    assert not [w for w in recwarn if "Dynamo" in str(w.message)]


def test_current_device_is_guarded():
    compiled = torch.compile(lambda: torch.neuron.current_device() * torch.ones(()))
    assert compiled().item() == 0
    torch.neuron.set_device(1)
    assert compiled().item() == 1


def synchronizes(x):
    y = x * 2
    torch.neuron.synchronize()
    return y + 1


def reads_memory(x):
    return x * (torch.neuron.memory_allocated() > 0)


def saves_random_state(x):
    state = torch.neuron.get_rng_state()
    y = x + torch.rand(4, device=DEVICE)
    torch.neuron.set_rng_state(state)
    return y + torch.rand(4, device=DEVICE)


@pytest.mark.parametrize("function", [synchronizes, reads_memory, saves_random_state])
def test_other_device_functions_split_the_graph(function, recwarn):
    check(function, randn(4))
    assert not [w for w in recwarn if "Dynamo" in str(w.message)]
