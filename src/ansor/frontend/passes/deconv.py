"""Transposed convolutions without multiplications by zero.

Of the places of the result that are `stride` apart, all see the same taps of the
kernel. So the result is a convolution of the small image with as many times more
channels as there are such sets, whose channels then become places:

    conv_transpose(x, W, stride 2)   ==>   slice(channels to places(conv(x, W')))

Where padding cuts off the first places of some sets, those are computed for nothing: a
quarter of a row of 4. With steps of 2 each set is a convolution of its own, then, which
begins where it has to, and nothing is left to cut:

    conv_transpose(x, W, stride 2)   ==>   reshape(conv_phases(x, W'))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import numpy as np

from ansor.frontend.graph import Array, Graph, Node, Value
from ansor.frontend.passes.facts import Ints, ints
from ansor.frontend.passes.rewriter import Rewriter, Rule, rewrite


def split_transposed(graph: Graph) -> Graph:
    """conv_transpose in layout "last" with constant weights as conv or matmul."""
    rules: tuple[Rule, ...] = (_single_place, _interleaved, _by_phases)
    return rewrite(graph, lambda n: rules if n.op == "conv_transpose" else ())


@dataclass(frozen=True)
class _Axis:
    """One spatial axis: n elements become `outputs`.

    Element u of the result before it is cut is the sum of x[q - m] * w[r + stride * m]
    over m, where u = stride * q + r. The first element that is kept has `first` as q.
    """

    n: int
    stride: int
    kernel: int
    before: int
    outputs: int

    @property
    def taps(self) -> int:
        return -(-self.kernel // self.stride)

    @property
    def first(self) -> int:
        return self.before // self.stride

    @property
    def places(self) -> int:
        """Of the small convolution."""
        return -(-(self.before + self.outputs) // self.stride) - self.first

    @property
    def padding(self) -> tuple[int, int]:
        ahead = self.taps - 1 - self.first
        return ahead, self.places + self.taps - 1 - self.n - ahead

    @property
    def cut(self) -> int:
        return self.before - self.first * self.stride

    @property
    def is_even(self) -> bool:
        """True if all sets have as many places, and begin at the same one or, of two,
        at two that follow."""
        return self.outputs % self.stride == 0 and (self.cut == 0 or self.stride == 2)

    @property
    def around(self) -> tuple[int, int]:
        """The padding, if every set begins where it has to."""
        ahead = self.taps - 1 - self.first
        count = self.outputs // self.stride
        return ahead, count + self.first + (self.cut > 0) - self.n


def _axes(out: Rewriter, node: Node) -> list[_Axis] | None:
    """The spatial axes of what can be taken apart."""
    x, weight = node.inputs
    plain = node.attributes["groups"] == 1 and set(ints(node, "dilations")) <= {1}
    last = node.attributes.get("layout", "first") == "last"
    if not plain or not last or out.known(weight) is None:
        return None
    padding = cast("tuple[tuple[int, int], ...]", node.attributes["padding"])
    rows = zip(
        x.shape[1:-1], ints(node, "strides"), weight.shape[:-2], padding,
        node.output.shape[1:-1], strict=True,
    )  # fmt: skip
    return [_Axis(n, s, k, before, size) for n, s, k, (before, _), size in rows]


def _single_place(out: Rewriter, node: Node) -> Value | None:
    """Images of one place: every element of the result sees one tap."""
    axes = _axes(out, node)
    if axes is None or any(axis.n > 1 for axis in axes):
        return None
    if any(axis.before + axis.outputs > axis.kernel for axis in axes):
        return None
    x, weight = node.inputs
    known = _known(out, weight)
    cut = [slice(axis.before, axis.before + axis.outputs) for axis in axes]
    taps = np.moveaxis(known[tuple(cut)], -2, 0)
    matrix = out.constant(_matrix(taps, known.shape[-2]), "weight")
    flat = out.add("reshape", x, shape=(x.shape[0], x.shape[-1]))
    y = out.add("matmul", flat, matrix)
    return out.add("reshape", y, shape=node.output.shape)


def _matrix(taps: Array, rows: int) -> Array:
    return np.ascontiguousarray(taps).reshape(rows, -1)


def _known(out: Rewriter, value: Value) -> Array:
    found = out.known(value)
    assert found is not None, "see _axes"
    return found


def _interleaved(out: Rewriter, node: Node) -> Value | None:
    """Convolutions for each set of places, if padding cuts some of them."""
    axes = _axes(out, node)
    if axes is None or not all(axis.is_even for axis in axes):
        return None
    if not any(axis.cut for axis in axes):
        return None
    if any(n < 0 for axis in axes for n in axis.around):
        return None
    x, weight = node.inputs
    made = out.add(
        "conv_phases",
        x,
        out.constant(_sets(_known(out, weight), axes), "weight"),
        padding=tuple(axis.around for axis in axes),
        shifts=tuple(int(axis.cut > 0) for axis in axes),
    )
    return out.add("reshape", made, shape=node.output.shape)


def _sets(weight: Array, axes: list[_Axis]) -> Array:
    """(*kernel, C, O) as (*stride, *taps, C, O), the taps in reverse."""
    rank = len(axes)
    split = _taps(weight, axes)
    for d, axis in enumerate(axes):  # the first place that is kept is of set `cut`
        split = np.roll(split, -axis.cut, 2 * d + 1)
    order = (*range(1, 2 * rank, 2), *range(0, 2 * rank, 2), 2 * rank, 2 * rank + 1)
    return np.ascontiguousarray(split.transpose(order))


def _by_phases(out: Rewriter, node: Node) -> Value | None:
    axes = _axes(out, node)
    if axes is None or any(n < 0 for axis in axes for n in axis.padding):
        return None
    x, weight = node.inputs
    made = out.add(
        "conv",
        x,
        out.constant(_phases(_known(out, weight), axes), "weight"),
        strides=(1,) * len(axes),
        padding=tuple(axis.padding for axis in axes),
        dilations=(1,) * len(axes),
        groups=1,
        layout="last",
    )
    return _spread(out, made, axes, node.output.shape)


def _phases(weight: Array, axes: list[_Axis]) -> Array:
    """(*kernel, C, O) as (*taps, C, *stride * O), the taps in reverse."""
    rank, channels = len(axes), weight.shape[-2]
    order = (*range(0, 2 * rank, 2), 2 * rank, *range(1, 2 * rank, 2), 2 * rank + 1)
    taps = [axis.taps for axis in axes]
    split = _taps(weight, axes).transpose(order)
    return np.ascontiguousarray(split).reshape(*taps, channels, -1)


def _taps(weight: Array, axes: list[_Axis]) -> Array:
    """(*kernel, C, O) with two axes, taps in reverse and stride, for each axis."""
    more = [(0, axis.taps * axis.stride - axis.kernel) for axis in axes]
    whole = np.pad(weight, [*more, (0, 0), (0, 0)])
    parts = [n for axis in axes for n in (axis.taps, axis.stride)]
    split = whole.reshape(*parts, *weight.shape[-2:])
    return np.flip(split, tuple(range(0, 2 * len(axes), 2)))


def _spread(out: Rewriter, y: Value, axes: list[_Axis], shape: Ints) -> Value:
    """Channels to places, and the part that is wanted."""
    rank, batch, channels = len(axes), shape[0], shape[-1]
    if any(axis.stride > 1 for axis in axes):
        places, steps = [a.places for a in axes], [a.stride for a in axes]
        y = out.add("reshape", y, shape=(batch, *places, *steps, channels))
        pairs = [n for d in range(rank) for n in (1 + d, 1 + rank + d)]
        y = out.add("transpose", y, axes=(0, *pairs, 1 + 2 * rank))
        size = [axis.places * axis.stride for axis in axes]
        y = out.add("reshape", y, shape=(batch, *size, channels))
    starts = (0, *(axis.cut for axis in axes), 0)
    stops = (batch, *(axis.cut + axis.outputs for axis in axes), channels)
    return out.add("slice", y, starts=starts, stops=stops, steps=(1,) * (rank + 2))
