"""Rules for the stages that no other rule touched: where they run, and how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansor.ir.visit import variables
from ansor.schedule.bounds import Bounds
from ansor.schedule.knobs import Points
from ansor.schedule.plan import At, Nest
from ansor.schedule.steps import Annotate, ComputeAt, Fuse, Inline, Split, Step
from ansor.space import lengths
from ansor.space.access import vector_axes, walk
from ansor.space.rules import attempt, lanes_of
from ansor.space.sketch import Sketch
from ansor.space.tiling import ELEMENTWISE, REDUCED, Tiling
from ansor.te.analysis import has_expensive, num_common_outer_axes
from ansor.te.stage import Stage

ROWS = (1, 2, 4, 8)  # of a group of rows that are finished together
PLACES = 3  # loops offered to one stage, besides the root


@dataclass(frozen=True)
class ComputeLocation:
    """Compute a stage by itself, or inside a loop of what reads it, or again at every
    place that reads it."""

    def matches(self, sketch: Sketch, stage: str) -> bool:
        nest = sketch.plan.nest(stage)
        return (
            not sketch.is_output(stage)
            and nest.at is None
            and not nest.ahead
            and (sketch.is_untouched(stage) or nest.factored is not None)
            and bool(sketch.consumers(stage))
        )

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        nest = sketch.plan.nest(stage)
        if nest.factored is not None:
            yield from self._with_total(sketch, nest)
            return
        found = list(self._inside(sketch, nest))
        if nest.stage.reducer is None and not has_expensive(nest.stage):
            found += attempt(sketch, f"inline {stage}", [Inline(stage)])
        if _shares_rows(sketch, nest):
            yield from found
            yield sketch
        else:
            yield sketch
            yield from found

    def _with_total(self, sketch: Sketch, nest: Nest) -> Iterator[Sketch]:
        """Partial results are computed where they are added up."""
        (total,) = sketch.consumers(nest.name)
        if total.at is None:
            yield sketch
        else:
            step = ComputeAt(nest.name, total.at.stage, total.at.loop)
            yield from attempt(sketch, f"place {nest.name} with {total.name}", [step])

    def _inside(self, sketch: Sketch, nest: Nest) -> Iterator[Sketch]:
        places = [at for at in sketch.places(nest.name) if _is_end(sketch, at)]
        reduced = nest.stage.reducer is not None
        if reduced:
            places = [at for at in places if _once(sketch, nest, at)]
            places = places[:1]
        for at in places[:PLACES]:
            step = ComputeAt(nest.name, at.stage, at.loop)
            yield from attempt(
                sketch, f"place {nest.name} at {at.stage}.{at.loop}", [step]
            )


def _shares_rows(sketch: Sketch, nest: Nest) -> bool:
    """True if the stage is one of several that finish the same rows."""
    return nest.stage.reducer is not None or any(
        consumer.at is not None for consumer in sketch.consumers(nest.name)
    )


def _is_end(sketch: Sketch, at: At) -> bool:
    """True for the last loop of a level that is not run in copies or vectors."""
    nest = sketch.plan.nest(at.stage)
    return (
        at.loop in sketch.level_ends(at.stage)
        and nest.annotations.get(at.loop) not in ("unroll", "vectorize")
        and at.loop != nest.loops[-1]
    )


def _once(sketch: Sketch, nest: Nest, at: At) -> bool:
    """True if no result of a stage is computed twice at this place: every loop around
    it, that is not of length 1, chooses other results."""
    consumers = sketch.consumers(nest.name)
    names = {buffer.name for buffer in nest.stage.buffers}
    used = {
        name
        for consumer in consumers
        for read in consumer.reads()
        if read.buffer.name in names
        for index in read.indices
        for name in variables(index)
    }
    outer = sketch.plan.nest(at.stage)
    around = outer.loops[: outer.loops.index(at.loop) + 1]
    axes = {axis for loop in around for axis in outer.axis_of(loop)}
    long = {a.name for a in outer.stage.axes if a.extent > 1}
    if any(outer.is_reduce(loop) for loop in around):
        return False
    own = {axis.name for axis in nest.stage.axes}
    if all(consumer.name == at.stage for consumer in consumers):
        return axes & long <= used
    return len(axes & long) <= len(own)


@dataclass(frozen=True)
class Loops:
    """Vectorise and unroll a stage that is not tiled; cut its rows into groups."""

    def matches(self, sketch: Sketch, stage: str) -> bool:
        nest = sketch.plan.nest(stage)
        return (
            not nest.relations
            and not nest.annotations
            and not nest.sizes
            and nest.layout is None
            and bool(nest.loops)
        )

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        body = sketch.stage(stage)
        found = False
        for what, steps in self._choices(sketch, body):
            for made in attempt(sketch, f"loops {stage} {what}", steps):
                found = True
                yield made
        if not found:
            yield sketch

    def _choices(
        self, sketch: Sketch, stage: Stage
    ) -> Iterator[tuple[str, list[Step]]]:
        lanes = lanes_of(sketch, stage.name)
        if stage.reducer is not None:
            rows = _partial_axes(sketch, stage)
            found = vector_axes(stage, lanes, pack=False)
            axes: list[str | None] = [a for a in found if a not in rows]
            for vector in axes[:2] or [None]:
                tiling = Tiling(stage, REDUCED, lanes, vector, rows=rows)
                yield f"along {vector}" if vector else "scalar", tiling.steps()
        elif sketch.plan.nest(stage.name).at is None:
            yield from _root_loops(sketch, stage, lanes)
        else:
            yield "vectors", _vectors(stage)


def _partial_axes(sketch: Sketch, stage: Stage) -> frozenset[str]:
    """The axes of an attached stage of which only some rows are computed there."""
    if sketch.plan.nest(stage.name).at is None:
        return frozenset()
    least = [[knob.candidates[0] for knob in sketch.knobs]]
    regions = Bounds(sketch.plan, Points.of(sketch.knobs, least)).regions(stage.name)
    return frozenset(
        axis.name
        for axis, region in zip(stage.axes, regions, strict=True)
        if axis.extent > 1 and int(region.span[0]) < axis.extent
    )


def _root_loops(
    sketch: Sketch, stage: Stage, lanes: int
) -> Iterator[tuple[str, list[Step]]]:
    long = [axis for axis in stage.axes if axis.extent > 1]
    if not long:
        return
    rows = _common_rows(sketch, stage)
    if rows is None and (len(long) == 1 or not walk(stage, long[-1]).is_smooth):
        tiling = Tiling(stage, ELEMENTWISE, lanes, long[-1].name)
        yield "tiles", tiling.steps()
        return
    row = long[-2] if rows is None else stage.axes[rows - 1]
    yield "rows", _row_groups(stage, row.name)


def _row_groups(stage: Stage, row: str) -> list[Step]:
    """Groups of rows, the last axis in vectors."""
    name = stage.name
    (extent,) = (axis.extent for axis in stage.axes if axis.name == row)
    group = tuple(n for n in ROWS if n <= extent)
    steps: list[Step] = [Split(name, row, (lengths.length(name, f"{row}.1", group),))]
    names = [axis.name for axis in stage.axes]
    at = names.index(row)
    if at + 1 < len(names):
        steps.append(Annotate(name, names[-1], "vectorize"))
    else:
        steps.append(Annotate(name, f"{row}.1", "vectorize"))
    return steps


def _common_rows(sketch: Sketch, stage: Stage) -> int | None:
    """How many leading axes a stage shares with the reductions it needs, if any."""
    counts = [
        num_common_outer_axes(sketch.dag, nest.stage, stage)
        for nest in sketch.plan
        if nest.stage.reducer is not None
        and nest.at is None
        and nest.name != stage.name
        and not nest.annotations
        and nest.factored is None
    ]
    counts = [n for n in counts if n > 0 and stage.axes[n - 1].extent > 1]
    return min(counts, default=None)


def _vectors(stage: Stage) -> list[Step]:
    """The last axis in vectors."""
    if stage.axes[-1].extent == 1:
        return []
    return [Annotate(stage.name, stage.axes[-1].name, "vectorize")]


@dataclass(frozen=True)
class Parallel:
    """Run the outermost loops of a stage at the root on all cores."""

    def matches(self, sketch: Sketch, stage: str) -> bool:
        nest = sketch.plan.nest(stage)
        return (
            sketch.task.target.cores > 1
            and nest.at is None
            and not nest.ahead
            and "parallel" not in nest.annotations.values()
            and bool(self._loops(sketch, stage))
        )

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        loops = self._loops(sketch, stage)
        steps: list[Step] = []
        fused = loops[0]
        if len(loops) > 1:
            fuse = Fuse(stage, loops)
            steps, fused = [fuse], fuse.fused
        yield sketch.then(*steps, Annotate(stage, fused, "parallel"))

    def _loops(self, sketch: Sketch, stage: str) -> tuple[str, ...]:
        nest = sketch.plan.nest(stage)
        found = sketch.free_loops(stage)
        long = [x for x in found if not _is_single(nest, x)]
        first = found.index(long[0]) if long else 0
        return found[first:] if long else ()


def _is_single(nest: Nest, loop: str) -> bool:
    """True if a loop is an axis of length 1."""
    return any(a.name == loop and a.extent == 1 for a in nest.stage.axes)
