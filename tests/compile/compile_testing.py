# SPDX-License-Identifier: Apache-2.0
"""Comparison of a compiled function with the same function in eager mode, bit for bit."""

import copy

import torch
import torch_neuronx
from torch.utils import _pytree as pytree

DEVICE = "neuron"


def randn(*shape, requires_grad=False):
    return torch.randn(*shape, device=DEVICE, requires_grad=requires_grad)


def same_bits(got, want):
    """All leaves are equal in shape, dtype and value; NaN equals NaN."""
    got, want = pytree.tree_leaves(got), pytree.tree_leaves(want)
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        if not isinstance(b, torch.Tensor):
            assert a == b
            continue
        assert (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)
        a, b = a.detach().cpu(), b.detach().cpu()
        difference = (a != b) & ~((a != a) & (b != b))
        assert not difference.any(), f"{int(difference.sum())} of {a.numel()} elements differ"


def _leaves(value):
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _weights(output):
    """A gradient with the strides of its tensor: AOTAutograd copies others, and the order of a sum
    may depend on strides."""
    values = torch.linspace(-1, 2, output.numel()).reshape(output.shape)
    return torch.empty_like(output).copy_(values)


def run(function, args, seed=0):
    """Outputs, arguments afterwards, gradients and the generator's state of one call."""
    args = copy.deepcopy(args)
    torch.manual_seed(seed)
    outputs = function(*args)
    inputs = [leaf for leaf in _leaves(args) if leaf.requires_grad and leaf.is_leaf]
    differentiable = [leaf for leaf in _leaves(outputs) if leaf.requires_grad]
    if differentiable:
        torch.autograd.backward(differentiable, [_weights(x) for x in differentiable])
    gradients = [leaf.grad for leaf in inputs]
    return outputs, _leaves(args), gradients, torch.neuron.get_rng_state()


def check(function, *args, **options):
    """Eager and compiled calls agree in all that ``run`` returns; returns the compiled function."""
    compiled = torch.compile(function, backend="neuron", **options)
    want = run(function, args)
    same_bits(run(compiled, args), want)
    return compiled


def graphs():
    """Graphs that the backend was given since the test began."""
    return torch_neuronx.get_dynamo_metrics()["graphs"]


def training_step(model, inputs, seed=0):
    """Loss and gradients of a model, which keep nothing of the call."""
    torch.manual_seed(seed)
    model.zero_grad()
    loss = model(*inputs).float().square().mean()
    loss.backward()
    return loss.detach(), [p.grad.clone() for p in model.parameters()]
