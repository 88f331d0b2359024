"""Operators that pick and place elements by indices.

Indices are int64 or int32 and may count from the back. A kernel cannot refuse one that
lies outside: gathers read the nearest element then, scatters leave it out.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from math import prod

import numpy as np
import numpy.typing as npt

from ansor.errors import ModelError
from ansor.frontend.graph import Value
from ansor.frontend.operators.operator import Kind, Operator, Type
from ansor.ir.dtypes import is_int
from ansor.ir.evaluate import Array
from ansor.te import functions as f
from ansor.te.ops.shape import reshape
from ansor.te.reduction import max as max_
from ansor.te.reduction import min as min_
from ansor.te.reduction import prod as prod_
from ansor.te.reduction import reduce_axis
from ansor.te.reduction import sum as sum_
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Scalar
from ansor.te.value import Value as Element

Index = npt.NDArray[np.int64]
REDUCTIONS = ("none", "add", "mul", "max", "min")


def _need(ok: bool, name: str, reason: str) -> None:
    if not ok:
        raise ModelError(name, reason)


def _need_indices(name: str, indices: Value) -> None:
    _need(is_int(indices.dtype), name, f"indices are {indices.dtype}, not integers")


def _inside(index: Element, extent: int) -> Element:
    """An index of a gather that does not leave the axis."""
    place = f.cast(index, "int64")
    if extent == 1:
        return place * 0
    wrapped = f.select(place < 0, place + extent, place)
    return f.clip(wrapped, 0, extent - 1)


def _resolved(name: str, indices: Array, extent: int) -> Index:
    """Constant indices counted from the front; outside ones are refused."""
    places = indices.astype(np.int64)
    wrapped = np.where(places < 0, places + extent, places)
    outside = (wrapped < 0) | (wrapped >= extent)
    if outside.any():
        worst = int(places[outside].flat[0])
        raise ModelError(name, f"index {worst} is outside an axis of {extent}")
    return wrapped


# gather: whole slices along an axis, as numpy.take.


def _gather(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    rank, extent = indices.ndim, x.shape[axis]
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])

    def body(*i: Element) -> Scalar:
        place = _inside(indices[i[axis : axis + rank]], extent)
        return x[(*i[:axis], place, *i[axis + rank :])]

    return compute(shape, body, name="gather")


def _infer_gather(x: Value, indices: Value, axis: int) -> list[Type]:
    _need_indices("gather", indices)
    _need(0 <= axis < len(x.shape), "gather", f"axis {axis} of {list(x.shape)}")
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    filled = x.shape[axis] > 0 or prod(shape) == 0
    _need(filled, "gather", f"axis {axis} of {list(x.shape)} has nothing to pick")
    return [(x.dtype, shape)]


def _evaluate_gather(x: Array, indices: Array, axis: int) -> Array:
    return np.take(x, _resolved("gather", indices, x.shape[axis]), axis)


# gather_elements: an index for every element of the result.


def _gather_elements(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    def body(*i: Element) -> Scalar:
        place = _inside(indices[i], x.shape[axis])
        return x[(*i[:axis], place, *i[axis + 1 :])]

    return compute(indices.shape, body, name="gather_elements")


def _infer_gather_elements(x: Value, indices: Value, axis: int) -> list[Type]:
    _need_indices("gather_elements", indices)
    _need_below("gather_elements", indices, x, axis)
    return [(x.dtype, indices.shape)]


def _need_below(name: str, indices: Value, x: Value, axis: int) -> None:
    """Indices have the rank of `x` and exceed it along `axis` at most."""
    fits = len(indices.shape) == len(x.shape) and 0 <= axis < len(x.shape)
    fits = fits and all(
        n <= m or d == axis
        for d, (n, m) in enumerate(zip(indices.shape, x.shape, strict=True))
    )
    shapes = f"{list(indices.shape)} for {list(x.shape)}"
    _need(fits, name, f"indices are {shapes} along axis {axis}")


def _corner(x: Array, shape: tuple[int, ...], axis: int) -> Array:
    """The part of `x` that indices of this shape can reach."""
    cut = [slice(None) if d == axis else slice(n) for d, n in enumerate(shape)]
    return x[tuple(cut)]


def _evaluate_gather_elements(x: Array, indices: Array, axis: int) -> Array:
    places = _resolved("gather_elements", indices, x.shape[axis])
    return np.take_along_axis(_corner(x, indices.shape, axis), places, axis)


# gather_nd: tuples of indices along the last axis of `indices`.


def _gather_nd(x: Tensor, indices: Tensor, batch_dims: int = 0) -> Tensor:
    depth, lead = indices.shape[-1], indices.ndim - 1
    shape = (*indices.shape[:-1], *x.shape[batch_dims + depth :])

    def body(*i: Element) -> Scalar:
        places = [
            _inside(indices[(*i[:lead], k)], x.shape[batch_dims + k])
            for k in range(depth)
        ]
        return x[(*i[:batch_dims], *places, *i[lead:])]

    return compute(shape, body, name="gather_nd")


def _infer_gather_nd(x: Value, indices: Value, batch_dims: int = 0) -> list[Type]:
    _need_indices("gather_nd", indices)
    depth = indices.shape[-1] if indices.shape else -1
    alike = x.shape[:batch_dims] == indices.shape[:batch_dims]
    fits = 0 < depth <= len(x.shape) - batch_dims and batch_dims < len(indices.shape)
    shapes = f"{list(indices.shape)} for {list(x.shape)}"
    _need(fits and alike, "gather_nd", f"indices are {shapes}, batch_dims {batch_dims}")
    return [(x.dtype, (*indices.shape[:-1], *x.shape[batch_dims + depth :]))]


def _evaluate_gather_nd(x: Array, indices: Array, batch_dims: int = 0) -> Array:
    places = [
        _resolved("gather_nd", indices[..., k], x.shape[batch_dims + k])
        for k in range(indices.shape[-1])
    ]
    lead = indices.shape[:-1]
    grids = np.ix_(*(np.arange(n) for n in lead)) if lead else ()
    return np.asarray(x[(*grids[:batch_dims], *places)])


# Scatters: every element looks for the updates that are meant for it.

Meant = Callable[[tuple[Element, ...], Element], Element]

_REDUCERS = {"add": sum_, "mul": prod_, "max": max_, "min": min_}
_JOINS: dict[str, Callable[[Element, Element], Element]] = {
    "add": lambda a, b: a + b,
    "mul": lambda a, b: a * b,
    "max": f.maximum,
    "min": f.minimum,
}


def _scattered(x: Tensor, count: int, meant: Meant, update: Meant, kind: str) -> Tensor:
    """`meant(i, k)` says whether update k goes to element i, `update(i, k)` is it."""
    k = reduce_axis(count, name="update")
    if kind == "none":  # the last one wins
        last = compute(
            x.shape,
            lambda *i: max_(f.select(meant(i, k), k, -1), axis=k),
            name="scatter_last",
        )
        return compute(
            x.shape,
            lambda *i: f.select(last[i] < 0, x[i], update(i, last[i])),
            name="scatter",
        )
    neutral = _neutral(kind, x.dtype)
    found = compute(
        x.shape,
        lambda *i: _REDUCERS[kind](
            f.select(meant(i, k), update(i, k), neutral), axis=k
        ),
        name="scatter_found",
    )
    return compute(x.shape, lambda *i: _JOINS[kind](x[i], found[i]), name="scatter")


def _neutral(kind: str, dtype: str) -> Element:
    if kind in ("max", "min"):
        return f.min_value(dtype) if kind == "max" else f.max_value(dtype)
    return f.cast(0 if kind == "add" else 1, dtype)


def _match(index: Element, place: Element, extent: int) -> Element:
    wide = f.cast(index, "int64")
    return (wide == place) | (wide == place - extent)


def _scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, axis: int, reduction: str = "none"
) -> Tensor:
    def at(i: tuple[Element, ...], k: Element) -> tuple[Element, ...]:
        return (*i[:axis], k, *i[axis + 1 :])

    def meant(i: tuple[Element, ...], k: Element) -> Element:
        hit = _match(indices[at(i, k)], i[axis], x.shape[axis])
        for d, (n, m) in enumerate(zip(indices.shape, x.shape, strict=True)):
            if n < m and d != axis:
                hit = f.select(i[d] < n, hit, False)
        return hit

    return _scattered(
        x, indices.shape[axis], meant, lambda i, k: updates[at(i, k)], reduction
    )


def _infer_scatter_elements(
    x: Value, indices: Value, updates: Value, axis: int, reduction: str = "none"
) -> list[Type]:
    name = "scatter_elements"
    _need_indices(name, indices)
    _need_below(name, indices, x, axis)
    alike = updates.shape == indices.shape
    shapes = f"{list(updates.shape)} and {list(indices.shape)}"
    _need(alike, name, f"updates and indices are {shapes}")
    _need_scatter(name, x, updates, reduction)
    return [(x.dtype, x.shape)]


def _need_scatter(name: str, x: Value, updates: Value, reduction: str) -> None:
    _need(reduction in REDUCTIONS, name, f"reduction {reduction!r}")
    _need(x.dtype == updates.dtype, name, f"updates of {updates.dtype} for {x.dtype}")
    numbers = reduction == "none" or x.dtype != "bool"
    _need(numbers, name, f"reduction {reduction!r} of bool")


_UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _place(x: Array, places: tuple[Array, ...], updates: Array, kind: str) -> Array:
    result = x.copy()
    if kind == "none":
        result[places] = updates
    else:
        with np.errstate(all="ignore"):
            _UFUNCS[kind].at(result, places, updates)
    return result


def _evaluate_scatter_elements(
    x: Array, indices: Array, updates: Array, axis: int, reduction: str = "none"
) -> Array:
    grids: list[Array] = list(np.indices(indices.shape))
    grids[axis] = _resolved("scatter_elements", indices, x.shape[axis])
    return _place(x, tuple(grids), updates, reduction)


def _scatter_nd(
    x: Tensor, indices: Tensor, updates: Tensor, reduction: str = "none"
) -> Tensor:
    depth, count = indices.shape[-1], prod(indices.shape[:-1])
    tuples = reshape(indices, (count, depth), "scatter_indices")
    blocks = reshape(updates, (count, *x.shape[depth:]), "scatter_updates")

    def meant(i: tuple[Element, ...], k: Element) -> Element:
        hits = [_match(tuples[k, c], i[c], x.shape[c]) for c in range(depth)]
        return functools.reduce(operator.and_, hits)

    return _scattered(x, count, meant, lambda i, k: blocks[(k, *i[depth:])], reduction)


def _infer_scatter_nd(
    x: Value, indices: Value, updates: Value, reduction: str = "none"
) -> list[Type]:
    name = "scatter_nd"
    _need_indices(name, indices)
    depth = indices.shape[-1] if indices.shape else -1
    fits = 0 < depth <= len(x.shape)
    _need(fits, name, f"indices are {list(indices.shape)} for {list(x.shape)}")
    wanted = (*indices.shape[:-1], *x.shape[depth:])
    alike = updates.shape == wanted
    _need(alike, name, f"updates are {list(updates.shape)}, not {list(wanted)}")
    _need_scatter(name, x, updates, reduction)
    return [(x.dtype, x.shape)]


def _evaluate_scatter_nd(
    x: Array, indices: Array, updates: Array, reduction: str = "none"
) -> Array:
    places = tuple(
        _resolved("scatter_nd", indices[..., c], x.shape[c])
        for c in range(indices.shape[-1])
    )
    return _place(x, places, updates, reduction)


# one_hot: values[1] where the index is, values[0] elsewhere.


def _one_hot(indices: Tensor, values: Tensor, depth: int, axis: int) -> Tensor:
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])

    def body(*i: Element) -> Scalar:
        hit = _match(indices[(*i[:axis], *i[axis + 1 :])], i[axis], depth)
        return f.select(hit, values[1], values[0])

    return compute(shape, body, name="one_hot")


def _infer_one_hot(indices: Value, values: Value, depth: int, axis: int) -> list[Type]:
    _need_indices("one_hot", indices)
    _need(values.shape == (2,), "one_hot", f"values are {list(values.shape)}, not [2]")
    fits = depth >= 0 and 0 <= axis <= len(indices.shape)
    _need(fits, "one_hot", f"depth {depth} at axis {axis} of {list(indices.shape)}")
    return [(values.dtype, (*indices.shape[:axis], depth, *indices.shape[axis:]))]


def _evaluate_one_hot(indices: Array, values: Array, depth: int, axis: int) -> Array:
    place = np.expand_dims(indices.astype(np.int64), axis)
    line = np.arange(depth).reshape((-1,) + (1,) * (indices.ndim - axis))
    hit = (place == line) | (place == line - depth)
    return np.asarray(np.where(hit, values[1], values[0]))


OPERATORS: tuple[Operator, ...] = (
    Operator("gather", _gather, evaluate=_evaluate_gather, infer=_infer_gather),
    Operator(
        "gather_elements",
        _gather_elements,
        evaluate=_evaluate_gather_elements,
        infer=_infer_gather_elements,
    ),
    Operator(
        "gather_nd",
        _gather_nd,
        evaluate=_evaluate_gather_nd,
        infer=_infer_gather_nd,
    ),
    Operator(
        "scatter_elements",
        _scatter_elements,
        Kind.REDUCTION,
        _evaluate_scatter_elements,
        _infer_scatter_elements,
    ),
    Operator(
        "scatter_nd",
        _scatter_nd,
        Kind.REDUCTION,
        _evaluate_scatter_nd,
        _infer_scatter_nd,
    ),
    Operator("one_hot", _one_hot, evaluate=_evaluate_one_hot, infer=_infer_one_hot),
)
