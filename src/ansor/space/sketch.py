"""A sketch as rules and the search see it: its DAG now, its loops by level."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ansor import schedule
from ansor.errors import ScheduleError
from ansor.schedule.knobs import Knob
from ansor.schedule.plan import At, FuseRelation, Nest, Plan, SplitRelation
from ansor.schedule.steps import Step
from ansor.space.feasible import feasible
from ansor.space.points import (
    Tiles,
    chosen,
    combinations,
    cross,
    draw,
    empty,
    mutate,
    together,
)
from ansor.space.table import Ints, Matrix, Table, table_of
from ansor.space.view import Mask
from ansor.te.analysis import has_data_reuse, is_strictly_inlineable
from ansor.te.dag import DAG
from ansor.te.stage import Stage

ROUNDS = 32  # of drawing, before a sketch counts as hardly feasible
LEAST = 256  # points drawn at once
SMALL = 8  # the longest axis of a constant matrix that is worth unrolling


@dataclass(frozen=True)
class Sketch(schedule.Sketch):
    """Steps with knobs, and what derivation rules ask about them.

    >>> import ansor
    >>> A, B = ansor.placeholder((64, 64)), ansor.placeholder((64, 64))
    >>> sketch = Sketch(ansor.Task(ansor.ops.matmul(A, B, name="C")))
    >>> sketch.has_data_reuse("C"), sketch.is_output("C")
    (True, True)
    """

    def by(self, what: str, *steps: Step) -> Sketch:
        """This sketch after the steps of a rule, which the trace calls `what`."""
        return self.then(*steps).traced((*self.trace, what))

    def traced(self, trace: tuple[str, ...]) -> Sketch:
        """The same sketch with another trace."""
        sketch = replace(self, trace=trace)
        sketch.__dict__["plan"] = self.plan
        return sketch

    def then(self, *steps: Step) -> Sketch:
        sketch = super().then(*steps)
        assert isinstance(sketch, Sketch)
        return sketch

    @cached_property
    def dag(self) -> DAG:
        """The stages as they are now: some inlined, some added."""
        return replace(
            self.task.dag, stages=tuple(nest.stage for nest in self.plan.nests)
        )

    def stage(self, name: str) -> Stage:
        return self.plan.nest(name).stage

    def is_output(self, name: str) -> bool:
        outputs = {buffer.name for buffer in self.task.dag.outputs}
        return any(buffer.name in outputs for buffer in self.stage(name).buffers)

    def is_untouched(self, name: str) -> bool:
        """True while no rule has split, reordered, annotated or placed it."""
        nest = self.plan.nest(name)
        return not nest.relations and not nest.annotations and nest.at is None

    def consumers(self, name: str) -> tuple[Nest, ...]:
        return self.plan.consumers(self.stage(name).buffers)

    def has_data_reuse(self, name: str) -> bool:
        """True if operands are read again along axes they do not depend on."""
        stage = self.stage(name)
        return has_data_reuse(self.dag, stage) and not self.constant_axes(name)

    def is_strictly_inlineable(self, name: str) -> bool:
        return is_strictly_inlineable(self.dag, self.stage(name))

    def constant_axes(self, name: str) -> frozenset[str]:
        """The axes that index small constant matrices (stages that read nothing).

        Unrolled, the elements of such a matrix are numbers in the code: Winograd's
        transforms become additions.
        """
        stage = self.stage(name)
        found: set[str] = set()
        for buffer, loads in self.dag.reads(stage).items():
            producer = self.dag.producer(buffer)
            if producer is None or self.dag.reads(producer) or producer.reducer:
                continue
            if all(axis.extent <= SMALL for axis in producer.axes):
                found |= {str(i) for load in loads for i in load.indices}
        axes = (*stage.axes, *stage.reduce_axes)
        short = {axis.name for axis in axes if axis.extent <= SMALL}
        reduced = {axis.name for axis in stage.reduce_axes}
        return frozenset(found & short) if found & reduced else frozenset()

    def level_ends(self, name: str) -> tuple[str, ...]:
        """The last loop of each group of loops of one kind and depth of splitting.

        A tiled matmul i.0 j.0 | i.1 j.1 | k.0 | … has j.0, j.1, k.0, …
        """
        nest = self.plan.nest(name)
        single = {axis.name for axis in nest.stage.axes if axis.extent == 1}
        loops = [loop for loop in nest.loops if loop not in single]
        keys = [(nest.is_reduce(loop), _depth(nest, loop)) for loop in loops]
        return tuple(
            loop
            for at, loop in enumerate(loops)
            if at + 1 == len(keys) or keys[at + 1] != keys[at]
        )

    def outer_loops(self, name: str) -> tuple[str, ...]:
        """The leading spatial loops that are the outermost part of their axis."""
        nest = self.plan.nest(name)
        found: list[str] = []
        for loop in nest.loops:
            if nest.is_reduce(loop) or _depth(nest, loop) > 0:
                break
            found.append(loop)
        return tuple(found)

    def free_loops(self, name: str) -> tuple[str, ...]:
        """The outer loops that may be bound, up to one that another stage is
        computed at."""
        nest = self.plan.nest(name)
        held = {n.at.loop for n in self.attached(name) if n.at is not None}
        found: list[str] = []
        for loop in self.outer_loops(name):
            if loop in nest.annotations:
                break
            found.append(loop)
            if loop in held:
                break
        return tuple(found)

    @cached_property
    def table(self) -> Table:
        """Its knobs as arrays."""
        return table_of(self.plan, self.knobs)

    def sample(self, count: int, seed: int | np.random.Generator = 0) -> Matrix:
        """Up to `count` random points that the target can run; fewer only where the
        sketch has hardly any."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ScheduleError(
                f"sample of {count!r} points",
                "is not a number of points",
                "such as sketch.sample(1000, seed=0)",
            )
        generator = np.random.default_rng(seed)
        found = [empty(0, len(self.knobs))]
        missing = count
        for _ in range(ROUNDS if self.is_feasible else 0):
            if missing <= 0:
                break
            more = missing + missing // 64 + LEAST  # some will not do
            drawn = draw(self.table, more, generator, self.tiles)
            found.append(chosen(drawn, self.feasible(drawn)))
            missing -= len(found[-1])
        return together(found)[:count]

    @property
    def is_feasible(self) -> bool:
        """False if the target can run none of its points, as far as tiles show."""
        return all(len(tiles.values) for tiles in self.tiles)

    @cached_property
    def tiles(self) -> tuple[Tiles, ...]:
        """Of each stage, the lengths of unrolled and vectorised loops that the target
        can run when everything else is as small as can be."""
        written = {
            relation.lengths[part - 1]
            for nest in self.plan
            for relation in nest.relations
            if isinstance(relation, SplitRelation)
            for part, loop in enumerate(relation.parts)
            if part and _is_bound(nest, loop)
        }
        groups: dict[frozenset[str], list[int]] = {}
        for column, knob in enumerate(self.knobs):
            if knob in written:
                nest = self.plan.nests[int(self.knob_stages[column])]
                groups.setdefault(self._together(nest), []).append(column)
        return tuple(self._tiles(tuple(c), names) for names, c in groups.items())

    def _together(self, nest: Nest) -> frozenset[str]:
        """The stages that share limits with a stage: all of one GPU kernel."""
        if self.task.target.kind == "cpu":
            return frozenset((nest.name,))
        roots = {n.name: _root(self.plan, n) for n in self.plan}
        return frozenset(n for n, root in roots.items() if root == roots[nest.name])

    def _tiles(self, columns: tuple[int, ...], stages: frozenset[str]) -> Tiles:
        values = combinations(self.table, columns)
        points = empty(len(values), len(self.knobs))
        points[:] = [knob.candidates[0] for knob in self.knobs]
        for at, column in enumerate(columns):
            points[:, column] = values[:, at]
        target = self.task.target
        mask = feasible(self.plan, target, self.knobs, points, stages)
        return Tiles(columns, np.asfortranarray(values[mask]))

    def feasible(self, points: Matrix) -> Mask:
        """Which points the target can run: registers, caches, threads, code size."""
        points = self.checked(points)
        return feasible(self.plan, self.task.target, self.knobs, points)

    def checked(self, points: npt.ArrayLike) -> Matrix:
        """A matrix of points of this sketch, whatever it was given as."""
        matrix = np.asarray(points)
        if matrix.ndim != 2 or matrix.shape[1] != len(self.knobs):
            raise ScheduleError(
                f"points of shape {matrix.shape}",
                f"the sketch has {len(self.knobs)} knobs",
                "one row per program, one column per knob",
            )
        return matrix.astype(np.int32, copy=False)

    def mutate(self, points: Matrix, seed: int | np.random.Generator = 0) -> Matrix:
        """Each point with one decision changed."""
        generator = np.random.default_rng(seed)
        return mutate(self.table, self.checked(points), generator)

    def cross(
        self, mothers: Matrix, fathers: Matrix, seed: int | np.random.Generator = 0
    ) -> Matrix:
        """A child of each pair: whole stages or axes from either parent."""
        generator = np.random.default_rng(seed)
        pair = self.checked(mothers), self.checked(fathers)
        return cross(self.table, self.knob_stages, *pair, generator)

    @cached_property
    def knob_stages(self) -> Ints:
        """The number of the stage that each knob belongs to: of several that share
        it, the one that computes."""
        found: dict[str, int] = {}
        for number, nest in enumerate(self.plan):
            for relation in nest.relations:
                if isinstance(relation, SplitRelation):
                    named = (x for x in relation.lengths if isinstance(x, Knob))
                    found.update((k.name, number) for k in named if k.name not in found)
        return np.array([found.get(knob.name, 0) for knob in self.knobs], np.int32)

    def attached(self, name: str) -> tuple[Nest, ...]:
        """The nests computed inside loops of a nest, directly."""
        return tuple(n for n in self.plan if n.at is not None and n.at.stage == name)

    def places(self, name: str) -> tuple[At, ...]:
        """The loops that surround every reader of a stage, outermost first."""
        chains = [_chain(self, reader) for reader in self.consumers(name)]
        if not chains:
            return ()
        return tuple(at for at in chains[0] if all(at in other for other in chains))


def _root(plan: Plan, nest: Nest) -> str:
    """The nest at the root that a nest is computed in."""
    return next((at.stage for at in reversed(list(plan.inside(nest)))), nest.name)


def _is_bound(nest: Nest, loop: str) -> bool:
    """True if a loop is written out, or run by threads."""
    for relation in nest.relations:
        if isinstance(relation, FuseRelation) and loop in relation.parts:
            return _is_bound(nest, relation.fused)
    kind = nest.annotations.get(loop, "parallel")
    return kind != "parallel" and not kind.startswith("blockIdx")


def _depth(nest: Nest, loop: str) -> int:
    """0 for an axis or the outermost part of a split, else the number of the part."""
    for relation in nest.relations:
        if isinstance(relation, SplitRelation) and loop in relation.parts:
            return relation.parts.index(loop)
    return 0


def _chain(sketch: Sketch, reader: Nest) -> list[At]:
    """All loops around the body of a nest, outermost first."""
    chain = [At(reader.name, loop) for loop in reader.loops]
    for place in sketch.plan.inside(reader):
        loops = sketch.plan.nest(place.stage).loops
        outer = loops[: loops.index(place.loop) + 1]
        chain = [At(place.stage, loop) for loop in outer] + chain
    return chain
