"""Operators of ATen that read and write at computed places."""

from __future__ import annotations

import numpy as np

from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.torch.call import (
    Call,
    Converter,
    Results,
    cast,
    expanded,
    operand,
    reshaped,
    scalar,
    sliced,
    transposed,
)

REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min"}


def convert_embedding(call: Call, build: Builder) -> Results:
    return build.add("gather", call.value("weight"), call.value("indices"), axis=0)


def convert_index_select(call: Call, build: Builder) -> Results:
    x, index = call.value("self"), call.value("index")
    if not x.shape:
        return x
    places = reshaped(build, index, (index.size,))
    return build.add("gather", x, places, axis=call.axis("dim", len(x.shape)))


def convert_gather(call: Call, build: Builder) -> Results:
    x, index = call.value("self"), call.value("index")
    shape = index.shape
    x, index = _with_axis(build, x), _with_axis(build, index)
    axis = call.axis("dim", len(x.shape))
    x = _fitted(build, x, index.shape, axis)
    return reshaped(build, build.add("gather_elements", x, index, axis=axis), shape)


def _with_axis(build: Builder, x: Value) -> Value:
    return x if x.shape else reshaped(build, x, (1,))


def _fitted(
    build: Builder, x: Value, shape: tuple[int, ...], without: int | None = None
) -> Value:
    """The corner of `x` of this shape; axis `without` stays whole."""
    for axis, extent in enumerate(shape):
        if axis != without:
            x = sliced(build, x, axis, 0, extent)
    return x


# -- x[a, :, b] ------------------------------------------------------------------------


def _indices(call: Call) -> dict[int, Value]:
    """The tensors that index axes."""
    given = call.arguments["indices"]
    items = given if isinstance(given, tuple) else ()
    return {axis: x for axis, x in enumerate(items) if isinstance(x, Value)}


def convert_index(call: Call, build: Builder) -> Results:
    x, indices = call.value("self"), _indices(call)
    if any(index.dtype in ("bool", "uint8") for index in indices.values()):
        raise call.unsupported("argument 'indices' is a mask: the shape is not known")
    if len(indices) == 1:
        ((axis, index),) = indices.items()
        return build.add("gather", x, index, axis=axis)
    rest = [n for n in range(len(x.shape)) if n not in indices]
    moved = transposed(build, x, [*indices, *rest])
    places = _stacked(build, moved, list(indices.values()))
    found = build.add("gather_nd", moved, places, batch_dims=0)
    return _put_back(build, found, list(indices), len(places.shape) - 1)


def _put_back(build: Builder, x: Value, axes: list[int], count: int) -> Value:
    """`count` new axes from the front to where the indexed ones stood side by side."""
    if axes != list(range(axes[0], axes[-1] + 1)):
        return x
    before = axes[0]
    order = [
        *range(count, count + before),
        *range(count),
        *range(count + before, len(x.shape)),
    ]
    return transposed(build, x, order)


def _stacked(build: Builder, x: Value, indices: list[Value]) -> Value:
    """Indices of the leading axes of `x` as one array, the last axis of which runs
    over them."""
    shape = np.broadcast_shapes(*(index.shape for index in indices))
    columns = []
    for index in indices:
        whole = expanded(build, cast(build, index, "int64"), shape)
        columns.append(reshaped(build, whole, (*shape, 1)))
    if len(columns) == 1:
        return columns[0]
    return build.add("concat", *columns, axis=len(shape))


def convert_index_put(call: Call, build: Builder) -> Results:
    x, indices = call.value("self"), _indices(call)
    values = cast(build, call.value("values"), x.dtype)
    if any(index.dtype in ("bool", "uint8") for index in indices.values()):
        return _put_where(call, build, x, indices, values)
    rest = [n for n in range(len(x.shape)) if n not in indices]
    order = [*indices, *rest]
    moved = transposed(build, x, order)
    places = _stacked(build, moved, list(indices.values()))
    count = len(places.shape) - 1
    shape = places.shape[:-1] + moved.shape[len(indices) :]
    updates = _updates(build, values, shape, list(indices), count)
    how = "add" if call.flag("accumulate") else "none"
    found = build.add("scatter_nd", moved, places, updates, reduction=how)
    return transposed(build, found, [order.index(n) for n in range(len(order))])


def _updates(
    build: Builder, values: Value, shape: tuple[int, ...], axes: list[int], count: int
) -> Value:
    """Values, which broadcast to what x[indices] is, with the new axes in front."""
    if axes != list(range(axes[0], axes[-1] + 1)) or axes[0] == 0:
        return expanded(build, values, shape)
    before = axes[0]
    lead, rest = shape[:count], shape[count:]
    whole = expanded(build, values, (*rest[:before], *lead, *rest[before:]))
    order = [
        *range(before, before + count),
        *range(before),
        *range(before + count, len(shape)),
    ]
    return transposed(build, whole, order)


def _put_where(
    call: Call, build: Builder, x: Value, indices: dict[int, Value], values: Value
) -> Value:
    """One number wherever a mask over the first axes holds."""
    if len(indices) != 1 or 0 not in indices or values.size != 1:
        raise call.unsupported("argument 'indices' is a mask, 'values' not one number")
    mask = cast(build, indices[0], "bool")
    mask = reshaped(build, mask, mask.shape + (1,) * (len(x.shape) - len(mask.shape)))
    value = reshaped(build, values, ())
    if call.flag("accumulate"):
        value = build.add("add", x, value)
    return build.add("where", mask, value, x)


# -- scatter ---------------------------------------------------------------------------


def scatter(how: str) -> Converter:
    def convert(call: Call, build: Builder) -> Results:
        x = call.value("self")
        shape = x.shape
        index = _with_axis(build, call.value("index"))
        if index.size == 0:
            return x
        x = _with_axis(build, x)
        if call.has("src"):
            source = _with_axis(build, cast(build, call.value("src"), x.dtype))
            updates = _fitted(build, source, index.shape)
        else:
            number = operand(call, build, "value", x.dtype)
            updates = expanded(build, number, index.shape)
        axis = call.axis("dim", len(x.shape))
        reduction = how or _reduction(call)
        found = build.add(
            "scatter_elements", x, index, updates, axis=axis, reduction=reduction
        )
        return reshaped(build, found, shape)

    return convert


def _reduction(call: Call) -> str:
    how = REDUCTIONS.get(call.text("reduce"))
    if how is None or not call.flag("include_self"):
        reason = f"reduce={call.text('reduce')!r}, include_self="
        raise call.unsupported(f"{reason}{call.flag('include_self')}")
    return how


def convert_masked_scatter(call: Call, build: Builder) -> Results:
    """Elements of `source` in order, wherever the mask holds."""
    x, source = call.value("self"), call.value("source")
    mask = expanded(build, cast(build, call.value("mask"), "bool"), x.shape)
    flat = cast(build, reshaped(build, mask, (x.size,)), "int64")
    count = build.add("cumsum", flat, axis=0, exclusive=True, reverse=False)
    places = build.add("minimum", count, scalar(build, source.size - 1, "int64"))
    every = reshaped(build, source, (source.size,))
    found = reshaped(build, build.add("gather", every, places, axis=0), x.shape)
    return build.add("where", mask, cast(build, found, x.dtype), x)


CONVERTERS: dict[str, Converter] = {
    "aten.embedding.default": convert_embedding,
    "aten.index_select.default": convert_index_select,
    "aten.gather.default": convert_gather,
    "aten.index.Tensor": convert_index,
    "aten._unsafe_index.Tensor": convert_index,
    "aten.index_put.default": convert_index_put,
    "aten._unsafe_index_put.default": convert_index_put,
    "aten.scatter.src": scatter("none"),
    "aten.scatter.value": scatter("none"),
    "aten.scatter_add.default": scatter("add"),
    "aten.scatter_reduce.two": scatter(""),
    "aten.masked_scatter.default": convert_masked_scatter,
}
