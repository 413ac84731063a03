# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operator database on the device: every sample of one operator and dtype against CPU."""

import functools
import json
import warnings
from pathlib import Path

import torch
from sweep_compare import (
    DEVICE,
    Mover,
    clone,
    compare,
    compare_aliasing,
    describe,
)

DTYPES = {"float32": torch.float32, "int64": torch.int64, "bool": torch.bool}
HERE = Path(__file__).parent
PASS_LIST = HERE / "op_db_pass.txt"
TITLE = "op_db forward"


@functools.cache
def database():
    """Operators by name: `add`, `nn.functional.pad.reflect`, ..."""
    from torch.testing._internal.common_methods_invocations import op_db

    operators = {}
    for op in op_db:
        name = f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name
        assert name not in operators, name
        operators[name] = op
    return operators


@functools.cache
def notes():
    """Operators whose values are not compared, and tolerances: each with its reason."""
    return json.loads((HERE / "op_db_notes.json").read_text())


def nodes():
    """(operator, dtype) of everything that the CPU supports."""
    return [
        (name, dtype_name)
        for name, op in database().items()
        for dtype_name, dtype in DTYPES.items()
        if dtype in op.dtypes
    ]


class Result:
    """Counts of one node; `failures` holds one text for each failing sample or variant."""

    def __init__(self):
        self.samples = self.passed = self.variants = self.variants_passed = 0
        self.failures = []

    def as_dict(self):
        return vars(self)


class Runner:
    def __init__(self, name, dtype_name):
        self.op = database()[name]
        self.dtype = DTYPES[dtype_name]
        uncompared = notes()["uncompared"]
        self.values = name not in uncompared
        tolerance = notes()["tolerances"].get(name, {}).get(dtype_name)
        self.tolerance = tolerance and {"rtol": tolerance["rtol"], "atol": tolerance["atol"]}
        self.result = Result()

    def run(self):
        from torch.testing._internal.common_utils import set_rng_seed

        set_rng_seed(1234)
        for index, sample in enumerate(self.op.sample_inputs("cpu", self.dtype)):
            set_rng_seed(1234 + index)
            if self.sample(index, sample) and self.result.variants == 0:
                self.variants(sample)
        return self.result.as_dict()

    def check(self, kind, label, sample, function):
        """Runs one check; False if it failed."""
        try:
            function()
            torch.neuron.synchronize()
        except Exception as error:  # the check's finding, whatever it is
            text = "\n".join(str(error).splitlines()[:12])
            arguments = describe((sample.input, *sample.args))
            self.result.failures.append(
                {
                    "where": label,
                    "call": f"{arguments} {describe(sample.kwargs)}".strip(),
                    "error": f"{type(error).__name__}: {text}",
                }
            )
            return False
        setattr(self.result, kind, getattr(self.result, kind) + 1)
        return True

    def sample(self, index, sample):
        """Compares one sample; True if the CPU accepts it."""
        arguments = (sample.input, *sample.args), sample.kwargs
        device_arguments = Mover()(arguments)
        try:
            expected = self.op(*arguments[0], **arguments[1])
        except Exception:
            return False  # not a valid call for this dtype
        self.result.samples += 1

        def forward():
            actual = self.op(*device_arguments[0], **device_arguments[1])
            compare(expected, actual, values=self.values, tolerance=self.tolerance)
            compare_aliasing(arguments, expected, device_arguments, actual)
            if index == 0:
                compare(arguments, device_arguments, where="arguments after the call")

        self.check("passed", f"sample {index}", sample, forward)
        return True

    def variants(self, sample):
        """In-place and out= forms, and transposed operands, of one sample."""
        self.inplace(sample, "in place")
        self.out(sample)
        try:
            strided = sample.noncontiguous()
            expected = self.op(strided.input, *strided.args, **strided.kwargs)
        except Exception:
            return
        self.result.variants += 1

        def forward():
            moved = Mover()((strided.input, strided.args, strided.kwargs))
            actual = self.op(moved[0], *moved[1], **moved[2])
            compare(expected, actual, values=self.values, tolerance=self.tolerance)

        self.check("variants_passed", "strided operands", strided, forward)
        self.inplace(strided, "in place, strided operands")

    def inplace(self, sample, label):
        function = self.op.inplace_variant
        if function is None or not isinstance(sample.input, torch.Tensor):
            return
        arguments = (sample.input, sample.args, sample.kwargs)
        moved = Mover()(arguments)
        target = torch.empty_strided(
            sample.input.size(), sample.input.stride(), dtype=sample.input.dtype
        ).copy_(sample.input)
        try:
            expected = function(target, *sample.args, **sample.kwargs)
        except Exception:
            return
        self.result.variants += 1

        def run():
            actual = function(moved[0], *moved[1], **moved[2])
            if expected is target and actual is not moved[0]:
                raise AssertionError("in-place call returns another tensor than its argument")
            compare(expected, actual, values=self.values, tolerance=self.tolerance)

        self.check("variants_passed", label, sample, run)

    def out(self, sample):
        if not self.op.supports_out:
            return
        arguments = ((sample.input, *sample.args), sample.kwargs)
        expected = self.op(*arguments[0], **arguments[1])
        several = isinstance(expected, (tuple, list))
        tensors = list(expected) if several else [expected]
        if not all(isinstance(t, torch.Tensor) for t in tensors):
            return

        def as_out(values):
            return tuple(values) if several else values[0]

        def strided(t, device):
            return torch.empty(t.shape[::-1], dtype=t.dtype, device=device).mT if t.dim() == 2 else (
                torch.empty(t.shape, dtype=t.dtype, device=device)
            )

        for label, make in {
            "out=": lambda t, device: torch.empty(t.shape, dtype=t.dtype, device=device),
            "out=, strided": strided,
            "out=, resized": lambda t, device: torch.empty(0, dtype=t.dtype, device=device),
        }.items():
            cpu_out = as_out([make(t, "cpu") for t in tensors])
            try:
                wanted = self.op(*arguments[0], **arguments[1], out=cpu_out)
            except Exception:
                continue
            self.result.variants += 1

            def run(make=make, wanted=wanted):
                moved = Mover()(arguments)
                out = as_out([make(t, DEVICE) for t in tensors])
                actual = self.op(*moved[0], **moved[1], out=out)
                compare(wanted, actual, values=self.values, tolerance=self.tolerance)
                compare(cpu_out_of(wanted, several), out, values=self.values,
                        tolerance=self.tolerance, where="out")

            self.check("variants_passed", label, sample, run)


def cpu_out_of(result, several):
    return tuple(result) if several else result


def run_node(name, dtype_name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Runner(name, dtype_name).run()


__all__ = ["clone", "database", "nodes", "run_node"]
