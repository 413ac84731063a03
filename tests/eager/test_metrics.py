# SPDX-License-Identifier: Apache-2.0
"""Counters, distributions, and the difference of a block."""

import pytest
import torch
from torch_neuronx import metrics

DEVICE = "neuron"
COMPILATION_CACHE = (
    "InMemoryHits",
    "InMemoryMisses",
    "PersistentHits",
    "PersistentMisses",
    "TotalCompilations",
    "Evictions",
)


def test_every_name_exists_and_has_a_meaning():
    names = metrics.get_counter_names()
    assert {f"CompilationCache.{name}" for name in COMPILATION_CACHE} <= set(names)
    assert metrics.get_metric_names() == ["CompilationTime", "NeffSize", "MemoryUsage"]
    meanings = metrics.descriptions()
    assert set(meanings) == {*names, *metrics.get_metric_names()}
    assert all(meanings.values())
    assert all(isinstance(metrics.get_counter_value(name), int) for name in names)
    assert metrics.get_counter_value("Window.None") is None
    assert metrics.get_metric_data("None") is None


def test_difference_covers_the_block_alone():
    x = torch.ones(8, device=DEVICE)
    x + 1
    with metrics.difference() as d:
        y = (x + 1).sin()
        y.cpu()
    x + 1
    torch.neuron.synchronize()
    assert d["Launch.Fused"] + d["Launch.Single"] in (1, 2)
    assert d["Kernel.Compile.Failed"] == 0
    assert "Kernel.Compile.Failed" not in d.counters
    with pytest.raises(KeyError):
        d["Window.None"]
    assert "Launch." in str(d)


def test_fallbacks_count_by_reason():
    x = torch.rand(8, device=DEVICE)
    with metrics.difference() as d:
        torch.linalg.inv(torch.eye(3, device=DEVICE))
        x.cpu()
    assert sum(d.fallbacks.values()) >= 1
    assert sum(metrics.get_fallback_reasons().values()) >= sum(d.fallbacks.values())


def test_clear_all():
    (torch.ones(8, device=DEVICE) + 1).cpu()
    assert metrics.report()
    metrics.clear_all()
    assert metrics.report_filtered("Launch.*", "Window.*", "Kernel.*", "CompilationTime") == ""


def test_report_names_what_is_not_zero():
    (torch.ones(8, device=DEVICE) + 1).cpu()
    report = metrics.report_filtered("Window.*")
    assert report
    for line in report.splitlines():
        name, value = line.split()
        assert name.startswith("Window.")
        assert int(value) > 0


def test_compiles_are_measured(settle):
    x = torch.rand(7, 9, device=DEVICE)

    def program():
        ((x * 0.37 - 1.5).tanh() * x + x.sigmoid()).cpu()

    settle(program)
    before = metrics.get_counter_value("CompilationCache.TotalCompilations")
    time = metrics.get_metric_data("CompilationTime")
    size = metrics.get_metric_data("NeffSize")
    after = metrics.get_counter_value("CompilationCache.TotalCompilations")
    # The background compile that runs now may be counted already, but not measured yet.
    assert before - 1 <= time["count"] <= after
    assert before - 1 <= size["count"] <= after
    if time["count"]:  # kernels that the persistent cache holds are not compiled
        assert 0 < time["min"] <= time["max"] <= time["total"]
        assert size["min"] > 100
    memory = metrics.get_metric_data("MemoryUsage")
    assert memory["count"] > 0
    assert memory["total"] > 0
