"""From a task or a program to a kernel."""

from ansor.codegen.emit import emit
from ansor.codegen.kernel import Kernel, Prepared, make_kernel
from ansor.errors import ScheduleError
from ansor.schedule.program import Program
from ansor.search.untuned import untuned
from ansor.te.task import Task


def build(task: Task, *, program: Program | None = None) -> Kernel:
    """Compile a task; without a program, one is chosen by simple rules. Never tunes.

    >>> import ansor, numpy as np
    >>> A = ansor.placeholder((4,), name="A")
    >>> kernel = ansor.build(ansor.Task(ansor.compute((4,), lambda i: A[i] + 1.0)))
    >>> kernel(np.arange(4, dtype="float32"))
    array([1., 2., 3., 4.], dtype=float32)
    """
    if not isinstance(task, Task):
        raise ScheduleError(
            f"build of {task!r}",
            f"is of type {type(task).__name__}, not a task",
            "build(ansor.Task(outputs))",
        )
    program = untuned(task) if program is None else program
    _check(task, program)
    name = task.dag.outputs[0].name
    lowered = program.lower(name)
    text = emit((lowered.main, *lowered.prepare), task.target)
    prepared = [
        Prepared(function.parameters[0].name, function.parameters[1], function.name)
        for function in lowered.prepare
    ]
    inputs, outputs = task.dag.inputs, task.dag.outputs
    return make_kernel(
        name,
        text,
        task.target,
        (*inputs, *outputs),
        outputs=len(outputs),
        loops=lambda: str(lowered),
        prepared=prepared,
    )


def _check(task: Task, program: Program) -> None:
    if not isinstance(program, Program):
        raise ScheduleError(
            "build",
            f"the program is of type {type(program).__name__}, not Program",
            "fill the knobs of a sketch: sketch.program(point)",
        )
    if program.task.dag != task.dag:
        raise ScheduleError(
            "build", "the program was made for another task", "make it from this task"
        )
    if program.task.target != task.target:
        raise ScheduleError(
            "build",
            f"the program was made for {program.task.target}, the task is for "
            f"{task.target}",
            "make it from this task",
        )
