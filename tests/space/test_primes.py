"""Tiles need not divide: a prime extent has the tiles of its neighbours."""

from dataclasses import replace

import numpy as np
import pytest

import ansor
from ansor.schedule.knobs import Knob
from ansor.schedule.steps import Split
from ansor.space import Sketch, sketches
from ansor.space.table import Matrix
from oracle import answer, compare, execute
from strategies import Case

PRIMES = (1, 2, 3, 7, 31, 127, 251, 509, 1009, 2039)
COUNT = 200  # points drawn of a sketch
SOME = 4  # sketches of an extent whose kernels run


def product(extent: int) -> ansor.Task:
    a = ansor.placeholder((extent, extent), name="A")
    b = ansor.placeholder((extent, extent), name="B")
    target = replace(ansor.Target("cpu"), cores=2)
    return ansor.Task(ansor.ops.matmul(a, b, name="C"), target)


def tiles(sketch: Sketch, axis: str, points: Matrix) -> np.ndarray:
    """The length of the innermost part of an axis at each point."""
    splits = (step for step in sketch.steps if isinstance(step, Split))
    (inner,) = {split.lengths[-1] for split in splits if split.loop == axis}
    if not isinstance(inner, Knob):
        return np.full(len(points), inner)
    return points[:, sketch.knobs.index(inner)]


def along_j(task: ansor.Task) -> list[Sketch]:
    found = sketches(task)
    return [s for s in found if any("along j" in rule for rule in s.trace)]


@pytest.mark.parametrize("extent", PRIMES[1:])
def test_every_extent_has_inner_tiles(extent: int) -> None:
    task = product(extent)
    lanes = task.target.lanes("float32")
    found = along_j(task)
    assert found
    for sketch in found:
        points = sketch.sample(COUNT, 0)
        assert len(points) == COUNT
        assert sketch.feasible(points).all()
        rows, columns = (tiles(sketch, axis, points) for axis in "ij")
        assert (columns >= min(extent, lanes)).all()
        assert ((rows > 1) & (columns >= min(extent, lanes))).any()
        if extent > 8 * lanes:
            assert ((rows > 1) & (columns >= 2 * lanes)).any()


def test_an_extent_of_one_is_not_split() -> None:
    for sketch in sketches(product(1)):
        assert sketch.knobs == ()
        assert len(sketch.sample(COUNT, 0)) == COUNT


@pytest.mark.llvm
@pytest.mark.parametrize("extent", [n for n in PRIMES if n < 100])
def test_sampled_points_are_right(extent: int) -> None:
    task = product(extent)
    rng = np.random.default_rng(extent)
    inputs = tuple(rng.uniform(-1, 1, (2, extent, extent)).astype("float32"))
    right = answer(task.dag, inputs)
    found = sketches(task)
    for sketch in found[:: -(-len(found) // SOME)]:
        (point,) = sketch.sample(1, extent)
        case = Case(sketch.program(tuple(map(int, point))), inputs, 2)
        compare(case, "kernel", execute(case), right)
