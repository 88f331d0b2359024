"""Reductions of whole tensors along axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from ansor.errors import ExpressionError
from ansor.te import reduction
from ansor.te.ops.elementwise import each
from ansor.te.ops.shape import as_axis
from ansor.te.reduction import ReduceAxis, Reduction
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Scalar, Value

Axis = int | Sequence[int] | None
Reduce = Callable[[Value, list[ReduceAxis]], Reduction]


def reduced(
    x: Tensor,
    axis: Axis,
    keepdims: bool,
    function: Reduce,
    name: str,
    source: Callable[[tuple[Value, ...], tuple[Value, ...]], Value] | None = None,
) -> Tensor:
    """`function` over `axis` (None: all axes) of the elements, or of `source(i, o)`.

    `source` gets the place in `x` and the place in the result.
    """
    gone = as_axes(name, axis, x.ndim)
    inner = {d: reduction.reduce_axis(x.shape[d], f"k{d}") for d in gone}
    shape = [1 if d in gone else n for d, n in enumerate(x.shape)]
    if not keepdims:
        shape = [n for d, n in enumerate(x.shape) if d not in gone]

    def body(*i: Value) -> Scalar:
        rest = iter(i)
        place: list[Value] = []
        for d in range(x.ndim):
            own = next(rest) if d not in gone or keepdims else None
            place.append(inner[d] if own is None or d in gone else own)
        element = source(tuple(place), i) if source else x[tuple(place)]
        return function(element, list(inner.values()))

    return compute(shape, body, name=name)


def as_axes(what: str, axis: Axis, rank: int) -> list[int]:
    """Axes as a sorted list of numbers from 0 up."""
    if axis is None:
        axis = range(rank)
    given = [axis] if isinstance(axis, int) else list(axis)
    axes = sorted(as_axis(what, a, rank) for a in given)
    if len(set(axes)) < len(axes) or not axes:
        raise ExpressionError(what, f"axes {given} are empty or repeat one")
    return axes


def reduce_sum(
    x: Tensor, axis: Axis = None, keepdims: bool = False, name: str = "reduce_sum"
) -> Tensor:
    """The sum along axes, or of everything.

    >>> import ansor
    >>> reduce_sum(ansor.placeholder((2, 3, 4)), axis=(0, 2))
    <tensor reduce_sum: float32[3]>
    """
    return reduced(x, axis, keepdims, reduction.sum, name)


def reduce_max(
    x: Tensor, axis: Axis = None, keepdims: bool = False, name: str = "reduce_max"
) -> Tensor:
    """The greatest element along axes, or of everything.

    >>> import ansor
    >>> reduce_max(ansor.placeholder((2, 3)), axis=1, keepdims=True)
    <tensor reduce_max: float32[2, 1]>
    """
    return reduced(x, axis, keepdims, reduction.max, name)


def reduce_min(
    x: Tensor, axis: Axis = None, keepdims: bool = False, name: str = "reduce_min"
) -> Tensor:
    """The least element along axes, or of everything.

    >>> import ansor
    >>> reduce_min(ansor.placeholder((2, 3)))
    <tensor reduce_min: float32[]>
    """
    return reduced(x, axis, keepdims, reduction.min, name)


def reduce_mean(
    x: Tensor, axis: Axis = None, keepdims: bool = False, name: str = "reduce_mean"
) -> Tensor:
    """The mean along axes, or of everything; of floats.

    >>> import ansor
    >>> reduce_mean(ansor.placeholder((2, 3)), axis=0)
    <tensor reduce_mean: float32[3]>
    """
    total = reduced(x, axis, keepdims, reduction.sum, f"{name}_sum")
    count = prod(x.shape[d] for d in as_axes(name, axis, x.ndim))
    return each(total, lambda v: v * (1 / count), name)
