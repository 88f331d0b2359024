"""A sketch with a matrix of points, as limits look at it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ansor.ir.dtypes import DTYPES
from ansor.schedule.bounds import Bounds
from ansor.schedule.knobs import Column, Knob, Points
from ansor.schedule.plan import Nest, Plan
from ansor.space.table import Matrix
from ansor.target import Target

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class View:
    """A sketch with some points: what limits are measured on."""

    nests: tuple[Nest, ...]  # that are measured
    target: Target
    bounds: Bounds
    counted: dict[str, Column] = field(default_factory=dict)  # by `code.statements`

    @staticmethod
    def of(
        plan: Plan,
        target: Target,
        knobs: tuple[Knob, ...],
        points: Matrix,
        only: frozenset[str] | None = None,
    ) -> View:
        nests = (nest for nest in plan if only is None or nest.name in only)
        return View(tuple(nests), target, Bounds(plan, Points.of(knobs, points)))

    @property
    def one(self) -> Column:
        return self.bounds.points.constant(1)

    def extent(self, nest: Nest, loop: str) -> Column:
        return self.bounds.extent(nest.name, loop)

    def product(self, nest: Nest, loops: list[str]) -> Column:
        total = self.one
        for loop in loops:
            total = total * self.extent(nest, loop)
        return total

    def vectors(self, nest: Nest, loop: str | None) -> Column:
        """Registers that one iteration of everything but the vectors fills."""
        if loop is None:
            return self.one
        vectors: Column = -(-self.extent(nest, loop) // self.lanes(nest))
        return vectors

    def lanes(self, nest: Nest) -> int:
        """Elements of the widest type of a nest in one register."""
        types = {buffer.dtype for buffer in nest.stage.buffers}
        types |= {load.dtype for load in nest.stage.loads}
        bits = max(DTYPES[name].bits for name in types)
        return max(self.target.vector_bits // max(bits, 8), 1)


def vector_loop(nest: Nest) -> str | None:
    for loop, kind in nest.annotations.items():
        if kind == "vectorize":
            return loop
    return None


def copied_loops(nest: Nest) -> list[str]:
    """Loops that are written out: unrolled and vectorised ones."""
    return [
        x for x, kind in nest.annotations.items() if kind in ("unroll", "vectorize")
    ]


def first_reduce(nest: Nest) -> int:
    """The position of the outermost reduction loop inside which everything spatial is
    written out."""
    for at, loop in enumerate(nest.loops):
        rest = nest.loops[at:]
        if nest.is_reduce(loop) and all(
            nest.is_reduce(x) or nest.annotations.get(x) in ("unroll", "vectorize")
            for x in rest
        ):
            return at
    return len(nest.loops)
