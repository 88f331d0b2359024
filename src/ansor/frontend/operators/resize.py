"""Operators that make up elements between elements.

`ansor.frontend.resample` computes the indices and weights that resizing needs.
"""

from __future__ import annotations

import functools
import operator

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.graph import Value
from ansor.frontend.operators.operator import Kind, Operator, Type
from ansor.ir.dtypes import DTYPES, is_float
from ansor.ir.evaluate import Array
from ansor.te import functions as f
from ansor.te.reduction import reduce_axis
from ansor.te.reduction import sum as sum_
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Scalar
from ansor.te.value import Value as Element

# interpolate, resample: Σ_t weights[o, t] · x[…, indices[o, t], …] along an axis.


def _shape(x: Tensor, indices: Tensor, axis: int) -> tuple[int, ...]:
    return (*x.shape[:axis], indices.shape[0], *x.shape[axis + 1 :])


def _interpolate(x: Tensor, indices: Tensor, weights: Tensor, axis: int) -> Tensor:
    """As one formula, for few weights."""

    def body(*i: Element) -> Scalar:
        parts = [
            _part(x, indices, weights, i, t, axis) for t in range(indices.shape[1])
        ]
        return f.cast(functools.reduce(operator.add, parts), x.dtype)

    return compute(_shape(x, indices, axis), body, name="interpolate")


def _part(
    x: Tensor,
    indices: Tensor,
    weights: Tensor,
    i: tuple[Element, ...],
    t: Element | int,
    axis: int,
) -> Element:
    place = (*i[:axis], indices[i[axis], t], *i[axis + 1 :])
    return f.cast(x[place], weights.dtype) * weights[i[axis], t]


def _resample(x: Tensor, indices: Tensor, weights: Tensor, axis: int) -> Tensor:
    """As a reduction, for many weights."""
    t = reduce_axis(indices.shape[1], name="tap")
    total = compute(
        _shape(x, indices, axis),
        lambda *i: sum_(_part(x, indices, weights, i, t, axis), axis=t),
        name="resample",
    )
    if total.dtype == x.dtype:
        return total
    return compute(total.shape, lambda *i: f.cast(total[i], x.dtype), name="rounded")


def _infer(x: Value, indices: Value, weights: Value, axis: int) -> list[Type]:
    fits = indices.shape == weights.shape and len(indices.shape) == 2
    if not (fits and is_float(x.dtype) and 0 <= axis < len(x.shape)):
        shapes = f"{list(indices.shape)} and {list(weights.shape)}"
        raise ModelError("interpolate", f"indices and weights {shapes} of {x}")
    return [(x.dtype, (*x.shape[:axis], indices.shape[0], *x.shape[axis + 1 :]))]


def _evaluate(x: Array, indices: Array, weights: Array, axis: int) -> Array:
    after = (1,) * (x.ndim - axis - 1)
    total = np.zeros((), np.float64)
    for t in range(indices.shape[1]):
        part = np.take(x, indices[:, t], axis).astype(np.float64)
        total = total + part * weights[:, t].reshape(-1, *after)
    return total.astype(x.dtype)


# grid_sample: elements of x (N, C, D1 … Dr) at the points of a grid (N, …, r).

_PADDING = ("zeros", "border", "reflection")


def _grid_sample(
    x: Tensor,
    grid: Tensor,
    mode: str = "linear",
    padding: str = "zeros",
    align_corners: bool = False,
) -> Tensor:
    rank = x.ndim - 2
    real = "float64" if x.dtype == "float64" else "float32"
    points = [_points(x, grid, d, mode, padding, align_corners) for d in range(rank)]
    taps = {"nearest": [0], "linear": [0, 1], "cubic": [-1, 0, 1, 2]}[mode]

    def sampled(i: tuple[Element, ...], d: int, place: tuple[Element, ...]) -> Element:
        if d == rank:
            return f.cast(_pixel(x, i[:2], place, padding, align_corners), real)
        at = (i[0], *i[2:])
        whole, rest = points[d]
        parts = []
        for tap in taps:
            part = sampled(i, d + 1, (*place, whole[at] + tap))
            parts.append(part if rest is None else part * _weight(rest[at], tap, mode))
        return functools.reduce(operator.add, parts)

    shape = (*x.shape[:2], *grid.shape[1:-1])
    return compute(
        shape, lambda *i: f.cast(sampled(i, 0, ()), x.dtype), name="grid_sample"
    )


def _points(
    x: Tensor, grid: Tensor, d: int, mode: str, padding: str, align_corners: bool
) -> tuple[Tensor, Tensor | None]:
    """The coordinates along axis d: the element before each, and the rest."""
    extent = x.shape[2 + d]
    last = grid.shape[-1] - 1 - d  # a grid names the innermost axis first
    real = "float64" if grid.dtype == "float64" else "float32"
    shape = grid.shape[:-1]

    def body(*i: Element) -> Scalar:
        place = f.cast(grid[(*i, last)], real) + 1.0
        if align_corners:
            place = place * 0.5 * (extent - 1)
        else:
            place = (place * extent - 1.0) * 0.5
        place = f.round(place) if mode == "nearest" else place
        place = _returned(place, extent, padding, align_corners)
        # Far outside it makes no difference where. An integer must hold it, of NaN too.
        return f.select(place > -8, f.minimum(place, extent + 8), f.cast(-8, real))

    point = compute(shape, body, name=f"point_{d}")
    whole = compute(
        shape, lambda *i: f.cast(f.floor(point[i]), "int64"), name=f"whole_{d}"
    )
    if mode == "nearest":
        return whole, None
    rest = compute(shape, lambda *i: point[i] - f.floor(point[i]), name=f"rest_{d}")
    return whole, rest


def _returned(place: Element, extent: int, padding: str, corners: bool) -> Element:
    """A coordinate outside, moved back as the padding says."""
    if padding == "zeros":
        return place
    low, high = (0.0, extent - 1.0) if corners else (-0.5, extent - 0.5)
    outside = (place < low) | (place > high)
    if padding == "border":
        return f.select(outside, f.clip(place, 0, extent - 1), place)
    if high == low:
        return place * 0.0
    turn = (place - low) % (2 * (high - low))
    turned = f.select(turn > high - low, 2 * (high - low) - turn, turn) + low
    return f.select(outside, turned, place)


def _pixel(
    x: Tensor,
    lead: tuple[Element, ...],
    place: tuple[Element, ...],
    padding: str,
    corners: bool,
) -> Element:
    if padding == "zeros":
        inside = [
            test
            for p, n in zip(place, x.shape[2:], strict=True)
            for test in (p >= 0, p < n)
        ]
        both = functools.reduce(operator.and_, inside)
        return f.select(both, x[(*lead, *place)], f.cast(0, x.dtype))
    back = zip(place, x.shape[2:], strict=True)
    return x[(*lead, *(_turned(p, n, padding, corners) for p, n in back))]


def _turned(place: Element, extent: int, padding: str, corners: bool) -> Scalar:
    """An index that is inside."""
    if extent == 1:
        return 0
    if padding == "border":
        return f.clip(place, 0, extent - 1)
    if corners:
        return (extent - 1) - abs((extent - 1) - place % (2 * extent - 2))
    turn = place % (2 * extent)
    return f.minimum(turn, (2 * extent - 1) - turn)


def _weight(rest: Element, tap: int, mode: str) -> Element:
    if mode == "linear":
        return rest if tap else 1.0 - rest
    a = -0.75
    x = {-1: rest + 1.0, 0: rest, 1: 1.0 - rest, 2: 2.0 - rest}[tap]
    if tap in (0, 1):
        return ((a + 2) * x - (a + 3)) * x * x + 1.0
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def _infer_grid_sample(
    x: Value,
    grid: Value,
    mode: str = "linear",
    padding: str = "zeros",
    align_corners: bool = False,
) -> list[Type]:
    rank = len(x.shape) - 2
    if mode not in ("nearest", "linear", "cubic") or padding not in _PADDING:
        raise ModelError("grid_sample", f"mode {mode!r}, padding {padding!r}")
    fits = rank >= 1 and len(grid.shape) == rank + 2 and grid.shape[-1] == rank
    if not fits or grid.shape[0] != x.shape[0] or not is_float(grid.dtype):
        raise ModelError("grid_sample", f"a grid {grid} for {x}")
    if DTYPES[x.dtype].kind != "float" and mode != "nearest":
        raise ModelError("grid_sample", f"mode {mode!r} of {x.dtype}")
    return [(x.dtype, (*x.shape[:2], *grid.shape[1:-1]))]


OPERATORS: tuple[Operator, ...] = (
    Operator("interpolate", _interpolate, evaluate=_evaluate, infer=_infer),
    Operator("resample", _resample, Kind.REDUCTION, _evaluate, _infer),
    Operator("grid_sample", _grid_sample, infer=_infer_grid_sample),
)
