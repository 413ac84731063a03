# SPDX-License-Identifier: Apache-2.0
"""Moving values between CPU and device, and comparing what the two computed."""

import functools

import torch
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = "neuron"


class MismatchError(AssertionError):
    """Device and CPU disagree."""


class Mover:
    """Copies CPU values to the device: strides, offsets and storages shared by tensors are kept.

    One mover serves one call: a tensor that appears twice becomes one device tensor.
    """

    def __init__(self):
        self._tensors = {}  # id -> (CPU tensor, kept alive so that ids stay unique; device tensor)
        self._storages = {}

    def __call__(self, value):
        return tree_map(self._leaf, value)

    def _leaf(self, leaf):
        if isinstance(leaf, torch.Tensor):
            known = self._tensors.get(id(leaf))
            if known is None:
                known = self._tensors[id(leaf)] = (leaf, self._tensor(leaf))
            return known[1]
        if isinstance(leaf, torch.Generator) and leaf.device.type == "cpu":
            generator = torch.Generator(DEVICE)
            generator.manual_seed(leaf.initial_seed())
            return generator
        if isinstance(leaf, torch.device) and leaf.type == "cpu":
            return torch.device(DEVICE)
        if isinstance(leaf, str) and leaf == "cpu":
            return DEVICE
        return leaf

    def _tensor(self, t):
        if t.layout != torch.strided or t.is_quantized or t.is_nested:
            return t.to(DEVICE)
        if t.is_conj():
            return self._tensor(t.conj()).conj()
        if t.is_neg():
            return torch._neg_view(self._tensor(torch._neg_view(t)))
        storage = t.untyped_storage()
        whole = t.is_contiguous() and storage.nbytes() == t.numel() * t.element_size()
        key = storage._cdata
        if key not in self._storages:
            if whole:
                self._storages[key] = (storage, t.detach().to(DEVICE))
                return self._storages[key][1].requires_grad_(t.requires_grad)
            raw = torch.empty(0, dtype=torch.uint8).set_(storage)
            self._storages[key] = (storage, raw.to(DEVICE))
        base = self._storages[key][1].detach()  # tensors that share memory are leaves of their own
        if base.dtype != t.dtype:
            base = base.reshape(-1).view(torch.uint8)
            base = base[: base.numel() // t.element_size() * t.element_size()].view(t.dtype)
        moved = base.as_strided(t.size(), t.stride(), t.storage_offset())
        return moved.requires_grad_(t.requires_grad)


def clone(t):
    """A copy with the strides of the original, and with what lies between its elements."""
    if t.layout != torch.strided:
        return t.clone()
    storage = t.untyped_storage().clone()
    copy = torch.empty(0, dtype=t.dtype).set_(storage, t.storage_offset(), t.size(), t.stride())
    copy = copy.conj() if t.is_conj() else copy
    return torch._neg_view(copy) if t.is_neg() else copy


def tensors_in(value):
    """The tensors of a nested value, in order."""
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def describe(value):
    """Short text for the arguments of a sample."""
    if isinstance(value, torch.Tensor):
        text = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        contiguous = value.layout != torch.strided or value.is_contiguous()
        return text if contiguous else f"{text}/{list(value.stride())}"
    if isinstance(value, (list, tuple)):
        return f"({', '.join(describe(v) for v in value)})"
    if isinstance(value, dict):
        return ", ".join(f"{k}={describe(v)}" for k, v in value.items())
    return repr(value)[:80]


def _same_storage(a, b):
    return (
        a.layout == torch.strided
        and b.layout == torch.strided
        and a.untyped_storage()._cdata == b.untyped_storage()._cdata
    )


def in_double(value):
    """`value` with its float32 tensors in double precision."""
    return tree_map(
        lambda v: (
            v.detach().double().requires_grad_(v.requires_grad)
            if isinstance(v, torch.Tensor) and v.dtype == torch.float32
            else v
        ),
        value,
    )


def _as_exact_as_the_cpu(actual, expected, exact):
    """Whether the device is about as far from the result in double precision as the CPU is, or
    within a few units in the last place of the tensor's largest values.

    Both round; where an operation amplifies rounding (cancellation, sums of large terms) they may
    differ by more than the tolerance without one being worse.
    """
    if not isinstance(exact, torch.Tensor) or exact.shape != expected.shape:
        return False
    exact = exact.detach().cpu().double()
    cpu = (expected.double() - exact).abs()
    device = (actual.double() - exact).abs()
    same = (actual == expected) | (actual.isnan() & expected.isnan())
    cpu, device = (e.masked_fill(same, 0) for e in (cpu, device))
    last_places = 4 * torch.finfo(torch.float32).eps * exact.nan_to_num(0, 0, 0).abs().max()
    return bool(device.max() <= 2 * cpu.max() + last_places)


def _compare_tensor(where, cpu, device, values, tolerance, exact):
    if not isinstance(device, torch.Tensor):
        raise MismatchError(f"{where}: a {type(device).__name__}, not a tensor")
    for name in ("dtype", "shape", "layout"):
        expected, actual = getattr(cpu, name), getattr(device, name)
        if expected != actual:
            raise MismatchError(f"{where}: {name} {actual}, CPU gives {expected}")
    if cpu.device.type == "cpu" and device.device.type != DEVICE:
        raise MismatchError(f"{where}: on {device.device}")
    if not values:
        device.cpu()
        return
    actual, expected = device.detach().cpu(), cpu.detach()
    if expected.dtype == torch.complex32:  # the CPU has no comparison for it
        actual, expected = actual.to(torch.complex64), expected.to(torch.complex64)
    if torch.equal(actual, expected):
        return
    if tolerance is None or not (cpu.dtype.is_floating_point or cpu.dtype.is_complex):
        tolerance = {}
    try:
        torch.testing.assert_close(
            actual,
            expected,
            equal_nan=True,
            msg=lambda text: f"{where}: {text}",
            **tolerance,
        )
    except AssertionError:
        if expected.dtype != torch.float32 or not _as_exact_as_the_cpu(actual, expected, exact()):
            raise


def _pick(exact, i):
    """Leaf `i` of the exact result; None where there is none."""
    if exact is None:
        return None
    try:
        return tree_flatten(exact())[0][i]
    except Exception:  # not every operation takes double precision
        return None


def compare(cpu, device, *, values=True, tolerance=None, where="result", exact=None):
    """Raises unless the device's result equals the CPU's: structure, dtypes, shapes, values.

    `exact()`, if given, is the result in double precision: float32 values beyond the tolerance are
    right if the CPU's are as far from it.
    """
    expected, expected_spec = tree_flatten(cpu)
    actual, actual_spec = tree_flatten(device)
    if expected_spec != actual_spec:
        raise MismatchError(f"{where}: structure {actual_spec}, CPU gives {expected_spec}")
    for i, (e, a) in enumerate(zip(expected, actual, strict=True)):
        name = where if len(expected) == 1 else f"{where}[{i}]"
        if isinstance(e, torch.Tensor):
            _compare_tensor(name, e, a, values, tolerance, functools.partial(_pick, exact, i))
        elif isinstance(e, torch.device):
            if a.type != DEVICE:
                raise MismatchError(f"{name}: {a}")
        elif isinstance(e, (bool, int, float, complex)):
            if values:
                torch.testing.assert_close(a, e, equal_nan=True, **(tolerance or {}))
        elif values and type(e) is not type(a):
            raise MismatchError(f"{name}: {a!r}, CPU gives {e!r}")


def compare_aliasing(cpu_input, cpu_result, device_input, device_result):
    """Raises unless the device's result is a view of its input exactly when the CPU's is."""
    inputs = list(zip(tree_flatten(cpu_input)[0], tree_flatten(device_input)[0], strict=True))
    results = zip(tree_flatten(cpu_result)[0], tree_flatten(device_result)[0], strict=True)
    for i, (cpu, device) in enumerate(results):
        if not isinstance(cpu, torch.Tensor) or cpu.numel() == 0:
            continue
        for cpu_in, device_in in inputs:
            if not isinstance(cpu_in, torch.Tensor) or cpu_in.numel() == 0:
                continue
            expected, actual = _same_storage(cpu, cpu_in), _same_storage(device, device_in)
            if expected != actual:
                raise MismatchError(
                    f"result[{i}]: {'a view' if actual else 'not a view'} of its input, "
                    f"CPU gives {'one' if expected else 'none'}"
                )
            if expected and (cpu.stride(), cpu.storage_offset()) != (
                device.stride(),
                device.storage_offset(),
            ):
                raise MismatchError(
                    f"result[{i}]: strides {device.stride()}, offset {device.storage_offset()}, "
                    f"CPU gives {cpu.stride()}, {cpu.storage_offset()}"
                )
