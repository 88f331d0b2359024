"""A decent program without any search: inline, tile for registers, vectorise.

Fixed rules, the same for every shape. They give each stage the structure that fits its
accesses; sizes that fit a machine and a shape are what tuning is for.
"""

from ansor.errors import ScheduleError
from ansor.ir.ops import REDUCERS
from ansor.ir.visit import loads, variables
from ansor.schedule.program import Program, Sketch
from ansor.schedule.steps import Annotate, Inline, Reorder, RFactor, Split, Step
from ansor.te.analysis import is_strictly_inlineable
from ansor.te.stage import Stage
from ansor.te.task import Task

ROWS = 4  # of a register tile
LARGEST = 24  # loads and stages that may be put together into one formula


def untuned(task: Task) -> Program:
    """One program of a task; every task has one."""
    inlined = _inlined(task)
    steps: list[Step] = [Inline(name) for name in inlined]
    kept = (stage for stage in task.dag.stages if stage.name not in inlined)
    sketch = Sketch(task, (*steps, *(s for stage in kept for s in _steps(task, stage))))
    try:
        _ = sketch.plan
    except ScheduleError:  # a structure the rules did not foresee: as it stands, then
        sketch = Sketch(task, tuple(steps))
    return Program(sketch)


def _inlined(task: Task) -> list[str]:
    """Cheap stages, and those that a single stage without a reduction reads.

    What is inlined is computed again at every place that reads it, so formulas may
    grow only so far; a stage that would exceed it is computed by itself.
    """
    outputs = {buffer.name for buffer in task.dag.outputs}
    sizes: dict[str, int] = {}  # of the formulas to be put in for their loads
    inlined: list[str] = []
    for stage in task.dag.stages:
        reads = [load for expr in stage.body for load in loads(expr)]
        size = 1 + sum(sizes.get(load.buffer.name, 1) for load in reads)
        is_output = any(buffer.name in outputs for buffer in stage.buffers)
        if not is_output and size <= LARGEST and _may_inline(task, stage):
            inlined.append(stage.name)
            sizes[stage.name] = size
    return inlined


def _may_inline(task: Task, stage: Stage) -> bool:
    if stage.reducer is not None:
        return False
    readers = task.dag.consumers(stage.name)
    alone = len(readers) == 1 and readers[0].reducer is None
    return alone or is_strictly_inlineable(task.dag, stage)


def _steps(task: Task, stage: Stage) -> list[Step]:
    lanes = task.target.lanes(stage.buffers[0].dtype)
    if stage.reducer is None:
        return _elementwise(stage)
    along = _contiguous_reduction(stage)
    if along is not None:
        return _partial_results(stage, along, 4 * lanes)
    return _tile(stage, 2 * lanes) if stage.axes else []


def _elementwise(stage: Stage) -> list[Step]:
    """The last axis in vectors, the first (if another) on all cores."""
    steps: list[Step] = []
    if stage.axes:
        steps.append(Annotate(stage.name, stage.axes[-1].name, "vectorize"))
    return steps + _parallel(stage, [axis.name for axis in stage.axes[:-1]])


def _contiguous_reduction(stage: Stage) -> str | None:
    """The reduction axis along which memory is read, if no spatial axis is."""
    reduced = {axis.name for axis in stage.reduce_axes}
    last = {
        name
        for expr in stage.body
        for load in loads(expr)
        if load.indices
        for name in variables(load.indices[-1])
    }
    spatial = {axis.name for axis in stage.axes}
    if last & spatial or stage.reducer not in REDUCERS:
        return None
    return min(last & reduced, default=None)


def _partial_results(stage: Stage, axis: str, width: int) -> list[Step]:
    """Reduce into a vector of partial results, then those."""
    (extent,) = (a.extent for a in stage.reduce_axes if a.name == axis)
    if extent < 2 * width:
        return _parallel(stage, [a.name for a in stage.axes])
    partial, inner = f"{stage.name}.rf", f"{axis}.1"
    others = [a.name for a in stage.reduce_axes if a.name != axis]
    spatial = [a.name for a in stage.axes]
    return [
        Split(stage.name, axis, (width,)),
        RFactor(stage.name, inner),
        Reorder(partial, (*spatial, *others, f"{axis}.0", inner)),
        Annotate(partial, inner, "vectorize"),
        Annotate(stage.name, inner, "vectorize"),
        *(Annotate(partial, name, "parallel") for name in spatial[:1]),
    ]


def _tile(stage: Stage, width: int) -> list[Step]:
    """A few rows by a few vectors in registers, the reduction around them."""
    name, (*outer, column) = stage.name, [axis.name for axis in stage.axes]
    reduced = [axis.name for axis in stage.reduce_axes]
    steps: list[Step] = [Split(name, column, (width,))]
    inner = [f"{column}.1"]
    around = [*outer, f"{column}.0"]
    if outer:
        row = outer[-1]
        steps.append(Split(name, row, (ROWS,)))
        around = [*outer[:-1], f"{row}.0", f"{column}.0"]
        inner = [f"{row}.1", *inner]
        steps.append(Annotate(name, f"{row}.1", "unroll"))
    return [
        *steps,
        Reorder(name, (*around, *reduced, *inner)),
        Annotate(name, f"{column}.1", "vectorize"),
        *_parallel(stage, around),
    ]


def _parallel(stage: Stage, loops: list[str]) -> list[Step]:
    return [Annotate(stage.name, loops[0], "parallel")] if loops else []
