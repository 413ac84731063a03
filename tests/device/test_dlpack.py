# SPDX-License-Identifier: Apache-2.0
"""DLPack both ways. The exported memory is the tensor's own."""

import pytest
import torch
from torch.utils.dlpack import DLDeviceType, from_dlpack, to_dlpack


def test_device_of_the_protocol():
    assert torch.ones(1, device="neuron").__dlpack_device__() == (DLDeviceType.kDLExtDev, 0)
    assert torch.ones(1, device="neuron:1").__dlpack_device__() == (DLDeviceType.kDLExtDev, 1)
    assert torch.ones(1).__dlpack_device__() == (DLDeviceType.kDLCPU, 0)


@pytest.mark.parametrize("export", [lambda t: t, to_dlpack], ids=["protocol", "capsule"])
def test_round_trip_shares_memory(export):
    x = torch.arange(12.0, device="neuron").reshape(3, 4)
    y = from_dlpack(export(x))
    assert y.device == x.device
    assert y.data_ptr() == x.data_ptr()
    y[1, 2] = 100
    assert x[1, 2].item() == 100
    x += 1
    assert y[1, 2].item() == 101


def test_views():
    x = torch.arange(12, device="neuron").reshape(3, 4)
    y = from_dlpack(x.t()[1:])
    assert y.stride() == (1, 4)
    assert y.tolist() == x.t()[1:].tolist()


def test_memory_lives_as_long_as_the_importer():
    torch.neuron.synchronize()
    before = torch.neuron.memory_allocated()
    x = torch.full((1000,), 3.0, device="neuron")
    y = from_dlpack(x)
    del x
    others = [torch.zeros(1000, device="neuron") for _ in range(4)]
    assert y.eq(3).all().item()
    del y, others
    torch.neuron.synchronize()
    torch.neuron.empty_cache()
    assert torch.neuron.memory_allocated() == before


def test_pending_work_is_seen(busy):
    _, y = busy()
    z = y * 0 + 2
    assert from_dlpack(z).eq(2).all().item()


def test_other_device_index():
    x = torch.ones(3, device="neuron:1")
    assert from_dlpack(x).device == x.device


def test_copy_and_device_arguments():
    x = torch.ones(3, device="neuron")
    y = torch.from_dlpack(x, copy=True)
    assert y.data_ptr() != x.data_ptr()
    assert torch.from_dlpack(x, device="cpu").tolist() == [1.0] * 3
    assert torch.from_dlpack(torch.ones(2), device="neuron").device.type == "neuron"


def test_requires_grad_is_refused():
    with pytest.raises(BufferError, match="require gradient"):
        torch.ones(1, device="neuron", requires_grad=True).__dlpack__()


def test_host_tensors_still_work():
    import numpy

    assert numpy.from_dlpack(torch.arange(3)).tolist() == [0, 1, 2]
    assert torch.from_dlpack(numpy.arange(3)).tolist() == [0, 1, 2]
    pinned = torch.arange(3).pin_memory()
    assert torch.from_dlpack(pinned).tolist() == [0, 1, 2]
    assert numpy.from_dlpack(pinned).tolist() == [0, 1, 2]


def test_numpy_cannot_read_the_device():
    import numpy

    with pytest.raises((RuntimeError, BufferError, ValueError)):
        numpy.from_dlpack(torch.ones(2, device="neuron"))
