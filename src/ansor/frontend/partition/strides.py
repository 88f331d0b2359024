"""Views as strides: can an operand be read where it lies?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import cast

from ansor.frontend.graph import Node
from ansor.frontend.passes.facts import Ints, ints
from ansor.frontend.passes.orders import equal_runs

SMALL = 4096  # elements: read in whatever way
RUN = 8  # neighbours that make reading in place worth it

# Operators that only say where elements are.
PLACES = frozenset(("reshape", "transpose", "slice", "expand"))


def reads_in_place(reader: Node, operand: int, chain: Sequence[Node]) -> bool:
    """True if a product had better read the source of a chain of PLACES, whose result
    is its operand, than a copy."""
    view: Strided | None = Strided.of(chain[0].inputs[0].shape)
    for node in chain:
        view = None if view is None else _step(view, node)
    if view is None:
        return False
    if prod(view.shape) <= SMALL:
        return True
    if reader.op == "matmul":
        return view.has_run((-1, -2))
    if reader.op == "einsum":
        return view.has_run(range(len(view.shape)))
    if operand > 0:
        return False
    if reader.op == "conv":
        return _is_padded(reader) or view.has_run((-1,))
    return reader.op == "conv_transpose"  # it copies its operand in any case


def _is_padded(reader: Node) -> bool:
    pairs = cast("tuple[tuple[int, int], ...]", reader.attributes["padding"])
    return any(n for pair in pairs for n in pair)


@dataclass(frozen=True)
class Strided:
    """An array by its extents and how far apart neighbours are, in elements."""

    shape: Ints
    strides: Ints

    @staticmethod
    def of(shape: Ints) -> Strided:
        """Elements in order."""
        return Strided(shape, tuple(prod(shape[d + 1 :]) for d in range(len(shape))))

    def has_run(self, axes: Sequence[int]) -> bool:
        """True if along one of the axes there are RUN elements side by side."""
        rank = len(self.shape)
        inside = [axis for axis in axes if -rank <= axis < rank]
        return any(self.strides[d] == 1 and self.shape[d] >= RUN for d in inside)

    def transposed(self, axes: Ints) -> Strided:
        shape, strides = self.shape, self.strides
        return Strided(tuple(shape[d] for d in axes), tuple(strides[d] for d in axes))

    def expanded(self, shape: Ints) -> Strided:
        more = len(shape) - len(self.shape)
        own = (1,) * more + self.shape
        far = (0,) * more + self.strides
        strides = tuple(
            s if n == m else 0 for n, m, s in zip(own, shape, far, strict=True)
        )
        return Strided(shape, strides)

    def sliced(self, starts: Ints, stops: Ints, steps: Ints) -> Strided:
        shape = tuple(map(len, map(range, starts, stops, steps)))
        strides = tuple(s * t for s, t in zip(self.strides, steps, strict=True))
        return Strided(shape, strides)

    def reshaped(self, shape: Ints) -> Strided | None:
        """None if axes would have to be joined that are not next to each other."""
        strides = [0] * len(shape)
        for old, new in equal_runs(self.shape, shape):
            for a, b in pairwise(old):
                if self.strides[a] != self.strides[b] * self.shape[b]:
                    return None
            step = self.strides[old[-1]]
            for axis in reversed(new):
                strides[axis] = step
                step *= shape[axis]
        return Strided(shape, tuple(strides))


def _step(view: Strided, node: Node) -> Strided | None:
    match node.op:
        case "transpose":
            return view.transposed(ints(node, "axes"))
        case "expand":
            return view.expanded(ints(node, "shape"))
        case "reshape":
            return view.reshaped(ints(node, "shape"))
        case _:
            return view.sliced(*(ints(node, x) for x in ("starts", "stops", "steps")))
