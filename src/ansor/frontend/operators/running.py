"""Running sums and products along an axis.

The tensor language has no loop that carries a value along, so elements are combined
anew for each one, but in two levels: within blocks, and of the blocks before. That
takes n·√n operations instead of n².
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

import numpy as np

from ansor.errors import ExpressionError
from ansor.frontend.graph import Array
from ansor.frontend.operators.operator import Kind, Operator
from ansor.frontend.operators.reduction import working
from ansor.ir.dtypes import is_float
from ansor.te import functions as f
from ansor.te import reduction
from ansor.te.ops.elementwise import each
from ansor.te.ops.reduce import Reduce
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Scalar, Value

SHORT = 64  # elements that are combined in one level

Places = tuple[Value, ...]
Taken = Callable[[Value, Value], Value]  # whether element k counts for element i


def cumsum(x: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    """Sums of the elements up to each one along an axis."""
    return _running(x, axis, exclusive, reverse, reduction.sum, 0)


def cumprod(x: Tensor, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    """Products of the elements up to each one along an axis."""
    return _running(x, axis, exclusive, reverse, reduction.prod, 1)


def _running(
    x: Tensor, axis: int, exclusive: bool, reverse: bool, combine: Reduce, unit: int
) -> Tensor:
    if x.dtype == "bool":
        raise ExpressionError("running sum", "of bool", "cast it first")

    def precedes(k: Value, i: Value) -> Value:
        return k > i if reverse else k < i

    def taken(k: Value, i: Value) -> Value:
        return precedes(k, i) if exclusive else ~precedes(i, k)

    if x.shape[axis] <= SHORT:
        found = _in_one(x, axis, taken, combine, unit)
    else:
        found = _in_two(x, axis, taken, precedes, combine, unit)
    if found.dtype == x.dtype:
        return found
    return each(found, lambda v: f.cast(v, x.dtype), "running_rounded")


def _in_one(x: Tensor, axis: int, taken: Taken, combine: Reduce, unit: int) -> Tensor:
    k, wide = reduction.reduce_axis(x.shape[axis], "k"), working(x.dtype)

    def body(*i: Value) -> Scalar:
        element = f.cast(x[(*i[:axis], k, *i[axis + 1 :])], wide)
        return combine(f.select(taken(k, i[axis]), element, unit), [k])

    return compute(x.shape, body, name="running")


def _in_two(
    x: Tensor,
    axis: int,
    taken: Taken,
    precedes: Taken,
    combine: Reduce,
    unit: int,
) -> Tensor:
    n, wide = x.shape[axis], working(x.dtype)
    length = _length(n)
    count = -(-n // length)
    before, after = x.shape[:axis], x.shape[axis + 1 :]

    def element(i: Places, block: Value, k: Value, rest: Places) -> Value:
        """Element k of a block; the last one may be shorter."""
        at = block * length + k
        found = f.cast(x[(*i, at, *rest)], wide)
        return found if count * length == n else f.select(at < n, found, unit)

    def inside(*i: Value) -> Scalar:
        k = reduction.reduce_axis(length, "k")
        one = element(i[:axis], i[axis], k, i[axis + 2 :])
        return combine(f.select(taken(k, i[axis + 1]), one, unit), [k])

    def whole(*i: Value) -> Scalar:
        k = reduction.reduce_axis(length, "k")
        return combine(element(i[:axis], i[axis], k, i[axis + 1 :]), [k])

    def ahead(*i: Value) -> Scalar:
        block = reduction.reduce_axis(count, "block")
        one = totals[(*i[:axis], block, *i[axis + 1 :])]
        return combine(f.select(precedes(block, i[axis]), one, unit), [block])

    def both(*i: Value) -> Value:
        block, k = i[axis] // length, i[axis] % length
        own = within[(*i[:axis], block, k, *i[axis + 1 :])]
        return joined(own, others[(*i[:axis], block, *i[axis + 1 :])])

    def joined(a: Value, b: Value) -> Value:
        return a * b if unit else a + b

    within = compute((*before, count, length, *after), inside, name="running_within")
    totals = compute((*before, count, *after), whole, name="running_totals")
    others = compute((*before, count, *after), ahead, name="running_others")
    return compute(x.shape, both, name="running")


def _length(n: int) -> int:
    """Of a block: near the root, and a divisor if there is one."""
    root = isqrt(n)
    near = sorted(range(root // 2 + 1, 2 * root), key=lambda m: abs(m - root))
    return next((m for m in near if n % m == 0), root)


def _running_values(ufunc: np.ufunc) -> Callable[..., Array]:
    """The same by NumPy, which takes n operations."""

    def evaluate(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
        wide = x.astype(np.float64) if is_float(str(x.dtype)) else x
        turned = np.flip(wide, axis) if reverse else wide
        if exclusive:
            turned = np.roll(turned, 1, axis)
            np.moveaxis(turned, axis, 0)[:1] = ufunc.identity
        found = ufunc.accumulate(turned, axis, dtype=wide.dtype)
        return (np.flip(found, axis) if reverse else found).astype(x.dtype)

    return evaluate


OPERATORS = (
    Operator("cumsum", cumsum, Kind.REDUCTION, _running_values(np.add)),
    Operator("cumprod", cumprod, Kind.REDUCTION, _running_values(np.multiply)),
)
