"""Operators that move elements: pad, transpose, reshape, slice, join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ansor.errors import ExpressionError
from ansor.te.functions import select
from ansor.te.tensor import Tensor, as_shape, compute
from ansor.te.value import Scalar, Value


def as_axis(what: str, axis: int, rank: int) -> int:
    """An axis counted from the front; negative ones count from the back."""
    if not -rank <= axis < rank:
        raise ExpressionError(what, f"axis {axis}, but there are {rank} axes")
    return axis % rank


def pad(
    x: Tensor,
    widths: Sequence[tuple[int, int]],
    value: Scalar = 0,
    name: str = "pad",
    axes: Sequence[str] | None = None,
) -> Tensor:
    """`x` with (before, after) elements of `value` added along each axis.

    >>> import ansor
    >>> pad(ansor.placeholder((4, 4)), [(0, 0), (1, 2)])
    <tensor pad: float32[4, 7]>
    """
    if len(widths) != x.ndim or any(w < 0 for pair in widths for w in pair):
        raise ExpressionError(
            name, f"widths {list(widths)} are not {x.ndim} pairs of sizes from 0 up"
        )

    def body(*i: Value) -> Scalar:
        source, inside = [], None
        for index, extent, (before, after) in zip(i, x.shape, widths, strict=True):
            source.append(index - before)
            for size, test in (
                (before, index >= before),
                (after, index < before + extent),
            ):
                if size:
                    inside = test if inside is None else inside & test
        element = x[tuple(source)]
        return element if inside is None else select(inside, element, value)

    shape = [n + sum(pair) for n, pair in zip(x.shape, widths, strict=True)]
    return compute(shape, body, name=name, axes=axes)


def transpose(
    x: Tensor, axes: Sequence[int] | None = None, name: str = "transpose"
) -> Tensor:
    """Axes in another order: axis d of the result is axis axes[d] of `x`.

    >>> import ansor
    >>> transpose(ansor.placeholder((2, 3, 4)), (1, 2, 0))
    <tensor transpose: float32[3, 4, 2]>
    """
    order = [as_axis(name, a, x.ndim) for a in (axes or reversed(range(x.ndim)))]
    if sorted(order) != list(range(x.ndim)):
        raise ExpressionError(name, f"axes {axes} are no order of {x.ndim} axes")
    shape = [x.shape[a] for a in order]
    return compute(
        shape, lambda *i: x[tuple(i[order.index(d)] for d in range(x.ndim))], name
    )


def reshape(x: Tensor, shape: Sequence[int], name: str = "reshape") -> Tensor:
    """The same elements in row-major order; one extent may be -1.

    >>> import ansor
    >>> reshape(ansor.placeholder((2, 3, 4)), (6, -1))
    <tensor reshape: float32[6, 4]>
    """
    size = prod(x.shape)
    known = prod(n for n in shape if n != -1)
    if list(shape).count(-1) == 1 and known > 0 and size % known == 0:
        shape = [size // known if n == -1 else n for n in shape]
    extents = as_shape(name, list(shape))
    if prod(extents) != size:
        raise ExpressionError(
            name, f"{x.shape} has {size} elements, {extents} has {prod(extents)}"
        )
    groups = list(_groups(x.shape, extents))

    def body(*i: Value) -> Scalar:
        place: list[Scalar] = []
        for old, new in groups:
            flat = _flatten([(i[d], extents[d]) for d in new])
            place += _unflatten(flat, [x.shape[d] for d in old])
        return x[tuple(place)]

    return compute(extents, body, name=name)


def _groups(
    old: Sequence[int], new: Sequence[int]
) -> Iterator[tuple[list[int], list[int]]]:
    """Runs of axes of both shapes that hold equally many elements."""
    a, b = 0, 0
    while a < len(old) or b < len(new):
        left, right = [a] if a < len(old) else [], [b] if b < len(new) else []
        while (p := prod(old[d] for d in left)) != (q := prod(new[d] for d in right)):
            if p < q:
                left.append(a + len(left))
            else:
                right.append(b + len(right))
        a, b = a + len(left), b + len(right)
        yield left, right


def _flatten(axes: Sequence[tuple[Value, int]]) -> Scalar:
    total: Scalar = 0
    for index, extent in axes:
        if extent > 1:
            total = index + total * extent if isinstance(total, Value) else index
    return total


def _unflatten(flat: Scalar, shape: Sequence[int]) -> list[Scalar]:
    result: list[Scalar] = []
    for d, extent in enumerate(shape):
        step, index = prod(shape[d + 1 :]), flat
        if isinstance(flat, Value) and extent > 1:
            index = flat // step
            if prod(shape[:d]) > 1:
                index = index % extent
        result.append(index if extent > 1 else 0)
    return result


def flatten(x: Tensor, axis: int = 1, name: str = "flatten") -> Tensor:
    """A matrix: axes before `axis` become rows, the others columns.

    >>> import ansor
    >>> flatten(ansor.placeholder((2, 3, 4)))
    <tensor flatten: float32[2, 12]>
    """
    return reshape(x, (prod(x.shape[:axis]), prod(x.shape[axis:])), name)


def slice(
    x: Tensor,
    starts: Sequence[int],
    stops: Sequence[int],
    steps: Sequence[int] | None = None,
    name: str = "slice",
) -> Tensor:
    """x[start:stop:step] along every axis; steps are positive.

    >>> import ansor
    >>> slice(ansor.placeholder((8, 8)), (0, 1), (8, 8), (1, 2))
    <tensor slice: float32[8, 4]>
    """
    steps = steps or [1] * x.ndim
    if (
        not len(starts) == len(stops) == len(steps) == x.ndim
        or min(steps, default=1) < 1
    ):
        raise ExpressionError(
            name, f"needs {x.ndim} starts, stops and positive steps, one per axis"
        )
    bounds = zip(starts, stops, steps, strict=True)
    shape = [len(range(start, stop, step)) for start, stop, step in bounds]
    return compute(
        shape,
        lambda *i: x[
            tuple(v * t + s for v, s, t in zip(i, starts, steps, strict=True))
        ],
        name=name,
    )


def split(
    x: Tensor, sizes: int | Sequence[int], axis: int = 0, name: str = "split"
) -> list[Tensor]:
    """Parts of the given sizes along an axis, or so many equal parts.

    >>> import ansor
    >>> [part.shape for part in split(ansor.placeholder((6, 2)), [2, 4])]
    [(2, 2), (4, 2)]
    """
    at = as_axis(name, axis, x.ndim)
    extent = x.shape[at]
    if isinstance(sizes, int):
        sizes = [extent // sizes] * sizes if sizes > 0 else [0]
    if sum(sizes) != extent:
        raise ExpressionError(name, f"sizes {list(sizes)} do not add up to {extent}")
    parts, start = [], 0
    for number, size in enumerate(sizes):
        starts = [start if d == at else 0 for d in range(x.ndim)]
        stops = [start + size if d == at else n for d, n in enumerate(x.shape)]
        parts.append(slice(x, starts, stops, name=f"{name}_{number}"))
        start += size
    return parts


def concat(tensors: Sequence[Tensor], axis: int = 0, name: str = "concat") -> Tensor:
    """Tensors one after another along an axis.

    >>> import ansor
    >>> concat([ansor.placeholder((2, 3)), ansor.placeholder((4, 3))])
    <tensor concat: float32[6, 3]>
    """
    if not tensors:
        raise ExpressionError(name, "there are no tensors to join")
    at = as_axis(name, axis, tensors[0].ndim)
    shapes = [list(t.shape) for t in tensors]
    total = sum(shape[at] if at < len(shape) else 0 for shape in shapes)
    for shape in shapes:
        shape[at : at + 1] = [total]
    if any(shape != shapes[0] for shape in shapes):
        text = ", ".join(str(t.shape) for t in tensors)
        raise ExpressionError(name, f"shapes {text} differ outside axis {at}")

    def body(*i: Value) -> Scalar:
        end = total - tensors[-1].shape[at]
        result = tensors[-1][(*i[:at], i[at] - end, *i[at + 1 :])]
        for tensor in reversed(tensors[:-1]):
            start = end - tensor.shape[at]
            part = tensor[(*i[:at], i[at] - start, *i[at + 1 :])]
            result, end = select(i[at] < end, part, result), start
        return result

    return compute(shapes[0], body, name=name)
