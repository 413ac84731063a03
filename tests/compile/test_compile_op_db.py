# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operator database: compiled = eager, bit for bit.

A seeded sample of the operators in `make test`, all of them in `make test-full`. The list below is
what PyTorch itself computes differently when it traces; docs/torch-compile.md explains it.
"""

import random
import zlib

import pytest
import torch
from compile_testing import DEVICE, run, same_bits
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

# AOTAutograd replaces these by other operators, with other roundings.
DECOMPOSED = {
    "addcdiv",
    "linalg.cond",
    "linalg.matrix_norm",
    "linalg.norm",
    "linalg.svdvals",
    "nn.functional.interpolate",
    "nn.functional.upsample_bilinear",
    "norm",
}
# Their values are not defined, or not those of the function (op_db wraps random ones to reseed).
UNDEFINED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty"}
UNDEFINED |= {"new_empty_strided", "linalg.eig", "linalg.eigvals"}
UNSUPPORTED = "sparse|jiterator|expected tensor_indices_or_sections to be on cpu|to_sparse"

OPERATORS = [
    op
    for op in op_db
    if torch.float32 in op.dtypes and op.name not in UNDEFINED and "jiterator" not in op.name
]
SAMPLE = random.Random(2026).sample(OPERATORS, 70)


def to_device(value):
    return value.detach().to(DEVICE) if isinstance(value, torch.Tensor) else value


def check_operator(op):
    # Not hash(): it differs from process to process.
    torch.manual_seed(zlib.crc32(op.full_name.encode()))
    requires_grad = op.supports_autograd
    samples = list(op.sample_inputs("cpu", torch.float32, requires_grad=False))
    sample = samples[min(1, len(samples) - 1)]
    args = pytree.tree_map(to_device, (sample.input, sample.args, sample.kwargs))
    if requires_grad and isinstance(args[0], torch.Tensor) and args[0].is_floating_point():
        args[0].requires_grad_()

    def function(value, args, kwargs):
        return op.op(value, *args, **kwargs)

    try:
        want = run(function, args)
    except (RuntimeError, NotImplementedError) as error:
        pytest.skip(f"not in eager mode either: {str(error).splitlines()[0]}")
    got = run(torch.compile(function, backend="neuron"), args)
    if op.name in DECOMPOSED:
        torch.testing.assert_close(got[0], want[0], equal_nan=True, rtol=1e-4, atol=1e-4)
    else:
        same_bits(got, want)


@pytest.mark.parametrize("op", SAMPLE, ids=lambda op: op.full_name)
def test_sampled_operator(op):
    check_operator(op)


@pytest.mark.full
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.full_name)
def test_operator(op):
    check_operator(op)
