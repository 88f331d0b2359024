"""What a machine can run: limits checked for whole matrices of points, no lowering.

A limit measures one quantity of every point and says how much of it the target has.
Points above a limit are masked out before anything is lowered or compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansor.ir.dtypes import DTYPES
from ansor.ir.visit import variables
from ansor.schedule.bounds import Bounds
from ansor.schedule.knobs import Column, Knob, Points
from ansor.schedule.plan import Nest, Plan, SplitRelation
from ansor.space.table import Matrix
from ansor.target import Target

CHUNK = 4096  # rows at a time: their columns stay in the cache
MOST_COPIES = 8  # vectors of one loop that are written out side by side
MOST_CODE = 1024  # statements of one program after unrolling

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class View:
    """A sketch with some points: what limits are measured on."""

    plan: Plan
    target: Target
    bounds: Bounds

    @staticmethod
    def of(plan: Plan, target: Target, knobs: tuple[Knob, ...], points: Matrix) -> View:
        return View(plan, target, Bounds(plan, Points.of(knobs, points)))

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
        bits = max(
            DTYPES[x.dtype].bits
            for x in (*nest.stage.buffers, *(load for load in nest.stage.loads))
        )
        lanes = max(self.target.vector_bits // max(bits, 8), 1)
        return -(-self.extent(nest, loop) // lanes)


@dataclass(frozen=True)
class Limit:
    """One quantity of a program, and how much of it a target has."""

    name: str
    measure: Callable[[View], Column]
    most: Callable[[Target], int]


def feasible(
    plan: Plan, target: Target, knobs: tuple[Knob, ...], points: Matrix
) -> Mask:
    """True for every point within all limits."""
    mask = np.ones(len(points), np.bool_)
    for start in range(0, len(points), CHUNK):
        rows = slice(start, start + CHUNK)
        mask[rows] = _feasible(plan, target, knobs, points[rows])
    return mask


def _feasible(
    plan: Plan, target: Target, knobs: tuple[Knob, ...], points: Matrix
) -> Mask:
    view = View.of(plan, target, knobs, points)
    mask = np.ones(len(points), np.bool_)
    for limit in LIMITS[target.kind]:
        mask &= limit.measure(view) <= limit.most(target)
    return mask


def broken(
    plan: Plan, target: Target, knobs: tuple[Knob, ...], point: Matrix
) -> list[str]:
    """The limits that one point exceeds, in words."""
    view = View.of(plan, target, knobs, point)
    found = []
    for limit in LIMITS[target.kind]:
        used, most = int(limit.measure(view)[0]), limit.most(target)
        if used > most:
            found.append(f"{limit.name}: {used} of {most}")
    return found


def overlong_tiles(view: View) -> Column:
    """How many lengths exceed what there is left to cut."""
    count = view.one - 1
    for nest in view.plan:
        for split in nest.relations:
            if not isinstance(split, SplitRelation):
                continue
            if not any(isinstance(x, Knob) for x in split.lengths):
                continue
            left = view.extent(nest, split.parent)
            for length in reversed(split.lengths):
                value = view.bounds.length(length)
                if isinstance(length, Knob):
                    count = count + ((value > left) & (value > length.candidates[0]))
                left = -(-left // value)
    return count


def registers(view: View) -> Column:
    """Vector registers that the innermost loops need at once, the most of any nest."""
    most = view.one
    for nest in view.plan:
        if nest.stage.reducer is not None and not nest.ahead:
            most = np.maximum(most, _tile_registers(view, nest))
    return most


def _tile_registers(view: View, nest: Nest) -> Column:
    """Accumulators, a row of the operands along the vectors, and the scalars."""
    loops = _copied_loops(nest)
    vector = _vector_loop(nest)
    first = _first_reduce(nest)
    inside = [
        x for x in loops if not nest.is_reduce(x) and nest.loops.index(x) > first
    ]
    wide = view.vectors(nest, vector)
    sums = view.product(nest, [x for x in inside if x != vector]) * wide
    sums = sums * len(nest.stage.buffers)
    needed = sums + 1
    axes = frozenset() if vector is None else nest.axis_of(vector)
    for load in dict.fromkeys(nest.stage.loads):
        used = frozenset().union(*(variables(i) for i in load.indices))
        needed = needed + (wide if used & axes else 0)
    return needed


def code(view: View) -> Column:
    """Statements after unrolling, tails included."""
    total = view.one - 1
    for nest in view.plan:
        if not nest.ahead:
            total = total + _statements(view, nest)
    return total


def _statements(view: View, nest: Nest) -> Column:
    vector = _vector_loop(nest)
    wide = view.vectors(nest, vector)
    copies = np.where(wide <= MOST_COPIES, wide, 1)
    copies = copies * view.product(nest, [x for x in _copied_loops(nest) if x != vector])
    variants = view.one
    for split in nest.relations:
        if isinstance(split, SplitRelation) and split.parts[-1] in nest.annotations:
            whole = view.extent(nest, split.parent)
            last = view.extent(nest, split.parts[-1])
            variants = variants + variants * (whole % last != 0)
    return copies * variants


def block_bytes(view: View) -> Column:
    """Bytes of the largest buffer computed inside a loop."""
    most = view.one - 1
    for nest in view.plan:
        if nest.at is None:
            continue
        size = view.one * sum(DTYPES[b.dtype].bits // 8 or 1 for b in nest.stage.buffers)
        for region in view.bounds.regions(nest.name):
            size = size * region.span
        most = np.maximum(most, size)
    return most


def _vector_loop(nest: Nest) -> str | None:
    for loop, kind in nest.annotations.items():
        if kind == "vectorize":
            return loop
    return None


def _copied_loops(nest: Nest) -> list[str]:
    """Loops that are written out: unrolled and vectorised ones."""
    return [x for x, kind in nest.annotations.items() if kind in ("unroll", "vectorize")]


def _first_reduce(nest: Nest) -> int:
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


def _cache(target: Target) -> int:
    """The largest cache; where unknown, what any machine has."""
    return max(*target.cache_bytes, 1 << 20)


LIMITS: dict[str, tuple[Limit, ...]] = {
    "cpu": (
        Limit("tiles longer than what they tile", overlong_tiles, lambda t: 0),
        Limit("vector registers", registers, lambda t: t.vector_registers),
        Limit("statements", code, lambda t: MOST_CODE),
        Limit("bytes of a block", block_bytes, _cache),
    ),
}
