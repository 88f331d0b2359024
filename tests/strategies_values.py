"""Random scalar formulas whose values stay finite, with the interval they lie in."""

from dataclasses import dataclass
from random import Random

import numpy as np

import ansor
from ansor.ir.dtypes import DTYPES, is_float, is_int
from ansor.te.value import Value

FLOATS = ("float64", "float32", "float16", "bfloat16")
INTS = ("int8", "uint8", "int16", "int32", "int64")
LARGEST = 1000.0  # of a float; sums of some dozens still fit float16


@dataclass(frozen=True)
class Formula:
    """A scalar of the tensor language and bounds of its value."""

    value: Value
    low: float
    high: float

    @property
    def dtype(self) -> str:
        return self.value.dtype

    @property
    def size(self) -> float:
        return max(abs(self.low), abs(self.high))


def limits(dtype: str) -> tuple[int, int]:
    if dtype == "bool":
        return 0, 1
    info = np.iinfo(DTYPES[dtype].numpy)
    return int(info.min), int(info.max)


def bounded(value: Value, low: float, high: float) -> Formula:
    """A formula of these bounds; integers that leave their type wrap around."""
    if is_float(value.dtype):
        return Formula(value, low, high)
    least, greatest = limits(value.dtype)
    if low < least or high > greatest:
        low, high = least, greatest
    return Formula(value, low, high)


def hull(value: Value, *ends: float) -> Formula:
    return bounded(value, min(ends), max(ends))


def tame(x: Formula, largest: float = LARGEST) -> Formula:
    """A float no greater than `largest`; anything else as it is."""
    if not is_float(x.dtype) or x.size <= largest:
        return x
    return Formula(ansor.clip(x.value, -2.0, 3.0), -2.0, 3.0)


def to_float(r: Random, x: Formula, dtype: str | None = None) -> Formula:
    if is_float(x.dtype):
        return x
    if not x.size <= LARGEST:
        x = Formula(x.value % 7, 0, 6)
    return Formula(ansor.cast(x.value, dtype or r.choice(FLOATS)), x.low, x.high)


def to_number(r: Random, x: Formula) -> Formula:
    """Bools become numbers."""
    if x.dtype != "bool":
        return x
    return Formula(ansor.cast(x.value, r.choice((*INTS, *FLOATS))), 0, 1)


def unary(r: Random, x: Formula) -> Formula:
    """A random function of one formula."""
    if x.dtype == "bool":
        return _of_bool(r, x)
    if is_float(x.dtype):
        return tame(_of_float(r, x))
    return _of_int(r, x)


def _of_bool(r: Random, x: Formula) -> Formula:
    match r.randrange(3):
        case 0:
            return Formula(~x.value, 0, 1)
        case 1:
            return to_number(r, x)
        case _:
            return Formula(ansor.select(x.value, 1.5, -0.5), -0.5, 1.5)


def _of_float(r: Random, x: Formula) -> Formula:
    v, low, high = x.value, x.low, x.high
    ends = [0.0, *(e * e for e in (low, high))]
    choices: list[tuple[Value, float, float]] = [
        (-v, -high, -low),
        (ansor.abs(v), 0.0, x.size),
        (ansor.tanh(v), -1, 1),
        (ansor.sigmoid(v), 0, 1),
        (ansor.erf(v), -1, 1),
        (ansor.sin(v), -1, 1),
        (ansor.cos(v), -1, 1),
        (ansor.floor(v), low - 1, high),
        (ansor.ceil(v), low, high + 1),
        (ansor.round(v), low - 1, high + 1),
        (v**2, 0, max(ends)),
        (v * 0.25 + 1.0, low / 4 + 1, high / 4 + 1),
        (ansor.maximum(v, 0.0), max(low, 0), max(high, 0)),
        (ansor.clip(v, -1, 1), -1, 1),
        (v % 1.5, 0, 1.5),
        (v // 0.75, low / 0.75 - 1, high / 0.75 + 1),
        (ansor.select(v > 0.3, v, v * 0.5), min(low, low / 2), max(high, high / 2)),
        (ansor.select(ansor.isnan(v), 0.0, v), min(low, 0), max(high, 0)),
        (ansor.cast(v, r.choice(FLOATS)), low - 1, high + 1),
    ]
    if high <= 6:
        choices.append((ansor.exp(v), 0, 404))
    if low >= 0:
        choices.append((ansor.sqrt(v), 0, high))
    if low >= 0.125:
        logs = (min(-3.0, 0.0), max(np.log2(high), 0.0))
        choices += [(ansor.log(v), *logs), (ansor.log2(v), *logs)]
        choices += [(ansor.rsqrt(v), 0, 3), (ansor.pow(v, 0.7), 0, high + 1)]
    for dtype in INTS:
        least, greatest = limits(dtype)
        if (least < low or least == low == 0) and high < greatest:
            choices.append((ansor.cast(v, dtype), low - 1, high + 1))
            break
    return bounded(*r.choice(choices))


def _of_int(r: Random, x: Formula) -> Formula:
    v, low, high = x.value, x.low, x.high
    least, greatest = limits(x.dtype)
    n = r.choice((2, 3, 5, 8))
    choices: list[tuple[Value, float, float]] = [
        (-v, -high, -low),
        (~v, least, greatest),
        (abs(v), min(0, least if low == least else 0), x.size),
        (v // n, low // n, high // n),
        (v % n, 0, n - 1),
        (v * 3 + 1, 3 * low + 1, 3 * high + 1),
        (v << r.choice((1, 3)), least, greatest),
        (v >> r.choice((1, 2, 40)) if x.dtype == "int64" else v >> 1, least, greatest),
        (v & 6, 0, 6),
        (v**3, least, greatest),
        (ansor.maximum(v, 1), max(low, 1), max(high, 1)),
        (ansor.clip(v, 0, 6), 0, 6),
        (ansor.select(v > 2, v, 1), min(low, 1), max(high, 1)),
        (v > r.choice((0, 1, 3)), 0, 1),
        (v == r.choice((0, 1)), 0, 1),
    ]
    if r.random() < 0.2:
        dtype = r.choice(INTS)
        return bounded(ansor.cast(v, dtype), low, high)
    return bounded(*r.choice(choices)) if r.random() < 0.8 else to_float(r, x)


def binary(r: Random, a: Formula, b: Formula) -> Formula:
    """A random operator between two formulas."""
    if a.dtype == b.dtype == "bool":
        results = (a.value & b.value, a.value | b.value, a.value ^ b.value)
        return Formula(r.choice((*results, a.value == b.value)), 0, 1)
    if is_int(a.dtype) and is_int(b.dtype) and r.random() < 0.4:
        return _of_ints(r, a, b)
    a, b = to_number(r, a), to_number(r, b)
    if is_float(a.dtype) != is_float(b.dtype):
        a, b = to_float(r, a, "float32"), to_float(r, b, "float32")
    return tame(_arithmetic(r, a, b))


def _of_ints(r: Random, a: Formula, b: Formula) -> Formula:
    x, y = a.value, b.value
    value = r.choice((x // y, x % y, x & y, x | y, x ^ y, x << (y & 3), x >> (y & 7)))
    return Formula(value, *limits(value.dtype))


def _arithmetic(r: Random, a: Formula, b: Formula) -> Formula:
    x, y = a.value, b.value
    products = [p * q for p in (a.low, a.high) for q in (b.low, b.high)]
    either = (min(a.low, b.low), max(a.high, b.high))
    test = r.choice((x < y, x <= y, x != y))
    choices: list[tuple[Value, float, float]] = [
        (x + y, a.low + b.low, a.high + b.high),
        (x - y, a.low - b.high, a.high - b.low),
        (x * y, min(products), max(products)),
        (ansor.maximum(x, y), *either),
        (ansor.minimum(x, y), *either),
        (ansor.select(test, x, y), *either),
        (test, 0, 1),
    ]
    if is_float((x + y).dtype):
        choices.append((x / (ansor.abs(y) + 1.0), -a.size, a.size))
    value, low, high = r.choice(choices)
    if is_float(value.dtype):
        slack = (abs(low) + abs(high)) * 0.01  # 16-bit floats round
        return Formula(value, low - slack, high + slack)
    if is_int(value.dtype) and DTYPES[value.dtype].kind == "int":
        return bounded(value, low, high)
    return Formula(value, *limits(value.dtype))
