"""Reductions: combine the values of a formula over one or several reduce axes.

A reduction is the whole body of a `compute`; its result has the type of the formula
(sums of int8 wrap around: cast first to accumulate wider).
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TypeAlias

from ansor.errors import ExpressionError
from ansor.ir.dtypes import INDEX
from ansor.ir.expr import Expr
from ansor.te.value import IndexVar, Scalar, Value, constant, wrap


class ReduceAxis(Value):
    """The values 0 … extent-1 that a reduction runs over; an index like any other.

    >>> import ansor
    >>> ansor.reduce_axis(8, name="k").extent
    8
    """

    __slots__ = ()

    @property
    def var(self) -> IndexVar:
        assert isinstance(self._expr, IndexVar)
        return self._expr

    @property
    def extent(self) -> int:
        return self.var.extent

    @property
    def name(self) -> str:
        return self.var.name


Axes: TypeAlias = "ReduceAxis | Sequence[ReduceAxis]"


class Reduction(Value):
    """What `ansor.sum(…)` returns: a complete body, not an operand."""

    __slots__ = ("axes", "body", "reducer")

    def __init__(
        self, reducer: str, body: tuple[Expr, ...], axes: tuple[IndexVar, ...]
    ) -> None:
        self.reducer, self.body, self.axes = reducer, body, axes

    @property
    def expr(self) -> Expr:
        raise ExpressionError(
            f"{self} inside a larger expression",
            "a reduction is the whole body of a compute",
            "make two computes: one for the reduction, one that reads its result",
        )

    @property
    def dtype(self) -> str:
        return self.body[-1].dtype

    def __str__(self) -> str:
        names = ", ".join(axis.name for axis in self.axes)
        return f"{self.reducer}({self.body[0]}, axis={names})"

    def __repr__(self) -> str:
        return f"<{self}: {self.dtype}>"


def reduce_axis(extent: int | tuple[int, int], name: str | None = None) -> ReduceAxis:
    """An axis for reductions that runs over 0 … extent-1; `(0, extent)` works, too.

    Without a name it is called k, with a number where that is taken.

    >>> import ansor
    >>> k = ansor.reduce_axis(512, name="k")
    """
    what = "reduce axis" if name is None else f"reduce axis {name!r}"
    if isinstance(extent, tuple):
        if len(extent) != 2 or extent[0] != 0:
            raise ExpressionError(
                f"{what} over {extent}", "a range is (0, extent)", "start it at 0"
            )
        extent = extent[1]
    size = as_extent(what, extent)
    if name is not None:
        check_name(what, name)
    var = IndexVar(name or "k", INDEX, size, reduce=True, named=name is not None)
    return ReduceAxis(var)


def as_extent(what: str, extent: object) -> int:
    """A positive Python int, or ExpressionError."""
    try:
        if isinstance(extent, bool):
            raise TypeError
        size = extent.__index__()  # type: ignore[attr-defined]
    except (AttributeError, TypeError):
        raise ExpressionError(
            what, f"extent {extent!r} is not an integer", "extents are static"
        ) from None
    if size < 1:
        raise ExpressionError(what, f"extent {size} is less than 1")
    return int(size)


def check_name(what: str, name: object) -> None:
    """Raise ExpressionError unless `name` can name things in printed programs."""
    if not isinstance(name, str) or not (name.isascii() and name.isidentifier()):
        raise ExpressionError(
            what, f"name {name!r} is not a plain identifier", "use letters, digits, _"
        )


def sum(x: Scalar, axis: Axes) -> Reduction:
    """Add up `x` over reduce axes, in the type of `x`.

    >>> import ansor
    >>> A = ansor.placeholder((3, 4), name="A")
    >>> k = ansor.reduce_axis(4)
    >>> rows = ansor.compute((3,), lambda i: ansor.sum(A[i, k], axis=k))
    """
    return _reduce("sum", x, axis)


def prod(x: Scalar, axis: Axes) -> Reduction:
    """Multiply `x` over reduce axes.

    >>> import ansor
    >>> A = ansor.placeholder((4,), name="A")
    >>> k = ansor.reduce_axis(4)
    >>> P = ansor.compute((), lambda: ansor.prod(A[k], axis=k))
    """
    return _reduce("prod", x, axis)


def max(x: Scalar, axis: Axes) -> Reduction:
    """The greatest `x` over reduce axes; NaN if there is one.

    >>> import ansor
    >>> A = ansor.placeholder((3, 4), name="A")
    >>> k = ansor.reduce_axis(4)
    >>> top = ansor.compute((3,), lambda i: ansor.max(A[i, k], axis=k))
    """
    return _reduce("max", x, axis)


def min(x: Scalar, axis: Axes) -> Reduction:
    """The least `x` over reduce axes; NaN if there is one.

    >>> import ansor
    >>> A = ansor.placeholder((3, 4), name="A")
    >>> k = ansor.reduce_axis(4)
    >>> least = ansor.compute((3,), lambda i: ansor.min(A[i, k], axis=k))
    """
    return _reduce("min", x, axis)


def any(x: Scalar, axis: Axes) -> Reduction:
    """True where `x` holds (is not 0) for at least one element.

    >>> import ansor
    >>> A = ansor.placeholder((3, 4), name="A")
    >>> k = ansor.reduce_axis(4)
    >>> ansor.compute((3,), lambda i: ansor.any(A[i, k] > 1, axis=k)).dtype
    'bool'
    """
    return _reduce("any", _truth(x), axis)


def all(x: Scalar, axis: Axes) -> Reduction:
    """True where `x` holds (is not 0) for every element.

    >>> import ansor
    >>> A = ansor.placeholder((3, 4), name="A")
    >>> k = ansor.reduce_axis(4)
    >>> ansor.compute((3,), lambda i: ansor.all(A[i, k] > 1, axis=k)).dtype
    'bool'
    """
    return _reduce("all", _truth(x), axis)


def argmax(x: Scalar, axis: Axes) -> Reduction:
    """Where `x` is greatest, as int64; the first such place, or the first NaN.

    Over several axes it is the row-major position.

    >>> import ansor
    >>> A = ansor.placeholder((3, 4), name="A")
    >>> k = ansor.reduce_axis(4)
    >>> ansor.compute((3,), lambda i: ansor.argmax(A[i, k], axis=k)).dtype
    'int64'
    """
    return _locate("argmax", x, axis)


def argmin(x: Scalar, axis: Axes) -> Reduction:
    """Where `x` is least, as int64; the first such place, or the first NaN.

    >>> import ansor
    >>> A = ansor.placeholder((3, 4), name="A")
    >>> k = ansor.reduce_axis(4)
    >>> ansor.compute((3,), lambda i: ansor.argmin(A[i, k], axis=k)).dtype
    'int64'
    """
    return _locate("argmin", x, axis)


def _reduce(reducer: str, x: Scalar, axis: Axes) -> Reduction:
    value, axes = wrap(x), _axes(reducer, axis)
    _check_type(reducer, value)
    return Reduction(reducer, (value.expr,), axes)


def _locate(reducer: str, x: Scalar, axis: Axes) -> Reduction:
    value, axes = wrap(x), _axes(reducer, axis)
    _check_type(reducer, value)
    position = Value(constant(0, INDEX))
    for var in axes:
        position = position * var.extent + Value(var)
    return Reduction(reducer, (value.expr, position.expr), axes)


def _check_type(reducer: str, value: Value) -> None:
    if value.dtype == "bool" and reducer not in ("any", "all"):
        raise ExpressionError(
            f"{reducer}({value})",
            "the operand is bool",
            'use any or all, or cast it: cast(x, "int32")',
        )


def _truth(x: Scalar) -> Value:
    value = wrap(x)
    return value if value.dtype == "bool" else value != 0


def _axes(reducer: str, axis: object) -> tuple[IndexVar, ...]:
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    if not axes:
        raise ExpressionError(
            f"{reducer} over nothing", "no axis is given", "pass axis=reduce_axis(n)"
        )
    for i, one in enumerate(axes):
        if not isinstance(one, ReduceAxis):
            raise ExpressionError(
                f"{reducer} over {one}",
                "not a reduce axis",
                "make one with ansor.reduce_axis(n)",
            )
        if builtins.any(one is other for other in axes[:i]):
            raise ExpressionError(f"{reducer} over {one}", "the axis is given twice")
    return tuple(one.var for one in axes)
