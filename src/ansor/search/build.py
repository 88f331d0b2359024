"""From a task or a program to a kernel."""

from __future__ import annotations

import reprlib
from os import PathLike

from ansor.codegen.kernel import Kernel, make_kernel
from ansor.errors import ScheduleError
from ansor.measure.identity import versions
from ansor.measure.source import source
from ansor.records.database import Database
from ansor.schedule.program import Program
from ansor.search.untuned import untuned
from ansor.space.replay import replay
from ansor.te.task import Task


def build(
    task: Task,
    *,
    database: Database | str | PathLike[str] | None = None,
    program: Program | None = None,
) -> Kernel:
    """Compile a task. Never tunes.

    The program is the one given, or the best one that the database has measured on
    this target with this LLVM, or the analytic model's choice, the same every time;
    to choose takes a fraction of a second.

    >>> import ansor, numpy as np
    >>> A = ansor.placeholder((4,), name="A")
    >>> kernel = ansor.build(ansor.Task(ansor.compute((4,), lambda i: A[i] + 1.0)))
    >>> kernel(np.arange(4, dtype="float32"))
    array([1., 2., 3., 4.], dtype=float32)
    """
    if not isinstance(task, Task):
        raise ScheduleError(
            f"build of {reprlib.repr(task)}",
            f"is of type {type(task).__name__}, not a task",
            "build(ansor.Task(outputs))",
        )
    if program is not None:
        _check(task, program)
        return kernel_of(program, task)
    if database is not None:
        known = _best(task, database)
        if known is not None:
            return known
    return kernel_of(untuned(task), task)


def kernel_of(program: Program, task: Task, seconds: float | None = None) -> Kernel:
    """The kernel of a program for a task of the same workload, by the task's names."""
    made = source(program, task.dag.arguments)
    return make_kernel(
        made.name,
        made.text,
        made.target,
        made.parameters,
        outputs=made.outputs,
        loops=made.loops,
        prepared=made.prepared,
        seconds=seconds,
    )


def _best(task: Task, database: Database | str | PathLike[str]) -> Kernel | None:
    if not isinstance(database, Database):
        with Database(database, mode="r") as opened:
            return _best(task, opened)
    record = database.best(task, llvm=versions()["llvm"])
    if record is None:
        return None
    program = replay(database.task_of(record, task.target), record.program)
    return kernel_of(program, task, record.seconds)


def _check(task: Task, program: Program) -> None:
    if not isinstance(program, Program):
        raise ScheduleError(
            "build",
            f"the program is of type {type(program).__name__}, not Program",
            "fill the knobs of a sketch: sketch.program(point)",
        )
    if program.task.key != task.key:
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
