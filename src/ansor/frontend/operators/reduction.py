"""Reductions along axes.

Sums of 16-bit floats are made in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from ansor.errors import ExpressionError
from ansor.frontend.graph import Array
from ansor.frontend.graph import Value as Typed
from ansor.frontend.operators.operator import Kind, Operator, Type
from ansor.ir.dtypes import DTYPES, is_float
from ansor.ir.ops import highest, lowest
from ansor.te import functions as f
from ansor.te import reduction
from ansor.te.ops.elementwise import each
from ansor.te.ops.reduce import Reduce, reduced
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Scalar, Value

Element = Callable[[Value], Value]

KINDS = (
    "sum", "mean", "max", "min", "prod", "any", "all",
    "l1", "l2", "log_sum", "log_sum_exp", "sum_square",
)  # fmt: skip
_EMPTY = {"mean": "nan", "log_sum": "-inf", "log_sum_exp": "-inf"}


def working(dtype: str) -> str:
    """The float type that sums of a float type are made in."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def _same(x: Value) -> Value:
    return x


def reduce(x: Tensor, kind: str, axes: Sequence[int], keepdims: bool) -> Tensor:
    """One of KINDS over some axes. Means, logarithms and roots of integers are made in
    float64 and truncated; "max" and "min" of bool are "any" and "all"."""
    _check_kind(kind, x.dtype)
    if kind == "log_sum_exp":
        return _log_sum_exp(x, axes, keepdims)
    if x.dtype == "bool":
        kind = {"max": "any", "min": "all"}.get(kind, kind)
    wide = _wide(kind, x.dtype)
    before, combine = _parts(kind)
    total = _combined(x, axes, keepdims, lambda v: before(f.cast(v, wide)), combine)
    count = prod(x.shape[d] for d in axes)
    return _finished(total, kind, x.dtype, count)


def _check_kind(kind: str, dtype: str) -> None:
    if kind not in KINDS:
        raise ExpressionError(f"reduce {kind!r}", f"unknown, kinds are {KINDS}")
    if dtype == "bool" and kind not in ("max", "min", "any", "all"):
        raise ExpressionError(f"reduce {kind!r}", "of bool", "cast it first")


def _wide(kind: str, dtype: str) -> str:
    if not is_float(dtype):
        roots = ("mean", "l2", "log_sum", "log_sum_exp")
        return "float64" if kind in roots else dtype
    return dtype if kind in ("max", "min", "any", "all") else working(dtype)


def _parts(kind: str) -> tuple[Element, Reduce]:
    """What happens to an element, and how elements are combined."""
    if kind in ("max", "min", "prod", "any", "all"):
        return _same, getattr(reduction, kind)
    if kind in ("l2", "sum_square"):
        return (lambda v: v * v), reduction.sum
    return (abs if kind == "l1" else _same), reduction.sum


def _combined(
    x: Tensor, axes: Sequence[int], keepdims: bool, before: Element, combine: Reduce
) -> Tensor:
    if not axes:
        return each(x, before, "reduce")
    return reduced(
        x, tuple(axes), keepdims, combine, "reduce", lambda i, _: before(x[i])
    )


def _finished(total: Tensor, kind: str, dtype: str, count: int) -> Tensor:
    """What happens to the combined element."""
    last: dict[str, Element] = {
        "mean": lambda v: v * (1 / count) if is_float(dtype) else v / count,
        "l2": f.sqrt,
        "log_sum": f.log,
    }
    result = "bool" if kind in ("any", "all") else dtype
    if kind not in last and total.dtype == result:
        return total
    function = last.get(kind, _same)
    return each(total, lambda v: f.cast(function(v), result), f"reduce_{kind}")


def _log_sum_exp(x: Tensor, axes: Sequence[int], keepdims: bool) -> Tensor:
    wide = _wide("log_sum_exp", x.dtype)
    top = _combined(x, axes, True, lambda v: f.cast(v, wide), reduction.max)
    # Infinities are not subtracted: their difference is no number.
    shift = each(top, lambda v: f.select(abs(v) < float("inf"), v, 0.0), "reduce_shift")

    def power(i: tuple[Value, ...]) -> Value:
        place = tuple(0 if d in axes else at for d, at in enumerate(i))
        return f.exp(f.cast(x[i], wide) - shift[place])

    if not axes:
        total = compute(x.shape, lambda *i: power(i), name="reduce_sum")
    else:
        total = reduced(
            x, tuple(axes), keepdims, reduction.sum, "reduce_sum", lambda i, _: power(i)
        )

    def body(*i: Value) -> Value:
        rest = iter(i)
        place: list[Scalar] = [
            (next(rest) if keepdims or d not in axes else 0) for d in range(x.ndim)
        ]
        kept = tuple(0 if d in axes else at for d, at in enumerate(place))
        return f.cast(f.log(total[i]) + shift[kept], x.dtype)

    return compute(total.shape, body, name="reduce_log_sum_exp")


def _reduce_types(
    x: Typed, kind: str, axes: Sequence[int], keepdims: bool
) -> list[Type]:
    _check_kind(kind, x.dtype)
    if any(not 0 <= d < len(x.shape) for d in axes) or len(set(axes)) < len(axes):
        raise ExpressionError(
            "reduce", f"axes {tuple(axes)} of a value with {len(x.shape)} axes"
        )
    gone = dict.fromkeys(axes, 1) if keepdims else dict.fromkeys(axes, 0)
    shape = tuple(gone.get(d, n) for d, n in enumerate(x.shape))
    kept = tuple(n for d, n in enumerate(shape) if keepdims or d not in gone)
    return [("bool" if kind in ("any", "all") else x.dtype, kept)]


def _reduce_values(
    x: Array, kind: str, axes: Sequence[int], keepdims: bool
) -> Array | tuple[Array, ...]:
    if x.size:
        return DEFINED.values([x], {"kind": kind, "axes": tuple(axes),
                                    "keepdims": keepdims})  # fmt: skip
    dtype = str(x.dtype)
    ((result, shape),) = _reduce_types(Typed("x", dtype, x.shape), kind, axes, keepdims)
    empty = {"max": lowest(dtype), "min": highest(dtype), "prod": 1, "all": 1}
    fill = empty.get(kind, 0)
    if kind in _EMPTY and is_float(dtype):
        fill = float(_EMPTY[kind])
    return np.full(shape, fill, DTYPES[result].numpy)


def argmax(x: Tensor, axis: int, keepdims: bool, last: bool = False) -> Tensor:
    """Where the greatest element is; the first, or the last, of equal ones."""
    return _located(x, axis, keepdims, last, reduction.argmax)


def argmin(x: Tensor, axis: int, keepdims: bool, last: bool = False) -> Tensor:
    """Where the least element is; the first, or the last, of equal ones."""
    return _located(x, axis, keepdims, last, reduction.argmin)


def _located(x: Tensor, axis: int, keepdims: bool, last: bool, find: Reduce) -> Tensor:
    end = x.shape[axis] - 1

    def source(i: tuple[Value, ...], _: tuple[Value, ...]) -> Value:
        place = (*i[:axis], end - i[axis], *i[axis + 1 :]) if last else i
        return f.cast(x[place], "int8") if x.dtype == "bool" else x[place]

    found = reduced(x, axis, keepdims, find, "arg", source)
    return each(found, lambda v: end - v, "arg_last") if last else found


DEFINED = Operator("reduce", reduce, Kind.REDUCTION)

OPERATORS = (
    Operator("reduce", reduce, Kind.REDUCTION, _reduce_values, _reduce_types),
    Operator("argmax", argmax, Kind.REDUCTION),
    Operator("argmin", argmin, Kind.REDUCTION),
)
