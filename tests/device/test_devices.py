# SPDX-License-Identifier: Apache-2.0
"""Counting, choosing and describing devices."""

import threading

import pytest
import torch

needs_two = pytest.mark.skipif(
    torch.neuron.device_count() < 2, reason="needs two virtual NeuronCores (NEURON_RT_NUM_CORES)"
)


def test_four_virtual_cores_by_default(check_python):
    program = "import torch; print(torch.neuron.device_count())"
    assert check_python(program, NEURON_RT_NUM_CORES="", NEURON_RT_VISIBLE_CORES="") == "4\n"
    assert check_python(program, NEURON_RT_NUM_CORES="2") == "2\n"
    assert check_python(program, NEURON_RT_VISIBLE_CORES="0,2-3") == "3\n"


def test_wrong_core_list_is_explained(run_python):
    done = run_python("import torch; print('torch works')", NEURON_RT_VISIBLE_CORES="two")
    assert done.stdout == "torch works\n"
    assert "NEURON_RT_VISIBLE_CORES" in done.stderr


def test_properties_say_that_the_device_is_virtual():
    properties = torch.neuron.get_device_properties()
    assert properties.is_virtual
    assert "irtual" in properties.name
    assert properties.total_memory > 0
    assert "is_virtual=True" in repr(properties)
    assert torch.neuron.get_device_name() == "neuron:0"


def test_memory_limit_comes_from_the_environment(check_python):
    out = check_python(
        "import torch; print(torch.neuron.get_device_properties(0).total_memory)",
        TORCH_NEURONX_VIRTUAL_HBM_GB="0.5",
    )
    assert int(out) == 1 << 29


@pytest.mark.parametrize("index", [torch.neuron.device_count(), 99, 1000])
def test_index_out_of_range(index):
    for call in (
        lambda: torch.neuron.set_device(index),
        lambda: torch.neuron.get_device_properties(index),
        lambda: torch.neuron.synchronize(index),
    ):
        with pytest.raises(RuntimeError, match="out of range"):
            call()


def test_tensor_on_device_out_of_range():
    with pytest.raises(RuntimeError, match="out of range"):
        torch.empty(1, device="neuron:99")


def test_other_device_types_are_refused():
    with pytest.raises(ValueError, match="expected a neuron device"):
        torch.neuron.set_device("cpu")


@needs_two
def test_current_device():
    torch.neuron.set_device("neuron:1")
    assert torch.neuron.current_device() == 1
    assert torch.accelerator.current_device_index() == 1
    assert torch.empty(1, device="neuron").device.index == 1
    torch.accelerator.set_device_index(0)
    assert torch.neuron.current_device() == 0


@needs_two
def test_device_context_restores_and_nests():
    one = torch.neuron.device(1)
    with one:
        with torch.neuron.device(0), one:
            assert torch.neuron.current_device() == 1
        assert torch.neuron.current_device() == 1
    assert torch.neuron.current_device() == 0
    with pytest.raises(KeyError), torch.neuron.device(1):
        raise KeyError
    assert torch.neuron.current_device() == 0
    with torch.neuron.device(None):
        assert torch.neuron.current_device() == 0
    with torch.accelerator.device_index(1):
        assert torch.neuron.current_device() == 1
    with torch.neuron.device_of(torch.empty(1, device="neuron:1")):
        assert torch.neuron.current_device() == 1
    with torch.neuron.device_of(torch.empty(1)):
        assert torch.neuron.current_device() == 0


@needs_two
def test_current_device_belongs_to_the_thread():
    torch.neuron.set_device(1)
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.neuron.current_device()))
    thread.start()
    thread.join()
    assert seen == [0]


@needs_two
def test_operators_follow_their_operands_device():
    x = torch.ones(3, device="neuron:1")
    assert (x + x).device.index == 1
    assert x.sum().item() == 3.0
    with pytest.raises(RuntimeError, match="same device"):
        x + torch.ones(3, device="neuron:0")


def test_capability_lists_types():
    types = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert {torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool} <= types
    assert torch.qint8 not in types


def test_synchronize():
    x = torch.ones(4, device="neuron") * 2
    torch.neuron.synchronize()
    torch.neuron.synchronize("neuron:0")
    torch.accelerator.synchronize()
    assert torch.neuron.current_stream().query()
    assert x.tolist() == [2.0] * 4


def test_executing_threads_leave_the_main_threads_openmp_alone(check_python):
    out = check_python(
        """
        import torch
        before = torch.get_num_threads()
        x = torch.ones(512, 512, device="neuron")
        y = (x @ x).exp().sum().item()
        torch.neuron.synchronize()
        print(before, torch.get_num_threads())
        """,
        OMP_NUM_THREADS="2",
    )
    assert out.split() == ["2", "2"]


def test_executing_threads_start_no_openmp_team(check_python):
    out = check_python(
        """
        import os, torch
        def threads():
            tasks = os.listdir("/proc/self/task")
            return sorted(open(f"/proc/self/task/{t}/comm").read().strip() for t in tasks)
        before = threads()
        x = torch.ones(1024, 1024, device="neuron")
        y = torch.nn.functional.conv2d(x[None, None], x[None, None, :3, :3]).exp()
        z = (x @ x).softmax(0).sum(1)
        torch.neuron.synchronize()
        after = threads()
        for name in before:
            after.remove(name)
        print(after)
        """,
        TORCH_NEURONX_NUM_THREADS="3",
    )
    assert out.strip() == "['neuron-core-0', 'neuron-pool', 'neuron-pool']"
