"""Extents and required regions, for a whole matrix of points at once.

Every quantity is a column: an int64 array with one entry per point, or one entry that
stands for all. A program is a batch of one, so lowering and scoring read the same
numbers.

The coordinate of a stage's axis is affine over *atoms*. An atom is a loop, a part of a
fused loop, or the start of a block that an "equal" or "shift" split moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import reduce
from operator import mul

import numpy as np
import numpy.typing as npt

from ansor.errors import ScheduleError
from ansor.ir.affine import linear
from ansor.ir.expr import Expr, Var
from ansor.ir.stmt import THREADS
from ansor.schedule.knobs import Column, Follow, Length, Points
from ansor.schedule.plan import FuseRelation, Nest, Plan, SplitRelation

IN_BLOCK = tuple(kind for kind in THREADS if not kind.startswith("blockIdx"))


@dataclass(frozen=True, slots=True)
class Atom:
    """One independent part of a coordinate."""

    stage: str
    node: str
    is_start: bool = False  # the first element of a moved block of `node`


@dataclass(frozen=True, slots=True)
class Value:
    """`const + Σ coefficient·atom`, each a column."""

    const: Column
    terms: dict[Atom, Column] = field(default_factory=dict)

    def plus(self, other: Value, scale: Column | int = 1) -> Value:
        terms = dict(self.terms)
        for atom, c in other.terms.items():
            terms[atom] = terms[atom] + scale * c if atom in terms else scale * c
        return Value(self.const + scale * other.const, terms)


@dataclass(frozen=True, slots=True)
class Region:
    """The part of one dimension that is needed: `span` elements from `base` on."""

    base: Value
    span: Column


class Bounds:
    """Extents and regions of one plan for n points. Derived on demand, then kept.

    >>> import ansor
    >>> from ansor.schedule import Knob, Sketch, Split
    >>> A = ansor.placeholder((31,), name="A")
    >>> B = ansor.compute((31,), lambda i: A[i] * 2.0, name="B")
    >>> sketch = Sketch(ansor.Task(B)).then(Split("B", "i", (Knob("t", (4, 8, 12)),)))
    >>> bounds = Bounds(sketch.plan, Points.of(sketch.knobs, [[4], [8], [12]]))
    >>> bounds.extent("B", "i.0")
    array([8, 4, 3])
    """

    def __init__(self, plan: Plan, points: Points) -> None:
        self.plan = plan
        self.points = points
        self._nests = {nest.name: nest for nest in plan}
        self._extents: dict[tuple[str, str], Column] = {}
        self._busy: set[tuple[str, str]] = set()  # extents asked for
        self._regions: dict[str, tuple[Region, ...]] = {}
        self._values: dict[tuple[str, str], Value] = {}
        self._zero = points.constant(0)

    def extent(self, stage: str, node: str) -> Column:
        """Iterations of a loop, or the extent of an axis or intermediate node."""
        key = (stage, node)
        if key not in self._extents:
            if key in self._busy:
                raise ScheduleError(
                    f"extent of loop {node!r} of {stage!r}",
                    "it follows a loop whose extent depends on it",
                    "give one of the lengths as a number or a knob",
                )
            self._busy.add(key)
            self._extents[key] = self._extent(self._nests[stage], node)
        return self._extents[key]

    def length(self, length: Length) -> Column:
        if isinstance(length, Follow):
            return self.extent(length.stage, length.loop)
        return self.points.value(length)

    def regions(self, stage: str) -> tuple[Region, ...]:
        """What of each spatial axis of a stage is computed each time it runs."""
        if stage not in self._regions:
            self._regions[stage] = self._infer(self._nests[stage])
        return self._regions[stage]

    def coordinate(self, stage: str, axis: str) -> Value:
        """The absolute coordinate of an axis: where its region starts plus `local`."""
        nest = self._nests[stage]
        value = self.local(stage, axis)
        for at, spatial in enumerate(nest.stage.axes):
            if spatial.name == axis:
                value = self.regions(stage)[at].base.plus(value)
        return value

    def local(self, stage: str, node: str) -> Value:
        """The value of an axis or node, counted from the start of its region."""
        key = (stage, node)
        if key not in self._values:
            self._values[key] = self._local(self._nests[stage], node)
        return self._values[key]

    def atom_extent(self, atom: Atom) -> Column:
        if not atom.is_start:
            return self.extent(atom.stage, atom.node)
        split = self.split_of(self._nests[atom.stage], atom.node)
        assert split is not None
        total = self.extent(atom.stage, atom.node)
        last = self.extent(atom.stage, split.parts[1])
        if split.tail == "equal":  # the last block may be shorter by one
            last = total // self.extent(atom.stage, split.parts[0])
        starts: Column = total - last + 1
        return np.maximum(starts, self._zero + 1)

    def atom_loops(self, atom: Atom) -> frozenset[tuple[str, str]]:
        """The loops that decide the value of an atom."""
        nest = self._nests[atom.stage]
        node = atom.node
        if atom.is_start:
            split = self.split_of(nest, node)
            assert split is not None
            node = split.parts[0]
        return frozenset((atom.stage, loop) for loop in _leaves(nest, node))

    @staticmethod
    def split_of(nest: Nest, node: str) -> SplitRelation | None:
        for relation in nest.relations:
            if isinstance(relation, SplitRelation) and relation.parent == node:
                return relation
        return None

    @staticmethod
    def fuse_of(nest: Nest, node: str) -> FuseRelation | None:
        """The relation that fuses `node` with others, if any."""
        for relation in nest.relations:
            if isinstance(relation, FuseRelation) and node in relation.parts:
                return relation
        return None

    def _extent(self, nest: Nest, node: str) -> Column:
        for relation in nest.relations:
            if isinstance(relation, SplitRelation) and node in relation.parts:
                return self._part_extent(nest, relation, relation.parts.index(node))
            if isinstance(relation, FuseRelation) and node == relation.fused:
                return self._product(
                    [self.extent(nest.name, part) for part in relation.parts]
                )
        if node in nest.sizes:
            return self.length(nest.sizes[node])
        for at, axis in enumerate(nest.stage.axes):
            if axis.name == node:
                return self.regions(nest.name)[at].span
        (extent,) = (a.extent for a in nest.stage.reduce_axes if a.name == node)
        return self.points.constant(extent)

    @staticmethod
    def _product(columns: list[Column]) -> Column:
        return reduce(mul, columns)

    def _part_extent(self, nest: Nest, split: SplitRelation, at: int) -> Column:
        if at > 0 and split.tail == "peel":
            return self.length(split.lengths[at - 1])
        parent = self.extent(nest.name, split.parent)
        lengths = [self.length(length) for length in split.lengths]
        blocks: Column = -(-parent // self._product(lengths))
        if at == 0:
            return blocks
        if split.tail == "equal":
            evened: Column = -(-parent // blocks)
            return evened
        return np.minimum(lengths[0], parent)  # shift

    def _local(self, nest: Nest, node: str) -> Value:
        split = self.split_of(nest, node)
        if split is None or self.fuse_of(nest, node) is not None:
            return Value(self._zero, {Atom(nest.name, node): self._zero + 1})
        if split.tail != "peel":
            start = Atom(nest.name, node, is_start=True)
            inner = self.local(nest.name, split.parts[1])
            return Value(self._zero, {start: self._zero + 1}).plus(inner)
        total = self.local(nest.name, split.parts[-1])
        stride = self._zero + 1
        for part, below in zip(split.parts[-2::-1], split.parts[:0:-1], strict=True):
            stride = stride * self.extent(nest.name, below)
            total = total.plus(self.local(nest.name, part), stride)
        return total

    def _infer(self, nest: Nest) -> tuple[Region, ...]:
        limits = [axis.extent for axis in nest.stage.axes]
        if nest.at is None:
            return tuple(self._whole(limit) for limit in limits)
        fixed = self.fixed_loops(nest)
        accesses = list(self._accesses(nest))
        return tuple(
            self._union([(x, indices[d]) for x, indices in accesses], fixed, limit)
            for d, limit in enumerate(limits)
        )

    def fixed_loops(self, nest: Nest) -> frozenset[tuple[str, str]]:
        """The loops around a nest: they do not move while it runs.

        What is shared by a block of threads holds what all of them need, as if the
        loops over threads ran inside it.
        """
        moving = IN_BLOCK if nest.scope == "shared" else ()
        fixed: set[tuple[str, str]] = set()
        for place in self.plan.inside(nest):
            outer = self._nests[place.stage]
            upto = outer.loops[: outer.loops.index(place.loop) + 1]
            kept = (x for x in upto if outer.annotations.get(x) not in moving)
            fixed |= {(place.stage, loop) for loop in kept}
        return frozenset(fixed)

    def _accesses(self, nest: Nest) -> Iterator[tuple[Nest, tuple[Expr, ...]]]:
        names = {buffer.name for buffer in nest.stage.buffers}
        for reader in self.plan.consumers(nest.stage.buffers):
            for load in reader.reads():
                if load.buffer.name in names:
                    yield reader, load.indices

    def _whole(self, limit: int) -> Region:
        return Region(Value(self._zero), self.points.constant(limit))

    def _union(
        self,
        accesses: list[tuple[Nest, Expr]],
        fixed: frozenset[tuple[str, str]],
        limit: int,
    ) -> Region:
        """One interval that covers all accesses; the whole axis if none is simpler."""
        base: Value | None = None
        low = high = self._zero
        apart = self._zero > 0  # rows where the accesses start in different ways
        for reader, index in accesses:
            found = self._interval(reader, index, fixed)
            if found is None:
                return self._whole(limit)
            start, first, last = found
            if base is None:
                base, low, high = start, first, last
            else:
                apart = apart | _differ(base, start)
                low, high = np.minimum(low, first), np.maximum(high, last)
        assert base is not None, "a stage computed at a loop has a reader there"
        span = np.where(apart, limit, high - low + 1)
        part = (span < limit).astype(np.int64)  # 0 where the whole axis is needed
        terms = {atom: c * part for atom, c in base.terms.items() if (c * part).any()}
        return Region(Value(low * part, terms), np.minimum(span, limit))

    def _interval(
        self, reader: Nest, index: Expr, fixed: frozenset[tuple[str, str]]
    ) -> tuple[Value, Column, Column] | None:
        """(fixed part, least and greatest rest) of an index inside the fixed loops."""
        form = linear(index)
        base = Value(self._zero)
        low = high = self.points.constant(form.const)
        for axis, c in form.terms.items():
            if not isinstance(axis, Var):
                return None
            value = self.coordinate(reader.name, axis.name)
            least = greatest = value.const
            for atom, stride in value.terms.items():
                if self.atom_loops(atom) <= fixed:
                    base = base.plus(Value(self._zero, {atom: stride}), c)
                else:
                    last = stride * (self.atom_extent(atom) - 1)
                    least = least + np.minimum(last, 0)  # mirrored: x[n - i]
                    greatest = greatest + np.maximum(last, 0)
            reach = self.extent(reader.name, axis.name) - 1
            if not self._is_attached_inside(reader, fixed):
                greatest = np.minimum(greatest, least + reach)
            low = low + (c * least if c > 0 else c * greatest)
            high = high + (c * greatest if c > 0 else c * least)
        return base, low, high

    def _is_attached_inside(
        self, reader: Nest, fixed: frozenset[tuple[str, str]]
    ) -> bool:
        """True if the reader itself moves inside the fixed loops."""
        return not self.fixed_loops(reader) <= fixed


def _differ(a: Value, b: Value) -> npt.NDArray[np.bool_]:
    """The rows in which two values have different terms."""
    differ: npt.NDArray[np.bool_] = np.zeros(1, np.bool_)
    for atom in a.terms.keys() | b.terms.keys():
        differ = differ | (a.terms.get(atom, 0) != b.terms.get(atom, 0))
    return differ


def _leaves(nest: Nest, node: str) -> Iterator[str]:
    """The loops a node is made of, or belongs to if it was fused."""
    fuse = Bounds.fuse_of(nest, node)
    split = Bounds.split_of(nest, node)
    if fuse is not None:
        yield from _leaves(nest, fuse.fused)
    elif split is not None:
        for part in split.parts:
            yield from _leaves(nest, part)
    else:
        yield node
