# SPDX-License-Identifier: Apache-2.0
"""torch.save and torch.load with every form of map_location; safetensors; NumPy."""

import io

import pytest
import torch

FORMS = {
    "none": (None, "neuron:1"),
    "cpu": ("cpu", "cpu"),
    "string": ("neuron", "neuron:0"),
    "string with index": ("neuron:2", "neuron:2"),
    "device": (torch.device("neuron", 3), "neuron:3"),
    "cpu device": (torch.device("cpu"), "cpu"),
    "dict": ({"neuron:1": "neuron:0"}, "neuron:0"),
    "dict to cpu": ({"neuron:1": "cpu"}, "cpu"),
    "function": (lambda storage, location: storage.neuron(2), "neuron:2"),
    "function that declines": (lambda storage, location: None, "neuron:1"),
    "meta": ("meta", "meta"),
}


def saved(obj):
    buffer = io.BytesIO()
    torch.save(obj, buffer)
    buffer.seek(0)
    return buffer


@pytest.mark.parametrize("form", FORMS)
def test_map_location(form):
    map_location, expected = FORMS[form]
    x = torch.arange(10.0).to("neuron:1")
    loaded = torch.load(saved(x), map_location=map_location)
    assert str(loaded.device) == expected
    if expected != "meta":
        assert loaded.tolist() == x.tolist()


def test_cpu_file_loads_onto_the_device():
    loaded = torch.load(saved({"w": torch.arange(4)}), map_location="neuron")
    assert loaded["w"].device.type == "neuron"
    assert loaded["w"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("weights_only", [True, False])
def test_state_dict(weights_only):
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3)).neuron()
    buffer = saved(model.state_dict())
    state = torch.load(buffer, weights_only=weights_only)
    assert all(t.device.type == "neuron" for t in state.values())
    other = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    buffer.seek(0)
    other.load_state_dict(torch.load(buffer, map_location="cpu"))
    for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert a.cpu().equal(b)


def test_optimizer_state_continues_on_the_cpu():
    def steps(device, n, state=None):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        if state is not None:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
        for _ in range(n):
            optimizer.zero_grad()
            model(torch.ones(3, 4, device=device)).pow(2).sum().backward()
            optimizer.step()
        return model, optimizer

    whole, _ = steps("cpu", 4)
    half, optimizer = steps("neuron", 2)
    state = {"model": half.state_dict(), "optimizer": optimizer.state_dict()}
    continued, _ = steps("cpu", 2, torch.load(saved(state), map_location="cpu"))
    for a, b in zip(whole.parameters(), continued.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_shared_storage_stays_shared():
    base = torch.zeros(6, device="neuron")
    a, b = torch.load(saved([base[:3], base[2:]]))
    a[2] = 5
    assert b[0].item() == 5


@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.uint8, torch.int64, torch.bfloat16, torch.float64, torch.complex64]
)
def test_types(dtype):
    x = torch.ones(3, 2).to(dtype).neuron().t()
    loaded = torch.load(saved(x))
    assert loaded.dtype == dtype
    assert loaded.stride() == x.stride()
    assert loaded.cpu().equal(x.cpu())


def test_index_that_does_not_exist():
    with pytest.raises(RuntimeError, match="device_count"):
        torch.load(saved(torch.ones(1, device="neuron")), map_location="neuron:77")


def test_pending_work_is_in_the_file(busy):
    _, y = busy()
    z = y * 0 + 3
    assert torch.load(saved(z), map_location="cpu").eq(3).all()


def test_mmap(tmp_path):
    path = tmp_path / "x.pt"
    torch.save(torch.arange(100, device="neuron"), path)
    loaded = torch.load(path, mmap=True, map_location="cpu")
    assert loaded.sum().item() == 4950


def test_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    path = str(tmp_path / "x.safetensors")
    tensors = {
        "a": torch.arange(6.0).reshape(2, 3).neuron(),
        "b": torch.ones(2, dtype=torch.bfloat16, device="neuron"),
    }
    safetensors.save_file(tensors, path)
    # The library knows devices by name, ours not among them; an index means the accelerator's.
    for device, expected in (("cpu", "cpu"), (1, "neuron:1")):
        loaded = safetensors.load_file(path, device=device)
        assert str(loaded["a"].device) == expected
        assert loaded["a"].tolist() == tensors["a"].tolist()
        assert loaded["b"].dtype == torch.bfloat16
    model = torch.nn.Linear(2, 2).neuron()
    safetensors.save_model(model, path)
    other = torch.nn.Linear(2, 2)
    safetensors.load_model(other, path)
    assert other.weight.equal(model.weight.cpu())


def test_numpy_through_the_cpu():
    x = torch.arange(5, device="neuron")
    assert x.cpu().numpy().tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(TypeError, match=r"Use Tensor.cpu\(\)"):
        x.numpy()
    assert torch.from_numpy(x.cpu().numpy()).neuron().tolist() == [0, 1, 2, 3, 4]
