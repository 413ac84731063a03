# SPDX-License-Identifier: Apache-2.0
"""deepcopy, pickle, and the identity of parameters when a module moves."""

import copy
import pickle

import torch


def test_deepcopy_of_tensors():
    x = torch.arange(6.0, device="neuron").reshape(2, 3).t()
    y = copy.deepcopy(x)
    assert y.device == x.device
    assert y.stride() == x.stride()
    assert y.data_ptr() != x.data_ptr()
    assert y.equal(x)
    y += 1
    assert x[0, 0].item() == 0


def test_deepcopy_keeps_sharing():
    base = torch.zeros(4, device="neuron")
    a, b = copy.deepcopy([base, base[1:]])
    a[1] = 7
    assert b[0].item() == 7
    assert base[1].item() == 0


def test_deepcopy_of_a_module():
    model = torch.nn.Linear(3, 2).neuron()
    twin = copy.deepcopy(model)
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        assert type(q) is torch.nn.Parameter
        assert q.data_ptr() != p.data_ptr()
        assert q.equal(p)
    leaf = torch.ones(2, device="neuron", requires_grad=True)
    leaf.sum().backward()
    assert copy.deepcopy(leaf).grad.tolist() == [1.0, 1.0]


def test_pickle():
    x = torch.arange(5, device="neuron:1")
    y = pickle.loads(pickle.dumps(x))
    assert y.device == x.device
    assert y.tolist() == [0, 1, 2, 3, 4]
    p = pickle.loads(pickle.dumps(torch.nn.Parameter(torch.ones(2, device="neuron"))))
    assert isinstance(p, torch.nn.Parameter)
    model = pickle.loads(pickle.dumps(torch.nn.Linear(2, 2).neuron()))
    assert model.weight.device.type == "neuron"


def test_moving_a_module_keeps_its_parameters():
    model = torch.nn.Linear(3, 1)
    parameters = list(model.parameters())
    model.to("neuron")
    assert all(p is q for p, q in zip(parameters, model.parameters(), strict=True))
    assert all(p.device.type == "neuron" for p in parameters)
    model.cpu()
    assert all(p is q for p, q in zip(parameters, model.parameters(), strict=True))
    assert all(p.device.type == "cpu" for p in parameters)


def test_optimizer_built_before_the_move_trains():
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to("neuron")
    x = torch.ones(4, 3, device="neuron")
    first = model(x).pow(2).mean()
    for _ in range(5):
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
    assert model(x).pow(2).mean().item() < 0.1 * first.item()


def test_gradients_move_with_the_module():
    model = torch.nn.Linear(2, 1)
    model(torch.ones(1, 2)).sum().backward()
    model.to("neuron")
    assert model.weight.grad.device.type == "neuron"
    assert model.weight.grad.tolist() == [[1.0, 1.0]]


def test_data_assignment_changes_the_device():
    p = torch.nn.Parameter(torch.ones(3))
    p.data = torch.zeros(3, device="neuron")
    assert p.device.type == "neuron"
    p.sum().backward()
    assert p.grad.device.type == "neuron"


def test_backward_stays_on_the_calling_thread():
    import threading

    seen = []
    x = torch.ones(2, device="neuron", requires_grad=True)
    y = x * 2
    y.register_hook(lambda grad: seen.append(threading.get_ident()))
    y.sum().backward()
    assert seen == [threading.get_ident()]
