"""Every point of every CPU sketch computes what the reference does: some of them in CI,
all in the slow test."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from time import perf_counter

import numpy as np
import pytest

from ansor.errors import AnsorError
from ansor.ir.verify import verify
from ansor.space import Sketch, sketches
from ansor.space.points import distinct
from ansor.target import Target
from ansor.te.task import Task
from ansor.te.workloads import MORE, WORKLOADS, outputs, workload
from oracle import Answer, answer, compare, execute, interpret
from strategies import Case

EVERY = (*WORKLOADS, *MORE)
FEW = 6  # sketches of a workload, spread over all, unless all are asked for
THREADS = 2
PARTS = 8  # of one workload, which may run at the same time
SHOWN = 3  # wrong points, of all that were found


class Space:
    """The small version of a workload: its sketches, inputs and right answer."""

    def __init__(self, name: str, target: Target) -> None:
        row = workload(name)
        task = Task(list(outputs(row.small())), target)
        self.inputs = tuple(row.inputs(task.dag, np.random.default_rng(0)))
        self.sketches = sketches(task)
        self.answer: Answer = answer(task.dag, self.inputs)

    def cases(self, sketch: Sketch, count: int, seed: int) -> list[Case]:
        """Different points of a sketch, `count` or fewer, as programs."""
        points = distinct(sketch.sample(count, seed))
        assert len(points), f"no point is feasible\n{sketch}"
        programs = (sketch.program(tuple(map(int, point))) for point in points)
        return [Case(program, self.inputs, THREADS) for program in programs]

    def some(self, count: int) -> list[tuple[int, Sketch]]:
        """Sketches spread over all, the first and the last among them, numbered."""
        last = len(self.sketches) - 1
        chosen = {last * n // max(count - 1, 1) for n in range(count)}
        return [(at, self.sketches[at]) for at in sorted(chosen)]


@cache
def space(name: str, target: Target) -> Space:
    return Space(name, target)


def small(name: str) -> Space:
    return space(name, replace(Target("cpu"), cores=THREADS))


def interpreted(case: Case, right: Answer) -> None:
    lowered = case.program.lower("kernel")
    for function in (lowered.main, *lowered.prepare):
        verify(function, "final")
    results = interpret(case, lowered.main, lowered.prepare)
    compare(case, "interpreter", results, right)


def compiled(case: Case, right: Answer) -> None:
    compare(case, "kernel", execute(case), right)


def wrong(run: Callable[[Case, Answer], None], case: Case, right: Answer) -> list[str]:
    """Why a case is wrong, if it is."""
    try:
        run(case, right)
    except AssertionError as error:
        return [str(error)]
    except AnsorError as error:
        return [f"{error}\n{case}"]
    return []


@pytest.mark.parametrize("name", EVERY)
def test_points_of_some_sketches_are_right(name: str) -> None:
    made = small(name)
    for number, sketch in made.some(FEW):
        (case,) = made.cases(sketch, 1, seed=number)
        faults = wrong(interpreted, case, made.answer)
        assert not faults, faults[0]


@pytest.mark.llvm
@pytest.mark.parametrize("name", EVERY[::3])
def test_kernels_of_some_sketches_are_right(name: str) -> None:
    made = small(name)
    for number, sketch in made.some(2):
        (case,) = made.cases(sketch, 1, seed=100 + number)
        faults = wrong(compiled, case, made.answer)
        assert not faults, faults[0]


@pytest.mark.parametrize("name", EVERY)
def test_the_first_sketches_have_points_at_full_size(name: str) -> None:
    task = Task(list(outputs(workload(name).make())), Target("cpu"))
    for sketch in sketches(task, most=3):
        assert len(sketch.sample(1, 0)), sketch.trace


@pytest.mark.llvm
@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", EVERY)
def test_all_points_are_right(
    name: str,
    part: int,
    pytestconfig: pytest.Config,
    record_property: Callable[[str, object], None],
) -> None:
    """Hours for 1000 points of every sketch: spread it by `-n`, or choose by `-k` and
    `--points`. The first point of each sketch is compiled too."""
    target = replace(Target("cpu"), cores=THREADS)
    bits = pytestconfig.getoption("--vector-bits")
    made = space(name, replace(target, vector_bits=bits or target.vector_bits))
    start, points = perf_counter(), 0
    faults: list[str] = []
    mine = made.sketches[part::PARTS]
    for sketch in mine:
        cases = made.cases(sketch, pytestconfig.getoption("--points"), seed=1)
        points += len(cases)
        for case in cases:
            faults += wrong(interpreted, case, made.answer)
        faults += wrong(compiled, cases[0], made.answer)
    record_property("workload", name)
    record_property("sketches", len(mine))
    record_property("points", points)
    record_property("wrong", len(faults))
    record_property("seconds", perf_counter() - start)
    assert not faults, "\n\n".join(faults[:SHOWN])
