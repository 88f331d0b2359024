"""Programs back from data: the same checks as when they were derived."""

from __future__ import annotations

import numpy as np

from ansor.errors import ScheduleError
from ansor.schedule.data import from_data
from ansor.schedule.program import Program
from ansor.space.feasible import broken
from ansor.space.sketch import Sketch
from ansor.te.task import Task


def replay(task: Task, data: object) -> Program:
    """The program that `ansor.schedule.to_data` wrote down, for this task and target.

    Raises ScheduleError with the reason if a step does not apply, a value is no
    candidate, or the target cannot run it.
    """
    program = from_data(task, data, kind=Sketch)
    sketch = program.sketch
    point = np.array([program.point], np.int32).reshape(1, -1)
    over = broken(sketch.plan, task.target, sketch.knobs, point)
    if over:
        raise ScheduleError(
            f"program for {task.target}",
            f"it exceeds what the target has: {'; '.join(over)}",
            "use it on the machine it was found on, or search for another",
        )
    return program
