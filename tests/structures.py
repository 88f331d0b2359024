"""What a plan is, in the words of the original: tiled, fused, factored, across threads.

Everything is read off the loops of a nest: how they derive from its axes, what they are
annotated with, and where it is computed. Names and traces play no part.

A loop of which a point may have just one iteration is no level: "SSRSRRS" contains
"SSRSRS" where the second R of its pair may be of length 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

from ansor.ir.expr import Load
from ansor.schedule.knobs import Knob, Length
from ansor.schedule.plan import At, FuseRelation, Nest, Plan, SplitRelation

BLOCK, VIRTUAL, THREAD = "blockIdx.x", "vthread", "threadIdx.x"
THREADS = {BLOCK, VIRTUAL, THREAD}


class Level(NamedTuple):
    """Loops of one kind and depth, next to each other."""

    kind: str  # S or R
    depth: int  # the number of the part that each is of its axis
    loops: tuple[str, ...]


def splits(nest: Nest) -> Iterator[SplitRelation]:
    return (r for r in nest.relations if isinstance(r, SplitRelation))


def unfused(nest: Nest, loop: str) -> list[str]:
    """The loops that a loop was fused from."""
    for relation in nest.relations:
        if isinstance(relation, FuseRelation) and relation.fused == loop:
            return [x for part in relation.parts for x in unfused(nest, part)]
    return [loop]


def depth(nest: Nest, loop: str) -> int:
    return next((s.parts.index(loop) for s in splits(nest) if loop in s.parts), 0)


def length(nest: Nest, loop: str) -> Length | None:
    """What a step says about the iterations of a loop, if it does."""
    for split in splits(nest):
        if loop in split.parts[1:]:
            return split.lengths[split.parts.index(loop) - 1]
    return None


def may_be_one(nest: Nest, loop: str) -> bool:
    value = length(nest, loop)
    return value == 1 or (isinstance(value, Knob) and 1 in value.candidates)


def long_loops(nest: Nest) -> list[str]:
    """All loops but those of axes of length 1, fused ones taken apart."""
    axes = (*nest.stage.axes, *nest.stage.reduce_axes)
    single = {axis.name for axis in axes if axis.extent == 1}
    loops = [x for loop in nest.loops for x in unfused(nest, loop)]
    return [loop for loop in loops if not nest.axis_of(loop) <= single]


def levels(nest: Nest, loops: list[str]) -> list[Level]:
    def key(loop: str) -> tuple[str, int]:
        return "R" if nest.is_reduce(loop) else "S", depth(nest, loop)

    return [Level(*kind, tuple(group)) for kind, group in groupby(loops, key)]


def is_ordered(nest: Nest, loops: tuple[str, ...]) -> bool:
    """True if loops run in the order of their axes."""
    names = [axis.name for axis in (*nest.stage.axes, *nest.stage.reduce_axes)]
    places = [min(map(names.index, nest.axis_of(loop))) for loop in loops]
    return places == sorted(places)


def has_structure(nest: Nest, loops: list[str], structure: str) -> bool:
    """True if loops, in the order of their axes, are the levels of a structure."""
    found = levels(nest, loops)
    ordered = all(is_ordered(nest, level.loops) for level in found)
    return ordered and _fits(nest, found, structure)


def _fits(nest: Nest, found: list[Level], structure: str) -> bool:
    if not found:
        return not structure
    first, *rest = found
    if structure[:1] == first.kind and _fits(nest, rest, structure[1:]):
        return True
    optional = all(may_be_one(nest, loop) for loop in first.loops)
    return optional and _fits(nest, rest, structure)


def is_inlined(plan: Plan, stage: str) -> bool:
    return stage not in plan.by_name


def is_unpacked(plan: Plan) -> bool:
    """True if every buffer has the layout of its tensor."""
    return all(nest.layout is None for nest in plan)


def cached(plan: Plan, stage: str) -> str:
    """The stage whose results another only copies; itself if it computes them."""
    (*_, body) = plan.nest(stage).stage.body
    producer = plan.producer(body.buffer.name) if isinstance(body, Load) else None
    return producer.name if producer is not None else stage


def is_tiled(plan: Plan, stage: str, structure: str = "SSRSRS") -> bool:
    """True if a stage at the root is tiled by itself."""
    nest = plan.nest(stage)
    return nest.at is None and has_structure(nest, long_loops(nest), structure)


def is_fused(plan: Plan, stage: str, level: int, structure: str = "SSRSRS") -> bool:
    """True if a stage is tiled inside the outer `level` levels of its consumer."""
    nest = plan.nest(stage)
    if nest.at is None or plan.nest(nest.at.stage).at is not None:
        return False
    inner = has_structure(nest, long_loops(nest), structure[level:])
    return inner and _shares_levels(plan.nest(nest.at.stage), nest, nest.at, level)


def _shares_levels(outer: Nest, nest: Nest, at: At, level: int) -> bool:
    """True if a nest runs inside the first levels of all axes of its consumer, and
    takes its own lengths from there."""
    around = outer.loops[: outer.loops.index(at.loop) + 1]
    loops = [
        x for x in long_loops(outer) if any(x in unfused(outer, y) for y in around)
    ]
    first = levels(outer, loops)
    theirs = [split.lengths for split in splits(outer)]
    own = [s.lengths for s in splits(nest) if not nest.is_reduce(s.parent)]
    return (
        [(x.kind, x.depth) for x in first] == [("S", n) for n in range(level)]
        and all(is_ordered(outer, x.loops) for x in first)
        and all(len(x.loops) == len(theirs) for x in first)
        and [lengths[level:] for lengths in theirs] == own
    )


def is_untiled(plan: Plan, stage: str) -> bool:
    """True if a stage at the root has one loop per axis, in their order. Vectors may be
    cut off: the original does that to the loops of a sketch later on."""
    nest = plan.by_name.get(stage)  # None if inlined
    if nest is None or nest.at is not None or nest.factored is not None or nest.sizes:
        return False
    kept = [
        loop
        for loop in long_loops(nest)
        if depth(nest, loop) == 0
        or not (may_be_one(nest, loop) or nest.annotations.get(loop) == "vectorize")
    ]
    axes = (*nest.stage.axes, *nest.stage.reduce_axes)
    long = sum(axis.extent > 1 for axis in axes)
    return len(kept) == long and is_ordered(nest, tuple(kept))


def is_factored(plan: Plan, stage: str, part: str) -> bool:
    """True if the "outer" or "inner" part of all reductions of a stage became an axis
    of partial results, computed at the root and not tiled."""
    total = plan.nest(stage)
    partial = plan.producer(total.stage.loads[0].buffer.name)
    if total.at is not None or partial is None or partial.at is not None:
        return False
    if partial.factored is None or not total.sizes:
        return False
    (split,) = splits(partial)
    found = partial.factored == split.parts[{"outer": 0, "inner": 1}[part]]
    rest = next(x for x in split.parts if x != partial.factored)
    last = [x for loop in partial.loops for x in unfused(partial, loop)][-1]
    innermost = partial.factored if part == "inner" else rest
    return found and partial.is_reduce(rest) and last == innermost


def is_unrolled(plan: Plan, stage: str) -> bool:
    """True if the axes of constant matrices are unrolled inside all other loops, which
    form two levels."""
    nest = plan.nest(stage)
    loops = long_loops(nest)
    inner = [x for x in loops if nest.annotations.get(x) == "unroll"]
    outer = [x for x in loops if x not in inner]
    reduced = {axis.name for axis in nest.stage.reduce_axes}
    return (
        bool(inner)
        and loops == outer + inner
        and reduced <= set(inner)
        and has_structure(nest, outer, "SS")
    )


def is_threaded(plan: Plan, stage: str) -> bool:
    """True if a stage is tiled as SSSRRSRS: blocks, virtual threads and threads of its
    consumer around it, sums in registers inside."""
    nest = plan.nest(stage)
    if nest.at is None or not is_fused(plan, stage, 3, "SSSRRSRS"):
        return False
    outer = plan.nest(nest.at.stage)
    kinds = [outer.annotations.get(loop) for loop in outer.loops]
    return kinds[:3] == [BLOCK, VIRTUAL, THREAD] and outer.loops[2] == nest.at.loop


def is_shared(plan: Plan, stage: str) -> bool:
    """True if all operands of a stage come from shared memory, which the threads fill
    at the last loop of the outermost level of the reduction."""
    nest = plan.nest(stage)
    first = next(x for x in levels(nest, long_loops(nest)) if x.kind == "R")
    copies = [plan.producer(load.buffer.name) for load in nest.stage.loads]
    return all(
        copy is not None
        and copy.scope == "shared"
        and copy.at == At(stage, first.loops[-1])
        and THREAD in copy.annotations.values()
        for copy in copies
    )


def is_across(plan: Plan, stage: str) -> bool:
    """True if the threads of a block share all reductions of a stage."""
    nest = plan.nest(stage)
    bound = [x for x, kind in nest.annotations.items() if kind == THREAD]
    reduced = {axis.name for axis in nest.stage.reduce_axes}
    return any(nest.is_reduce(x) and nest.axis_of(x) == reduced for x in bound)


def is_within_rows(plan: Plan, stage: str, reader: str) -> bool:
    """True if a stage is computed where the threads of another, that share its rows,
    need it."""
    nest, outer = plan.nest(stage), plan.nest(reader)
    if nest.at is None or nest.at.stage != reader:
        return False
    bound = [x for x, kind in outer.annotations.items() if kind == THREAD]
    return bool(bound) and outer.loops.index(nest.at.loop) < outer.loops.index(bound[0])


def is_serial(plan: Plan, stage: str) -> bool:
    """True if one thread runs through each reduction as it is."""
    nest = plan.nest(stage)
    reduced = [axis.name for axis in nest.stage.reduce_axes]
    return nest.at is None and all(
        name in nest.loops and nest.annotations.get(name) not in THREADS
        for name in reduced
    )
