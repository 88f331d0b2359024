"""Random cases for the oracle: a computation, inputs for it, and a program."""

from dataclasses import dataclass
from random import Random

import numpy as np

from ansor.schedule import Program
from ansor.te.task import Task
from strategies_dag import Maker, values
from strategies_steps import Stepper


@dataclass(frozen=True)
class Case:
    """What one example of the oracle runs."""

    program: Program
    inputs: tuple[np.ndarray, ...]
    threads: int

    @property
    def task(self) -> Task:
        return self.program.task

    def __str__(self) -> str:
        return f"{self.task.dag}\n\n{self.program}\n\nthreads: {self.threads}"


def make_case(r: Random) -> Case:
    """A case, all its choices drawn from `r`."""
    maker = Maker(r)
    task = Task(maker.outputs())
    program = Stepper(r, task).program()
    rng = np.random.default_rng(r.randrange(1 << 16))
    known = {known.tensor.name: known for known in maker.inputs}
    inputs = tuple(values(known[buffer.name], rng) for buffer in task.dag.inputs)
    return Case(program, inputs, r.choice((1, 1, 2, 3)))
