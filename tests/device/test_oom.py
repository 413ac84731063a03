# SPDX-License-Identifier: Apache-2.0
"""Out of memory: the exception, its text, and the program that goes on."""

import pytest
import torch

SMALL = {"TORCH_NEURONX_VIRTUAL_HBM_GB": "0.25", "NEURON_RT_NUM_CORES": "2"}


def test_impossible_request_is_refused():
    total = torch.neuron.get_device_properties().total_memory
    with pytest.raises(torch.OutOfMemoryError, match=r"Neuron OOM: requested_size=\d+ total_hbm="):
        torch.empty(2 * total, dtype=torch.uint8, device="neuron")
    assert torch.ones(3, device="neuron").sum().item() == 3


def test_program_goes_on_after_running_out(check_python):
    check_python(
        """
        import torch
        MIB = 1 << 20
        held = []
        try:
            while True:
                held.append(torch.ones(16 * MIB, dtype=torch.uint8, device="neuron"))
        except torch.OutOfMemoryError as error:
            text = str(error)
        assert "(OOM)" in text and "Neuron OOM: requested_size=16777216 total_hbm=268435456" in text
        assert 8 <= len(held) <= 16, len(held)
        assert torch.neuron.memory_stats()["num_ooms"] == 1
        assert all(t[-1].item() == 1 for t in held)
        held.clear()
        x = torch.ones(200 * MIB, dtype=torch.uint8, device="neuron")
        assert x[-1].item() == 1
        """,
        **SMALL,
    )


def test_pending_frees_are_awaited_before_giving_up(check_python):
    check_python(
        """
        import torch
        n = 90 * (1 << 20)
        other = torch.neuron.Stream()
        for step in range(10):
            x = torch.ones(n, dtype=torch.uint8, device="neuron")
            other.wait_stream(torch.neuron.current_stream())
            with torch.neuron.stream(other):
                y = x.to(torch.uint8, copy=True)
            x.record_stream(other)
            del x, y
        torch.neuron.synchronize()
        assert torch.neuron.memory_stats()["num_ooms"] == 0
        """,
        **SMALL,
    )


def test_cached_segments_are_given_back_before_giving_up(check_python):
    check_python(
        """
        import torch
        MIB = 1 << 20
        small = [torch.empty(512 * 1024, dtype=torch.uint8, device="neuron") for _ in range(400)]
        small.clear()
        x = torch.empty(240 * MIB, dtype=torch.uint8, device="neuron")
        assert torch.neuron.memory_stats()["num_ooms"] == 0
        assert torch.neuron.memory_stats()["num_alloc_retries"] >= 1
        """,
        **SMALL,
    )


def test_devices_do_not_share_capacity(check_python):
    check_python(
        """
        import torch
        n = 200 * (1 << 20)
        a = torch.empty(n, dtype=torch.uint8, device="neuron:0")
        b = torch.empty(n, dtype=torch.uint8, device="neuron:1")
        """,
        **SMALL,
    )
