"""A plan: every stage with its loops, and where each stage is computed.

A plan is what a list of steps says, before any number is known: loop names, how they
derive from the axes of the stage, annotations, attachment. Extents come from `bounds`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from ansor.errors import ScheduleError
from ansor.ir.expr import Buffer, Load
from ansor.ir.visit import map_loads
from ansor.schedule.knobs import Follow, Length
from ansor.te.dag import DAG
from ansor.te.stage import Stage

TAILS = ("peel", "equal", "shift")


@dataclass(frozen=True, slots=True)
class SplitRelation:
    """`parent` is made of `parts`, outermost first; all but the first have a length."""

    parent: str
    parts: tuple[str, ...]
    lengths: tuple[Length, ...]
    tail: str = "peel"


@dataclass(frozen=True, slots=True)
class FuseRelation:
    """`fused` runs through all combinations of `parts`, the last part fastest."""

    parts: tuple[str, ...]
    fused: str


Relation: TypeAlias = SplitRelation | FuseRelation


@dataclass(frozen=True, slots=True)
class At:
    """Computed inside one loop of a consumer."""

    stage: str
    loop: str


@dataclass(frozen=True)
class Nest:
    """One stage, its loops and its place.

    `layout` (if any) lists the nodes whose values index the buffer, outermost first.
    `factored` names the node of a reduction that became an output dimension (rfactor).
    `sizes` overrides the extent of an axis by the extent of a loop elsewhere.
    """

    stage: Stage
    loops: tuple[str, ...]
    relations: tuple[Relation, ...] = ()
    annotations: dict[str, str] = field(default_factory=dict)
    at: At | None = None  # None: at the root
    scope: str = "global"
    layout: tuple[str, ...] | None = None
    factored: str | None = None
    sizes: dict[str, Follow] = field(default_factory=dict)
    ahead: bool = False  # runs once, before the timed call (constant inputs)
    prefetches: tuple[tuple[str, str, int], ...] = ()  # (loop, buffer, distance)

    @property
    def name(self) -> str:
        return self.stage.name

    @property
    def is_fresh(self) -> bool:
        """True while no step has touched its loops or place."""
        return self == fresh(self.stage, self.scope)

    @cached_property
    def nodes(self) -> dict[str, tuple[frozenset[str], bool]]:
        """The axes, the loops and what came between, by name: the axes each derives
        from, and whether its iterations combine into the same elements."""
        reduced = {axis.name for axis in self.stage.reduce_axes}
        axes = (*self.stage.axes, *self.stage.reduce_axes)
        found = {a.name: (frozenset((a.name,)), a.name in reduced) for a in axes}
        for relation in self.relations:
            if isinstance(relation, SplitRelation):
                found.update((x, found[relation.parent]) for x in relation.parts)
            else:
                parts = [found[part] for part in relation.parts]
                of = frozenset().union(*(axes for axes, _ in parts))
                found[relation.fused] = (of, any(reduce for _, reduce in parts))
            if self.factored in found:
                found[self.factored] = (found[self.factored][0], False)
        return found

    @cached_property
    def follows(self) -> tuple[Follow, ...]:
        """The loops of other stages that decide an extent of this one."""
        splits = (r for r in self.relations if isinstance(r, SplitRelation))
        lengths = (
            *self.sizes.values(),
            *(x for split in splits for x in split.lengths),
        )
        return tuple(length for length in lengths if isinstance(length, Follow))

    def axis_of(self, node: str) -> frozenset[str]:
        """The axes of the stage that a loop or intermediate node derives from."""
        return self.nodes[node][0]

    def is_reduce(self, loop: str) -> bool:
        """True if iterations of the loop combine into the same elements."""
        return self.nodes[loop][1]

    def reads(self) -> Iterator[Load]:
        """Every load in the body of the stage."""
        return iter(self.stage.loads)


def fresh(stage: Stage, scope: str = "global") -> Nest:
    """A stage with one loop per axis, spatial axes first, at the root."""
    axes = (*stage.axes, *stage.reduce_axes)
    return Nest(stage, tuple(axis.name for axis in axes), scope=scope)


@dataclass(frozen=True)
class Plan:
    """All nests of a task, producers first."""

    dag: DAG
    nests: tuple[Nest, ...]

    @staticmethod
    def of(dag: DAG) -> Plan:
        outputs = {buffer.name for buffer in dag.outputs}
        return Plan(dag, tuple(fresh(s, _scope(s, outputs)) for s in dag.stages))

    def __iter__(self) -> Iterator[Nest]:
        return iter(self.nests)

    @cached_property
    def by_name(self) -> dict[str, Nest]:
        return {nest.name: nest for nest in self.nests}

    def nest(self, name: str, asked_by: object = "plan") -> Nest:
        found = self.by_name.get(name)
        if found is not None:
            return found
        known = ", ".join(nest.name for nest in self.nests)
        raise ScheduleError(str(asked_by), f"no stage {name!r}", f"stages are {known}")

    def with_nest(self, new: Nest) -> Plan:
        """The plan with one nest replaced, by name."""
        nests = (new if nest.name == new.name else nest for nest in self.nests)
        return replace(self, nests=tuple(nests))

    def insert_before(self, name: str, new: Nest) -> Plan:
        at = [nest.name for nest in self.nests].index(name)
        return replace(self, nests=(*self.nests[:at], new, *self.nests[at:]))

    def without(self, name: str) -> Plan:
        return replace(self, nests=tuple(n for n in self.nests if n.name != name))

    def consumers(self, buffers: tuple[Buffer, ...]) -> tuple[Nest, ...]:
        """Nests that read one of the buffers, in order."""
        names = {buffer.name for buffer in buffers}
        return tuple(n for n in self.nests if not names.isdisjoint(n.stage.read_names))

    def producer(self, buffer: str) -> Nest | None:
        """The nest that writes a buffer, if it is not an input."""
        for nest in self.nests:
            if any(written.name == buffer for written in nest.stage.buffers):
                return nest
        return None

    def inside(self, nest: Nest) -> Iterator[At]:
        """The chain of places around a nest, innermost first."""
        place = nest.at
        while place is not None:
            yield place
            place = self.nest(place.stage).at


def redirect(stage: Stage, old: Buffer, new: Buffer) -> Stage:
    """The stage with its loads of one buffer going to another of the same rank."""

    def rewrite(load: Load) -> Load:
        return Load(new, load.indices) if load.buffer.name == old.name else load

    return replace(stage, body=tuple(map_loads(expr, rewrite) for expr in stage.body))


def _scope(stage: Stage, outputs: set[str]) -> str:
    is_output = any(buffer.name in outputs for buffer in stage.buffers)
    return "global" if is_output else "packed"
