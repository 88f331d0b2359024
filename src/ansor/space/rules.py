"""Derivation rules: how the structure of a program grows out of its DAG.

A rule is asked about one stage of a sketch at a time, consumers before producers.
`matches` says whether it applies, `apply` yields the sketches it makes, the most usual
first. A rule that stands `alone` (as all do that do not say otherwise) ends the
questions about the stage; after any other the rules below it are asked as well, and
each makes siblings. What a rule with `finishes = True` makes is complete: no other
stage is asked about, nothing is packed or run in parallel that it does not say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Protocol

from ansor.errors import ScheduleError
from ansor.ir.expr import Load
from ansor.ir.ops import REDUCERS
from ansor.ir.visit import loads
from ansor.schedule.knobs import Length
from ansor.schedule.plan import Nest
from ansor.schedule.steps import (
    Annotate,
    CacheWrite,
    Fuse,
    Inline,
    Reorder,
    RFactor,
    Split,
    Step,
)
from ansor.space import lengths
from ansor.space.access import vector_axes
from ansor.space.sketch import Sketch
from ansor.space.tiling import TILED, Tiling
from ansor.te.analysis import is_elementwise_match

LARGEST = 48  # loads in one formula that inlining may lead to
TASKS = 16  # a core: below this many independent results a reduction is cut up


class Rule(Protocol):
    """What a derivation is made of. Rules of users need nothing else."""

    def matches(self, sketch: Sketch, stage: str) -> bool:
        """True if the rule has something to offer for this stage."""

    def apply(self, sketch: Sketch, stage: str) -> Iterable[Sketch]:
        """The sketches it makes; not empty where it matches."""


def stands_alone(rule: Rule, sketch: Sketch, stage: str) -> bool:
    """True if no later rule is asked about a stage that the rule matches.

    That is so for every rule without an attribute `alone`: a bool, or a method.
    """
    alone = getattr(rule, "alone", True)
    return bool(alone(sketch, stage) if callable(alone) else alone)


@dataclass(frozen=True)
class InTurn:
    """Apply several rules to a stage one after the other, each to what the one before
    it made."""

    rules: tuple[Rule, ...]

    def matches(self, sketch: Sketch, stage: str) -> bool:
        return any(rule.matches(sketch, stage) for rule in self.rules)

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        return _in_turn(self.rules, sketch, stage)


def _in_turn(rules: tuple[Rule, ...], sketch: Sketch, stage: str) -> Iterator[Sketch]:
    if not rules:
        yield sketch
        return
    for made in _applied(rules[0], sketch, stage):
        yield from _in_turn(rules[1:], made, stage)


def _applied(rule: Rule, sketch: Sketch, stage: str) -> Iterable[Sketch]:
    exists = any(nest.name == stage for nest in sketch.plan)
    if exists and rule.matches(sketch, stage):
        return rule.apply(sketch, stage)
    return (sketch,)


def attempt(sketch: Sketch, what: str, steps: list[Step]) -> Iterator[Sketch]:
    """The sketch after these steps, unless they are not legal for it."""
    try:
        yield sketch.by(what, *steps)
    except ScheduleError:
        return


def lanes_of(sketch: Sketch, stage: str) -> int:
    """Elements of the stage's results in one vector."""
    return sketch.task.target.lanes(sketch.stage(stage).buffers[0].dtype)


@dataclass(frozen=True)
class AlwaysInline:
    """Put stages that cost nothing to repeat into their consumers.

    `strictly` leaves alone what branches, reads out of order or calls a costly
    function; a GPU, where memory is dearer, inlines all without a reduction.
    """

    strictly: bool = True

    def matches(self, sketch: Sketch, stage: str) -> bool:
        if sketch.is_output(stage) or sketch.stage(stage).reducer is not None:
            return False
        if not sketch.is_untouched(stage) or not sketch.consumers(stage):
            return False
        return self._is_cheap(sketch, stage) and any(self.apply(sketch, stage))

    def _is_cheap(self, sketch: Sketch, stage: str) -> bool:
        if self.strictly and not sketch.is_strictly_inlineable(stage):
            return False
        own = _count_loads(sketch, stage)
        names = {buffer.name for buffer in sketch.stage(stage).buffers}
        return all(
            _count_loads(sketch, c.name) + own * _count(c.reads(), names) <= LARGEST
            for c in sketch.consumers(stage)
        )

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        return attempt(sketch, f"inline {stage}", [Inline(stage)])


def _count_loads(sketch: Sketch, stage: str) -> int:
    return sum(1 for expr in sketch.stage(stage).body for _ in loads(expr))


def _count(reads: Iterator[Load], names: set[str]) -> int:
    return sum(read.buffer.name in names for read in reads)


@dataclass(frozen=True)
class ConstantTensor:
    """Unroll the axes of small constant matrices, so that they become numbers.

    for e n p c: for a b: V[e, n, p, c] += D[a, b, p, c] * M[a, e] * M[b, n]
    ==>  p.0 c.0 p.1 c.1 | e n a b, all unrolled, c.1 vectorised
    """

    def matches(self, sketch: Sketch, stage: str) -> bool:
        return bool(sketch.constant_axes(stage)) and sketch.is_untouched(stage)

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        constant = sketch.constant_axes(stage)
        body = sketch.stage(stage)
        lanes = lanes_of(sketch, stage)
        free = [a for a in body.axes if a.name not in constant and a.extent > 1]
        steps: list[Step] = []
        outer: list[str] = [a.name for a in body.axes if a.extent == 1]
        inner: list[str] = []
        for axis in free:
            last = axis == free[-1]
            inside = (
                lengths.vector_lengths(axis.extent, lanes)
                if last
                else lengths.row_lengths(axis.extent, lengths.OTHER_ROWS)
            )
            tile: Length = lengths.length(stage, f"{axis.name}.1", inside)
            steps.append(Split(stage, axis.name, (tile,)))
            outer.append(f"{axis.name}.0")
            inner.append(f"{axis.name}.1")
        rest = [a.name for a in body.reduce_axes if a.name not in constant]
        unrolled = [
            a.name
            for a in (*body.axes, *body.reduce_axes)
            if a.name in constant and a.extent > 1
        ]
        short = [a.name for a in body.reduce_axes if a.name in constant]
        ordered = [*outer, *inner, *rest, *unrolled]
        ordered += [name for name in short if name not in ordered]
        steps.append(Reorder(stage, tuple(ordered)))
        steps += [Annotate(stage, name, "vectorize") for name in inner[-1:]]
        steps += [Annotate(stage, name, "unroll") for name in unrolled]
        return attempt(sketch, f"constant-tensor {stage}", steps)


@dataclass(frozen=True)
class AddRFactor:
    """Cut a long reduction of few results into independent parts.

    Either the outer part becomes the new axis (parts for the cores), or the inner one
    (parts for the lanes of a vector).
    """

    alone = False
    unusual = 1
    usual = 2

    def matches(self, sketch: Sketch, stage: str) -> bool:
        body = sketch.stage(stage)
        if body.reducer not in REDUCERS or not sketch.is_untouched(stage):
            return False
        if sketch.plan.nest(stage).sizes or not sketch.plan.nest(stage).is_fresh:
            return False
        if any(copies(c, stage) for c in sketch.consumers(stage)):
            return False
        space, reduced = prod(body.shape), prod(a.extent for a in body.reduce_axes)
        cores = sketch.task.target.cores
        if sketch.has_data_reuse(stage):
            return space <= reduced and space <= TASKS * cores
        return reduced > cores and reduced > 1

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        body = sketch.stage(stage)
        names = tuple(axis.name for axis in body.reduce_axes)
        extent = prod(axis.extent for axis in body.reduce_axes)
        fused = "@".join(names)
        start: list[Step] = [Fuse(stage, names)] if len(names) > 1 else []
        spatial = tuple(axis.name for axis in body.axes)
        partial, outer, inner = f"{stage}.rf", f"{fused}.0", f"{fused}.1"
        blocks = lengths.length(stage, inner, lengths.block_lengths(extent))
        yield from attempt(
            sketch,
            f"rfactor {stage} outer",
            [*start, Split(stage, fused, (blocks,)), RFactor(stage, outer)],
        )
        lanes = lengths.vector_lengths(extent, lanes_of(sketch, stage))
        width = lengths.length(stage, inner, lanes)
        yield from attempt(
            sketch,
            f"rfactor {stage} inner",
            [
                *start,
                Split(stage, fused, (width,)),
                RFactor(stage, inner),
                Reorder(partial, (*spatial, outer, inner)),
                Annotate(partial, inner, "vectorize"),
                Annotate(stage, inner, "vectorize"),
            ],
        )


@dataclass(frozen=True)
class AddCacheWrite:
    """Give a tiled output a buffer of its own, so that something can be fused."""

    alone: bool = False

    def matches(self, sketch: Sketch, stage: str) -> bool:
        return (
            sketch.plan.nest(stage).is_fresh
            and len(sketch.stage(stage).buffers) == 1
            and sketch.has_data_reuse(stage)
            and elementwise_consumer(sketch, stage) is None
        )

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        return attempt(sketch, f"cache-write {stage}", [CacheWrite(stage)])


@dataclass(frozen=True)
class TileFused:
    """Tile a stage inside the outer loops of its element-wise consumer."""

    structure: str = TILED
    levels: tuple[int, ...] = (1, 2)
    always: bool = False  # never leave the consumer by itself
    usual = 2

    def alone(self, sketch: Sketch, stage: str) -> bool:
        consumers = sketch.consumers(stage)
        return self.always or any(copies(c, stage) for c in consumers)

    def matches(self, sketch: Sketch, stage: str) -> bool:
        return (
            sketch.is_untouched(stage)
            and sketch.has_data_reuse(stage)
            and elementwise_consumer(sketch, stage) is not None
        )

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        consumer = elementwise_consumer(sketch, stage)
        assert consumer is not None, "see matches"
        into = sketch.stage(consumer)
        for tiling in tilings(sketch, stage, self.structure):
            for level in self.levels:
                name = f"tile {stage} {_label(tiling)} in {consumer} level {level}"
                yield from attempt(
                    sketch, name, tiling.fused(into, level, ("vectorize",))
                )


@dataclass(frozen=True)
class Tile:
    """Tile a stage with data reuse by itself: SSRSRS."""

    structure: str = TILED

    def matches(self, sketch: Sketch, stage: str) -> bool:
        return (
            sketch.is_untouched(stage)
            and sketch.has_data_reuse(stage)
            and not any(copies(c, stage) for c in sketch.consumers(stage))
        )

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        for tiling in tilings(sketch, stage, self.structure):
            name = f"tile {stage} {_label(tiling)}"
            yield from attempt(sketch, name, tiling.steps())


def tilings(sketch: Sketch, stage: str, structure: str) -> Iterator[Tiling]:
    """The ways to tile a stage: vectorised axis, and order of the blocks."""
    body = sketch.stage(stage)
    lanes = lanes_of(sketch, stage)
    axes: list[str | None] = [*vector_axes(body, lanes, pack=True)] or [None]
    blocks = structure.count("S") - 2  # the S level around the register tile
    several = sum(axis.extent > 1 for axis in body.axes) > 1
    for vector in axes:
        for flipped in (None, blocks) if several and blocks > 0 else (None,):
            yield Tiling(
                body, structure, lanes, vector, flipped, knobs=origin(sketch, stage)
            )


def origin(sketch: Sketch, stage: str) -> str:
    """The stage of the DAG whose results a stage computes: caches lead to what they
    cache, so that siblings call their knobs alike."""
    for consumer in sketch.consumers(stage):
        if copies(consumer, stage):
            return consumer.name
    return stage


def _label(tiling: Tiling) -> str:
    vector = f"along {tiling.vector}" if tiling.vector else "scalar"
    return vector + (" flipped" if tiling.flipped is not None else "")


def elementwise_consumer(sketch: Sketch, stage: str) -> str | None:
    """The one stage that reads this one element by element, if it is untouched."""
    consumers = sketch.consumers(stage)
    if len(consumers) != 1 or sketch.is_output(stage):
        return None
    (consumer,) = consumers
    if consumer.stage.reducer is not None or not sketch.is_untouched(consumer.name):
        return None
    match = is_elementwise_match(sketch.dag, sketch.stage(stage), consumer.stage)
    return consumer.name if match else None


def copies(consumer: Nest, stage: str) -> bool:
    """True if a nest does nothing but copy the results of a stage out of its cache."""
    body = consumer.stage.body
    return len(body) == 1 and isinstance(body[0], Load) and body[0].buffer.name == stage
