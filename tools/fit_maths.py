"""Fit the polynomials of `ansor.codegen.maths`: prints `coefficients.py`.

    python tools/fit_maths.py > src/ansor/codegen/maths/coefficients.py

Needs mpmath. Deterministic: a Remez exchange in 60 digits finds the polynomial, or
the quotient of two, of least `weight(x) * |polynomial(x) - f(x)|`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from mpmath import (
    cos,
    erf,
    erfc,
    exp,
    floor,
    inf,
    log,
    log1p,
    lu_solve,
    matrix,
    mp,
    mpf,
    pi,
    sin,
)

mp.dps = 60
GRID = 400  # points per fit on which the error is searched
SHARE = mpf("2.0625")  # of the numerator of erf in its denominator
FACTOR = mpf("1.7145")  # of both; of many, all rounding errors were smallest with it
Real = Callable[[mpf], mpf]


@dataclass(frozen=True)
class Fit:
    """One row: `f` on [low, high], accurate where `weight` is large."""

    name: str
    f: Real
    weight: Real
    low: float
    high: float
    degree: int
    bits: int = 64  # width of the float the coefficients are rounded to
    below: int = 0  # degree of the denominator; written is its rest over SHARE * top


def value(coefficients: list[mpf], x: mpf) -> mpf:
    result = mpf(0)
    for c in reversed(coefficients):
        result = result * x + c
    return result


@dataclass(frozen=True)
class Found:
    """Coefficients, lowest power first, and the largest weighted error."""

    top: list[mpf]
    below: list[mpf]
    error: mpf


def remez(fit: Fit, rounds: int = 20) -> Found:
    low, high = mpf(fit.low), mpf(fit.high)
    count = fit.degree + fit.below + 2
    grid = [(low + high - (high - low) * cos(pi * (i + 0.5) / GRID)) / 2
            for i in range(GRID)]  # fmt: skip
    exact = [fit.f(x) for x in grid]
    weights = [abs(fit.weight(x)) for x in grid]
    nodes = [round(i * (GRID - 1) / (count - 1)) for i in range(count)]
    scales = [mpf(1)] * GRID  # the denominator of the round before
    best = Found([], [], inf)
    for _ in range(rounds):
        rows = [equation(fit, grid[n], exact[n], (-1) ** i * scales[n] / weights[n])
                for i, n in enumerate(nodes)]  # fmt: skip
        found = list(lu_solve(matrix(rows), matrix([exact[n] for n in nodes])))
        top, below = found[: fit.degree + 1], [mpf(1), *found[fit.degree + 1 : -1]]
        scales = [value(below, x) for x in grid]
        points = zip(grid, exact, weights, scales, strict=True)
        errors = [w * (value(top, x) / q - f) for x, f, w, q in points]
        worst = max(abs(e) for e in errors)
        if worst < best.error:
            best = Found(top, below, worst)
        nodes = exchange(errors, count) or nodes
    return best


def written_quotient(fit: Fit, found: Found) -> str:
    """top and rest, where the denominator is SHARE * top + rest."""
    top = [mpf(rounded(FACTOR * c, fit.bits)) for c in found.top]
    below = [FACTOR * c for c in found.below]
    rest = [b - SHARE * t for b, t in zip(below, top, strict=True)]
    return written(fit.name, top, fit.bits) + written(
        f"{fit.name}_REST", rest, fit.bits
    )


def rounded(number: mpf, bits: int) -> float:
    kind = np.float32 if bits == 32 else np.float64
    return float(kind(mp.nstr(number, 40)))


def equation(fit: Fit, x: mpf, exact: mpf, error: mpf) -> list[mpf]:
    """top(x) - exact * (below(x) - 1) + error = exact, linear in the unknowns."""
    top = [x**k for k in range(fit.degree + 1)]
    return [*top, *(-exact * x**k for k in range(1, fit.below + 1)), error]


def exchange(errors: list[mpf], count: int) -> list[int]:
    """Where the largest errors of alternating sign are; empty if too few."""
    peaks: list[int] = []
    for i, e in enumerate(errors):
        if peaks and (e > 0) == (errors[peaks[-1]] > 0):
            if abs(e) > abs(errors[peaks[-1]]):
                peaks[-1] = i
        else:
            peaks.append(i)
    while len(peaks) > count:
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    return peaks if len(peaks) == count else []


LN2 = log(2)
NEAR = mpf(10) ** -9  # stands for zero where a quotient has a removable hole


def whole(x: mpf) -> mpf:
    return x if abs(x) > NEAR else NEAR


def expm1_tail(x: mpf) -> mpf:
    """exp(x) = 1 + x + x^2 * tail"""
    x = whole(x)
    return (exp(x) - 1 - x) / x**2


def log1p_tail(x: mpf) -> mpf:
    """log(1 + x) = x + x^2 * tail"""
    x = whole(x)
    return (log1p(x) - x) / x**2


def log2_tail(x: mpf) -> mpf:
    """log2(1 + x) = x + x * tail"""
    x = whole(x)
    return log1p(x) / LN2 / x - 1


def atanh_series(z: mpf, skip: int) -> mpf:
    """atanh(s) / s without its first terms; in z = s^2, divided by z^skip."""
    return sum(z ** (k - skip) / (2 * k + 1) for k in range(skip, 60 + skip))


def sin_tail(z: mpf) -> mpf:
    """sin(r) = r + r * z * tail, z = r^2"""
    r = whole(z) ** 0.5
    return (sin(r) / r - 1) / whole(z)


def cos_tail(z: mpf) -> mpf:
    """cos(r) = 1 - z / 2 + z^2 * tail, z = r^2"""
    z = whole(z)
    return (cos(z**0.5) - 1 + z / 2) / z**2


def erfc_tail(x: mpf) -> mpf:
    """1 - erf(x) = exp(x * (tail - 9/8)); 9/8 is near the slope at 0"""
    return log(erfc(whole(x))) / whole(x) + mpf(9) / 8


def erf_weight(x: mpf) -> mpf:
    """Turns an error of `erfc_tail` into the relative error of erf."""
    return whole(x) * erfc(x) / erf(whole(x))


def erf_slope(z: mpf) -> mpf:
    """erf(x) / x, z = x^2"""
    x = whole(z) ** 0.5
    return erf(x) / x


def erf_slope_weight(z: mpf) -> mpf:
    return 1 / erf_slope(z)


def square(x: mpf) -> mpf:
    return whole(x) ** 2


def exp_weight(x: mpf) -> mpf:
    return square(x) / exp(x)


def log_weight(x: mpf) -> mpf:
    return square(x) / log1p(whole(x))


def log2_weight(x: mpf) -> mpf:
    return whole(x) / log1p(whole(x))


def one(x: mpf) -> mpf:
    return mpf(1)


def exp2_tail(x: mpf) -> mpf:
    """2^x = 1 + x * tail"""
    return (mpf(2) ** whole(x) - 1) / whole(x)


ROOT = float(2**0.5)
ATANH_END = float(((ROOT - 1) / (ROOT + 1)) ** 2) * 1.0001
QUARTER = float(pi / 4) ** 2 * 1.001

FITS = (
    # |r| <= ln 2 in exp, half of it in expm1: see exponential.py
    Fit("EXP32", expm1_tail, exp_weight, -0.6935, 0.694, 5, bits=32),
    Fit("EXP64", expm1_tail, exp_weight, -0.6935, 0.694, 11),
    Fit("EXPM1_32", expm1_tail, whole, -0.348, 0.3481, 4, bits=32),
    Fit("EXPM1_64", expm1_tail, whole, -0.348, 0.3481, 9),
    Fit("LOG32", log1p_tail, log_weight, -0.3334, 0.3335, 7, bits=32),
    Fit("LOG2_32", log2_tail, log2_weight, -0.3334, 0.3335, 8, bits=32),
    Fit("ATANH64", lambda z: 2 * atanh_series(z, 1), whole, 0, ATANH_END, 6),
    Fit("SIN32", sin_tail, whole, 0, QUARTER, 2, bits=32),
    Fit("SIN64", sin_tail, whole, 0, QUARTER, 5),
    Fit("COS32", cos_tail, square, 0, QUARTER, 2, bits=32),
    Fit("COS64", cos_tail, square, 0, QUARTER, 5),
    Fit("ERF32", erf_slope, erf_slope_weight, 0, 3.95**2, 5, bits=32, below=5),
    Fit("ERF64", erfc_tail, erf_weight, 0, 6, 23),
    Fit("POW32_LOG2", lambda z: 2 / LN2 * atanh_series(z, 0), one, 0, ATANH_END, 5),
    Fit("POW32_EXP2", lambda x: mpf(2) ** x, one, -0.5001, 0.5, 7),
    Fit("POW64_LOG", lambda z: atanh_series(z, 2), square, 0, ATANH_END, 7),
    Fit("POW64_EXP2", exp2_tail, whole, -0.5001, 0.5, 10),
)

# name, value, bits of each part but the last (so that a product with a small
# integer is exact), number of parts, width of the float
SPLITS = (
    ("LN2_32", LN2, 16, 2, 32),
    ("LN4_32", 2 * LN2, 16, 2, 32),
    ("LN2_64", LN2, 41, 2, 64),
    ("LN4_64", 2 * LN2, 41, 2, 64),
    ("HALF_PI", pi / 2, 33, 3, 64),
    ("THIRD", mpf(1) / 3, 53, 2, 64),
    ("TWO_LOG2E", 2 / LN2, 53, 2, 64),
)


def split(number: mpf, bits: int, parts: int) -> list[mpf]:
    """Parts that add up to `number`, the first ones of `bits` bits each."""
    result = []
    for _ in range(parts - 1):
        unit = mpf(2) ** (floor(log(number) / LN2) + 1 - bits)
        result.append(floor(number / unit) * unit)
        number -= result[-1]
    return [*result, number]


def written(name: str, coefficients: list[mpf], bits: int) -> str:
    numbers = [rounded(c, bits) for c in coefficients]
    lines = "".join(f"    {number!r},\n" for number in numbers)
    return f"{name} = (\n{lines})\n"


def main() -> None:
    print('"""Written by tools/fit_maths.py; lowest power first."""\n')
    for name, number, bits, parts, width in SPLITS:
        print(written(name, split(number, bits, parts), width), end="")
    for fit in FITS:
        found = remez(fit)
        print(f"# weighted error 2**{float(log(found.error) / LN2):.1f}")
        if fit.below:
            print(written_quotient(fit, found), end="")
        else:
            print(written(fit.name, found.top, fit.bits), end="")


if __name__ == "__main__":
    main()
