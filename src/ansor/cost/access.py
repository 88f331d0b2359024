"""What one load or store touches, inside each level of the loops around it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import mul

import numpy as np
import numpy.typing as npt

from ansor.schedule.bounds import Atom, Bounds, Value
from ansor.schedule.plan import SplitRelation

Real = npt.NDArray[np.float32]  # one entry per point, or one for all
Key = tuple[str, str]  # (stage, loop)
Index = dict[Atom, Real]  # a sum over atoms: how far each one moves

# Rows so far apart collide. What one way of a first level holds is more on some CPUs,
# but there pages spread over it at random.
WAY_BYTES = 1 << 12
HALF_LINE = 0.5  # lines that a run touches beyond its length, on average
STREAMS = 16  # rows that are fetched ahead side by side


def real(value: npt.ArrayLike) -> Real:
    return np.asarray(value, np.float32)


ONE = real([1])
LONG_RUN = real([1024])  # lines


def least(
    a: npt.NDArray[np.floating], b: npt.NDArray[np.floating] | np.float32 | int
) -> Real:
    found: Real = np.minimum(a, b)
    return found


def most(
    a: npt.NDArray[np.floating], b: npt.NDArray[np.floating] | np.float32 | int
) -> Real:
    found: Real = np.maximum(a, b)
    return found


def ceil(a: npt.NDArray[np.floating]) -> Real:
    found: Real = np.ceil(a)
    return found


@dataclass(frozen=True)
class Term:
    """One part of an index: `step` elements further for each new value of an atom."""

    atom: Atom
    step: Real  # never negative
    loops: frozenset[Key]  # that decide the atom


@dataclass(frozen=True)
class Dim:
    """One dimension of a buffer: its length, and what moves along it."""

    size: Real
    terms: tuple[Term, ...]
    jump: Real  # elements of the buffer between neighbours along it


class Extents:
    """The extents of one plan, as real columns."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._found: dict[Key, Real] = {}
        self._coordinates: dict[Key, Index] = {}

    def coordinate(self, stage: str, axis: str) -> Index:
        """The coordinate of an axis as a sum over atoms, without its constant."""
        key = (stage, axis)
        if key not in self._coordinates:
            value = self.bounds.coordinate(stage, axis)
            self._coordinates[key] = index(value)
        return self._coordinates[key]

    def of(self, stage: str, node: str) -> Real:
        key = (stage, node)
        if key not in self._found:
            self._found[key] = shrunk(real(self.bounds.extent(stage, node)))
        return self._found[key]


def index(value: Value) -> Index:
    return {atom: real(step) for atom, step in value.terms.items()}


def shrunk(column: Real) -> Real:
    """`ONE` itself for a column that is 1 for all points."""
    return ONE if column.size == 1 and column[0] == 1 else column


class Reach:
    """How many values an atom takes inside each level of a stack of loops."""

    def __init__(self, extents: Extents, loops: tuple[Key, ...]) -> None:
        self.extents = extents
        self.bounds = extents.bounds
        self.loops = loops
        self._level = {key: at for at, key in enumerate(loops)}
        self._found: dict[tuple[Atom, int], Real] = {}

    def levels(self, keys: frozenset[Key]) -> frozenset[int]:
        """Where in the stack some loops are, if they have more than one iteration."""
        return frozenset(
            self._level[key]
            for key in keys
            if key in self._level and self.extents.of(*key) is not ONE
        )

    def count(self, atom: Atom, level: int) -> Real:
        """Values of the atom while the loops from `level` inwards run."""
        key = (atom, level)
        if key not in self._found:
            node = self._split(atom).parts[0] if atom.is_start else atom.node
            self._found[key] = self._count(atom.stage, node, level)
        return self._found[key]

    def step(self, atom: Atom, coefficient: Real) -> Real:
        """How far the next value of an atom is: blocks that move step by a block."""
        if not atom.is_start:
            return coefficient
        return coefficient * self.extents.of(atom.stage, self._split(atom).parts[1])

    def _split(self, atom: Atom) -> SplitRelation:
        nest = self.bounds.plan.nest(atom.stage)
        split = self.bounds.split_of(nest, atom.node)
        assert split is not None
        return split

    def _count(self, stage: str, node: str, level: int) -> Real:
        at = self._level.get((stage, node))
        if at is not None:
            return self.extents.of(stage, node) if at >= level else ONE
        nest = self.bounds.plan.nest(stage)
        fuse = self.bounds.fuse_of(nest, node)
        extent = self.extents.of(stage, node)
        if fuse is not None:
            run = self._count(stage, fuse.fused, level)
            after = fuse.parts[fuse.parts.index(node) + 1 :]
            below = product([self.extents.of(stage, x) for x in after])
            return least(most(ceil(run / below), 1), extent)
        split = self.bounds.split_of(nest, node)
        if split is None:
            return ONE
        parts = [self._count(stage, part, level) for part in split.parts]
        return least(product(parts), extent)


@dataclass(frozen=True, slots=True)
class Touched:
    """What the inner dimensions of a buffer have, together, from a level inwards.

    `occupied` are lines of a cache that are taken. Rows whose distance is a multiple of
    a large power of two fall on the same few sets: each takes as much as if it were
    that long.
    """

    span: Real  # of the outermost of them
    elements: Real
    lines: Real
    occupied: Real


SINGLE = Touched(ONE, ONE, ONE, ONE)


@dataclass(frozen=True)
class Access:
    """A load or store of one buffer.

    Sizes are by level: what one run of the loops from level L inwards touches. Level 0
    is the whole program, the last level one iteration of everything.
    """

    buffer: str
    bytes: int  # of one element
    size: int  # elements of the whole tensor
    is_store: bool
    is_dense: bool  # laid out in the order of the loops
    is_scattered: bool  # by indices that are data
    is_temporary: bool  # neither an input nor an output
    dims: tuple[Dim, ...]
    reach: Reach
    line_bytes: int
    divisor: int = 0  # of an index that is divided: so many neighbours share it

    @cached_property
    def moving(self) -> frozenset[int]:
        """The levels whose loops change the index."""
        return frozenset().union(*self._moved_dims)

    @cached_property
    def _moved_dims(self) -> list[frozenset[int]]:
        """Of each dimension the levels that move along it."""
        return [
            self.reach.levels(frozenset().union(*(t.loops for t in dim.terms)))
            for dim in self.dims
        ]

    def elements(self, level: int) -> Real:
        """Distinct elements."""
        return self._touched(level).elements

    def lines(self, level: int) -> Real:
        """Distinct cache lines."""
        return self._touched(level).lines

    def occupied(self, level: int) -> Real:
        """Lines of a cache that are taken."""
        return self._touched(level).occupied

    @cached_property
    def run(self) -> Real:
        """Lines that follow one another while few other rows are read in between: what
        a core fetches ahead."""
        if self.is_dense or not self.dims:
            return LONG_RUN
        length, streams = ONE, ONE
        last = len(self.dims) - 1
        for level in range(len(self.reach.loops) - 1, -1, -1):
            if level not in self.moving:
                continue
            if level in self._moved_dims[last]:
                longer = most(length, self._along(last, level)[1])
                length = np.where(streams <= STREAMS, longer, length)
                continue
            extent = self.reach.extents.of(*self.reach.loops[level])
            reached = self._reached(level)
            if reached is None:
                streams = streams * extent
                continue
            grows = (reached > 0) & (streams <= STREAMS)
            length = np.where(grows, most(length, reached), length)
            streams = np.where(reached > 0, streams, streams * extent)
        lines: Real = length * self._per_line + np.float32(HALF_LINE)
        return most(lines, 1)

    def _reached(self, level: int) -> Real | None:
        """Elements in one piece, if the loop of a level makes the piece longer along
        the dimension before the last: where that is read in full; else 0, or None where
        it is 0 for all points."""
        last = len(self.dims) - 1
        if last == 0 or level not in self._moved_dims[last - 1]:
            return None
        row = self._along(last, level)[1]
        rows = self._along(last - 1, level)[1]
        return np.where(row >= self.dims[last].size, row * rows, real([0]))

    @cached_property
    def _chains(self) -> dict[int, tuple[Touched, ...]]:
        single = tuple(SINGLE for _ in self.dims) or (SINGLE,)
        return {len(self.reach.loops): single}

    def _touched(self, level: int) -> Touched:
        return self._chain(level)[-1]

    def _chain(self, level: int) -> tuple[Touched, ...]:
        """Sizes of the last dimension, the last two, and so on."""
        if level not in self._chains:
            inner = self._chain(level + 1)
            moved = [n for n, levels in enumerate(self._moved_dims) if level in levels]
            self._chains[level] = (
                self._grown(inner, max(moved), level) if moved else inner
            )
        return self._chains[level]

    def _grown(
        self, inner: tuple[Touched, ...], last: int, level: int
    ) -> tuple[Touched, ...]:
        """The chain of a level, where dimensions up to `last` change."""
        keep = len(self.dims) - 1 - last
        chain = list(inner[:keep])
        for at in range(last, -1, -1):
            count, span = self._along(at, level)
            if not chain:
                chain.append(self._run(count, span))
            elif count is ONE:
                chain.append(replace(chain[-1], span=ONE))
            else:
                chain.append(self._rows_of(chain[-1], at, count, span))
        return tuple(chain)

    def _along(self, at: int, level: int) -> tuple[Real, Real]:
        """(distinct elements, distance from first to last) along a dimension."""
        while level not in self._moved_dims[at]:
            if level == len(self.reach.loops):
                return ONE, ONE
            level += 1
        key = (at, level)
        if key not in self._lengths:
            count, span = self._moves(at, level)
            if count is ONE:
                self._lengths[key] = ONE, ONE
            else:
                span = least(span, self.dims[at].size)
                self._lengths[key] = least(count, span), span
        return self._lengths[key]

    @cached_property
    def _lengths(self) -> dict[tuple[int, int], tuple[Real, Real]]:
        return {}

    @cached_property
    def _known(self) -> dict[tuple[int, int], tuple[Real, Real]]:
        return {}

    def _moves(self, at: int, level: int) -> tuple[Real, Real]:
        """Steps along a dimension and how far they lead, whatever its size."""
        if level == len(self.reach.loops):
            return ONE, ONE
        if level not in self._moved_dims[at]:
            return self._moves(at, level + 1)
        key = (at, level)
        if key not in self._known:
            self._known[key] = self._moved(at, level)
        return self._known[key]

    def _moved(self, at: int, level: int) -> tuple[Real, Real]:
        count, span = self._moves(at, level + 1)
        loop = self.reach.loops[level]
        for term in self.dims[at].terms:
            if loop in term.loops:
                before = self.reach.count(term.atom, level + 1)
                values = self.reach.count(term.atom, level)
                if before is ONE:
                    span = span + term.step * (values - 1)
                    count = values if count is ONE else count * values
                else:
                    span = span + term.step * (values - before)
                    count = count / before * values
        return count, span

    def _run(self, count: Real, span: Real) -> Touched:
        """Along the last dimension."""
        if self.is_scattered or count is ONE:
            return Touched(span, count, count, count)
        lines = span * self._per_line
        lines = most(lines if self.is_dense else lines + HALF_LINE, 1)
        if not self.is_dense:
            lines = least(lines, count)
        return Touched(span, count, lines, lines)

    def _rows_of(self, row: Touched, at: int, count: Real, span: Real) -> Touched:
        """Several rows along the dimension before."""
        elements = count if row.elements is ONE else row.elements * count
        if self.is_dense:
            lines = most(elements * self._per_line + HALF_LINE, 1)
            return Touched(span, elements, lines, lines)
        every = count if row.lines is ONE else row.lines * count
        lines = every
        if at == len(self.dims) - 2 and not self.is_scattered:
            across = span * (self.dims[-1].size * self._per_line) + HALF_LINE
            lines = least(every, across)
        power = self._powers[at]
        if power is not None:
            every = count * most(row.occupied, power)
        elif row.occupied is not row.lines:
            every = count * row.occupied
        return Touched(span, elements, lines, every)  # a row takes its lines or more

    @property
    def _per_line(self) -> np.float32:
        return np.float32(self.bytes / self.line_bytes)

    @cached_property
    def _powers(self) -> list[Real | None]:
        """Of each dimension the power of two in the distance of neighbours, in lines;
        None where that is below a line."""
        found: list[Real | None] = []
        for dim in self.dims:
            distance = (dim.jump * np.float32(self.bytes)).astype(np.int64)
            power = np.minimum(distance & -distance, WAY_BYTES)
            lines = real(power // self.line_bytes)
            found.append(lines if lines.max() > 1 else None)
        return found

    def slope(self, loop: Key) -> Real:
        """The most elements along a dimension from one iteration of a loop to the
        next; below 1 where an index is divided."""
        found = real([0])
        for dim in self.dims:
            for term in dim.terms:
                if loop in term.loops:
                    found = most(found, term.step)
        return found

    def stride(self, loop: Key) -> Real:
        """Elements of memory from one iteration of a loop to the next; 0 if it does
        not move the index."""
        total = real([0])
        for dim in self.dims:
            for term in dim.terms:
                if loop in term.loops:
                    total = total + term.step * dim.jump
        return total


def product(columns: list[Real]) -> Real:
    columns = [column for column in columns if column is not ONE]
    return reduce(mul, columns) if columns else ONE
