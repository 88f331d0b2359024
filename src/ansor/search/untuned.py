"""A decent program without any search: inline, vectorise, run in parallel."""

from ansor.schedule.program import Program, Sketch
from ansor.schedule.steps import Annotate, Inline, Step
from ansor.te.stage import Stage
from ansor.te.task import Task


def untuned(task: Task) -> Program:
    """One program of a task, by fixed rules; every task has one."""
    outputs = {buffer.name for buffer in task.dag.outputs}
    sketch = Sketch(task)
    for stage in task.dag.stages:
        is_output = any(buffer.name in outputs for buffer in stage.buffers)
        if stage.reducer is None and not is_output:
            sketch = sketch.then(Inline(stage.name))
        else:
            sketch = sketch.then(*_annotations(stage))
    return Program(sketch)


def _annotations(stage: Stage) -> list[Step]:
    """The last axis in vectors, the first (if another) on all cores."""
    steps: list[Step] = []
    if stage.axes:
        steps.append(Annotate(stage.name, stage.axes[-1].name, "vectorize"))
    if len(stage.axes) > 1:
        steps.append(Annotate(stage.name, stage.axes[0].name, "parallel"))
    return steps
