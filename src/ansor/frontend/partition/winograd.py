"""3x3 and nx3x3 convolutions by Winograd's method, as an alternative to the plain sum.

F(2x2, 3x3) needs 16 products for 4 results instead of 36, F(4x4, 3x3) 36 for 16 instead
of 144, and additions before and after, which pay where there are many channels:

    tiles (4 x 4) of the padded image  ->  Bᵀ·d, then (Bᵀ·d)·B  ->  one matrix product
    per place of a tile, over channels  ->  Aᵀ·M·A  ->  2 x 2 results

Images with depth are slices: the tiles of each are transformed once, and products are
added up over the depth of the kernel as over channels.

Kernels are transformed ahead, in float64. Results differ from those of the plain sum by
rounding: see docs/models.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ansor.frontend.graph import Array, Node, Value
from ansor.frontend.operators.operator import Kind, Operator
from ansor.frontend.passes.facts import integer, ints
from ansor.frontend.subgraph import Made
from ansor.te import value as te
from ansor.te.functions import cast, select
from ansor.te.ops.shape import pad
from ansor.te.reduction import reduce_axis, sum
from ansor.te.tensor import Tensor, compute
from ansor.te.workloads.winograd import A, B, G, Matrix, constant_matrix

Pairs = Sequence[tuple[int, int]]

SLICE = 1 << 17  # numbers of float64: a megabyte, which caches have room for


@dataclass(frozen=True)
class Winograd:
    """F(tile x tile, 3x3). Larger tiles save more, but their weights and their error
    grow: those of 4 are 2.25 and about eight times those of 2."""

    tile: int = 2

    @property
    def operator(self) -> Operator:
        name = "winograd" if self.tile == 2 else f"winograd{self.tile}"
        return Operator(name, convolved, Kind.ANCHOR)

    def applies(self, node: Node) -> bool:
        """To convolutions over two axes, or three, every place of the last two, with
        channels last."""
        if node.op != "conv" or node.attributes.get("layout") != "last":
            return False
        x, weight = node.inputs
        return (
            len(weight.shape) in (4, 5)
            and weight.shape[-4:-2] == (3, 3)
            and {x.dtype, weight.dtype} == {"float32"}
            and ints(node, "strides")[-2:] == (1, 1)
            and set(ints(node, "dilations")) == {1}
            and integer(node, "groups") == 1
        )

    def weight(self, given: Value, name: str) -> Made:
        *depth, _, _, inputs, outputs = given.shape
        shape = (self.tile + 2, self.tile + 2, *depth, inputs, outputs)
        return Made(Value(name, given.dtype, shape), given, self._transformed)

    def _transformed(self, kernels: Array) -> Array:
        matrix = G[self.tile]
        if kernels.ndim == 4:
            return transformed(kernels, matrix)
        depth, _, _, *channels = kernels.shape
        shape = (len(matrix), len(matrix), depth, *channels)
        made: Array = np.empty(shape, kernels.dtype)
        for at, part in enumerate(kernels):
            made[:, :, at] = transformed(part, matrix)
        return made

    def instead(self, node: Node, weight: Value) -> Node:
        attributes = {"padding": node.attributes["padding"], "tile": self.tile}
        if len(strides := ints(node, "strides")) == 3:
            attributes["step"] = strides[0]
        inputs = (node.inputs[0], weight)
        return replace(
            node, op=self.operator.name, inputs=inputs, attributes=attributes
        )


def transformed(kernels: Array, matrix: Matrix) -> Array:
    """G·g·Gᵀ of kernels (3, 3, inputs, outputs), computed in float64, a few inputs at a
    time: all at once would need several times the memory of the result."""
    g = np.array(matrix, np.float64)
    inputs, outputs = kernels.shape[2:]
    made = np.empty((len(g), len(g), inputs, outputs), kernels.dtype)
    count = max(1, SLICE // (len(g) ** 2 * outputs))
    for first in range(0, inputs, count):
        some = slice(first, first + count)
        wide = np.array(kernels[:, :, some], np.float64, order="C")
        rows = np.einsum("ur,rsco->usco", g, wide)
        made[:, :, some] = np.einsum("vs,usco->uvco", g, rows)
    return made


def convolved(
    x: Tensor, weight: Tensor, padding: Pairs, tile: int, step: int = 1
) -> Tensor:
    """The convolution of images with transformed kernels (tile+2, tile+2, C, O);
    `padding` is (before, after) of rows and of columns. Those of images with depth are
    (tile+2, tile+2, depth, C, O), and are applied at every `step`-th slice."""
    if x.ndim == 5:
        return _convolved_slices(x, weight, padding, tile, step)
    space = [
        n + before + after - 2
        for n, (before, after) in zip(x.shape[1:3], padding, strict=True)
    ]
    rows, columns = (-(-n // tile) for n in space)
    data = _transformed_tiles(_padded(x, (rows, columns), padding, tile), tile)
    c = reduce_axis(weight.shape[2], "c")
    product = compute(
        (*data.shape[:3], weight.shape[3]),
        lambda u, v, p, o: sum(data[u, v, p, c] * weight[u, v, c, o], axis=c),
        name="winograd_product",
    )
    inverse = _inverse(product, tile)

    def body(n: te.Value, y: te.Value, x: te.Value, o: te.Value) -> te.Scalar:
        at = (n * rows + y // tile) * columns + x // tile
        return inverse[y % tile, x % tile, at, o]

    return compute((x.shape[0], *space, weight.shape[3]), body, name="winograd")


def _convolved_slices(
    x: Tensor, weight: Tensor, padding: Pairs, tile: int, step: int
) -> Tensor:
    depth, channels, outputs = weight.shape[2:]
    (front, back), *plane = padding
    slices = (x.shape[1] + front + back - depth) // step + 1
    space = [
        n + before + after - 2
        for n, (before, after) in zip(x.shape[2:4], plane, strict=True)
    ]
    rows, columns = (-(-n // tile) for n in space)
    around = _around(x.shape[2:4], (rows, columns), plane, tile)
    whole = [(0, 0), (front, back), *around, (0, 0)]
    data = _transformed_slices(pad(x, whole, name="winograd_pad"), tile)
    t, c = reduce_axis(depth, "t"), reduce_axis(channels, "c")
    product = compute(
        (*data.shape[:3], slices, rows * columns, outputs),
        lambda u, v, n, d, p, o: sum(
            data[u, v, n, d * step + t, p, c] * weight[u, v, t, c, o], axis=[t, c]
        ),
        name="winograd_product",
    )
    inverse = _inverse(product, tile)
    return compute(
        (x.shape[0], slices, *space, outputs),
        lambda n, d, y, x, o: inverse[
            y % tile, x % tile, n, d, y // tile * columns + x // tile, o
        ],
        name="winograd",
    )


def _transformed_slices(x: Tensor, tile: int) -> Tensor:
    """(side, side, images, slices, tiles, channels), in two steps."""
    batch, slices, height, width, channels = x.shape
    rows, columns = (height - 2) // tile, (width - 2) // tile
    side = tile + 2
    left, right = _matrix(B[tile], "B"), _matrix(B[tile], "B")
    r, s = reduce_axis(side, "r"), reduce_axis(side, "s")
    half = compute(
        (side, batch, slices, rows, width, channels),
        lambda u, n, d, t, x_, c: sum(
            x[n, d, t * tile + r, x_, c] * left[r, u], axis=r
        ),
        name="winograd_rows",
    )
    return compute(
        (side, side, batch, slices, rows * columns, channels),
        lambda u, v, n, d, p, c: sum(
            half[u, n, d, p // columns, p % columns * tile + s, c] * right[s, v], axis=s
        ),
        name="winograd_tiles",
    )


def _padded(x: Tensor, tiles: tuple[int, int], padding: Pairs, tile: int) -> Tensor:
    """The image with zeros around, up to the end of the last tiles."""
    around = _around(x.shape[1:3], tiles, padding, tile)
    return pad(x, [(0, 0), *around, (0, 0)], name="winograd_pad")


def _around(
    plane: Sequence[int], tiles: tuple[int, int], padding: Pairs, tile: int
) -> list[tuple[int, int]]:
    """Zeros before and after rows and columns, up to the end of the last tiles."""
    return [
        (before, n * tile + 2 - extent - before)
        for n, extent, (before, _) in zip(tiles, plane, padding, strict=True)
    ]


def _transformed_tiles(x: Tensor, tile: int) -> Tensor:
    """(side, side, tiles, channels), in two steps, along rows and along columns: few
    conditions are then in the code that is unrolled."""
    batch, height, width, channels = x.shape
    rows, columns = (height - 2) // tile, (width - 2) // tile
    side = tile + 2
    left, right = _matrix(B[tile], "B"), _matrix(B[tile], "B")
    r, s = reduce_axis(side, "r"), reduce_axis(side, "s")
    half = compute(
        (side, batch, rows, width, channels),
        lambda u, n, t, x_, c: sum(x[n, t * tile + r, x_, c] * left[r, u], axis=r),
        name="winograd_rows",
    )

    def body(u: te.Value, v: te.Value, p: te.Value, c: te.Value) -> te.Scalar:
        n, place = p // (rows * columns), p % (rows * columns)
        row, column = place // columns, place % columns
        return sum(half[u, n, row, column * tile + s, c] * right[s, v], axis=s)

    shape = (side, side, batch * rows * columns, channels)
    return compute(shape, body, name="winograd_tiles")


def _inverse(product: Tensor, tile: int) -> Tensor:
    """(tile, tile, tiles, outputs), also with several axes of tiles. Small tiles in one
    sum: it has 16 terms."""
    left, right = _matrix(A[tile], "A"), _matrix(A[tile], "A")
    r, s = reduce_axis(tile + 2, "r"), reduce_axis(tile + 2, "s")
    shape, name = (tile, tile, *product.shape[2:]), "winograd_inverse"
    rest = ("p", "o") if product.ndim == 4 else ("n", "d", "p", "o")
    if tile == 2:
        return compute(
            shape,
            lambda y, x, *at: sum(
                product[r, s, *at] * left[r, y] * left[s, x], axis=[r, s]
            ),
            name=name,
            axes=("y", "x", *rest),
        )
    half = compute(
        (tile + 2, *shape[1:]),
        lambda u, x, *at: sum(product[u, s, *at] * right[s, x], axis=s),
        name="winograd_columns",
        axes=("u", "x", *rest),
    )
    return compute(
        shape,
        lambda y, x, *at: sum(half[r, x, *at] * left[r, y], axis=r),
        name=name,
        axes=("y", "x", *rest),
    )


def _matrix(rows: Matrix, name: str) -> Tensor:
    """A stage that reads nothing. Every element that code reads is the whole choice
    before it is optimised: for large matrices a short one saves seconds of compiling.
    Small ones stay as databases know them."""
    if len(rows) <= 4:
        return constant_matrix(rows, name)

    def body(i: te.Value, j: te.Value) -> te.Scalar:
        *before, result = (_picked(j, row) for row in rows)
        for n, row in reversed(list(enumerate(before))):
            result = select(i == n, row, result)
        return result

    return compute((len(rows), len(rows[0])), body, name=name)


def _picked(place: te.Value, row: Sequence[float]) -> te.Value:
    """An element of a row, in few comparisons: with the ends of runs of equal ones, or
    with all but the most frequent."""
    last = len(row) - 1
    ends = [n for n in range(last) if row[n] != row[n + 1]]
    usual = max(row, key=row.count)
    others = [n for n, x in enumerate(row) if x != usual]
    if len(ends) <= len(others):
        result = cast(row[last], "float32")
        for n in reversed(ends):
            result = select(place <= n, cast(row[n], "float32"), result)
    else:
        result = cast(usual, "float32")
        for n in others:
            result = select(place == n, cast(row[n], "float32"), result)
    return result
