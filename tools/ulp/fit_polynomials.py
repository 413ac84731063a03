# SPDX-License-Identifier: Apache-2.0
"""Fits the polynomials of the generated math functions and prints them as a C++ header.

    python tools/ulp/fit_polynomials.py > csrc/neuron/host/codegen/polynomials.h

Each polynomial is the least-squares fit at Chebyshev nodes, with 50 digits. Coefficients of float
polynomials are rounded one after the other, lowest first, and the rest is fitted again after each
rounding. The relative error that is printed with each table is that of the rounded polynomial,
evaluated exactly.
"""

import struct
import sys

from mpmath import (
    asin,
    atan,
    atanh,
    cos,
    erf,
    erfc,
    erfinv,
    exp,
    findroot,
    log,
    lu_solve,
    matrix,
    mp,
    mpf,
    pi,
    sin,
    sqrt,
)

mp.dps = 50


def to_f32(v):
    return mpf(struct.unpack("f", struct.pack("f", float(v)))[0])


def to_f64(v):
    return mpf(float(v))


def nodes(lo, hi, count):
    mid, half = (mpf(lo) + mpf(hi)) / 2, (mpf(hi) - mpf(lo)) / 2
    return [mid + half * cos(pi * (2 * k + 1) / (2 * count)) for k in range(count)]


def interpolate(f, lo, hi, fixed, count):
    """The last `count` coefficients of P(u) = sum fixed[k] u^k + u^len(fixed) Q(u)."""
    points = nodes(lo, hi, 2 * (len(fixed) + count))
    a, b = matrix(len(points), count), matrix(len(points), 1)
    for i, u in enumerate(points):
        b[i] = f(u) - sum(c * u**k for k, c in enumerate(fixed))
        for j in range(count):
            a[i, j] = u ** (j + len(fixed))
    return list(lu_solve(a, b))


def fit(f, lo, hi, degree, rounding):
    fixed = []
    while len(fixed) <= degree:
        rest = interpolate(f, lo, hi, fixed, degree + 1 - len(fixed))
        fixed.append(rounding(rest[0]))
    return fixed


def emit(name, what, f, lo, hi, degree, single, whole=None):
    """P(u) ~ f(u) on [lo, hi]; `whole(u, p)` is the relative error of the function built from p."""
    c = fit(f, lo, hi, degree, to_f32 if single else to_f64)
    worst = mpf(0)
    for k in range(2001):
        u = mpf(lo) + (mpf(hi) - mpf(lo)) * k / 2000
        p = sum(v * u**j for j, v in enumerate(c))
        e = abs(whole(u, p)) if whole else abs(p / f(u) - 1)
        worst = max(worst, e)
    kind, digits = ("float", 9) if single else ("double", 17)
    print(f"// {what}; relative error {float(worst):.1e}.")
    suffix = "f" if single else ""
    body = ", ".join(f"{float(v):.{digits}g}{suffix}" for v in c)
    body = ", ".join(
        t if ("." in t or "e" in t) else t.replace("f", "") + ".0" + suffix
        for t in body.split(", ")
    )
    line, lines = "   ", []
    for t in body.split(", "):
        if len(line) + len(t) + 2 > 100:
            lines.append(line)
            line = "   "
        line += " " + t + ","
    lines.append(line)
    print(f"inline constexpr {kind} k{name}[] = {{\n" + "\n".join(lines).rstrip(",") + "};\n")
    print(f"{name}: {float(worst):.2e}", file=sys.stderr)


def series(f, at_zero):
    """f with its removable singularity at 0 filled in."""
    return lambda u: f(u) if abs(u) > mpf(10) ** -20 else mpf(at_zero)


def emit_powers():
    """2^k mod 2 pi, split so that the product of a 24-bit integer with the high part is exact."""
    high, low = [], []
    with mp.workdps(120):
        for k in range(105):
            v = mpf(2) ** k % (2 * pi)
            h = mp.floor(v * 2**26) / 2**26
            high.append(float(h))
            low.append(float(v - h))
    print("// 2^k mod 2 pi for 0 <= k <= 104: high parts of at most 29 bits, and the rest.")
    for name, table in (("PowerMod2PiHigh", high), ("PowerMod2PiLow", low)):
        rows = [", ".join(f"{v:.17g}" for v in table[k : k + 4]) for k in range(0, 105, 4)]
        print(f"inline constexpr double k{name}[] = {{\n    " + ",\n    ".join(rows) + "};\n")


def main():
    print("// SPDX-License-Identifier: Apache-2.0\n//")
    print("// Polynomials of the generated math functions, lowest coefficient first.")
    print("// Written by tools/ulp/fit_polynomials.py.\n#pragma once\n")
    print("namespace neuron::codegen {\n// clang-format off\n")
    h = log(2) / 2
    emit(
        "Exp32",
        "(exp(r) - 1 - r) / r^2, |r| <= ln(2)/2",
        series(lambda r: (exp(r) - 1 - r) / r**2, 0.5),
        -h,
        h,
        4,
        True,
        lambda r, p: (1 + r + r * r * p) / exp(r) - 1,
    )
    e1 = mpf("0.921875")
    emit(
        "Erf32",
        "erf(x)/x - 1 in x^2, |x| < 0.921875",
        lambda u: erf(sqrt(u)) / sqrt(u) - 1,
        mpf(10) ** -15,
        e1 * e1,
        6,
        True,
        lambda u, p: (1 + p) / (erf(sqrt(u)) / sqrt(u)) - 1 if u > 0 else mpf(0),
    )
    emit(
        "LogErfc32",
        "log(erfc(x)), 0.921875 <= x <= 4",
        lambda x: log(erfc(x)),
        e1,
        4,
        9,
        True,
        lambda x, p: (1 - exp(p)) / erf(x) - 1,
    )
    s2 = sqrt(mpf(2))
    emit(
        "Log32",
        "(log(1+f) - f + f^2/2) / f^3, 1+f in [sqrt(1/2), sqrt(2)]",
        series(lambda f: (log(1 + f) - f + f * f / 2) / f**3, 1 / mpf(3)),
        1 / s2 - 1,
        s2 - 1,
        8,
        True,
        lambda f, p: (f - f * f / 2 + f**3 * p) / log(1 + f) - 1 if abs(f) > 1e-9 else mpf(0),
    )
    emit(
        "Exp64",
        "(exp(r) - 1) / r, |r| <= ln(2)/2",
        series(lambda r: (exp(r) - 1) / r, 1),
        -h,
        h,
        7,
        False,
    )
    s = ((s2 - 1) / (s2 + 1)) ** 2
    emit(
        "Log64",
        "(atanh(s)/s - 1) / s^2 in s^2, |s| <= (sqrt(2)-1)/(sqrt(2)+1)",
        lambda u: (atanh(sqrt(u)) / sqrt(u) - 1) / u,
        mpf(10) ** -15,
        s,
        5,
        False,
        lambda u, p: (1 + u * p) / (atanh(sqrt(u)) / sqrt(u)) - 1 if u > 0 else mpf(0),
    )
    r = (pi / 4 * mpf("1.001")) ** 2
    emit(
        "Sin64",
        "(sin(r)/r - 1) / r^2 in r^2, |r| <= pi/4",
        lambda u: (sin(sqrt(u)) / sqrt(u) - 1) / u,
        mpf(10) ** -15,
        r,
        4,
        False,
        lambda u, p: (1 + u * p) / (sin(sqrt(u)) / sqrt(u)) - 1 if u > 0 else mpf(0),
    )
    emit(
        "Cos64",
        "(cos(r) - 1) / r^2 in r^2, |r| <= pi/4",
        lambda u: (cos(sqrt(u)) - 1) / u,
        mpf(10) ** -15,
        r,
        4,
        False,
        lambda u, p: (1 + u * p) / cos(sqrt(u)) - 1,
    )
    emit(
        "Atan64",
        "atan(x)/x in x^2, |x| <= 1",
        lambda u: atan(sqrt(u)) / sqrt(u),
        mpf(10) ** -15,
        1,
        11,
        False,
        lambda u, p: p / (atan(sqrt(u)) / sqrt(u)) - 1 if u > 0 else mpf(0),
    )
    emit(
        "Asin64",
        "asin(x)/x in x^2, |x| <= 1/2",
        lambda u: asin(sqrt(u)) / sqrt(u),
        mpf(10) ** -15,
        mpf(1) / 4,
        7,
        False,
        lambda u, p: p / (asin(sqrt(u)) / sqrt(u)) - 1 if u > 0 else mpf(0),
    )
    # erfc(x) = exp(-x^2) R((x - 2) / (x + 2)), 0 <= x <= 10.5
    top = mpf("10.5")
    emit(
        "Erfc64",
        "erfc(x) exp(x^2) in (x-2)/(x+2), 0 <= x <= 10.5",
        lambda t: erfc(2 * (1 + t) / (1 - t)) * exp((2 * (1 + t) / (1 - t)) ** 2),
        -1,
        (top - 2) / (top + 2),
        14,
        False,
    )

    # erfinv(x) = x P(w), w = -log(1 - x^2)
    def by_w(w):
        x = sqrt(1 - exp(-w))
        return inverse(x, w) / x

    def inverse(x, w):
        # erfc(y) = 1 - x without cancellation: 1 - x = exp(-w) / (1 + x)
        tail = exp(-w) / (1 + x)
        guess = erfinv(mp.mpf(min(float(x), 1 - 1e-15)))
        return findroot(lambda y: erfc(y) / tail - 1, guess) if w > mpf("0.1") else erfinv(x)

    emit(
        "ErfinvLow64",
        "erfinv(x)/x in w - 2.5, w = -log(1-x^2) < 5",
        lambda t: by_w(t + mpf("2.5")),
        mpf("-2.499999999"),
        mpf("2.5"),
        12,
        False,
    )
    emit(
        "ErfinvHigh64",
        "erfinv(x)/x in sqrt(w) - 3, 5 <= w <= 17",
        lambda t: by_w((t + 3) ** 2),
        sqrt(mpf(5)) - 3,
        sqrt(mpf(17)) - 3,
        12,
        False,
    )
    emit_powers()
    print("// clang-format on\n}  // namespace neuron::codegen")


if __name__ == "__main__":
    main()
