# SPDX-License-Identifier: Apache-2.0
"""Tensors in queues, pipes and arguments of spawned processes."""

import pytest
import torch
import torch.multiprocessing as mp


def echo(inbox, outbox):
    for obj in iter(inbox.get, None):
        if isinstance(obj, torch.Tensor):
            outbox.put((str(obj.device), type(obj).__name__, obj.requires_grad, obj.detach() * 2))
        else:
            outbox.put((str(obj.device), type(obj).__name__, False, obj))
    outbox.put(None)
    inbox.get()  # the parent has everything: memory shared through the queue may go


@pytest.fixture(scope="module")
def child():
    context = mp.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=echo, args=(inbox, outbox))
    process.start()
    yield inbox, outbox
    inbox.put(None)
    outbox.get(timeout=60)
    inbox.put(None)
    process.join(60)
    assert process.exitcode == 0


def through(child, obj):
    inbox, outbox = child
    inbox.put(obj)
    return outbox.get(timeout=60)


def test_tensor(child, busy):
    _, y = busy()
    x = y * 0 + torch.arange(1536, device="neuron")
    device, kind, _, doubled = through(child, x)
    assert (device, kind) == ("neuron:0", "Tensor")
    assert doubled.device == x.device
    assert doubled.cpu().equal(x.cpu() * 2)


def test_device_index_and_strides(child):
    x = torch.arange(6.0).reshape(2, 3).to("neuron:1").t()
    device, _, _, doubled = through(child, x)
    assert device == "neuron:1"
    assert doubled.tolist() == (x * 2).tolist()


def test_parameter_and_requires_grad(child):
    device, kind, requires_grad, doubled = through(
        child, torch.nn.Parameter(torch.ones(2, device="neuron"))
    )
    assert (device, kind, requires_grad) == ("neuron:0", "Parameter", True)
    assert doubled.tolist() == [2.0, 2.0]
    frozen = torch.nn.Parameter(torch.ones(1, device="neuron"), requires_grad=False)
    assert through(child, frozen)[1:3] == ("Parameter", False)


def test_empty_and_cpu_tensors(child):
    assert through(child, torch.empty(0, 3, device="neuron"))[3].shape == (0, 3)
    assert through(child, torch.ones(2))[0] == "cpu"


def test_storage(child):
    storage = torch.arange(5, dtype=torch.uint8, device="neuron").untyped_storage()
    device, kind, _, back = through(child, storage)
    assert (device, kind) == ("neuron:0", "UntypedStorage")
    assert back.tolist() == [0, 1, 2, 3, 4]


def test_non_leaf_is_refused():
    from multiprocessing.reduction import ForkingPickler

    x = torch.ones(2, device="neuron", requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="non-leaf"):
        ForkingPickler.dumps(x)


def total(rank, tensor, result):
    result[rank] = int((tensor * (rank + 1)).sum().item())


def test_spawn_with_arguments():
    result = mp.get_context("spawn").Array("i", 2)
    mp.spawn(total, (torch.ones(4, device="neuron"), result), nprocs=2)
    assert list(result) == [4, 8]
