"""Operators of ATen that move elements: views, parts, copies, padding."""

from __future__ import annotations

from math import prod

import numpy as np

from ansor.frontend.builder import Builder
from ansor.frontend.graph import Array, Value
from ansor.frontend.torch.call import (
    Call,
    Converter,
    Results,
    along,
    cast,
    expanded,
    operand,
    reshaped,
    sliced,
    transposed,
)


def convert_view(call: Call, build: Builder) -> Results:
    """view, unsqueeze, squeeze: torch has inferred the shape."""
    return reshaped(build, call.value("self"), call.shape)


def convert_expand(call: Call, build: Builder) -> Results:
    return expanded(build, call.value("self"), call.shape)


def convert_permute(call: Call, build: Builder) -> Results:
    x = call.value("self")
    return transposed(build, x, [d % len(x.shape) for d in call.numbers("dims")])


def convert_transpose(call: Call, build: Builder) -> Results:
    x = call.value("self")
    order = list(range(len(x.shape)))
    if order:
        a, b = call.axis("dim0", len(order)), call.axis("dim1", len(order))
        order[a], order[b] = order[b], order[a]
    return transposed(build, x, order)


def convert_t(call: Call, build: Builder) -> Results:
    x = call.value("self")
    return transposed(build, x, range(len(x.shape))[::-1])


def _bounds(call: Call, extent: int) -> tuple[int, int, int]:
    """Where a slice starts and stops, inside the axis, and its step."""
    start = call.whole("start") if call.has("start") else 0
    stop = call.whole("end") if call.has("end") else extent
    start, stop = (x + extent if x < 0 else x for x in (start, stop))
    start, stop = (min(max(x, 0), extent) for x in (start, stop))
    return start, max(start, stop), call.whole("step")


def convert_slice(call: Call, build: Builder) -> Results:
    x = call.value("self")
    axis = call.axis("dim", len(x.shape))
    return sliced(build, x, axis, *_bounds(call, x.shape[axis]))


def convert_select(call: Call, build: Builder) -> Results:
    x = call.value("self")
    axis = call.axis("dim", len(x.shape))
    index = call.whole("index") % x.shape[axis]
    return reshaped(build, sliced(build, x, axis, index, index + 1), call.shape)


def convert_split(call: Call, build: Builder) -> Results:
    x, at, found = call.value("self"), 0, []
    axis = call.axis("dim", len(x.shape))
    for size in call.numbers("split_sizes"):
        found.append(sliced(build, x, axis, at, at + size))
        at += size
    return tuple(found)


def convert_unbind(call: Call, build: Builder) -> Results:
    x = call.value("self")
    axis = call.axis("dim", len(x.shape))
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    parts = (sliced(build, x, axis, n, n + 1) for n in range(x.shape[axis]))
    return tuple(reshaped(build, part, rest) for part in parts)


def convert_cat(call: Call, build: Builder) -> Results:
    parts = [x for x in call.values("tensors") if x.shape != (0,) or call.shape == (0,)]
    parts = [x for x in parts if x.size] or parts[:1]
    if len(parts) == 1:
        return cast(build, parts[0], call.dtype)
    axis = call.axis("dim", len(call.shape))
    return build.add("concat", *(cast(build, x, call.dtype) for x in parts), axis=axis)


def convert_stack(call: Call, build: Builder) -> Results:
    axis = call.axis("dim", len(call.shape))
    shape = [1 if n == axis else extent for n, extent in enumerate(call.shape)]
    parts = [cast(build, x, call.dtype) for x in call.values("tensors")]
    return build.add("concat", *(reshaped(build, x, shape) for x in parts), axis=axis)


def convert_repeat(call: Call, build: Builder) -> Results:
    repeats = call.numbers("repeats")
    x = call.value("self")
    longer = (1,) * (len(repeats) - len(x.shape)) + x.shape
    return build.add("tile", reshaped(build, x, longer), repeats=repeats)


def convert_flip(call: Call, build: Builder) -> Results:
    x = call.value("self")
    axes = tuple(d % len(x.shape) for d in call.numbers("dims")) if x.shape else ()
    return build.add("reverse", x, axes=axes) if axes else x


# -- padding ---------------------------------------------------------------------------


def _widths(call: Call, name: str, rank: int) -> tuple[list[int], list[int]]:
    """Before and after every axis; torch lists pairs from the last axis on."""
    given = call.numbers(name)
    before, after = [0] * rank, [0] * rank
    for n, (low, high) in enumerate(zip(given[::2], given[1::2], strict=True)):
        before[rank - 1 - n], after[rank - 1 - n] = low, high
    return before, after


def convert_pad(call: Call, build: Builder) -> Results:
    """By a number; negative widths cut off."""
    x = call.value("self")
    before, after = _widths(call, "pad", len(x.shape))
    for axis, extent in enumerate(x.shape):
        low, high = max(0, -before[axis]), extent - max(0, -after[axis])
        x = sliced(build, x, axis, low, high)
    widths = {
        "before": tuple(max(0, n) for n in before),
        "after": tuple(max(0, n) for n in after),
    }
    if not any(map(any, widths.values())):
        return x
    return build.add("pad", x, **widths, mode="constant", value=call.number("value"))


def padding(mode: str) -> Converter:
    def convert(call: Call, build: Builder) -> Results:
        x = call.value("self")
        before, after = _widths(call, "padding", len(x.shape))
        if min((*before, *after), default=0) < 0:
            raise call.unsupported("argument 'padding' is negative")
        widths = {"before": tuple(before), "after": tuple(after)}
        return build.add("pad", x, **widths, mode=mode, value=0)

    return convert


# -- parts replaced --------------------------------------------------------------------


def convert_slice_scatter(call: Call, build: Builder) -> Results:
    x, source = call.value("self"), call.value("src")
    axis = call.axis("dim", len(x.shape))
    start, stop, step = _bounds(call, x.shape[axis])
    return _replaced(build, x, cast(build, source, x.dtype), axis, start, stop, step)


def convert_select_scatter(call: Call, build: Builder) -> Results:
    x = call.value("self")
    axis = call.axis("dim", len(x.shape))
    at = call.whole("index") % x.shape[axis]
    shape = [1 if n == axis else extent for n, extent in enumerate(x.shape)]
    source = reshaped(build, cast(build, call.value("src"), x.dtype), shape)
    return _replaced(build, x, source, axis, at, at + 1, 1)


def _replaced(
    build: Builder, x: Value, source: Value, axis: int, start: int, stop: int, step: int
) -> Value:
    """`x` with a part of one axis taken from `source`."""
    extent = x.shape[axis]
    chosen = np.arange(start, stop, step)
    if len(chosen) == 0:
        return x
    if step == 1:
        parts = [
            sliced(build, x, axis, 0, start),
            source,
            sliced(build, x, axis, stop, extent),
        ]
        kept = [part for part in parts if part.size]
        return kept[0] if len(kept) == 1 else build.add("concat", *kept, axis=axis)
    places = np.zeros(extent, np.int64)
    places[chosen] = np.arange(len(chosen))
    spread = build.add("gather", source, build.constant(places), axis=axis)
    mask = build.constant(np.isin(np.arange(extent), chosen))
    return build.add("where", along(build, mask, axis, len(x.shape)), spread, x)


# -- parts at places known ahead -------------------------------------------------------


def taken(build: Builder, x: Value, places: Array) -> Value:
    """Elements at these row-major positions of `x`."""
    flat = reshaped(build, x, (x.size,))
    return build.add("gather", flat, build.constant(places, "places"), axis=0)


def convert_as_strided(call: Call, build: Builder) -> Results:
    """Of a tensor that lies in memory as it is numbered."""
    x = call.value("self")
    start = call.whole("storage_offset") if call.has("storage_offset") else 0
    places = np.full(call.shape, start, np.int64)
    for axis, stride in enumerate(call.numbers("stride")):
        shape = [-1 if n == axis else 1 for n in range(len(call.shape))]
        places += (np.arange(call.shape[axis]) * stride).reshape(shape)
    if places.size and not 0 <= int(places.max()) < x.size:
        raise call.unsupported("reads outside of the tensor")
    return taken(build, x, places)


def convert_diagonal(call: Call, build: Builder) -> Results:
    x = call.value("self")
    rank = len(x.shape)
    a, b = call.axis("dim1", rank), call.axis("dim2", rank)
    rest = [n for n in range(rank) if n not in (a, b)]
    moved = transposed(build, x, [*rest, a, b])
    rows, columns = moved.shape[-2:]
    offset = call.whole("offset")
    count = call.shape[-1]
    first = max(0, -offset) * columns + max(0, offset)
    places = first + np.arange(count) * (columns + 1)
    flat = reshaped(build, moved, (*moved.shape[:-2], rows * columns))
    return build.add("gather", flat, build.constant(places), axis=len(rest))


def convert_unfold(call: Call, build: Builder) -> Results:
    x = call.value("self")
    axis, size = call.axis("dimension", len(x.shape)), call.whole("size")
    starts = np.arange(call.shape[axis]) * call.whole("step")
    places = build.constant(starts[:, None] + np.arange(size))
    found = build.add("gather", x, places, axis=axis)
    rest = [n for n in range(len(found.shape)) if n != axis + 1]
    return transposed(build, found, [*rest, axis + 1])


def convert_triangle(call: Call, build: Builder) -> Results:
    upper = call.op.startswith("aten.triu")
    return build.add(
        "triangle", call.value("self"), upper=upper, k=call.whole("diagonal")
    )


def convert_roll(call: Call, build: Builder) -> Results:
    x = call.value("self")
    shifts, dims = call.numbers("shifts"), call.numbers("dims")
    if not dims:
        flat = reshaped(build, x, (x.size,))
        return reshaped(build, _rolled(build, flat, 0, shifts[0]), x.shape)
    for shift, dim in zip(shifts, dims, strict=True):
        x = _rolled(build, x, dim % len(x.shape), shift)
    return x


def _rolled(build: Builder, x: Value, axis: int, shift: int) -> Value:
    extent = x.shape[axis]
    cut = (-shift) % extent if extent else 0
    if cut == 0:
        return x
    parts = sliced(build, x, axis, cut, extent), sliced(build, x, axis, 0, cut)
    return build.add("concat", *parts, axis=axis)


def convert_fill_tensor(call: Call, build: Builder) -> Results:
    value = operand(call, build, "value", call.dtype)
    return expanded(build, reshaped(build, value, ()), call.shape)


def convert_pixel_shuffle(call: Call, build: Builder) -> Results:
    x, factor = call.value("self"), call.whole("upscale_factor")
    *lead, channels, rows, columns = x.shape
    own = channels // factor**2
    parts = reshaped(build, x, (prod(lead), own, factor, factor, rows, columns))
    return reshaped(build, transposed(build, parts, (0, 1, 4, 2, 5, 3)), call.shape)


CONVERTERS: dict[str, Converter] = {
    **dict.fromkeys(
        (
            "aten.view.default",
            "aten.reshape.default",
            "aten._unsafe_view.default",
            "aten.unsqueeze.default",
            "aten.squeeze.default",
            "aten.squeeze.dim",
            "aten.squeeze.dims",
            "aten.flatten.using_ints",
        ),
        convert_view,
    ),
    "aten.expand.default": convert_expand,
    "aten.permute.default": convert_permute,
    "aten.transpose.int": convert_transpose,
    "aten.t.default": convert_t,
    "aten.slice.Tensor": convert_slice,
    "aten.select.int": convert_select,
    "aten.split_with_sizes.default": convert_split,
    "aten.unbind.int": convert_unbind,
    "aten.cat.default": convert_cat,
    "aten.stack.default": convert_stack,
    "aten.repeat.default": convert_repeat,
    "aten.flip.default": convert_flip,
    "aten.roll.default": convert_roll,
    "aten.constant_pad_nd.default": convert_pad,
    **{f"aten.reflection_pad{n}d.default": padding("reflect") for n in (1, 2, 3)},
    **{f"aten.replication_pad{n}d.default": padding("edge") for n in (1, 2, 3)},
    "aten.slice_scatter.default": convert_slice_scatter,
    "aten.select_scatter.default": convert_select_scatter,
    "aten.as_strided.default": convert_as_strided,
    "aten.diagonal.default": convert_diagonal,
    "aten.unfold.default": convert_unfold,
    "aten.tril.default": convert_triangle,
    "aten.triu.default": convert_triangle,
    "aten.fill.Tensor": convert_fill_tensor,
    "aten.pixel_shuffle.default": convert_pixel_shuffle,
}
