"""Elements in the order of their size."""

from __future__ import annotations

from math import inf, nan

import numpy as np

from ansor.errors import ExpressionError
from ansor.frontend.graph import Array
from ansor.frontend.operators.operator import Kind, Operator
from ansor.ir.dtypes import is_float
from ansor.ir.ops import highest, lowest
from ansor.te import functions as f
from ansor.te import reduction
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Scalar, Value

SHORT = 1024  # elements that are compared at once: fewer stages compile faster

Places = tuple[Value, ...]


def topk(
    x: Tensor, k: int, axis: int, largest: bool = True, sorted: bool = True
) -> tuple[Tensor, Tensor]:
    """The k greatest (or least) elements in order, and where they are (int64).

    Of equal ones the first comes first; NaN is greater than everything. The rank of
    an element is the number of better ones, so all of them take n² comparisons; of
    few, first the best of each block are found.
    """
    n = x.shape[axis]
    if not 1 <= k <= n:
        raise ExpressionError("topk", f"k = {k} of {n} elements")
    length = _length(n, k)
    if length >= n:
        return _ranked(x, k, axis, largest)
    return _of_blocks(x, k, axis, largest, length)


def _length(n: int, k: int) -> int:
    """Of a block, so that there is least to compare; n: of one block, as it is."""
    if n <= SHORT:
        return n
    lengths = [n, *(1 << shift for shift in range(3, n.bit_length()))]
    return min(lengths, key=lambda m: n * m + (_kept(n, k, m) if m < n else 0) ** 2)


def _kept(n: int, k: int, length: int) -> int:
    """How many elements are left if only the best of each block are."""
    return -(-n // length) * min(k, length)


def _of_blocks(
    x: Tensor, k: int, axis: int, largest: bool, length: int
) -> tuple[Tensor, Tensor]:
    n, each = x.shape[axis], min(k, length)
    count = -(-n // length)
    before, after = x.shape[:axis], x.shape[axis + 1 :]

    def cut(*i: Value) -> Value:
        at = i[axis] * length + i[axis + 1]
        found = x[(*i[:axis], at, *i[axis + 2 :])]
        if count * length == n:
            return found
        return f.select(at < n, found, f.cast(_worst(x.dtype, largest), x.dtype))

    blocks = compute((*before, count, length, *after), cut, name="topk_blocks")
    bests, places = _ranked(blocks, each, axis + 1, largest)

    def flat(tensor: Tensor, i: Places) -> Value:
        block, rank = i[axis] // each, i[axis] % each
        return tensor[(*i[:axis], block, rank, *i[axis + 1 :])]

    # In this order equal elements still follow each other by their places.
    shape = (*before, count * each, *after)
    left = compute(shape, lambda *i: flat(bests, i), name="topk_left")
    values, ranks = _ranked(left, k, axis, largest)

    def place(*i: Value) -> Value:
        at = _clamped(ranks[i], count * each)
        start = f.cast(at // each, "int64") * length
        return start + flat(places, (*i[:axis], at, *i[axis + 1 :]))

    return values, compute(values.shape, place, name="topk_places")


def _worst(dtype: str, largest: bool) -> float | int | bool:
    """What comes last, after equal ones before it."""
    if is_float(dtype):
        return -inf if largest else nan
    if dtype == "bool":
        return not largest
    return lowest(dtype) if largest else highest(dtype)


def _ranked(x: Tensor, k: int, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    n = x.shape[axis]
    other = reduction.reduce_axis(n, "other")

    def better(*i: Value) -> Scalar:
        mine, its = x[i], x[(*i[:axis], other, *i[axis + 1 :])]
        wins = _precedes(its, mine, largest)
        tied = ~_precedes(mine, its, largest) & (other < i[axis])
        return reduction.sum(f.cast(wins | tied, "int32"), axis=other)

    rank = compute(x.shape, better, name="topk_rank")
    at = reduction.reduce_axis(n, "at")
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])

    def find(*i: Value) -> Scalar:
        own = rank[(*i[:axis], at, *i[axis + 1 :])]
        hit = own == f.cast(i[axis], "int32")
        return reduction.sum(f.select(hit, at, 0), axis=at)

    places = compute(shape, find, name="topk_indices")
    values = compute(
        shape,
        lambda *i: x[(*i[:axis], _clamped(places[i], n), *i[axis + 1 :])],
        name="topk_values",
    )
    return values, places


def _clamped(place: Value, extent: int) -> Value:
    """For the schedule's bounds: places are always inside."""
    return f.clip(place, 0, extent - 1)


def _precedes(a: Value, b: Value, largest: bool) -> Value:
    if a.dtype == "bool":
        a, b = f.cast(a, "int8"), f.cast(b, "int8")
    first = a > b if largest else a < b
    if not is_float(a.dtype):
        return first
    odd, even = (a, b) if largest else (b, a)
    return first | (f.isnan(odd) & ~f.isnan(even))


def _topk_values(
    x: Array, k: int, axis: int, largest: bool = True, sorted: bool = True
) -> tuple[Array, Array]:
    wide = x.astype(np.float64) if is_float(str(x.dtype)) else x
    if largest:  # equal ones stay in order when both their order and places turn
        places = np.flip(np.argsort(np.flip(wide, axis), axis, kind="stable"), axis)
        places = x.shape[axis] - 1 - places
    else:
        places = np.argsort(wide, axis, kind="stable")
    kept = np.take(places, np.arange(k), axis).astype(np.int64)
    return np.take_along_axis(x, kept, axis), kept


OPERATORS = (Operator("topk", topk, Kind.REDUCTION, _topk_values),)
