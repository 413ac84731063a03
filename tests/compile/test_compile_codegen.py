# SPDX-License-Identifier: Apache-2.0
"""The Python function that is generated from a graph."""

import math
import operator
import traceback

import pytest
import torch
from compile_testing import DEVICE, randn
from torch.fx import Graph, GraphModule
from torch_neuronx._compile.executable import build_executable

aten = torch.ops.aten


def build(make, name="test_0", modules=None):
    graph = Graph()
    make(graph)
    return build_executable(GraphModule(modules or torch.nn.Module(), graph), name)


def test_text_and_result():
    def make(graph):
        x, w = graph.placeholder("x"), graph.placeholder("w")
        product = graph.call_function(aten.mm.default, (x, w))
        graph.output((graph.call_function(aten.gelu.default, (product,)), None))

    executable = build(make)
    assert executable.text() == (
        "def test_0(args):\n"
        "    x, w, = args\n"
        "    args.clear()\n"
        "    mm_default = OP_mm(x, w)\n"
        "    del x, w\n"
        "    gelu_default = OP_gelu(mm_default)\n"
        "    del mm_default\n"
        "    return (gelu_default, None, )\n"
    )
    assert executable.num_ops == 2
    x, w = randn(3, 4), randn(4, 5)
    args = [x, w]
    result, none = executable(args)
    assert args == [] and none is None
    assert torch.equal(result.cpu(), torch.nn.functional.gelu(x @ w).cpu())


def test_every_kind_of_argument():
    def make(graph):
        x, n = graph.placeholder("x"), graph.placeholder("n")
        graph.placeholder("unused")
        double = graph.call_function(operator.mul, (n, 2))
        view = graph.call_function(aten.view.default, (x, [double, -1]))
        clamp = graph.call_function(aten.clamp.default, (view, -math.inf, math.inf))
        fill = graph.call_function(aten.full.default, ([double, 1], math.nan), {"device": DEVICE})
        cast = graph.call_function(aten._to_copy.default, (clamp,), {"dtype": torch.float64})
        item = graph.call_function(operator.getitem, (cast, (slice(None, n), 0)))
        cat = graph.call_function(aten.cat.default, ([clamp, fill], 1))
        graph.output([cat, item, double, {"k": [x]}])

    cat, item, double, nested = build(make)([torch.arange(8.0, device=DEVICE), 2, None])
    assert cat[:, :2].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert cat[:, 2].isnan().all()
    assert item.dtype == torch.float64 and item.tolist() == [0, 2]
    assert double == 4 and nested["k"][0].numel() == 8


def test_names_never_collide():
    """A graph may use any name, also those of the constants and of Python's functions."""

    def make(graph):
        a = graph.create_node("placeholder", "OP_add_Tensor", name="OP_add_Tensor")
        b = graph.create_node("placeholder", "CONST", name="CONST")
        total = graph.call_function(aten.add.Tensor, (a, b), {"alpha": 2})
        graph.output((graph.call_function(aten.view.default, (total, [2, 1])),))

    (result,) = build(make)([torch.ones(2, device=DEVICE), torch.ones(2, device=DEVICE)])
    assert result.tolist() == [[3.0], [3.0]]


def test_no_inputs_and_no_outputs():
    assert build(lambda graph: graph.output(()))([]) == ()

    def make(graph):
        graph.output((graph.call_function(aten.ones.default, ([2],), {"device": DEVICE}),))

    assert build(make)([])[0].tolist() == [1.0, 1.0]


def test_modules_methods_and_attributes():
    root = torch.nn.Module()
    root.inner = torch.nn.ReLU()
    root.weight = torch.full((2,), 3.0, device=DEVICE)

    def make(graph):
        x = graph.placeholder("x")
        x = graph.call_module("inner", (x,))
        x = graph.call_method("add", (x, graph.get_attr("weight")), {"alpha": 2})
        graph.output((x,))

    assert build(make, modules=root)([torch.tensor([-1.0, 1.0], device=DEVICE)])[0].tolist() == [
        6,
        7,
    ]


def test_failing_call_is_found(tmp_path):
    """Several calls of one operator, of which the third fails."""
    file = tmp_path / "model.py"
    file.write_text("one\ntwo\nthree\nfour\n")

    def make(graph):
        x = graph.placeholder("x")
        for line, size in enumerate(([2, 3], [3, 2], [4, 2], [6]), 1):
            x = graph.call_function(aten.view.default, (x, size))
            x.meta["stack_trace"] = f'  File "{file}", line {line}, in forward\n    code\n'
        graph.output((x,))

    executable = build(make, "forward_7")
    with pytest.raises(RuntimeError, match="invalid for input of size 6") as caught:
        executable([torch.zeros(6, device=DEVICE)])
    frame = traceback.extract_tb(caught.tb)[-1]
    assert (frame.filename, frame.lineno, frame.name, frame.line) == (
        str(file),
        3,
        "forward_7",
        "three",
    )
    assert frame.colno is None  # no marks under a line that is not the generated one
    (note,) = caught.value.__notes__
    assert note == (
        "In compiled graph forward_7: operator aten.view.default, called from\n"
        f'  File "{file}", line 3, in forward\n    code'
    )


def test_large_graph():
    def make(graph):
        x = graph.placeholder("x")
        for _ in range(5000):
            x = graph.call_function(aten.neg.default, (x,))
        graph.output((x,))

    assert build(make)([torch.ones(1, device=DEVICE)])[0].item() == 1.0


def test_the_graph_is_not_kept():
    import gc
    import weakref

    graph = Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(aten.neg.default, (x,)),))
    module = GraphModule(torch.nn.Module(), graph)
    executable = build_executable(module, "test_0")
    alive = weakref.ref(module)
    del module, graph, x
    gc.collect()
    assert alive() is None
    assert executable([torch.ones(1, device=DEVICE)])[0].item() == -1.0
