"""The statements of a program: loops, how often they run, and what they touch.

    for y.0 in 4:                          loops      y.0  x.0  y.1  x.1
        P attached at y.0: …               trips   1    4    8   28  110   (tails cut)
        for x.0: for y.1: for x.1:
            C[y, x] += A[y, x] * …

A statement is a nest that writes, with all loops around it, outermost first. `trips[L]`
says how often the body of the first L loops is entered, `Access.elements[L]` how many
elements one run of the loops from L inwards touches. All numbers are columns: float32,
one entry per point, or one that stands for all. Nothing is lowered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add

import numpy as np

from ansor.cost.access import (
    ONE,
    Access,
    Extents,
    Key,
    Reach,
    Real,
    ceil,
    least,
    most,
    product,
    real,
)
from ansor.cost.indices import load_access, store_access
from ansor.cost.work import Work, work
from ansor.schedule.bounds import Bounds, Region
from ansor.schedule.knobs import Points
from ansor.schedule.plan import FuseRelation, Nest
from ansor.schedule.program import Sketch
from ansor.space.table import Matrix
from ansor.space.view import first_reduce, vector_loop
from ansor.target import Target

WRITTEN_OUT = ("unroll", "vectorize")


@dataclass(frozen=True)
class Loop:
    """One loop around a statement."""

    stage: str
    name: str
    extent: Real  # of a full run; the last one may be shorter
    kind: str  # "serial", "parallel", "vectorize", "unroll" or a GPU thread index
    is_reduce: bool

    @property
    def key(self) -> Key:
        return self.stage, self.name


@dataclass(frozen=True)
class Statement:
    """One nest with its surroundings, for all points."""

    nest: Nest
    target: Target
    loops: tuple[Loop, ...]
    trips: tuple[Real, ...]  # len(loops) + 1 entries, the first is 1
    own: int  # the level where the loops of the nest itself begin
    loads: tuple[Access, ...]  # each distinct one once
    stores: tuple[Access, ...]
    work: Work  # arithmetic of the body
    ratio: Real  # elements computed over elements of full regions: clipped borders

    @property
    def name(self) -> str:
        return self.nest.name

    @property
    def depth(self) -> int:
        return len(self.loops)

    @property
    def accesses(self) -> tuple[Access, ...]:
        return (*self.loads, *self.stores)

    @property
    def is_copy(self) -> bool:
        """True if it only moves data: a packing, a cache."""
        return self.nest.stage.reducer is None and not self.work.terms

    @cached_property
    def lanes(self) -> int:
        """Elements of the widest type in one register."""
        return max(
            self.target.vector_bits // (8 * max(a.bytes for a in self.accesses)), 1
        )

    @cached_property
    def vector(self) -> int | None:
        """The level of the vectorised loop."""
        return self._level(vector_loop(self.nest))

    def _level(self, loop: str | None) -> int | None:
        return None if loop is None else self.own + self.nest.loops.index(loop)

    @cached_property
    def tile(self) -> int:
        """The level from which on all loops are written out: the register tile."""
        level = self.depth
        while level > self.own and self.loops[level - 1].kind in WRITTEN_OUT:
            level -= 1
        return level

    @cached_property
    def accumulate(self) -> int:
        """The level of the reduction that runs in registers; the depth if none does."""
        if self.nest.stage.reducer is None:
            return self.depth
        return self.own + first_reduce(self.nest)

    @cached_property
    def start(self) -> int:
        """The level of the reduction in registers; without one, that of the tile."""
        return min(self.accumulate, self.tile)

    @cached_property
    def levels(self) -> tuple[int, ...]:
        """The levels at which data is looked at, outermost first: those of loops with
        more than one iteration, down to the register tile."""
        inner = (n + 1 for n in range(self.tile) if self.loops[n].extent is not ONE)
        return (0, *inner)

    def at(self, level: int) -> int:
        """The place in `levels` of the innermost one that is not inside `level`."""
        return max(n for n, found in enumerate(self.levels) if found <= level)

    @cached_property
    def lines(self) -> tuple[Real, ...]:
        """Cache lines that all accesses touch, at each of `levels`."""
        return tuple(
            total([a.lines(level) for a in self.accesses]) for level in self.levels
        )

    @cached_property
    def occupied(self) -> tuple[Real, ...]:
        """Lines of a cache that are taken, at each of `levels`."""
        return tuple(
            total([a.occupied(level) for a in self.accesses]) for level in self.levels
        )

    def product(self, *kinds: str, start: int = 0) -> Real:
        """The product of the extents of loops of some kinds."""
        return product([x.extent for x in self.loops[start:] if x.kind in kinds])


def total(columns: list[Real]) -> Real:
    return reduce(add, columns)


def statements(
    sketch: Sketch, points: Matrix, target: Target | None = None
) -> tuple[Statement, ...]:
    """One statement per nest that runs each time, in the order of the plan."""
    target = target or sketch.task.target
    matrix = np.asfortranarray(points)
    bounds = Bounds(sketch.plan, Points.of(sketch.knobs, matrix))
    stacks = _Stacks(bounds)
    return tuple(
        _statement(stacks, nest, target) for nest in sketch.plan if not nest.ahead
    )


def _statement(stacks: _Stacks, nest: Nest, target: Target) -> Statement:
    stack = stacks.of(nest)
    reach = Reach(stacks.extents, tuple(loop.key for loop in stack.loops))
    line = target.line_bytes
    reads = dict.fromkeys(nest.stage.loads)
    own = len(stack.loops) - len(nest.loops)
    return Statement(
        nest,
        target,
        stack.loops,
        stacks.trips(nest),
        own,
        tuple(load_access(nest, load, reach, line) for load in reads),
        tuple(store_access(nest, b, reach, line) for b in nest.stage.buffers),
        work(nest, own),
        product(list(stacks.ratios(nest).values())),
    )


@dataclass(frozen=True)
class _Entry:
    """What one more loop does to one axis: how many blocks of it are now told apart,
    without those beyond its end, and with them."""

    axis: Key  # (stage, axis); of loops that no axis has to itself, the loop
    blocks: Real
    nominal: Real


@dataclass(frozen=True)
class _Stack:
    loops: tuple[Loop, ...]
    entries: tuple[tuple[_Entry, ...], ...]  # of each loop

    def trips(self, exact: frozenset[Key]) -> tuple[Real, ...]:
        """How often the body of each level runs, where only loops of some axes stop at
        the end of the axis."""
        found, now = [ONE], dict[Key, Real]()
        for entries in self.entries:
            total = found[-1]
            for entry in entries:
                count = entry.blocks if entry.axis in exact else entry.nominal
                before = now.get(entry.axis, ONE)
                total = total * count if before is ONE else total / before * count
                now[entry.axis] = count
            found.append(total)
        return tuple(found)

    def blocks(self, axes: frozenset[Key]) -> Real:
        """Blocks of some axes that all loops together tell apart."""
        last = {e.axis: e.blocks for entries in self.entries for e in entries}
        return product([count for axis, count in last.items() if axis in axes])


class _Stacks:
    """The loops around each nest of a plan."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.extents = Extents(bounds)
        self._found: dict[str, _Stack] = {}
        self._ratios: dict[str, dict[str, Real]] = {}

    def of(self, nest: Nest) -> _Stack:
        if nest.name not in self._found:
            self._found[nest.name] = self._stack(nest)
        return self._found[nest.name]

    def outer(self, nest: Nest) -> _Stack:
        """The loops up to where a nest is attached."""
        if nest.at is None:
            return _Stack((), ())
        parent = self.bounds.plan.nest(nest.at.stage)
        whole = self.of(parent)
        own = len(whole.loops) - len(parent.loops)
        stop = own + parent.loops.index(nest.at.loop) + 1
        return _Stack(whole.loops[:stop], whole.entries[:stop])

    def trips(self, nest: Nest) -> tuple[Real, ...]:
        """How often the body of each level runs.

        A nest computed inside another runs in all its full loops, even where the other
        has nothing left to do, unless that is beyond the end of its own tensor.
        """
        axes = (*nest.stage.axes, *nest.stage.reduce_axes)
        mine = {(nest.name, axis.name) for axis in axes}
        moved = (
            _axes(self.bounds, region)
            for region in (self.bounds.regions(nest.name) if nest.at else ())
        )
        return self.of(nest).trips(frozenset(mine).union(*moved))

    def _stack(self, nest: Nest) -> _Stack:
        outer = self.outer(nest)
        loops, entries = list(outer.loops), list(outer.entries)
        count = _Count(self.extents, nest, self.ratios(nest))
        for name in nest.loops:
            extent = self.extents.of(nest.name, name)
            kind = nest.annotations.get(name, "serial")
            loops.append(Loop(nest.name, name, extent, kind, nest.is_reduce(name)))
            entries.append(count.enter(name))
        return _Stack(tuple(loops), tuple(entries))

    def ratios(self, nest: Nest) -> dict[str, Real]:
        """Of each spatial axis of an attached nest, how much of the region is really
        computed on average: at the end of a tensor regions are clipped."""
        if nest.at is None:
            return {}
        if nest.name not in self._ratios:
            outer = self.outer(nest)
            regions = self.bounds.regions(nest.name)
            self._ratios[nest.name] = {
                axis.name: _ratio(self.bounds, outer, region, axis.extent)
                for axis, region in zip(nest.stage.axes, regions, strict=True)
            }
        return self._ratios[nest.name]


def _axes(bounds: Bounds, region: Region) -> frozenset[Key]:
    """The axes of other nests that move a region."""
    return frozenset(
        (atom.stage, axis)
        for atom in region.base.terms
        for axis in bounds.plan.nest(atom.stage).axis_of(atom.node)
    )


def _ratio(bounds: Bounds, outer: _Stack, region: Region, limit: int) -> Real:
    if not region.base.terms:
        return ONE
    step = real([np.inf])
    for atom, coefficient in region.base.terms.items():
        moves = bounds.extent(atom.stage, atom.node) > 1
        size = np.where(moves & (coefficient != 0), np.abs(coefficient), np.inf)
        step = least(step, real(size))
    step = np.where(np.isinf(step), real(0), step)  # blocks that never move
    span = real(region.span)
    blocks = outer.blocks(_axes(bounds, region))
    over = real(region.base.const) + (blocks - 1) * step + span - limit
    return least(most(1 - most(over, 0) / (blocks * span), 1 / span), ONE)


class _Count:
    """How often the loops of a nest run, one after the other entered.

    Of an axis of 31 cut into 4 x 3 x 3, the two outer loops run 11 times together and
    not 12: what the loops inside cannot need is not run.
    """

    def __init__(self, extents: Extents, nest: Nest, ratios: dict[str, Real]) -> None:
        self.extents, self.nest, self.ratios = extents, nest, ratios
        axes = (*nest.stage.axes, *nest.stage.reduce_axes)
        self.digits = {a.name: list(_digits(nest, a.name)) for a in axes}
        self.inside = {
            a: {d: self._extent(d) for d in ds} for a, ds in self.digits.items()
        }

    def _extent(self, node: str) -> Real:
        return self.extents.of(self.nest.name, node)

    def enter(self, loop: str) -> tuple[_Entry, ...]:
        """What one more loop does to the axes it runs through."""
        covered = set(_covered(self.nest, loop))
        found = []
        for axis, inside in self.inside.items():
            mine = covered & inside.keys()
            if mine:
                for digit in mine:
                    del inside[digit]
                found.append(self._entry(axis))
        if found:
            return tuple(found)
        extent = self._extent(loop)
        return (_Entry((self.nest.name, loop), extent, extent),)

    def _entry(self, axis: str) -> _Entry:
        inside = self.inside[axis]
        nominal = product(
            [self._extent(d) for d in self.digits[axis] if d not in inside]
        )
        left = product(list(inside.values()))
        count = least(nominal, ceil(self._extent(axis) / left))
        if axis in self.ratios:
            count = most(count * self.ratios[axis], least(count, 1))
        return _Entry((self.nest.name, axis), count, nominal)


def _digits(nest: Nest, node: str) -> Iterator[str]:
    """The parts of an axis, down to loops and to what was fused."""
    split = Bounds.split_of(nest, node)
    if split is None or Bounds.fuse_of(nest, node) is not None:
        yield node
    else:
        for part in split.parts:
            yield from _digits(nest, part)


def _covered(nest: Nest, loop: str) -> Iterator[str]:
    """The digits that a loop runs through: those it was fused from, or itself."""
    for relation in nest.relations:
        if isinstance(relation, FuseRelation) and relation.fused == loop:
            for part in relation.parts:
                yield from _covered(nest, part)
            return
    yield loop
