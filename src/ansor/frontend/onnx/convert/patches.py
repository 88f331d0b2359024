"""Col2Im, deformable convolutions and determinants."""

from __future__ import annotations

from math import prod

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.onnx.convert.contraction import biased
from ansor.frontend.onnx.convert.pieces import beside, literal, part, reshape
from ansor.frontend.onnx.convert.spans import spans
from ansor.frontend.onnx.node import Converter, OnnxNode


def convert_col2im(node: OnnxNode, build: Builder) -> Value:
    x = node.input(0)
    shape, kernel = (
        tuple(int(n) for n in node.known(i, build).reshape(-1)) for i in (1, 2)
    )
    s = spans(node, shape, kernel)
    places = tuple(
        (n + sum(pair) - size) // step + 1
        for n, pair, size, step in zip(
            shape, s.padding, s.sizes, s.strides, strict=True
        )
    )
    channels = x.shape[1] // prod(kernel)
    columns = reshape(build, x, (x.shape[0], channels, *kernel, *places))
    return build.add(
        "fold",
        columns,
        shape=shape,
        kernel=kernel,
        strides=s.strides,
        padding=s.padding,
        dilations=s.dilations,
    )


def convert_deform_conv(node: OnnxNode, build: Builder) -> Value:
    """A convolution whose windows' elements are displaced."""
    x, weight, offset, mask = (node.maybe(n) for n in (0, 1, 2, 4))
    if x is None or weight is None or offset is None:
        raise ModelError(str(node), "it takes an image, a weight and an offset")
    kernel = node.attribute("kernel_shape", weight.shape[2:])
    if len(x.shape) != 4 or kernel != weight.shape[2:]:
        raise node.unsupported(f"{len(x.shape) - 2} spatial axes, kernel {kernel}")
    groups, parts = node.attribute("group", 1), node.attribute("offset_group", 1)
    s = spans(node, x.shape[2:], kernel)
    places = offset.shape[2:]
    lead = (x.shape[0], parts, *kernel)
    moves = reshape(build, offset, (*lead, 2, *places))
    if mask is None:
        mask = build.add("expand", literal(build, 1, x.dtype), shape=(*lead, *places))
    else:
        mask = reshape(build, mask, (*lead, *places))
    columns = build.add("displaced", x, moves, mask, kernel=kernel, strides=s.strides,
                        padding=s.padding, dilations=s.dilations)  # fmt: skip
    inner = x.shape[1] // groups * prod(kernel)
    columns = reshape(build, columns, (x.shape[0], groups, inner, prod(places)))
    factor = reshape(build, weight, (groups, weight.shape[0] // groups, inner))
    found = build.add("matmul", factor, columns)
    found = reshape(build, found, (x.shape[0], weight.shape[0], *places))
    return biased(build, found, node.maybe(3))


LARGEST = 16  # rows of a determinant, whose steps are written out


def convert_det(node: OnnxNode, build: Builder) -> Value:
    """The product of the pivots of an elimination."""
    x = node.input(0)
    *lead, rows, columns = x.shape
    if rows != columns or not 1 <= rows <= LARGEST:
        raise node.unsupported(f"a matrix of {rows} rows and {columns} columns")
    rest = reshape(build, x, (prod(lead), rows, rows))
    total: Value | None = None
    while rest.shape[1]:
        pivot, rest = _eliminated(build, rest)
        total = pivot if total is None else build.add("multiply", total, pivot)
        if rest.shape[1] == 0:
            break
    assert total is not None
    return reshape(build, total, tuple(lead))


def _eliminated(build: Builder, x: Value) -> tuple[Value, Value]:
    """The pivot (batch, 1, 1), negative where rows were exchanged, and the matrix
    without its row and column."""
    batch, size, _ = x.shape
    column = part(build, x, 2, 0, 1)
    if size == 1:
        return column, part(build, x, 1, 1, 1)
    place = build.add(
        "argmax", build.add("abs", column), axis=1, keepdims=True, last=False
    )
    whole = build.add("expand", place, shape=(batch, 1, size))
    row = build.add("gather_elements", x, whole, axis=1)
    rows = build.constant(np.arange(size).reshape(size, 1), "rows")
    chosen = build.add("equal", rows, place)
    swapped = build.add("where", chosen, part(build, x, 1, 0, 1), x)
    pivot = part(build, row, 2, 0, 1)
    one = literal(build, 1, x.dtype)
    safe = build.add("where", beside(build, "equal", pivot, 0), one, pivot)
    below = part(build, swapped, 1, 1, size)
    factor = build.add("divide", part(build, below, 2, 0, 1), safe)
    across = part(build, row, 2, 1, size)
    rest = build.add(
        "subtract",
        part(build, below, 2, 1, size),
        build.add("multiply", factor, across),
    )
    stayed = beside(build, "equal", place, 0)
    sign = build.add("where", stayed, one, literal(build, -1, x.dtype))
    return build.add("multiply", pivot, sign), rest


CONVERTERS: dict[str, Converter] = {
    "Col2Im": convert_col2im,
    "DeformConv": convert_deform_conv,
    "Det": convert_det,
}
