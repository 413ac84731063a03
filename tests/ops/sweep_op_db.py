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
    in_double,
    tensors_in,
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
        self.name = name
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

    def move(self, positional, keyword):
        """The device's copy of a call's arguments."""
        mover = Mover()
        if self.name in notes()["host_arguments"]:
            return (mover(positional[0]), *positional[1:]), keyword
        return mover((positional, keyword))

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
        device_arguments = self.move(*arguments)
        try:
            expected = self.op(*arguments[0], **arguments[1])
        except Exception:
            return False  # not a valid call for this dtype
        self.result.samples += 1

        # Dropout draws from the device's own generator.
        values = self.values and not sample.kwargs.get("dropout_p")

        def forward():
            # A factory function without a device argument makes its tensor on the default device.
            with torch.device(DEVICE):
                actual = self.op(*device_arguments[0], **device_arguments[1])
            compare(
                expected,
                actual,
                values=values,
                tolerance=self.tolerance,
                exact=lambda: self.exact(sample),
            )
            compare_aliasing(arguments, expected, device_arguments, actual)
            if index == 0:
                pairs = zip(tensors_in(arguments), tensors_in(device_arguments), strict=True)
                for host, moved in pairs:
                    if moved is not host:
                        compare(host, moved, values=values, where="argument after the call")

        self.check("passed", f"sample {index}", sample, forward)
        return True

    def exact(self, sample):
        positional, keyword = in_double(((sample.input, *sample.args), sample.kwargs))
        return self.op(*positional, **keyword)

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
            positional, keyword = self.move((strided.input, *strided.args), strided.kwargs)
            actual = self.op(*positional, **keyword)
            compare(
                expected,
                actual,
                values=self.values,
                tolerance=self.tolerance,
                exact=lambda: self.exact(strided),
            )

        self.check("variants_passed", "strided operands", strided, forward)
        self.inplace(strided, "in place, strided operands")

    def inplace(self, sample, label):
        function = self.op.inplace_variant
        if function is None or not isinstance(sample.input, torch.Tensor):
            return
        (operand, *others), keyword = self.move((sample.input, *sample.args), sample.kwargs)
        target = clone(sample.input)
        try:
            expected = function(target, *sample.args, **sample.kwargs)
        except Exception:
            return
        self.result.variants += 1

        def run():
            actual = function(operand, *others, **keyword)
            if expected is target and actual is not operand:
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
            return (
                torch.empty(t.shape[::-1], dtype=t.dtype, device=device).mT
                if t.dim() == 2
                else (torch.empty(t.shape, dtype=t.dtype, device=device))
            )

        for label, make in {
            "out=": lambda t, device: torch.empty(t.shape, dtype=t.dtype, device=device),
            "out=, strided": strided,
            "out=, resized": lambda t, device: torch.empty(0, dtype=t.dtype, device=device),
        }.items():
            try:
                self.op(
                    *arguments[0], **arguments[1], out=as_out([make(t, "cpu") for t in tensors])
                )
            except Exception:
                continue  # not a valid call
            self.result.variants += 1

            # Against the plain result: some CPU kernels are wrong for a strided out=.
            def run(make=make):
                positional, keyword = self.move(*arguments)
                out = as_out([make(t, DEVICE) for t in tensors])
                actual = self.op(*positional, **keyword, out=out)
                for where, found in {"result": actual, "out": out}.items():
                    if found is not None:  # what some operators with a list of outputs return
                        compare(
                            tensors,
                            tensors_in(found),
                            values=self.values,
                            tolerance=self.tolerance,
                            where=where,
                        )

            self.check("variants_passed", label, sample, run)


def run_node(name, dtype_name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Runner(name, dtype_name).run()
