# SPDX-License-Identifier: Apache-2.0
"""The device's name, and what PyTorch generates from it."""

import torch


def test_device_string():
    device = torch.device("neuron:1")
    assert (device.type, device.index) == ("neuron", 1)
    assert str(torch.empty(2, device="neuron").device) == "neuron:0"


def test_accelerator_is_neuron():
    assert torch.accelerator.current_accelerator() == torch.device("neuron")
    assert torch.accelerator.is_available()
    assert torch.accelerator.device_count() == torch.neuron.device_count()


def test_device_module():
    assert torch.get_device_module("neuron") is torch.neuron
    assert torch.get_device_module(torch.device("neuron", 0)) is torch.neuron


def test_generated_tensor_methods():
    x = torch.arange(3.0)
    y = x.neuron(1)
    assert y.is_neuron
    assert not x.is_neuron
    assert y.device.index == 1
    assert y.cpu().tolist() == [0.0, 1.0, 2.0]


def test_generated_module_method():
    module = torch.nn.Linear(3, 2).neuron()
    assert {p.device.type for p in module.parameters()} == {"neuron"}


def test_generated_packed_sequence_method():
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3, 2), torch.ones(1, 2)])
    moved = packed.neuron()
    assert moved.data.device.type == "neuron"
    assert moved.is_neuron


def test_generated_storage_methods():
    storage = torch.arange(4, dtype=torch.uint8).untyped_storage().neuron()
    assert storage.is_neuron
    assert storage.cpu().tolist() == [0, 1, 2, 3]


def test_profiler_activity_name():
    assert torch.profiler.ProfilerActivity.PrivateUse1 == torch.profiler.ProfilerActivity.NEURON


def test_lazy_module_moves_before_its_shape_is_known():
    module = torch.nn.LazyLinear(2).neuron()
    assert module(torch.ones(1, 3, device="neuron")).device.type == "neuron"


def test_public_names_are_the_same_objects():
    import torch_neuronx

    for name in ("Stream", "Event", "synchronize", "memory_allocated", "device"):
        assert getattr(torch_neuronx, name) is getattr(torch.neuron, name)
    for name in (*torch_neuronx.__all__, *torch.neuron.__all__):
        assert hasattr(torch_neuronx, name) or hasattr(torch.neuron, name), name


def test_import_is_cheap(check_python):
    loaded = check_python(
        """
        import sys, torch
        assert torch.neuron.is_available()
        print([m for m in ("torch._dynamo", "torch._inductor") if m in sys.modules])
        """
    )
    assert loaded.strip() == "[]"


def test_import_creates_no_thread_and_no_device(check_python):
    out = check_python(
        """
        import os, torch
        tasks = os.listdir("/proc/self/task")
        names = [open(f"/proc/self/task/{t}/comm").read().strip() for t in tasks]
        print(torch.neuron.is_initialized(), sorted(n for n in names if n.startswith("neuron")))
        """
    )
    assert out.strip() == "False []"


def test_random_operators_may_be_compiled_in_checkpoints():
    from torch._functorch._aot_autograd import utils

    assert "neuron" in utils._GRAPHSAFE_RNG_DEVICE_TYPES
    assert torch.neuron._get_generator(torch.device("neuron", 1)).device.index == 1
