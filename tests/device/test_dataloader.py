# SPDX-License-Identifier: Apache-2.0
"""DataLoader with workers and pinned memory."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset


@pytest.mark.parametrize(("workers", "context"), [(0, None), (2, "fork"), (2, "spawn")])
def test_pinned_batches_arrive(workers, context):
    torch.ones(1, device="neuron").item()  # the device is in use before the workers start
    data = TensorDataset(torch.arange(40.0).reshape(20, 2), torch.arange(20))
    loader = DataLoader(
        data,
        batch_size=4,
        pin_memory=True,
        num_workers=workers,
        multiprocessing_context=context,
    )
    total, labels = torch.zeros(2, device="neuron"), []
    for x, y in loader:
        assert x.is_pinned()
        assert y.is_pinned()
        total += x.to("neuron", non_blocking=True).sum(0)
        labels += y.neuron(non_blocking=True).tolist()
    assert total.tolist() == [380.0, 400.0]
    assert labels == list(range(20))


class OnDevice(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((2,), float(index), device="neuron")


def test_spawned_workers_may_use_the_device():
    loader = DataLoader(OnDevice(), batch_size=2, num_workers=1, multiprocessing_context="spawn")
    batches = [batch.cpu() for batch in loader]
    assert torch.cat(batches)[:, 0].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_forked_workers_that_use_the_device_are_told_why_not():
    torch.ones(1, device="neuron").item()
    loader = DataLoader(OnDevice(), num_workers=1, multiprocessing_context="fork")
    with pytest.raises(RuntimeError, match="forked subprocess"):
        next(iter(loader))


def test_generator_of_the_sampler_stays_on_the_cpu():
    data = TensorDataset(torch.arange(8))
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(data, shuffle=True, generator=generator, pin_memory=True)
    assert sorted(int(x) for (x,) in loader) == list(range(8))
