"""One misuse of sketches, programs and points per case, full message compared."""

import numpy as np
import pytest

import ansor
from ansor.schedule import Knob, Points, Program, Sketch, Split
from ansor.search.build import build

A = ansor.placeholder((31,), name="A")
B = ansor.compute((31,), lambda i: A[i] * 2.0, name="B")
C = ansor.compute((31,), lambda i: A[i] * 3.0, name="C")
TASK = ansor.Task(B)
HERE = ansor.Target("cpu", cpu="skylake-avx512")
THERE = ansor.Target("cpu", cpu="haswell")
TILE = Knob("tile", (4, 8))
SKETCH = Sketch(TASK).then(Split("B", "i", (TILE,)))


CASES = {
    "knob without candidates": (
        lambda: Knob("tile", ()),
        "knob 'tile': no candidates given\n  hint: for example (4, 8, 16)",
    ),
    "knob with 0": (
        lambda: Knob("tile", (0, 4)),
        "knob 'tile': candidates (0, 4) are not a tuple of positive integers\n"
        "  hint: for example (4, 8, 16)",
    ),
    "knob with a float": (
        lambda: Knob("tile", (2.5, 4)),
        "knob 'tile': candidates (2.5, 4) are not a tuple of positive integers\n"
        "  hint: for example (4, 8, 16)",
    ),
    "knob with a list": (
        lambda: Knob("tile", [2, 4]),
        "knob 'tile': candidates [2, 4] are not a tuple of positive integers\n"
        "  hint: for example (4, 8, 16)",
    ),
    "two knobs of one name": (
        lambda: SKETCH.then(Split("B", "i.1", (Knob("tile", (2,)),))).knobs,
        "knob 'tile': candidates (2,) here, (4, 8) in an earlier step\n"
        "  hint: give one of the two another name",
    ),
    "too few values": (
        lambda: SKETCH.program(()),
        "program: 0 values for 1 knobs\n  hint: give one value to each knob: tile",
    ),
    "too many values": (
        lambda: Sketch(TASK).program((4,)),
        "program: 1 values for 0 knobs\n  hint: give one value to each knob: none",
    ),
    "value outside the candidates": (
        lambda: SKETCH.program((5,)),
        "program with tile = 5: 5 is not a candidate of the knob\n"
        "  hint: use one of 4, 8",
    ),
    "value of another type": (
        lambda: SKETCH.program((4.0,)),
        "program with value 4.0: is of type float, not an integer\n"
        "  hint: a point holds one candidate of each knob",
    ),
    "points without a column": (
        lambda: Points.of((TILE,), np.ones((3, 0), int)),
        "points: a matrix of shape (3, 0) for 1 knobs\n"
        "  hint: one row per program, one column per knob",
    ),
    "points of floats": (
        lambda: Points.of((TILE,), [[4.0]]),
        "points: a matrix of float64\n  hint: knobs take integers",
    ),
    "points of one row only": (
        lambda: Points.of((TILE,), [4]),
        "points: a matrix of shape (1,) for 1 knobs\n"
        "  hint: one row per program, one column per knob",
    ),
    "a knob without a value": (
        lambda: Points().value(TILE),
        "knob 'tile': has no value\n  hint: fill every knob: sketch.program(point)",
    ),
    "sketch of a tensor": (
        lambda: Sketch(B),
        "sketch of <tensor B: float32[31]>: is of type Tensor, not a task\n"
        "  hint: write Sketch(ansor.Task(outputs))",
    ),
    "program of steps": (
        lambda: Program((Split("B", "i", (4,)),)),
        "program: its sketch is of type tuple, not Sketch\n"
        "  hint: write Program(Sketch(task, steps))",
    ),
    "program with a step that does not apply": (
        lambda: Program(Sketch(TASK, (Split("B", "j", (4,)),))),
        "split B.j -> [4]: stage 'B' has no loop 'j'\n  hint: loops are i",
    ),
    "build of a tensor": (
        lambda: build(B),
        "build of <tensor B: float32[31]>: is of type Tensor, not a task\n"
        "  hint: build(ansor.Task(outputs))",
    ),
    "build of a sketch": (
        lambda: build(TASK, program=Sketch(TASK)),
        "build: the program is of type Sketch, not Program\n"
        "  hint: fill the knobs of a sketch: sketch.program(point)",
    ),
    "build with the program of another task": (
        lambda: build(TASK, program=Program(Sketch(ansor.Task(C)))),
        "build: the program was made for another task\n  hint: make it from this task",
    ),
    "build with the program of another target": (
        lambda: build(
            ansor.Task(B, HERE), program=Program(Sketch(ansor.Task(B, THERE)))
        ),
        "build: the program was made for cpu haswell (x86_64), 1 core, 256-bit "
        "vectors, the task is for cpu skylake-avx512 (x86_64), 1 core, 512-bit "
        "vectors\n"
        "  hint: make it from this task",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_message(case):
    misuse, message = case
    with pytest.raises(ansor.ScheduleError) as caught:
        misuse()
    assert str(caught.value) == message
