"""Windows of images as columns, and back; windows whose elements are displaced."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ansor.errors import ExpressionError
from ansor.frontend.operators.contraction import Pairs, layout_of
from ansor.frontend.operators.operator import Kind, Operator
from ansor.frontend.operators.reduction import working
from ansor.te import functions as f
from ansor.te import reduction
from ansor.te.ops.elementwise import each
from ansor.te.ops.window import padded, window
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Scalar, Value

Ints = Sequence[int]


def unfold(
    x: Tensor, kernel: Ints, strides: Ints, padding: Pairs, dilations: Ints
) -> Tensor:
    """The elements of every window of (N, C, …): (N, C, *kernel, *places)."""
    order = layout_of("unfold", x, "first")
    w = window("unfold", tuple(kernel), tuple(strides), tuple(padding), dilations)
    data = padded(x, order, w, 0, "unfold")
    places = w.outputs("unfold", x.shape[2:])

    def body(*i: Value) -> Scalar:
        inside, place = i[2 : 2 + order.rank], i[2 + order.rank :]
        return data[(i[0], i[1], *w.at(place, inside))]

    return compute((*x.shape[:2], *kernel, *places), body, name="unfold")


def fold(
    x: Tensor,
    shape: Ints,
    kernel: Ints,
    strides: Ints,
    padding: Pairs,
    dilations: Ints,
) -> Tensor:
    """The transpose of `unfold`: (N, C, *kernel, *places) to images (N, C, *shape),
    where elements that fall on one place are added up."""
    rank = len(shape)
    w = window("fold", tuple(kernel), tuple(strides), tuple(padding), dilations)
    places = w.outputs("fold", shape)
    if x.shape[2:] != (*kernel, *places):
        raise ExpressionError(
            "fold", f"{x.shape} are not {prod(kernel)} elements at {places} places"
        )
    inside = [reduction.reduce_axis(n, f"r{d}") for d, n in enumerate(kernel)]
    wide = working(x.dtype)

    def body(*i: Value) -> Scalar:
        source, hit = [], None
        for d in range(rank):
            at = i[2 + d] + w.padding[d][0] - inside[d] * w.dilation[d]
            source.append(at // w.stride[d])
            tests = [at >= 0, at < places[d] * w.stride[d]]
            if w.stride[d] > 1:
                tests.append(at % w.stride[d] == 0)
            for test in tests:
                hit = test if hit is None else hit & test
        assert hit is not None
        element = f.cast(x[(i[0], i[1], *inside, *source)], wide)
        return reduction.sum(f.select(hit, element, 0), axis=inside)

    found = compute((*x.shape[:2], *shape), body, name="fold")
    if wide == x.dtype:
        return found
    return each(found, lambda v: f.cast(v, x.dtype), "fold_rounded")


def displaced(
    x: Tensor,
    offset: Tensor,
    mask: Tensor,
    kernel: Ints,
    strides: Ints,
    padding: Pairs,
    dilations: Ints,
) -> Tensor:
    """The elements of every window of (N, C, H, W), moved by `offset` and times
    `mask`: (N, C, kernel, places), both as rows and columns.

    The offset is (N, groups, *kernel, 2, *places), the mask (N, groups, *kernel,
    *places); channels are shared out among groups. Between elements of the image it
    is linear, outside it is 0.
    """
    w = window("displaced", tuple(kernel), tuple(strides), tuple(padding), dilations)
    places = w.outputs("displaced", x.shape[2:])
    groups = offset.shape[1]
    shape = (x.shape[0], groups, *kernel)
    if offset.shape != (*shape, 2, *places) or mask.shape != (*shape, *places):
        raise ExpressionError(
            "displaced",
            f"offset {offset.shape} and mask {mask.shape} are not for {places} places",
        )
    channels = x.shape[1] // groups

    def coordinate(i: tuple[Value, ...], d: int) -> Value:
        n, c, place, inside = i[0], i[1], i[4:], i[2:4]
        at = place[d] * w.stride[d] + inside[d] * w.dilation[d] - w.padding[d][0]
        shift = offset[(n, c // channels, *inside, d, *place)]
        return f.cast(at, x.dtype) + shift

    def body(*i: Value) -> Scalar:
        y, column = coordinate(i, 0), coordinate(i, 1)
        own = mask[(i[0], i[1] // channels, *i[2:])]
        return _between(x, i[:2], y, column) * own

    return compute((*x.shape[:2], *kernel, *places), body, name="displaced")


def _between(x: Tensor, lead: tuple[Value, ...], y: Value, column: Value) -> Value:
    """Linear between the four neighbours of a place."""
    top, left = f.floor(y), f.floor(column)
    total: Value | None = None
    for down in (0, 1):
        for right in (0, 1):
            row, across = top + float(down), left + float(right)
            inside = (row >= 0) & (row < x.shape[2])
            inside = inside & (across >= 0) & (across < x.shape[3])
            weight = (1.0 - abs(y - row)) * (1.0 - abs(column - across))
            at = [
                f.clip(f.cast(v, "int64"), 0, n - 1)
                for v, n in zip((row, across), x.shape[2:], strict=True)
            ]
            term = f.select(inside, x[(*lead, *at)] * weight, 0.0)
            total = term if total is None else total + term
    assert total is not None
    return total


OPERATORS = (
    Operator("unfold", unfold),
    Operator("fold", fold, Kind.REDUCTION),
    Operator("displaced", displaced),
)
