# SPDX-License-Identifier: Apache-2.0
"""Random straight-line programs: compiled = eager in values, gradients, and what they write."""

import random

import pytest
import torch
from compile_testing import check, randn
from torch.nn import functional as F

UNARY = [
    torch.sin,
    torch.exp,
    torch.tanh,
    torch.abs,
    F.relu,
    F.gelu,
    F.silu,
    torch.neg,
    lambda x: x.clamp(-1, 1),
    lambda x: x * 0.5 + 1,
    lambda x: F.softmax(x, -1),
    lambda x: F.layer_norm(x, x.shape[-1:]),
    lambda x: x.to(torch.bfloat16).float(),
    lambda x: F.dropout(x, 0.3),
    lambda x: x + torch.rand_like(x),
    lambda x: x.cumsum(-1) / x.shape[-1],
    # Views and copies.
    lambda x: x.t(),
    lambda x: x.flip(0),
    lambda x: x.roll(1, 1),
    lambda x: x.t().contiguous().t(),
    lambda x: x.reshape(-1).view(6, 6),
    lambda x: torch.cat([x[3:], x[:3]]),
    lambda x: x[[5, 4, 3, 2, 1, 0]],
    lambda x: x.tril(),
    lambda x: x.view_as(x).transpose(0, 1).reshape(6, 2, 3).transpose(1, 2).reshape(6, 6),
    lambda x: torch.stack(x.unbind(1), 1),
]
BINARY = [
    torch.add,
    torch.sub,
    torch.mul,
    torch.maximum,
    lambda x, y: x @ y / 6,
    lambda x, y: torch.where(x > y, x, y * 2),
    lambda x, y: x / (y.abs() + 1),
    lambda x, y: x + y.sum(0),
    lambda x, y: x * y.mean(-1, keepdim=True),
    lambda x, y: x - y.amax(1, keepdim=True),
]
VIEWS = [lambda x: x, lambda x: x[1:4], lambda x: x.t()[::2], lambda x: x.diagonal()]
WRITES = [
    lambda v: v.add_(1),
    lambda v: v.mul_(-0.5),
    lambda v: v.zero_(),
    lambda v: v.copy_(v.detach().sin()),
    lambda v: v.clamp_(min=0),
]


def written(view, write):
    def apply(x):
        x = x.clone()
        write(view(x))
        return x

    return apply


def make_program(seed):
    """A function of three 6x6 tensors; writes into the third one in some programs."""
    choose = random.Random(seed)
    steps = []
    for _ in range(choose.randint(4, 14)):
        kind = choose.choices(["unary", "binary", "write"], [6, 4, 1])[0]
        if kind == "binary":
            step, arity = choose.choice(BINARY), 2
        elif kind == "unary":
            step, arity = choose.choice(UNARY), 1
        else:
            step, arity = written(choose.choice(VIEWS), choose.choice(WRITES)), 1
        operands = [choose.randrange(3 + len(steps)) for _ in range(arity)]
        steps.append((step, operands))
    outputs = [choose.randrange(3, 3 + len(steps)) for _ in range(choose.randint(1, 3))]
    writes_argument = choose.random() < 0.3

    def function(x, y, z):
        values = [x, y, z.clone()]
        for step, operands in steps:
            values.append(step(*(values[i] for i in operands)))
        if writes_argument:
            z.add_(values[-1].detach())
        # Copies: the gradient of an output that is a view of an argument is added last under
        # compile, and a sum of three gradients then rounds in another order.
        return [values[i].clone() for i in (-1, *outputs)]

    return function


def check_program(seed):
    torch.manual_seed(seed)
    requires_grad = seed % 3 != 0
    check(
        make_program(seed),
        randn(6, 6, requires_grad=requires_grad),
        randn(6, 6, requires_grad=requires_grad and seed % 2 == 0),
        randn(6, 6),
    )


@pytest.mark.parametrize("seed", range(30))
def test_random_program(seed):
    check_program(seed)


@pytest.mark.full
@pytest.mark.parametrize("start", range(1000, 3000, 100))
def test_many_random_programs(start):
    for seed in range(start, start + 100):
        torch._dynamo.reset()
        check_program(seed)
