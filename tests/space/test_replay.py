"""Programs back from JSON: the same program, or the reason why there is none."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

import ansor
from ansor.errors import ScheduleError
from ansor.schedule import Program, to_data
from ansor.space import Sketch, replay, sketches
from ansor.te.workloads import outputs, workload

TARGETS = {
    "aarch64": ansor.Target("aarch64", cpu="neoverse-n1", cores=4),
    "avx512": ansor.Target("x86_64", cpu="skylake-avx512", cores=4),
    "cuda": ansor.Target("cuda", arch="sm_90"),
}
HASWELL = ansor.Target("x86_64", cpu="haswell", cores=4)
NAMES = ("GMM128", "matmul-chain", "softmax-2x1024", "C2D-nhwc", "TBG", "sum-128")
SKETCHES = 8
POINTS = 2


def task_of(name: str, target: ansor.Target) -> ansor.Task:
    return ansor.Task(list(outputs(workload(name).small())), target)


def product(target: ansor.Target, extent: int = 512) -> ansor.Task:
    a, b = (ansor.placeholder((extent, extent), name=name) for name in "AB")
    return ansor.Task(ansor.ops.matmul(a, b, name="C"), target)


def through_json(program: Program) -> object:
    return json.loads(json.dumps(to_data(program)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_sampled_programs_come_back(name: str, target: str) -> None:
    task = task_of(name, TARGETS[target])
    for number, sketch in enumerate(sketches(task, most=SKETCHES)):
        for point in sketch.sample(POINTS, number).tolist():
            program = sketch.program(tuple(point))
            again = replay(task_of(name, TARGETS[target]), through_json(program))
            assert again == program
            assert isinstance(again.sketch, Sketch)
            assert again.sketch.trace == sketch.trace


def tiled(rows: int, columns: int, target: ansor.Target) -> Program:
    """A matmul with a tile of so many elements in registers, and nothing else large."""
    sketch = next(
        s for s in sketches(product(target)) if s.trace == ("tile C along j",)
    )
    lengths = {"C.i.3": rows, "C.j.3": columns}
    point = (lengths.get(k.name, min(k.candidates)) for k in sketch.knobs)
    return sketch.program(tuple(point))


def test_a_tile_for_more_registers_is_refused() -> None:
    program = tiled(6, 64, TARGETS["avx512"])
    data = through_json(program)
    assert replay(product(TARGETS["avx512"]), data) == program
    with pytest.raises(ScheduleError) as caught:
        replay(product(HASWELL), data)
    assert str(caught.value) == (
        f"program for {HASWELL}: it exceeds what the target has: "
        "vector registers: 57 of 15\n"
        "  hint: use it on the machine it was found on, or search for another"
    )


def test_a_smaller_tile_runs_on_both() -> None:
    data = through_json(tiled(6, 16, TARGETS["avx512"]))
    program = replay(product(HASWELL), data)
    assert program.task.target == HASWELL
    assert program.lower()


def test_every_refused_program_is_infeasible_there() -> None:
    task = product(TARGETS["avx512"])
    here = Sketch(product(HASWELL))
    kept = refused = 0
    for sketch in sketches(task, most=4):
        points = sketch.sample(20, 0)
        mask = here.then(*sketch.steps).feasible(points)
        for point, fits in zip(points.tolist(), mask, strict=True):
            data = through_json(sketch.program(tuple(point)))
            if fits:
                kept += bool(replay(product(HASWELL), data))
                continue
            refused += 1
            with pytest.raises(ScheduleError, match="exceeds what the target has"):
                replay(product(HASWELL), data)
    assert kept
    assert refused


Change = Callable[[dict[str, object]], object]


def other_value(data: dict[str, object]) -> object:
    point = data["point"]
    assert isinstance(point, dict)
    return {**data, "point": {**point, "C.i.3": 1000}}


# What is changed in the data of a program, and the message: what: why, hint.
KEY, OTHER = product(HASWELL).key, product(HASWELL, 256).key
MISUSES: dict[str, tuple[Change, str]] = {
    "unknown version": (
        lambda data: {**data, "version": 99},
        "program data: version 99 is unknown\n  hint: this release reads version 1",
    ),
    "another workload": (
        lambda data: {**data, "workload": OTHER},
        f"program data: was written for workload {OTHER}, the task is {KEY}\n"
        "  hint: take data of a task that computes the same",
    ),
    "no program": (
        lambda data: [],
        "program data: a list of 0 is not a dictionary",
    ),
    "no point": (
        lambda data: {k: v for k, v in data.items() if k != "point"},
        "program data: field 'point' is missing\n"
        "  hint: its fields are version, workload, trace, steps, point",
    ),
}


@pytest.mark.parametrize(("change", "message"), MISUSES.values(), ids=MISUSES)
def test_messages(change: Change, message: str) -> None:
    data = to_data(tiled(6, 16, HASWELL))
    with pytest.raises(ScheduleError) as caught:
        replay(product(HASWELL), change(data))
    assert str(caught.value) == message


def test_a_value_that_is_no_candidate_is_refused() -> None:
    data = other_value(to_data(tiled(6, 16, HASWELL)))
    with pytest.raises(ScheduleError, match="1000"):
        replay(product(HASWELL), data)


def test_data_of_another_task_is_refused() -> None:
    data = through_json(tiled(6, 16, HASWELL))
    with pytest.raises(ScheduleError, match=f"workload {KEY}, the task is {OTHER}"):
        replay(product(HASWELL, 256), data)


def test_points_may_be_numbers_of_numpy() -> None:
    program = tiled(6, 16, HASWELL)
    point = tuple(np.array(program.point, np.int32))
    assert through_json(Program(program.sketch, point)) == through_json(program)
