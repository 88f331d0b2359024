"""The knobs of a sketch as arrays: what sampling and mutation compute with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from ansor.schedule.knobs import Follow, Knob
from ansor.schedule.plan import FuseRelation, Nest, Plan, SplitRelation

Matrix = npt.NDArray[np.int32]  # points: one row per program, one column per knob
Ints = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Group:
    """The knobs of one split, outermost first, and what they share.

    A length makes sense up to what the lengths inside it leave of `extent`.
    """

    columns: tuple[int, ...]
    extent: int  # the most that there can be to split
    fixed: int = 1  # the product of lengths that are numbers


@dataclass(frozen=True)
class Table:
    """All knobs of a sketch, flat: candidates of knob c start at `starts[c]`.

    `floors[places[c] + v]` is the number of the largest candidate of knob c that is
    not above v (or of the smallest candidate), for v up to `tops[c]`.
    """

    knobs: tuple[Knob, ...]
    groups: tuple[Group, ...]

    @cached_property
    def counts(self) -> Ints:
        return np.array([len(k.candidates) for k in self.knobs], np.int32)

    @cached_property
    def starts(self) -> Ints:
        return _before(self.counts)

    @cached_property
    def values(self) -> Ints:
        flat = [value for knob in self.knobs for value in sorted(knob.candidates)]
        return np.array(flat, np.int32)

    @cached_property
    def tops(self) -> Ints:
        """The largest v that `floors` covers: above any candidate and extent."""
        tops = [max(knob.candidates) for knob in self.knobs]
        for group in self.groups:
            for column in group.columns:
                tops[column] = max(tops[column], group.extent)
        return np.array(tops, np.int32)

    @cached_property
    def places(self) -> Ints:
        return _before(self.tops + 1)

    @cached_property
    def floors(self) -> Ints:
        parts = [
            np.searchsorted(sorted(knob.candidates), np.arange(top + 1), side="right")
            for knob, top in zip(self.knobs, self.tops, strict=True)
        ]
        flat = np.concatenate(parts) if parts else np.zeros(0)
        return np.maximum(flat - 1, 0).astype(np.int32)

    @cached_property
    def group_of(self) -> Ints:
        """The number of the group of each knob."""
        found = np.zeros(len(self.knobs), np.int32)
        for number, group in enumerate(self.groups):
            found[list(group.columns)] = number
        return found

    def column_floors(self, column: int) -> Ints:
        at = int(self.places[column])
        return self.floors[at : at + int(self.tops[column]) + 1]

    def column_values(self, column: int) -> Ints:
        at = int(self.starts[column])
        return self.values[at : at + int(self.counts[column])]


def table_of(plan: Plan, knobs: tuple[Knob, ...]) -> Table:
    """The knobs of a plan, grouped by the split they belong to."""
    columns = {knob.name: at for at, knob in enumerate(knobs)}
    found = sorted(_groups(plan, columns), key=lambda g: -len(g.columns))
    groups: list[Group] = []
    taken: set[int] = set()
    for group in found:  # a knob that several splits share belongs to the longest
        if not taken & set(group.columns):
            groups.append(group)
            taken |= set(group.columns)
    rest = (at for at in range(len(knobs)) if at not in taken)
    groups += [Group((at,), max(knobs[at].candidates)) for at in rest]
    return Table(knobs, tuple(sorted(groups, key=lambda g: g.columns)))


def _groups(plan: Plan, columns: dict[str, int]) -> Iterator[Group]:
    for nest in plan:
        for split in nest.relations:
            if not isinstance(split, SplitRelation):
                continue
            named = [x for x in split.lengths if isinstance(x, Knob)]
            if named and not any(isinstance(x, Follow) for x in split.lengths):
                numbers = (x for x in split.lengths if isinstance(x, int))
                yield Group(
                    tuple(columns[knob.name] for knob in named),
                    most(nest, split.parent),
                    prod(numbers),
                )


def most(nest: Nest, node: str) -> int:
    """The largest extent that an axis, or what it was split into, can have."""
    for relation in nest.relations:
        if isinstance(relation, FuseRelation) and node == relation.fused:
            return prod(most(nest, part) for part in relation.parts)
        if isinstance(relation, SplitRelation) and node in relation.parts:
            return most(nest, relation.parent)
    axes = (*nest.stage.axes, *nest.stage.reduce_axes)
    return next(axis.extent for axis in axes if axis.name == node)


def _before(counts: Ints) -> Ints:
    """Where each run of `counts` elements starts."""
    return np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int32)
