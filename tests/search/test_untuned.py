"""What `ansor.build` takes without measuring: the analytic model's choice."""

from dataclasses import replace

import numpy as np
import pytest

import ansor
from ansor.cost.analytic import seconds
from ansor.schedule import Program
from ansor.search import untuned as chooser
from ansor.search.untuned import best_believed, untuned
from ansor.te.workloads import MORE, WORKLOADS, outputs

TARGET = replace(ansor.Target("cpu"), cores=2)


def matmul(size: int = 96) -> ansor.Task:
    A = ansor.placeholder((size, size), name="A")
    B = ansor.placeholder((size, size), name="B")
    return ansor.Task(ansor.ops.matmul(A, B, name="C"), TARGET)


def believed(program: Program) -> float:
    return float(seconds(program.sketch, [program.point])[0])


@pytest.mark.parametrize("name", [*WORKLOADS, *MORE])
def test_every_workload_has_a_choice_that_lowers(name):
    made = {**WORKLOADS, **MORE}[name].small()
    task = ansor.Task(list(outputs(made)), TARGET)
    program = untuned(task)
    assert program == next(best_believed(task))
    assert program.task == task


def test_the_choice_is_the_same_every_time_and_the_best_comes_first():
    first, again = (list(best_believed(matmul())) for _ in range(2))
    assert first == again
    times = [believed(program) for program in first]
    assert times == sorted(times)
    assert len(set(first)) == len(first)


def test_it_is_as_good_as_many_random_points():
    task = matmul()
    random = min(
        float(seconds(sketch, sketch.sample(2000, seed=1)).min())
        for sketch in ansor.sketches(task)
    )
    assert believed(untuned(task)) <= 1.02 * random


def test_what_does_not_lower_is_passed_over(monkeypatch):
    task = matmul()
    first, second, *_ = best_believed(task)
    monkeypatch.setattr(chooser, "_lowers", lambda program: program != first)
    assert untuned(task) == second
    monkeypatch.setattr(chooser, "_lowers", lambda program: False)
    assert untuned(task).steps == ()  # the loops as they are written


@pytest.mark.llvm
def test_build_takes_it():
    task = matmul(33)
    a, b = np.random.default_rng(0).standard_normal((2, 33, 33)).astype("float32")
    np.testing.assert_allclose(ansor.build(task)(a, b), a @ b, rtol=1e-4, atol=1e-4)
