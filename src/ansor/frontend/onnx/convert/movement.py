"""Shapes, slices, borders, joins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import prod

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Array, Value
from ansor.frontend.onnx.convert.pieces import as_axis, literal, reshape
from ansor.frontend.onnx.node import Converter, OnnxNode
from ansor.frontend.operators.elementwise import common_shape

Ints = tuple[int, ...]


def ints(array: Array | Sequence[int]) -> Ints:
    """A constant vector of integers."""
    return tuple(int(x) for x in np.asarray(array).reshape(-1))


def axes_of(node: OnnxNode, axes: Sequence[int], rank: int) -> Ints:
    found = tuple(as_axis(node, axis, rank) for axis in axes)
    if len(set(found)) != len(found):
        raise ModelError(str(node), f"an axis of {tuple(axes)} is given twice")
    return found


def listed(
    node: OnnxNode, build: Builder, name: str, index: int, since: int
) -> Ints | None:
    """Integers that were an attribute, and became an input with opset `since`."""
    if node.opset < since:
        given = node.attribute(name, None)
        return None if given is None else ints(given)
    known = node.maybe_known(index, build)
    return None if known is None else ints(known)


def convert_reshape(node: OnnxNode, build: Builder) -> Value:
    node.attribute("consumed_inputs", None)
    x, wanted = node.input(0), listed(node, build, "shape", 1, 5)
    if wanted is None:
        raise node.unsupported("input 'shape' is missing")
    if not node.attribute("allowzero", False):
        wanted = _copied(node, x, wanted)
    if wanted.count(-1) == 1:
        rest = prod(n for n in wanted if n != -1)
        if rest == 0 or x.size % rest:
            raise ModelError(str(node), f"shape {wanted} of {x.size} elements")
        wanted = tuple(x.size // rest if n == -1 else n for n in wanted)
    return reshape(build, x, wanted)


def _copied(node: OnnxNode, x: Value, wanted: Ints) -> Ints:
    """A 0 stands for the extent that `x` has there."""
    if any(n == 0 and d >= len(x.shape) for d, n in enumerate(wanted)):
        raise ModelError(str(node), f"shape {wanted} of {x.shape}: nothing to copy")
    return tuple(x.shape[d] if n == 0 else n for d, n in enumerate(wanted))


def convert_flatten(node: OnnxNode, build: Builder) -> Value:
    x, axis = node.input(0), node.attribute("axis", 1)
    rank = len(x.shape)
    if not -rank <= axis <= rank:
        raise ModelError(str(node), f"axis {axis} of {rank}")
    at = axis + rank if axis < 0 else axis
    return reshape(build, x, (prod(x.shape[:at]), prod(x.shape[at:])))


def convert_squeeze(node: OnnxNode, build: Builder) -> Value:
    x, axes = node.input(0), listed(node, build, "axes", 1, 13)
    if axes is None:
        return reshape(build, x, [n for n in x.shape if n != 1])
    gone = axes_of(node, axes, len(x.shape))
    if any(x.shape[axis] != 1 for axis in gone):
        raise ModelError(str(node), f"axes {gone} of {x.shape} are not all of extent 1")
    return reshape(build, x, [n for d, n in enumerate(x.shape) if d not in gone])


def convert_unsqueeze(node: OnnxNode, build: Builder) -> Value:
    x, axes = node.input(0), listed(node, build, "axes", 1, 13)
    if axes is None:
        raise node.unsupported("input 'axes' is missing")
    return unsqueezed(build, x, axes_of(node, axes, len(x.shape) + len(axes)))


def unsqueezed(build: Builder, x: Value, axes: Sequence[int]) -> Value:
    shape = list(x.shape)
    for axis in sorted(axes):
        shape.insert(axis, 1)
    return reshape(build, x, shape)


def convert_transpose(node: OnnxNode, build: Builder) -> Value:
    x = node.input(0)
    rank = len(x.shape)
    order = node.attribute("perm", None)
    axes = tuple(range(rank))[::-1] if order is None else axes_of(node, order, rank)
    return transposed(build, x, axes)


def transposed(build: Builder, x: Value, axes: Sequence[int]) -> Value:
    order = tuple(axes)
    same = order == tuple(range(len(x.shape)))
    return x if same else build.add("transpose", x, axes=order)


def convert_expand(node: OnnxNode, build: Builder) -> Value:
    x, wanted = node.input(0), ints(node.known(1, build))
    shape = common_shape(str(node), x.shape, wanted)
    return x if shape == x.shape else build.add("expand", x, shape=shape)


def convert_tile(node: OnnxNode, build: Builder) -> Value:
    x, repeats = node.input(0), ints(node.known(1, build))
    if node.opset < 6:
        axis = as_axis(node, ints(node.known(2, build))[0], len(x.shape))
        repeats = tuple(repeats[0] if d == axis else 1 for d in range(len(x.shape)))
    return x if all(r == 1 for r in repeats) else build.add("tile", x, repeats=repeats)


def convert_slice(node: OnnxNode, build: Builder) -> Value:
    x, rank = node.input(0), len(node.input(0).shape)
    if node.opset < 10:
        starts, ends = ints(node.attribute("starts")), ints(node.attribute("ends"))
        axes, steps = node.attribute("axes", None), None
    else:
        starts, ends = ints(node.known(1, build)), ints(node.known(2, build))
        axes, steps = node.maybe_known(3, build), node.maybe_known(4, build)
    chosen = ints(axes) if axes is not None else tuple(range(len(starts)))
    strides = ints(steps) if steps is not None else (1,) * len(starts)
    bounds = [(0, n, 1) for n in x.shape]
    places = axes_of(node, chosen, rank)
    for axis, start, end, step in zip(places, starts, ends, strides, strict=True):
        if step == 0:
            raise ModelError(str(node), "a step is 0")
        bounds[axis] = slice(start, end, step).indices(x.shape[axis])
    return sliced(build, x, bounds)


def sliced(build: Builder, x: Value, bounds: Sequence[tuple[int, int, int]]) -> Value:
    """x[start:stop:step] per axis, as ranges."""
    if all(range(*b) == range(n) for b, n in zip(bounds, x.shape, strict=True)):
        return x
    starts, stops, steps = (tuple(part) for part in zip(*bounds, strict=True))
    return build.add("slice", x, starts=starts, stops=stops, steps=steps)


def convert_concat(node: OnnxNode, build: Builder) -> Value:
    values = [node.input(n) for n in range(max(1, len(node.inputs)))]
    given = node.attribute("axis", 1) if node.opset < 4 else node.attribute("axis")
    return joined(build, values, as_axis(node, given, len(values[0].shape)))


def joined(build: Builder, values: Sequence[Value], axis: int) -> Value:
    """Values one after another; those without elements add nothing."""
    filled = [value for value in values if value.size]
    if len(filled) == 1:
        build.add("concat", *values, axis=axis)  # checks that the shapes agree
        return filled[0]
    return build.add("concat", *(filled or values), axis=axis)


def convert_split(node: OnnxNode, build: Builder) -> tuple[Value, ...]:
    x = node.input(0)
    axis = as_axis(node, node.attribute("axis", 0) or 0, len(x.shape))
    sizes = listed(node, build, "split", 1, 13)
    if sizes is None and node.opset < 2:
        sizes = listed(node, build, "split", 1, 0)
    if sizes is None:
        count = node.output_count
        if node.attribute("num_outputs", count) != count:
            raise ModelError(str(node), f"'num_outputs' is not {count}")
        each = -(-x.shape[axis] // count)
        ends = [min(each * n, x.shape[axis]) for n in range(count + 1)]
        sizes = tuple(b - a for a, b in pairwise(ends))
    if sum(sizes) != x.shape[axis]:
        raise ModelError(str(node), f"parts {sizes} of {x.shape[axis]} elements")
    parts, start = [], 0
    for size in sizes:
        bounds = [(0, n, 1) for n in x.shape]
        bounds[axis] = (start, start + size, 1)
        parts.append(sliced(build, x, bounds))
        start += size
    return tuple(parts)


def convert_pad(node: OnnxNode, build: Builder) -> Value:
    x, rank = node.input(0), len(node.input(0).shape)
    mode = node.attribute("mode", "constant")
    if mode not in ("constant", "reflect", "edge", "wrap"):
        raise node.unsupported(f"attribute 'mode' is {mode!r}")
    fill: Value | None = None
    if node.opset < 11:
        widths = node.attribute("paddings" if node.opset < 2 else "pads")
        fill = literal(build, node.attribute("value", 0.0), x.dtype)
    else:
        widths, fill = ints(node.known(1, build)), node.maybe(2)
    axes = node.maybe_known(3, build)
    places = axes_of(node, range(rank) if axes is None else ints(axes), rank)
    if len(widths) != 2 * len(places):
        raise ModelError(str(node), f"{len(widths)} widths of {len(places)} axes")
    before, after = [0] * rank, [0] * rank
    for n, axis in enumerate(places):
        before[axis], after[axis] = widths[n], widths[len(places) + n]
    return padded(build, x, before, after, mode, fill)


def padded(
    build: Builder,
    x: Value,
    before: Sequence[int],
    after: Sequence[int],
    mode: str = "constant",
    fill: Value | None = None,
) -> Value:
    """Borders added, or taken away where a width is negative."""
    cut = [
        (max(0, -b), n - max(0, -a), 1)
        for n, b, a in zip(x.shape, before, after, strict=True)
    ]
    x = sliced(build, x, cut)
    low, high = (tuple(max(0, w) for w in side) for side in (before, after))
    if not any((*low, *high)):
        return x
    if mode != "constant":
        return build.add("pad", x, before=low, after=high, mode=mode)
    known = np.zeros(()) if fill is None else build.known(fill)
    if known is None:
        return _filled(build, x, low, high, fill)
    value = _plain(known)
    if x.size == 0:
        shape = tuple(n + b + a for n, b, a in zip(x.shape, low, high, strict=True))
        return build.add("expand", literal(build, value, x.dtype), shape=shape)
    return build.add("pad", x, before=low, after=high, mode="constant", value=value)


def _plain(known: Array) -> float | int | bool:
    one = known.reshape(-1)[0]
    found: float | int | bool = one.item() if known.dtype.kind in "fiub" else float(one)
    return found


def _filled(
    build: Builder, x: Value, low: Ints, high: Ints, fill: Value | None
) -> Value:
    """A border whose value is known when the graph runs."""
    assert fill is not None
    zeros = build.add("pad", x, before=low, after=high, mode="constant", value=0)
    widths = list(zip(low, high, strict=True))
    inside = build.constant(np.pad(np.ones(x.shape, np.bool_), widths))
    return build.add("where", inside, zeros, reshape(build, fill, ()))


def convert_center_crop_pad(node: OnnxNode, build: Builder) -> Value:
    x, rank = node.input(0), len(node.input(0).shape)
    axes = axes_of(node, node.attribute("axes", tuple(range(rank))), rank)
    sizes = ints(node.known(1, build))
    before, after = [0] * rank, [0] * rank
    for axis, size in zip(axes, sizes, strict=True):
        extra = size - x.shape[axis]
        before[axis] = extra // 2 if extra >= 0 else -(-extra // 2)
        after[axis] = extra - before[axis]
    return padded(build, x, before, after)


def convert_depth_to_space(node: OnnxNode, build: Builder) -> Value:
    x, b = node.input(0), node.attribute("blocksize")
    mode = node.attribute("mode", "DCR")
    n, c, h, w = x.shape
    if mode == "DCR":
        shape, order = (n, b, b, c // (b * b), h, w), (0, 3, 4, 1, 5, 2)
    elif mode == "CRD":
        shape, order = (n, c // (b * b), b, b, h, w), (0, 1, 4, 2, 5, 3)
    else:
        raise node.unsupported(f"attribute 'mode' is {mode!r}")
    moved = transposed(build, reshape(build, x, shape), order)
    return reshape(build, moved, (n, c // (b * b), h * b, w * b))


def convert_space_to_depth(node: OnnxNode, build: Builder) -> Value:
    x, b = node.input(0), node.attribute("blocksize")
    mode = node.attribute("mode", "DCR")
    n, c, h, w = x.shape
    if mode not in ("DCR", "CRD"):
        raise node.unsupported(f"attribute 'mode' is {mode!r}")
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    parts = reshape(build, x, (n, c, h // b, b, w // b, b))
    return reshape(
        build, transposed(build, parts, order), (n, c * b * b, h // b, w // b)
    )


def convert_trilu(node: OnnxNode, build: Builder) -> Value:
    x, known = node.input(0), node.maybe_known(1, build)
    k = 0 if known is None else int(known.reshape(-1)[0])
    k = max(-(2**31), min(2**31, k))
    return build.add("triangle", x, upper=node.attribute("upper", True), k=k)


def convert_identity(node: OnnxNode, build: Builder) -> Value:
    return node.input(0)


def convert_shape(node: OnnxNode, build: Builder) -> Value:
    shape = node.input(0).shape
    start, end = node.attribute("start", 0), node.attribute("end", None)
    return build.constant(np.array(shape[slice(start, end)], np.int64))


def convert_size(node: OnnxNode, build: Builder) -> Value:
    return build.constant(np.array(node.input(0).size, np.int64))


CONVERTERS: Mapping[str, Converter] = {
    "CenterCropPad": convert_center_crop_pad,
    "Concat": convert_concat,
    "DepthToSpace": convert_depth_to_space,
    "Expand": convert_expand,
    "Flatten": convert_flatten,
    "Identity": convert_identity,
    "Pad": convert_pad,
    "Reshape": convert_reshape,
    "Shape": convert_shape,
    "Size": convert_size,
    "Slice": convert_slice,
    "SpaceToDepth": convert_space_to_depth,
    "Split": convert_split,
    "Squeeze": convert_squeeze,
    "Tile": convert_tile,
    "Transpose": convert_transpose,
    "Trilu": convert_trilu,
    "Unsqueeze": convert_unsqueeze,
}
