"""The space of a task as a whole: populations over all of its sketches."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

import ansor
from ansor.errors import ScheduleError
from ansor.space import Population, Sketch, Space, sketches
from ansor.space import population as module
from ansor.te.workloads import task

COUNT = 300
TARGETS = {
    "cpu": ansor.Target("aarch64", cpu="neoverse-n1", cores=4),
    "cuda": ansor.Target("cuda", arch="sm_90"),
}
NAMES = ("GMM512", "matmul-chain", "softmax-2x1024", "DEP-nhwc")
SPACES = [
    *((name, "cpu") for name in NAMES),
    ("GMM512", "cuda"),
    ("softmax-2x1024", "cuda"),
]


@cache
def space_of(name: str, target: str = "cpu") -> Space:
    return Space(sketches(task(name, TARGETS[target]), most=16))


every_space = pytest.mark.parametrize(("name", "target"), SPACES)


def count(population: Population) -> int:
    return sum(map(len, population))


def raw(population: Population) -> list[bytes]:
    return [points.tobytes() for points in population]


def in_range(space: Space, population: Population) -> bool:
    """True if there is a matrix for each sketch, and every value is a candidate."""
    rows = zip(space.sketches, population, strict=True)
    return all(
        points.dtype == np.int32
        and points.shape[1] == len(sketch.knobs)
        and all(
            np.isin(points[:, at], knob.candidates).all()
            for at, knob in enumerate(sketch.knobs)
        )
        for sketch, points in rows
    )


@every_space
def test_samples_are_feasible_and_spread_over_all_sketches(
    name: str, target: str
) -> None:
    space = space_of(name, target)
    population = space.sample(COUNT, 0)
    assert count(population) == COUNT
    assert in_range(space, population)
    sizes = [len(p) for p, s in zip(population, space.sketches, strict=True) if len(p)]
    assert max(sizes) - min(sizes) <= 1
    for sketch, points in zip(space.sketches, population, strict=True):
        assert sketch.feasible(points).all()
        assert len(points) or not sketch.is_feasible


@pytest.mark.parametrize("wanted", [0, 1, 5, 17])
def test_few_points_are_as_many_as_wanted(wanted: int) -> None:
    space = space_of("GMM512")
    assert count(space.sample(wanted, 3)) == wanted
    empty = space.sample(0)
    assert count(space.mutate(empty)) == count(space.cross(empty)) == 0


@every_space
def test_mutations_and_children_are_as_many_and_in_range(
    name: str, target: str
) -> None:
    space = space_of(name, target)
    population = space.sample(COUNT, 0)
    for seed in range(3):
        moved = space.mutate(population, seed)
        assert count(moved) == COUNT
        assert in_range(space, moved)
        children = space.cross(moved, seed)
        assert list(map(len, children)) == list(map(len, moved))
        assert in_range(space, children)
        population = moved


def test_values_of_children_come_from_their_sketch() -> None:
    space = space_of("GMM512")
    population = space.sample(COUNT, 0)
    for parents, children in zip(population, space.cross(population, 1), strict=True):
        for at in range(parents.shape[1]):
            assert set(children[:, at]) <= set(parents[:, at])


@every_space
def test_what_is_feasible_stays_once(name: str, target: str) -> None:
    space = space_of(name, target)
    population = space.mutate(space.sample(COUNT, 0), 1)
    twice = [np.concatenate([points, points]) for points in population]
    found = space.feasible(twice)
    assert 0 < count(found) <= COUNT
    for sketch, points, before in zip(space.sketches, found, population, strict=True):
        rows = [tuple(row) for row in points.tolist()]
        kept = before[sketch.feasible(before)].tolist()
        assert rows == list(dict.fromkeys(map(tuple, kept)))


def apart(one: Sketch, other: Sketch) -> int:
    """How many choices two sketches differ in."""
    mine, theirs = set(one.trace), set(other.trace)
    return max(len(mine - theirs), len(theirs - mine))


@every_space
def test_siblings_differ_in_the_fewest_choices(name: str, target: str) -> None:
    space = space_of(name, target)
    assert len(space.siblings) == len(space.sketches)
    for at, siblings in enumerate(space.siblings):
        others = [n for n in range(len(space.sketches)) if n != at]
        steps = {n: apart(space.sketches[at], space.sketches[n]) for n in others}
        least = min(steps.values(), default=0)
        assert siblings == tuple(n for n in others if steps[n] == least)


def test_a_sketch_without_siblings_keeps_its_points() -> None:
    alone = Space(space_of("GMM512").sketches[:1])
    assert alone.siblings == ((),)
    assert count(alone.mutate(alone.sample(COUNT, 0), 0)) == COUNT


def test_about_a_tenth_moves_to_a_sibling() -> None:
    space = space_of("GMM512")
    start = [sketch.sample(0) for sketch in space.sketches]
    start[0] = space.sketches[0].sample(2000, 0)
    moved = space.mutate(start, 0)
    there = {at for at, points in enumerate(moved) if len(points)} - {0}
    assert there == set(space.siblings[0])
    assert 0.5 < (2000 - len(moved[0])) / (2000 * module.MOVED) < 2.0


def test_a_moved_point_keeps_its_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOVED", 1.0)
    space = space_of("GMM512")
    point = space.sketches[0].sample(1, 0)
    start = [sketch.sample(0) for sketch in space.sketches]
    start[0] = np.repeat(point, 100, axis=0)
    moved = space.mutate(start, 0)
    assert not len(moved[0])
    names = [knob.name for knob in space.sketches[0].knobs]
    lengths = dict(zip(names, point[0].tolist(), strict=True))
    for at in space.siblings[0]:
        for number, knob in enumerate(space.sketches[at].knobs):
            if knob.name in lengths:
                assert set(moved[at][:, number]) <= {lengths[knob.name]}


OPERATIONS: dict[str, Callable[[Space, Population, int], Population]] = {
    "sample": lambda space, population, seed: space.sample(COUNT, seed),
    "mutate": lambda space, population, seed: space.mutate(population, seed),
    "cross": lambda space, population, seed: space.cross(population, seed),
    "feasible": lambda space, population, seed: space.feasible(population),
}
every_operation = pytest.mark.parametrize("run", OPERATIONS.values(), ids=OPERATIONS)


@every_operation
@every_space
def test_the_same_seed_gives_the_same_bytes(
    run: Callable[[Space, Population, int], Population], name: str, target: str
) -> None:
    again = Space(sketches(task(name, TARGETS[target]), most=16))
    made = [space_of(name, target), again]
    population = made[0].sample(COUNT, 5)
    before = raw(population)
    first, second = (raw(run(space, population, 7)) for space in made)
    assert first == second
    assert raw(population) == before


@pytest.mark.parametrize("run", list(OPERATIONS.values())[:3], ids=list(OPERATIONS)[:3])
def test_another_seed_gives_other_points(
    run: Callable[[Space, Population, int], Population],
) -> None:
    space = space_of("GMM512")
    population = space.sample(COUNT, 5)
    assert raw(run(space, population, 7)) != raw(run(space, population, 8))


def test_a_space_has_sketches() -> None:
    with pytest.raises(ScheduleError) as caught:
        Space([])
    assert str(caught.value) == "space: no sketches given\n  hint: see ansor.sketches"
