# SPDX-License-Identifier: Apache-2.0
"""Comparison of native operators with PyTorch's CPU: values and gradients."""

import pytest
import torch
import torch_neuronx  # noqa: F401  (the device, also where the package is not installed)
from torch.utils import _pytree as pytree


def move(tree, device):
    """A copy of the arguments on `device`; leaves that need gradients stay leaves."""

    def one(x):
        if not isinstance(x, torch.Tensor):
            return x
        # `.to` keeps strides, and turns expanded tensors into dense ones on both sides.
        y = x.detach().to(device, copy=True)
        return y.requires_grad_(x.requires_grad)

    return pytree.tree_map(one, tree)


def close(got, want, rtol, atol):
    assert got.device.type == "neuron"
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    torch.testing.assert_close(got.cpu(), want, rtol=rtol, atol=atol, equal_nan=True)


def run(fn, args, kwargs, device):
    args, kwargs = move((args, kwargs), device)
    outputs = fn(*args, **kwargs)
    tensors = [t for t in pytree.tree_leaves(outputs) if isinstance(t, torch.Tensor)]
    leaves = [t for t in pytree.tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    inputs = [t for t in leaves if t.requires_grad]
    differentiable = [t for t in tensors if t.requires_grad]
    gradients = []
    if inputs and differentiable:
        torch.manual_seed(7)
        seeds = [torch.randn(t.shape).to(t.dtype).to(t.device) for t in differentiable]
        gradients = torch.autograd.grad(differentiable, inputs, seeds, allow_unused=True)
    return tensors, gradients, leaves


@pytest.fixture
def same():
    """same(fn, *args, **kwargs): outputs, gradients and arguments (in-place!) as on the CPU."""

    def check(fn, *args, rtol=1e-5, atol=1e-5, **kwargs):
        want = run(fn, args, kwargs, "cpu")
        got = run(fn, args, kwargs, "neuron")
        for g, w in zip(got, want, strict=True):
            assert len(g) == len(w)
            for a, b in zip(g, w, strict=True):
                assert (a is None) == (b is None)
                if a is not None:
                    close(a.detach(), b.detach(), rtol, atol)

    return check
