# SPDX-License-Identifier: Apache-2.0
import itertools

import pytest
import torch
import torch_neuronx

SHAPES = [(3,), (200, 300), (), (0,), (7, 5)]


def tensors(seed=0, dtype=torch.float32, positive=False):
    torch.manual_seed(seed)
    make = torch.rand if positive else torch.randn
    return [(make(s) + (0.5 if positive else 0)).to(dtype) for s in SHAPES]


BINARY = ["add", "sub", "mul", "div", "clamp_max", "clamp_min", "maximum", "minimum", "pow"]
UNARY = ["abs", "sqrt", "neg", "exp", "reciprocal", "sign", "rsqrt", "log", "tanh", "sigmoid", "floor"]


@pytest.mark.parametrize("name, inplace", list(itertools.product(UNARY, [False, True])))
def test_unary(same, name, inplace):
    op = getattr(torch, f"_foreach_{name}" + "_" * inplace)
    same(lambda a: op(a), tensors(positive=True))


@pytest.mark.parametrize("name, inplace", list(itertools.product(BINARY, [False, True])))
def test_binary(same, name, inplace):
    op = getattr(torch, f"_foreach_{name}" + "_" * inplace)
    same(lambda a, b: op(a, b), tensors(1, positive=True), tensors(2))
    same(lambda a: op(a, 1.5), tensors(1, positive=True))
    same(lambda a: op(a, [1.5, -2.0, 3, 0.5, 2.25]), tensors(1, positive=True))


@pytest.mark.parametrize("inplace", [False, True])
def test_ternary(same, inplace):
    end = "_" * inplace
    for name in ("addcmul", "addcdiv"):
        op = getattr(torch, f"_foreach_{name}{end}")
        a, b, c = tensors(1), tensors(2), tensors(3, positive=True)
        same(lambda a, b, c, op=op: op(a, b, c, 0.5), a, b, c)
        same(lambda a, b, c, op=op: op(a, b, c, [0.5, 1, 2, 3, 4.5]), a, b, c)
    lerp = getattr(torch, f"_foreach_lerp{end}")
    same(lambda a, b: lerp(a, b, 0.3), tensors(1), tensors(2))
    same(lambda a, b, c: lerp(a, b, c), tensors(1), tensors(2), tensors(3, positive=True))


def test_alpha_and_tensor_operands(same):
    same(lambda a, b: torch._foreach_add_(a, b, alpha=0.5), tensors(1), tensors(2))
    same(lambda a, s: torch._foreach_mul_(a, s), tensors(1), torch.tensor(3.0))
    same(lambda a: torch._foreach_mul(a, torch.tensor(3.0)), tensors(1))
    same(lambda a, s: torch._foreach_div(a, s), tensors(1), torch.tensor(3.0))


def test_norm_zero_and_copy(same):
    for order in (1, 2, float("inf")):
        same(lambda a, p=order: torch._foreach_norm(a[:3] + a[4:], p), tensors(), rtol=1e-4)
    same(lambda a: torch._foreach_zero_(a), tensors())
    same(lambda a, b: torch._foreach_copy_(a, b), tensors(1), tensors(2))


def test_lists_that_are_not_uniform(same):
    """Mixed dtypes, broadcasting and integers take the composite: same values."""
    a = [torch.ones(3), torch.ones(2, dtype=torch.float64)]
    same(lambda a: torch._foreach_add(a, 1.5), a)
    same(lambda a: torch._foreach_mul(a, 2), [torch.arange(4), torch.arange(3)])
    same(lambda a: torch._foreach_add(a, 1.5), [torch.arange(4)])
    same(lambda a, b: torch._foreach_add(a, b), [torch.ones(3, 2)], [torch.ones(2)])
    same(lambda a, b: torch._foreach_add_(a, b), [torch.ones(3)], [torch.ones(3).double()])
    same(lambda a: torch._foreach_sqrt(a), [torch.arange(5)])
    same(lambda a: torch._foreach_abs(a), [torch.randn(3, dtype=torch.complex64)])


def test_strides(same):
    a = [torch.randn(40, 300).t(), torch.randn(64, 4, 30, 30).contiguous(memory_format=torch.channels_last)]
    b = [torch.randn(300, 40), torch.randn(64, 4, 30, 30)]
    same(lambda a, b: torch._foreach_add(a, b), a, b)
    same(lambda a, b: torch._foreach_mul_(a, b), a, b)


def test_tensors_that_overlap_are_taken_in_order():
    for device in ("cpu", "neuron"):
        x = torch.ones(100_000, device=device)
        torch._foreach_mul_([x, x, x[10:]], 2.0)
        assert x[0].item() == 4.0 and x[-1].item() == 8.0
        y = torch.arange(70_000, dtype=torch.float32, device=device)
        torch._foreach_mul_([y[1:], y[:-1]], [2.0, 3.0])
        assert y[0].item() == 0.0 and y[5].item() == 30.0 and y[-1].item() == 2 * 69_999


def test_errors_are_raised_at_the_call():
    x = [torch.ones(2, device="neuron")]
    with pytest.raises(RuntimeError):
        torch._foreach_add_(x, [torch.ones(3, device="neuron")])
    with pytest.raises(RuntimeError):
        torch._foreach_add_([torch.ones(2, dtype=torch.int64, device="neuron")], 0.5)
    with pytest.raises(RuntimeError):
        torch._foreach_add_(x, [1.0, 2.0])


def test_one_record_a_list():
    a = [t.to("neuron") for t in tensors(positive=True)]
    torch_neuronx.clear_op_tracking()
    torch._foreach_sqrt_(torch._foreach_add(a, 1.0))
    assert torch_neuronx.get_executed_ops() == {"aten::_foreach_add": 1, "aten::_foreach_sqrt_": 1}


OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    "sgd plain": (torch.optim.SGD, {"lr": 0.1}),
    "adam": (torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
    "adam amsgrad": (torch.optim.Adam, {"lr": 0.01, "amsgrad": True, "maximize": True}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01}),
    "adamw tensor lr": (torch.optim.AdamW, {"lr": torch.tensor(0.01)}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.5}),
    "adagrad": (torch.optim.Adagrad, {"lr": 0.01}),
    "nadam": (torch.optim.NAdam, {"lr": 0.01}),
    "radam": (torch.optim.RAdam, {"lr": 0.01}),
    "adadelta": (torch.optim.Adadelta, {"lr": 0.5}),
    "rprop": (torch.optim.Rprop, {"lr": 0.01}),
    "adamax": (torch.optim.Adamax, {"lr": 0.01}),
    "asgd": (torch.optim.ASGD, {"lr": 0.01}),
}


def train(kind, options, device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.Tanh(), torch.nn.Linear(300, 5))
    data, target = torch.randn(16, 20), torch.randn(16, 5)
    model, data, target = model.to(device), data.to(device), target.to(device)
    optimizer = kind(model.parameters(), **options)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(data), target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu(), [p.detach().cpu() for p in model.parameters()]


FUSED = (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW)


def optimizer_cases():
    for name, (kind, options) in OPTIMIZERS.items():
        modes = [{}, {"foreach": False}]
        # A tensor as lr wants capturable=True with foreach=True.
        modes += [] if isinstance(options["lr"], torch.Tensor) else [{"foreach": True}]
        modes += [{"fused": True}] if kind in FUSED else []
        for mode in modes:
            yield pytest.param(kind, {**options, **mode}, id=f"{name} {mode}")


@pytest.mark.parametrize("kind, options", list(optimizer_cases()))
def test_optimizers(kind, options):
    on_neuron = train(kind, options, "neuron")
    on_cpu = train(kind, options, "cpu")
    torch.testing.assert_close(on_neuron[0], on_cpu[0], rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(on_neuron[1], on_cpu[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("fused", [False, True])
def test_gradient_scaler(fused):
    def run(device):
        torch.manual_seed(0)
        w = torch.nn.Parameter(torch.randn(300, 200).to(device))
        optimizer = torch.optim.AdamW([w], lr=0.1, fused=fused)
        scaler = torch.amp.GradScaler(device, init_scale=8.0, growth_interval=2)
        for factor in (1.0, float("inf"), 2.0, 3.0, 1.0):
            optimizer.zero_grad()
            scaler.scale((w * w).sum() * factor).backward()
            scaler.step(optimizer)
            scaler.update()
        return w.detach().cpu(), scaler.get_scale()

    on_neuron, on_cpu = run("neuron"), run("cpu")
    assert on_neuron[1] == on_cpu[1]
    torch.testing.assert_close(on_neuron[0], on_cpu[0], rtol=1e-4, atol=1e-5)
