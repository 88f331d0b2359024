"""Operators that move elements: views, slices, joins, borders."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.graph import Value
from ansor.frontend.operators.elementwise import common_shape
from ansor.frontend.operators.operator import Kind, Operator, Type
from ansor.ir.dtypes import is_float
from ansor.ir.evaluate import Array
from ansor.te import functions as f
from ansor.te.ops import shape as te_shape
from ansor.te.ops.elementwise import element
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Scalar
from ansor.te.value import Value as Element

Ints = tuple[int, ...]


def _need(ok: bool, name: str, reason: str) -> None:
    if not ok:
        raise ModelError(name, reason)


# Views.


def _reshape(x: Tensor, shape: Ints) -> Tensor:
    return x if shape == x.shape else te_shape.reshape(x, shape)


def _infer_reshape(x: Value, shape: Ints) -> list[Type]:
    fits = prod(shape) == x.size and min(shape, default=0) >= 0
    _need(fits, "reshape", f"{list(x.shape)} has {x.size} elements, not {list(shape)}")
    return [(x.dtype, shape)]


def _evaluate_reshape(x: Array, shape: Ints) -> Array:
    return x.reshape(shape)


# Orders of axes and elements.


def _infer_transpose(x: Value, axes: Ints) -> list[Type]:
    order = sorted(axes) == list(range(len(x.shape)))
    _need(order, "transpose", f"axes {axes} are no order of {len(x.shape)} axes")
    return [(x.dtype, tuple(x.shape[axis] for axis in axes))]


def _transpose(x: Tensor, axes: Ints) -> Tensor:
    return te_shape.transpose(x, axes)


def _evaluate_transpose(x: Array, axes: Ints) -> Array:
    return np.transpose(x, axes)


def _reverse(x: Tensor, axes: Ints) -> Tensor:
    def body(*i: Element) -> Scalar:
        return x[
            tuple(
                n - 1 - index if axis in axes else index
                for axis, (index, n) in enumerate(zip(i, x.shape, strict=True))
            )
        ]

    return compute(x.shape, body, name="reverse")


def _infer_reverse(x: Value, axes: Ints) -> list[Type]:
    known = all(0 <= axis < len(x.shape) for axis in axes)
    _need(known, "reverse", f"axes {axes}, but there are {len(x.shape)}")
    return [(x.dtype, x.shape)]


def _evaluate_reverse(x: Array, axes: Ints) -> Array:
    return np.flip(x, axes)


def _slice(x: Tensor, starts: Ints, stops: Ints, steps: Ints) -> Tensor:
    (_, shape), *_ = _infer_slice(Value(x.name, x.dtype, x.shape), starts, stops, steps)

    def body(*i: Element) -> Scalar:
        moves = zip(i, starts, steps, strict=True)
        return x[tuple(index * step + start for index, start, step in moves)]

    return compute(shape, body, name="slice")


def _infer_slice(x: Value, starts: Ints, stops: Ints, steps: Ints) -> list[Type]:
    ranges = list(map(range, starts, stops, steps))
    _need(
        len(ranges) == len(x.shape), "slice", f"bounds of {len(ranges)} axes, not all"
    )
    for extent, part in zip(x.shape, ranges, strict=True):
        inside = all(0 <= end < extent for end in (*part[:1], *part[-1:]))
        _need(inside, "slice", f"{part} leaves an axis of {extent}")
    return [(x.dtype, tuple(map(len, ranges)))]


def _evaluate_slice(x: Array, starts: Ints, stops: Ints, steps: Ints) -> Array:
    taken = [
        slice(start, None if stop < 0 else stop, step)
        for start, stop, step in zip(starts, stops, steps, strict=True)
    ]
    return x[tuple(taken)]


# Repetition.


def _expand(x: Tensor, shape: Ints) -> Tensor:
    if shape == x.shape:
        return x
    return compute(shape, lambda *i: element(x, shape, i), name="expand")


def _infer_expand(x: Value, shape: Ints) -> list[Type]:
    common = common_shape("expand", x.shape, shape)
    _need(common == shape, "expand", f"{list(x.shape)} does not become {list(shape)}")
    return [(x.dtype, shape)]


def _evaluate_expand(x: Array, shape: Ints) -> Array:
    return np.broadcast_to(x, shape)


def _tile(x: Tensor, repeats: Ints) -> Tensor:
    def body(*i: Element) -> Scalar:
        moves = zip(i, x.shape, repeats, strict=True)
        return x[
            tuple(
                (index if r == 1 else index % n) if n > 1 else 0
                for index, n, r in moves
            )
        ]

    shape = [n * r for n, r in zip(x.shape, repeats, strict=True)]
    return compute(shape, body, name="tile")


def _infer_tile(x: Value, repeats: Ints) -> list[Type]:
    fits = len(repeats) == len(x.shape) and min(repeats, default=0) >= 0
    _need(fits, "tile", f"repeats {repeats} for shape {list(x.shape)}")
    return [(x.dtype, tuple(n * r for n, r in zip(x.shape, repeats, strict=True)))]


def _evaluate_tile(x: Array, repeats: Ints) -> Array:
    return np.tile(x, repeats)


def _repeat(x: Tensor, repeats: int, axis: int) -> Tensor:
    shape = [n * repeats if d == axis else n for d, n in enumerate(x.shape)]

    def body(*i: Element) -> Scalar:
        return x[(*i[:axis], i[axis] // repeats, *i[axis + 1 :])]

    return compute(shape, body, name="repeat")


def _infer_repeat(x: Value, repeats: int, axis: int) -> list[Type]:
    fits = repeats >= 0 and 0 <= axis < len(x.shape)
    _need(fits, "repeat", f"{repeats} times along axis {axis} of {list(x.shape)}")
    shape = [n * repeats if d == axis else n for d, n in enumerate(x.shape)]
    return [(x.dtype, tuple(shape))]


def _evaluate_repeat(x: Array, repeats: int, axis: int) -> Array:
    return np.repeat(x, repeats, axis)


# Joins.


def _concat(*tensors: Tensor, axis: int) -> Tensor:
    """A balanced tree of choices, so that many parts make no deep formula."""
    ends = [0]
    for tensor in tensors:
        ends.append(ends[-1] + tensor.shape[axis])
    shape = [ends[-1] if d == axis else n for d, n in enumerate(tensors[0].shape)]

    def body(*i: Element) -> Scalar:
        at = i[axis]

        def part(first: int, last: int) -> Element:
            if last - first == 1:
                place = (*i[:axis], at - ends[first], *i[axis + 1 :])
                return tensors[first][place]
            middle = (first + last) // 2
            return f.select(at < ends[middle], part(first, middle), part(middle, last))

        return part(0, len(tensors))

    return compute(shape, body, name="concat")


def _infer_concat(*inputs: Value, axis: int) -> list[Type]:
    _need(bool(inputs), "concat", "there is nothing to join")
    first = inputs[0]
    _need(0 <= axis < len(first.shape), "concat", f"axis {axis} of {list(first.shape)}")
    for value in inputs:
        _need(value.dtype == first.dtype, "concat", f"{value.dtype} and {first.dtype}")
        alike = len(value.shape) == len(first.shape) and all(
            n == m or d == axis
            for d, (n, m) in enumerate(zip(value.shape, first.shape, strict=False))
        )
        shapes = f"{list(first.shape)} and {list(value.shape)}"
        _need(alike, "concat", f"shapes {shapes} differ outside axis {axis}")
    total = sum(value.shape[axis] for value in inputs)
    return [(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))]


def _evaluate_concat(*arrays: Array, axis: int) -> Array:
    return np.concatenate(arrays, axis)


# Borders.

_MODES = ("constant", "reflect", "edge", "wrap")


def _pad(
    x: Tensor, before: Ints, after: Ints, mode: str = "constant", value: float = 0
) -> Tensor:
    widths = list(zip(before, after, strict=True))
    if mode == "constant":
        return te_shape.pad(x, widths, _literal(value, x.dtype))

    def body(*i: Element) -> Scalar:
        moves = zip(i, x.shape, widths, strict=True)
        return x[tuple(_mirrored(mode, index, n, w) for index, n, w in moves)]

    shape = [n + b + a for n, (b, a) in zip(x.shape, widths, strict=True)]
    return compute(shape, body, name="pad")


def _literal(value: float, dtype: str) -> Scalar:
    return f.cast(value if is_float(dtype) else int(value), dtype)


def _mirrored(mode: str, index: Element, n: int, widths: tuple[int, int]) -> Scalar:
    """Where an index of the padded axis reads from, of an axis of n elements."""
    before, after = widths
    if before == after == 0:
        return index
    if n == 1:
        return 0
    place = index - before
    if mode == "edge":
        return f.clip(place, 0, n - 1)
    if mode == "wrap":
        return place % n
    if max(before, after) < n:
        return (n - 1) - abs((n - 1) - abs(place))
    return (n - 1) - abs((n - 1) - place % (2 * n - 2))


def _infer_pad(
    x: Value, before: Ints, after: Ints, mode: str = "constant", value: float = 0
) -> list[Type]:
    _need(mode in _MODES, "pad", f"mode {mode!r} is none of {', '.join(_MODES)}")
    sizes = len(before) == len(after) == len(x.shape)
    fits = sizes and min((*before, *after), default=0) >= 0
    _need(fits, "pad", f"widths {before}, {after} for shape {list(x.shape)}")
    triples = list(zip(x.shape, before, after, strict=True))
    empty = mode != "constant" and any(n == 0 and b + a > 0 for n, b, a in triples)
    _need(not empty, "pad", f"an axis without elements has no border to {mode}")
    return [(x.dtype, tuple(n + b + a for n, b, a in triples))]


def _evaluate_pad(
    x: Array, before: Ints, after: Ints, mode: str = "constant", value: float = 0
) -> Array:
    widths = list(zip(before, after, strict=True))
    if not widths:
        return x
    if mode == "constant":
        return np.pad(x, widths, constant_values=np.asarray(value).astype(x.dtype))
    return np.pad(x, widths, mode=mode)  # type: ignore[call-overload, no-any-return]


def _triangle(x: Tensor, upper: bool, k: int = 0) -> Tensor:
    def body(*i: Element) -> Scalar:
        row, column = i[-2], i[-1]
        kept = column - row >= k if upper else column - row <= k
        return f.select(kept, x[i], _literal(0, x.dtype))

    return compute(x.shape, body, name="triangle")


def _infer_triangle(x: Value, upper: bool, k: int = 0) -> list[Type]:
    _need(len(x.shape) >= 2, "triangle", f"{list(x.shape)} has no rows and columns")
    return [(x.dtype, x.shape)]


def _evaluate_triangle(x: Array, upper: bool, k: int = 0) -> Array:
    return np.triu(x, k) if upper else np.tril(x, k)


def _same(x: Value) -> Sequence[Type]:
    return [(x.dtype, x.shape)]


OPERATORS: tuple[Operator, ...] = (
    Operator("reshape", _reshape, Kind.VIEW, _evaluate_reshape, _infer_reshape),
    Operator("identity", lambda x: x, Kind.VIEW, lambda x: x, _same),
    Operator(
        "transpose",
        _transpose,
        evaluate=_evaluate_transpose,
        infer=_infer_transpose,
    ),
    Operator("reverse", _reverse, evaluate=_evaluate_reverse, infer=_infer_reverse),
    Operator("slice", _slice, evaluate=_evaluate_slice, infer=_infer_slice),
    Operator("expand", _expand, evaluate=_evaluate_expand, infer=_infer_expand),
    Operator("tile", _tile, evaluate=_evaluate_tile, infer=_infer_tile),
    Operator("repeat", _repeat, evaluate=_evaluate_repeat, infer=_infer_repeat),
    Operator("concat", _concat, evaluate=_evaluate_concat, infer=_infer_concat),
    Operator("pad", _pad, evaluate=_evaluate_pad, infer=_infer_pad),
    Operator(
        "triangle",
        _triangle,
        evaluate=_evaluate_triangle,
        infer=_infer_triangle,
    ),
)
