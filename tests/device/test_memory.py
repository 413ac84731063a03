# SPDX-License-Identifier: Apache-2.0
"""Statistics, snapshots, history, storage resizing, deterministic fill."""

import pickle
import threading

import pytest
import torch

MIB = 1 << 20


@pytest.fixture(autouse=True)
def quiet():
    torch.neuron.synchronize()
    torch.neuron.empty_cache()
    torch.neuron.reset_peak_memory_stats()


def test_allocated_follows_tensors():
    before = torch.neuron.memory_allocated()
    x = torch.empty(3 * MIB, dtype=torch.uint8, device="neuron")
    assert torch.neuron.memory_allocated() - before == 3 * MIB
    view = x[10:]
    del x
    assert torch.neuron.memory_allocated() - before == 3 * MIB
    del view
    assert torch.neuron.memory_allocated() == before
    assert torch.neuron.max_memory_allocated() - before == 3 * MIB
    torch.neuron.reset_peak_memory_stats()
    assert torch.neuron.max_memory_allocated() == before


def test_reserved_is_cached_until_emptied():
    x = torch.empty(64 * MIB, dtype=torch.uint8, device="neuron")
    reserved = torch.neuron.memory_reserved()
    assert reserved >= torch.neuron.memory_allocated() >= 64 * MIB
    del x
    assert torch.neuron.memory_reserved() == reserved
    torch.neuron.empty_cache()
    assert torch.neuron.memory_reserved() <= reserved - 64 * MIB
    assert torch.neuron.max_memory_reserved() >= reserved


def test_statistics_agree_with_the_accelerator_api():
    x = torch.empty(1000, device="neuron")
    stats = torch.neuron.memory_stats()
    assert stats == torch.accelerator.memory_stats()
    assert torch.neuron.memory_allocated() == torch.accelerator.memory_allocated()
    for group in (
        "allocated_bytes",
        "reserved_bytes",
        "active_bytes",
        "requested_bytes",
        "segment",
    ):
        for pool in ("all", "small_pool", "large_pool"):
            for column in ("current", "peak", "allocated", "freed"):
                assert stats[f"{group}.{pool}.{column}"] >= 0
    assert stats["active.all.current"] >= 1
    assert stats["num_ooms"] >= 0
    del x


def test_reset_accumulated():
    torch.empty(MIB, device="neuron")
    torch.neuron.reset_accumulated_memory_stats()
    assert torch.neuron.memory_stats()["allocated_bytes.all.allocated"] == 0
    torch.empty(MIB, device="neuron")
    assert torch.neuron.memory_stats()["allocated_bytes.all.allocated"] >= 4 * MIB


def test_statistics_are_per_device():
    before = torch.neuron.memory_allocated(0)
    x = torch.empty(2 * MIB, dtype=torch.uint8, device="neuron:1")
    assert torch.neuron.memory_allocated("neuron:1") >= 2 * MIB
    assert torch.neuron.memory_allocated(0) == before
    del x


def test_memory_info():
    free, total = torch.neuron.mem_get_info()
    assert (free, total) == torch.accelerator.get_memory_info()
    assert total == torch.neuron.get_device_properties().total_memory
    x = torch.empty(128 * MIB, dtype=torch.uint8, device="neuron")
    assert torch.neuron.mem_get_info()[0] <= free - 128 * MIB
    del x


def test_summary():
    x = torch.empty(5 * MIB, dtype=torch.uint8, device="neuron")
    text = torch.neuron.memory_summary()
    assert "neuron:0" in text
    assert "from large pool" in text
    assert len({len(line) for line in text.splitlines()}) == 1
    short = torch.neuron.memory_summary(abbreviated=True)
    assert "from large pool" not in short
    assert "Allocated memory" in short
    del x


def test_freed_memory_serves_the_next_tensor_of_the_stream():
    x = torch.ones(MIB, device="neuron")
    address = x.data_ptr()
    y = x + 1  # still queued when x dies
    del x
    z = torch.zeros(MIB, device="neuron")
    assert z.data_ptr() == address
    assert y.eq(2).all().item()
    assert z.eq(0).all().item()


def test_snapshot_describes_the_segments():
    x = torch.empty(3 * MIB + 5, dtype=torch.uint8, device="neuron")
    segments = torch.neuron.memory_snapshot()
    blocks = {b["address"]: b for s in segments for b in s["blocks"]}
    block = blocks[x.data_ptr()]
    assert block["state"] == "active_allocated"
    assert block["requested_size"] == 3 * MIB + 5
    assert block["size"] >= 3 * MIB + 5
    for segment in segments:
        assert sum(b["size"] for b in segment["blocks"]) == segment["total_size"]
        assert segment["blocks"][0]["address"] == segment["address"]
        assert segment["segment_type"] in ("small", "large")
    address = x.data_ptr()
    del x
    blocks = {b["address"]: b for s in torch.neuron.memory_snapshot() for b in s["blocks"]}
    assert address not in blocks or blocks[address]["state"] == "inactive"


def test_history_has_stacks_and_feeds_the_standard_tools(tmp_path):
    from torch.cuda import _memory_viz

    torch.neuron.memory._record_memory_history()
    try:

        def allocate_here():
            return torch.empty(7 * MIB, dtype=torch.uint8, device="neuron")

        x = allocate_here()
        address = x.data_ptr()
        torch.empty(MIB, dtype=torch.uint8, device="neuron")
        path = tmp_path / "snapshot.pickle"
        torch.neuron.memory._dump_snapshot(str(path))
        snapshot = pickle.loads(path.read_bytes())
    finally:
        torch.neuron.memory._record_memory_history(enabled=None)
    trace = snapshot["device_traces"][0]
    assert {"alloc", "free_requested"} <= {event["action"] for event in trace}
    event = next(e for e in trace if e["action"] == "alloc" and e["addr"] == address)
    assert event["size"] >= 7 * MIB
    assert any(frame["name"] == "allocate_here" for frame in event["frames"])
    block = next(b for s in snapshot["segments"] for b in s["blocks"] if b["address"] == address)
    assert any(frame["name"] == "allocate_here" for frame in block["frames"])
    assert "segment" in _memory_viz.segsum(snapshot).lower()
    assert "alloc" in _memory_viz.trace(snapshot)
    assert "<html" in _memory_viz.trace_plot(snapshot).lower()
    assert torch.neuron.memory._snapshot()["device_traces"][0] == []


def test_history_arguments_are_checked():
    with pytest.raises(ValueError, match="stacks='perl'"):
        torch.neuron.memory._record_memory_history(stacks="perl")


def test_storage_resize_keeps_contents():
    x = torch.arange(100, dtype=torch.int32, device="neuron")
    storage = x.untyped_storage()
    storage.resize_(800)
    assert storage.nbytes() == 800
    assert x.tolist() == list(range(100))
    storage.resize_(40)
    assert x[:10].tolist() == list(range(10))
    before = torch.neuron.memory_allocated()
    storage.resize_(0)
    assert storage.nbytes() == 0
    assert torch.neuron.memory_allocated() < before
    storage.resize_(400)
    x.copy_(torch.arange(100, dtype=torch.int32))
    assert x.sum().item() == 4950


def test_storage_resize_on_another_stream(busy):
    x = torch.zeros(1000, device="neuron")
    stream = torch.neuron.Stream()
    stream.wait_stream(torch.neuron.current_stream())
    with torch.neuron.stream(stream):
        busy()
        x.fill_(3)
        x.untyped_storage().resize_(8000)
        total = x.sum()
        filler = torch.full((1000,), 9.0, device="neuron")
        assert total.item() == 3000
        assert filler.eq(9).all().item()


def test_deterministic_fill():
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(1000, device="neuron").isnan().all().item()
        largest = torch.iinfo(torch.int32).max
        assert torch.empty(10, dtype=torch.int32, device="neuron").eq(largest).all().item()
        x = torch.zeros(4, device="neuron").resize_(8)
        assert x[:4].eq(0).all().item()
        assert x[4:].isnan().all().item()
    finally:
        torch.use_deterministic_algorithms(False)


def test_zero_bytes():
    x = torch.empty(0, 5, device="neuron")
    assert x.data_ptr() == 0
    assert (x + 1).sum().item() == 0
    assert x.untyped_storage().nbytes() == 0


def test_concurrent_allocation():
    before = torch.neuron.memory_allocated()

    def work():
        for size in range(1, 400):
            x = torch.empty(size * 97, device="neuron")
            y = torch.empty(size, device="neuron")
            del x
            del y

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.neuron.memory_allocated() == before


def test_profiler_sees_memory():
    with torch.profiler.profile(profile_memory=True) as profile:
        x = torch.empty(5 * MIB, dtype=torch.uint8, device="neuron")
        del x
    usage = [e.device_memory_usage for e in profile.events()]
    assert 5 * MIB in usage
    assert any(u <= -5 * MIB for u in usage)
