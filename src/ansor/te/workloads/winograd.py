"""A 3x3 convolution by Winograd's method F(m x m, 3 x 3), channels last.

Every m x m tile of the image's convolution needs (m + 2)² products instead of 9·m²:

    input tile (m+2 x m+2)  ->  Bᵀ·d·B  ->  one matrix product per place of the
    transformed tile, over channels  ->  Aᵀ·M·A  ->  m x m outputs

The weights are given already transformed, as (m+2, m+2, inputs, outputs).
"""

from __future__ import annotations

from collections.abc import Sequence

from ansor.te.functions import cast, select
from ansor.te.ops.shape import pad
from ansor.te.reduction import reduce_axis, sum
from ansor.te.tensor import Tensor, compute, placeholder
from ansor.te.value import Scalar, Value

Matrix = tuple[tuple[float, ...], ...]

# By the side of the output tile: B (input side x input side), A (input side x tile)
# and G (input side x 3), which transforms kernels and is not part of the computation.
B: dict[int, Matrix] = {
    2: ((1, 0, 0, 0),
        (0, 1, -1, 1),
        (-1, 1, 1, 0),
        (0, 0, 0, -1)),
    4: ((4, 0, 0, 0, 0, 0),
        (0, -4, 4, -2, 2, 4),
        (-5, -4, -4, -1, -1, 0),
        (0, 1, -1, 2, -2, -5),
        (1, 1, 1, 1, 1, 0),
        (0, 0, 0, 0, 0, 1)),
}  # fmt: skip
A: dict[int, Matrix] = {
    2: ((1, 0),
        (1, 1),
        (1, -1),
        (0, -1)),
    4: ((1, 0, 0, 0),
        (1, 1, 1, 1),
        (1, -1, 1, -1),
        (1, 2, 4, 8),
        (1, -2, 4, -8),
        (0, 0, 0, 1)),
}  # fmt: skip
G: dict[int, Matrix] = {
    2: ((1, 0, 0),
        (1 / 2, 1 / 2, 1 / 2),
        (1 / 2, -1 / 2, 1 / 2),
        (0, 0, 1)),
    4: ((1 / 4, 0, 0),
        (-1 / 6, -1 / 6, -1 / 6),
        (-1 / 6, 1 / 6, -1 / 6),
        (1 / 24, 1 / 12, 1 / 6),
        (1 / 24, -1 / 12, 1 / 6),
        (0, 0, 1)),
}  # fmt: skip


def winograd(batch: int, space: tuple[int, int], c: int, o: int, tile: int) -> Tensor:
    """The convolution of (batch, *space, c) images, padded by 1, with o 3x3 kernels."""
    side = tile + 2
    tiles = tuple(-(-extent // tile) for extent in space)
    x = placeholder((batch, *space, c), name="X")
    w = placeholder((side, side, c, o), name="W", constant=True)
    data = _transformed(_tiles(x, tiles, tile), tile)
    k = reduce_axis(c, "c")
    product = compute(
        (side, side, data.shape[2], o),
        lambda u, v, p, o: sum(data[u, v, p, k] * w[u, v, k, o], axis=k),
        name="bgemm",
    )
    inverse = _inverse(product, tile)

    def body(n: Value, y: Value, x: Value, o: Value) -> Scalar:
        at = (n * tiles[0] + y // tile) * tiles[1] + x // tile
        return inverse[y % tile, x % tile, at, o]

    return compute((batch, *space, o), body, name="conv2d_winograd")


def _tiles(x: Tensor, tiles: tuple[int, ...], tile: int) -> Tensor:
    """(side, side, tiles, channels): overlapping tiles of the padded image."""
    batch, height, width, c = x.shape
    rest = [n * tile - e + 1 for n, e in zip(tiles, (height, width), strict=True)]
    none = (0, 0)
    padded = pad(x, [none, (1, rest[0]), (1, rest[1]), none], name="data_pad")

    def body(u: Value, v: Value, p: Value, c: Value) -> Scalar:
        n, place = p // (tiles[0] * tiles[1]), p % (tiles[0] * tiles[1])
        row, column = place // tiles[1], place % tiles[1]
        return padded[n, row * tile + u, column * tile + v, c]

    shape = (tile + 2, tile + 2, batch * tiles[0] * tiles[1], c)
    return compute(shape, body, name="input_tile")


def _transformed(data: Tensor, tile: int) -> Tensor:
    side = tile + 2
    b = constant_matrix(B[tile], "B")
    r, s = reduce_axis(side, "r"), reduce_axis(side, "s")
    return compute(
        data.shape,
        lambda u, v, p, c: sum(data[r, s, p, c] * b[r, u] * b[s, v], axis=[r, s]),
        name="data_pack",
    )


def _inverse(product: Tensor, tile: int) -> Tensor:
    side = tile + 2
    a = constant_matrix(A[tile], "A")
    r, s = reduce_axis(side, "r"), reduce_axis(side, "s")
    return compute(
        (tile, tile, *product.shape[2:]),
        lambda y, x, p, o: sum(product[r, s, p, o] * a[r, y] * a[s, x], axis=[r, s]),
        name="inverse",
    )


def constant_matrix(rows: Matrix, name: str) -> Tensor:
    """A stage that reads no tensor: its elements are picked by their place.

    >>> constant_matrix(((1, 2), (3, 4)), "M")
    <tensor M: float32[2, 2]>
    """
    shape = (len(rows), len(rows[0]))
    return compute(
        shape, lambda i, j: _pick(i, [_pick(j, row) for row in rows]), name=name
    )


def _pick(place: Value, values: Sequence[Value | float]) -> Value:
    result = cast(values[-1], "float32")
    for n in range(len(values) - 2, -1, -1):
        result = select(place == n, cast(values[n], "float32"), result)
    return result
