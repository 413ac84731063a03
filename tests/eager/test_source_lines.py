# SPDX-License-Identifier: Apache-2.0
"""Operations of a backward pass name the line of their forward operation, and that of the call."""

import inspect
import threading

import pytest
import torch
import torch.utils.checkpoint
import torch_neuronx
from torch import nn

DEVICE = "neuron"


def here(offset=0):
    """``file:line in function`` of the caller."""
    frame = inspect.currentframe().f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno + offset} in {frame.f_code.co_name}"


def backward_operations():
    windows = torch_neuronx.explain(128).windows
    return [op for w in windows for op in w.operations if op.backward]


def sources(call):
    return {op.source for op in backward_operations() if op.backward_call == call}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)

    def forward(self, x):
        self.lines = {"inner": here(1), "norm": here(2), "gelu": here(3)}
        x = self.inner(x)
        x = self.norm(x)
        return nn.functional.gelu(x)


def test_layers_of_a_model():
    model = Model().to(DEVICE)
    loss = model(torch.rand(4, 8, device=DEVICE)).square().mean()
    loss_line = here(-1)
    call = here(1)
    loss.backward()
    assert sources(call) == {*model.lines.values(), loss_line}


def test_no_forward_operation_has_two_lines():
    with torch.no_grad():
        Model().to(DEVICE)(torch.rand(4, 8, device=DEVICE))
    assert backward_operations() == []
    assert len(torch_neuronx.explain().windows) > 0


def test_a_backward_pass_on_a_thread_of_its_own():
    torch.autograd.set_multithreading_enabled(True)
    try:
        x = torch.rand(8, device=DEVICE, requires_grad=True)
        y = x.exp()
        line = here(-1)
        y.backward(torch.ones(8, device=DEVICE))
    finally:
        torch.autograd.set_multithreading_enabled(False)
    assert line in {op.source for op in backward_operations()}


def test_forward_on_another_thread():
    made = {}

    def forward():
        x = torch.rand(8, device=DEVICE, requires_grad=True)
        made["y"], made["line"] = x.exp(), here()

    thread = threading.Thread(target=forward)
    thread.start()
    thread.join()
    # Numbers of this thread must not be taken for those of the other one.
    for _ in range(8):
        torch.rand(8, device=DEVICE, requires_grad=True).sin()
    call = here(1)
    made["y"].backward(torch.ones(8, device=DEVICE))
    assert sources(call) == {made["line"]}


def test_an_inplace_operation_on_a_view():
    x = torch.rand(4, 4, device=DEVICE, requires_grad=True)
    y = x * 1
    first = here(-1)
    y[1].mul_(3)
    inplace = here(-1)
    z = y.sin()
    last = here(-1)
    call = here(1)
    z.backward(torch.ones(4, 4, device=DEVICE))
    assert sources(call) == {first, inplace, last}


def test_gradients_of_gradients():
    x = torch.rand(4, device=DEVICE, requires_grad=True)
    y = x.sin().sum()
    line = here(-1)
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    call = here(1)
    g.sum().backward()
    assert line in sources(call)  # of the forward operation, not of the first backward pass


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputed_operations(reentrant):
    lines = {}

    def block(x):
        y = x.sin()
        lines["sin"] = here(-1)
        return y.exp()

    x = torch.rand(4, device=DEVICE, requires_grad=True)
    y = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=reentrant)
    call = here(1)
    y.backward(torch.ones(4, device=DEVICE))
    found = {op.source for op in backward_operations() if op.name.startswith("aten::cos")}
    assert found == {lines["sin"]}
    assert call in {op.backward_call for op in backward_operations()}


def test_an_own_function_names_its_own_lines():
    lines = {}

    class Triple(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            lines["forward"] = here(1)
            return x * 3

        @staticmethod
        def backward(ctx, grad):
            lines["backward"] = here(1)
            return grad * 3

    x = torch.rand(4, device=DEVICE, requires_grad=True)
    Triple.apply(x).backward(torch.ones(4, device=DEVICE))
    assert sources(lines["backward"]) == {lines["forward"]}


def test_a_failed_backward_operation_names_both_lines():
    table = torch.zeros(4, 2, device=DEVICE, requires_grad=True)
    index = torch.tensor([1, 2], device=DEVICE)
    rows = table.index_select(0, index)
    line = here(-1)
    index.data.fill_(9)  # behind autograd's back, so that only the gradient fails
    call = here(1)
    torch.autograd.backward(rows, torch.ones(2, 2, device=DEVICE))
    with pytest.raises((IndexError, RuntimeError)) as failure:
        torch.neuron.synchronize()
    assert f"called at {line} (backward: {call})" in str(failure.value)


def test_switched_off(run_program):
    program = """
        import torch, torch_neuronx
        x = torch.rand(4, device="neuron", requires_grad=True)
        x.exp().sum().backward()
        operations = [op for w in torch_neuronx.explain().windows for op in w.operations]
        assert operations
        assert all(op.source == "" and not op.backward for op in operations)
    """
    run_program(program, TORCH_NEURONX_ENABLE_STACK_TRACE="0")
