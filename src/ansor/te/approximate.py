"""Arrays with error bounds: the arithmetic behind the NumPy reference.

Floats of every type are float64 arrays here, integers and bools keep their type. An
`Approx` may carry the absolute error that a kernel computing in the stated types can
have; None means exact. Each rounding adds `unit(dtype, scale) * |value|`; with scale 0
nothing is tracked and only values are computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from ansor.ir.dtypes import DTYPES, is_float
from ansor.ir.ops import BINARY
from ansor.te.limits import limits

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@dataclass(frozen=True, slots=True)
class Approx:
    """Values and how far off they may be."""

    value: Array
    error: Array | None = None


def working(array: Array, dtype: str) -> Array:
    """`array`, stored as `dtype`, in the type we compute with."""
    stored = np.asarray(array, DTYPES[dtype].numpy, order="C")
    return stored.astype(np.float64) if is_float(dtype) else stored


def working_type(dtype: str) -> np.dtype[Any]:
    return np.dtype(np.float64) if is_float(dtype) else DTYPES[dtype].numpy


def unit(dtype: str, scale: float) -> float:
    """Relative error of one rounding; 0 for types that do not round."""
    if scale == 0 or not is_float(dtype):
        return 0.0
    return scale * limits(dtype).epsilon


def literal(value: int | float | bool, dtype: str) -> Approx:
    return Approx(working(np.asarray(value).astype(DTYPES[dtype].numpy), dtype))


def add_errors(*errors: Array | None) -> Array | None:
    """The sum, where None is 0; None if there is nothing."""
    total: Array | None = None
    for error in errors:
        if error is not None:
            total = error if total is None else total + error
    return total


def max_errors(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return b if a is None else a
    return np.maximum(a, b)


def rounding(value: Array, u: float) -> Array | None:
    """The error of rounding `value` once; infinities and NaN are exact."""
    if u == 0:
        return None
    return np.where(np.isfinite(value), np.abs(value) * u, 0.0)


def _unknown(error: Array | None) -> Array | None:
    """Anything may come out where the operand is uncertain."""
    return None if error is None else np.where(error > 0, np.inf, 0.0)


def _scaled(factor: Array, error: Array | None) -> Array | None:
    return None if error is None else np.abs(factor) * error


def binary(op: str, a: Approx, b: Approx, u: float) -> Approx:
    """`a op b`; u is the rounding unit of the result's type."""
    value = BINARY[op].numpy(a.value, b.value)
    if a.error is None and b.error is None and u == 0:
        return Approx(value)
    return Approx(value, _binary_error(op, a, b, value, u))


def _binary_error(op: str, a: Approx, b: Approx, v: Array, u: float) -> Array | None:
    match op:
        case "add" | "sub":
            return add_errors(a.error, b.error, rounding(v, u))
        case "mul":
            cross = None
            if a.error is not None and b.error is not None:
                cross = a.error * b.error
            parts = (_scaled(a.value, b.error), _scaled(b.value, a.error))
            return add_errors(*parts, cross, rounding(v, u))
        case "min" | "max":
            return max_errors(a.error, b.error)
        case "lt" | "le" | "eq" | "ne":
            return _doubt(a, b)
        case "div":
            return add_errors(_quotient_error(a, b, v), rounding(v, u))
        case "mod" if u > 0:
            return _modulo_error(a, b, v, u)
        case "pow":
            return _power_error(a, b, v, u)
        case "and" | "or" | "xor" if v.dtype == np.bool_:
            return max_errors(a.error, b.error)
        case _:
            return _unknown(add_errors(a.error, b.error))


def _doubt(a: Approx, b: Approx) -> Array | None:
    """1 where a comparison could come out either way."""
    total = add_errors(a.error, b.error)
    if total is None:
        return None
    gap = np.abs(np.subtract(a.value, b.value, dtype=np.float64))
    near = gap <= total
    return np.where(near & (total > 0), 1.0, 0.0)


def _quotient_error(a: Approx, b: Approx, v: Array) -> Array | None:
    if b.error is None:
        return None if a.error is None else a.error / np.abs(b.value)
    room = np.abs(b.value) - b.error
    top = b.error * np.abs(v) + (0 if a.error is None else a.error)
    return np.where(room > 0, top / room, np.where(top > 0, np.inf, 0.0))


def _modulo_error(a: Approx, b: Approx, v: Array, u: float) -> Array:
    size = np.abs(b.value)
    own = u * np.abs(a.value) + (0 if a.error is None else a.error)
    own = own + (0 if b.error is None else b.error * np.abs(a.value) / size)
    jumps = (np.abs(v) <= own) | (size - np.abs(v) <= own)
    return own + np.where(jumps, size, 0.0)


def _power_error(a: Approx, b: Approx, v: Array, u: float) -> Array:
    ea = 0.0 if a.error is None else a.error
    eb = 0.0 if b.error is None else b.error
    spread = np.zeros(())
    for x in (a.value - ea, a.value + ea):
        for y in (b.value - eb, b.value + eb):
            spread = np.fmax(spread, np.abs(np.power(x, y) - v))
    steps = 1 + np.abs(b.value * np.log(np.abs(a.value)))
    own = np.where(np.isfinite(v) & np.isfinite(steps), steps * np.abs(v) * u, 0.0)
    return spread + own


def select(condition: Approx, a: Approx, b: Approx) -> Approx:
    """`a` where the condition holds, else `b`; the difference where it is in doubt."""
    value = np.where(condition.value, a.value, b.value)
    if a.error is None and b.error is None and condition.error is None:
        return Approx(value)
    ea = np.zeros(()) if a.error is None else a.error
    eb = np.zeros(()) if b.error is None else b.error
    error = np.where(condition.value, ea, eb)
    if condition.error is not None:
        gap = np.abs(np.subtract(a.value, b.value, dtype=np.float64))
        either = np.maximum(ea, eb) + gap
        error = np.where(condition.error > 0, either, error)
    return Approx(value, error)


def _sigmoid(x: Array) -> Array:
    return np.where(x < 0, np.exp(np.minimum(x, 0)), 1.0) / (1.0 + np.exp(-np.abs(x)))


_ERF_STEP = 1 / 64
_ERF_TABLE = np.array([math.erf(n * _ERF_STEP) for n in range(6 * 64 + 1)])


def _erf(x: Array) -> Array:
    """Taylor's series around the nearest point of a table; about 1e-16 off."""
    size = np.minimum(np.abs(x), 6.0)
    nearest = np.nan_to_num(np.rint(size / _ERF_STEP)).astype(np.int64)
    p = nearest * _ERF_STEP
    h = size - p
    # Derivative n+1 of erf is (-1)**n * hermite(n) * slope.
    slope = 2 / math.sqrt(math.pi) * np.exp(-p * p)
    total, term = _ERF_TABLE[nearest], slope * h
    before, hermite = np.zeros_like(p), np.ones_like(p)
    for n in range(1, 9):
        total = total + hermite * term
        before, hermite = hermite, 2 * p * hermite - 2 * (n - 1) * before
        term = term * -h / (n + 1)
    result: Array = np.copysign(total, x)
    return result


VALUES: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "not": np.invert,
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "erf": _erf,
    "sin": np.sin,
    "cos": np.cos,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "isnan": np.isnan,
}

_EXACT = ("neg", "not", "abs", "isnan")  # no rounding; errors pass through
_STEPS = ("floor", "ceil", "round")  # no rounding; errors may jump


def call(function: str, x: Approx, u: float) -> Approx:
    """`function(x)`; u is the rounding unit of the result's type."""
    f = VALUES[function]
    value = f(x.value)
    if function == "isnan" or function in _EXACT:
        return Approx(value, None if function == "isnan" else x.error)
    if function in ("sin", "cos"):
        extra = None if u == 0 else u * np.minimum(1.0, np.abs(x.value))
        return Approx(value, add_errors(x.error, extra, rounding(value, u)))
    own = None if function in _STEPS else rounding(value, u)
    return Approx(value, add_errors(_spread(f, x, value), own))


def _spread(f: Callable[[Array], Array], x: Approx, value: Array) -> Array | None:
    """How far a monotonic function moves within the error of its operand."""
    if x.error is None:
        return None
    above, below = f(x.value + x.error), f(x.value - x.error)
    moved = np.fmax(np.abs(above - value), np.abs(below - value))
    return np.where((above == value) & (below == value), 0.0, moved)  # inf - inf is nan


def cast(x: Approx, source: str, dtype: str, scale: float) -> Approx:
    """`x` of type `source` as `dtype`, like NumPy's astype."""
    if dtype == "bool":
        doubt = (
            None if x.error is None else np.where(np.abs(x.value) <= x.error, 1.0, 0)
        )
        return Approx(x.value != 0, doubt)
    if is_float(dtype):
        value = x.value.astype(DTYPES[dtype].numpy).astype(np.float64)
        own = None if x.error is None else rounding(value, unit(dtype, scale))
        return Approx(value, add_errors(x.error, own))
    value = _to_int(x.value, dtype)
    if not is_float(source):
        return Approx(value, x.error)
    return Approx(value, _spread(np.trunc, x, np.trunc(x.value)))


def _to_int(value: Array, dtype: str) -> Array:
    """Truncate, then wrap around as integers do."""
    if value.dtype.kind == "f":
        value = value.astype(np.int64)
    return value.astype(DTYPES[dtype].numpy)
