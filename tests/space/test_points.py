"""Populations: what drawing, changing and mixing points promise."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansor
from ansor.schedule.knobs import Knob
from ansor.space import Sketch, sketches
from ansor.space.points import (
    Tiles,
    carry,
    combinations,
    cross,
    distinct,
    draw,
    empty,
    mutate,
    repair,
)
from ansor.space.table import Group, Ints, Matrix, Table
from ansor.te.workloads import task

COUNT = 64  # rows of a population
TARGET = ansor.Target("aarch64", cpu="neoverse-n1", cores=4)
NAMES = ("GMM512", "matmul-chain", "C2D-nhwc", "softmax-2x1024", "min-rows")

seeds = st.integers(0, 2**32 - 1)


@st.composite
def candidates(draw_value: st.DrawFn, most: int) -> tuple[int, ...]:
    found = draw_value(st.sets(st.integers(1, most), min_size=1, max_size=8))
    return tuple(sorted(found | {1} if draw_value(st.booleans()) else found))


@st.composite
def tables(draw_value: st.DrawFn) -> Table:
    """Tables of up to four splits, with up to three knobs each."""
    knobs: list[Knob] = []
    groups: list[Group] = []
    for number in range(draw_value(st.integers(0, 4))):
        extent = draw_value(st.integers(1, 600))
        fixed = draw_value(st.sampled_from((1, 1, 1, 4)))
        levels = draw_value(st.integers(1, 3))
        columns = tuple(range(len(knobs), len(knobs) + levels))
        groups.append(Group(columns, extent, fixed))
        knobs += [
            Knob(f"C.{number}.{level}", draw_value(candidates(extent)))
            for level in range(1, levels + 1)
        ]
    return Table(tuple(knobs), tuple(groups))


def generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def stages_of(table: Table) -> Ints:
    """Two stages: a split belongs to one of them."""
    return table.group_of % 2


def in_candidates(table: Table, points: Matrix) -> bool:
    assert points.dtype == np.int32
    assert points.shape[1] == len(table.knobs)
    return all(
        np.isin(points[:, at], knob.candidates).all()
        for at, knob in enumerate(table.knobs)
    )


def overlong(table: Table, points: Matrix) -> int:
    """Tiles longer than what they tile. The shortest that a knob has does not count."""
    count = 0
    for group in table.groups:
        left = np.full(len(points), -(-group.extent // group.fixed))
        for at in reversed(group.columns):
            values = points[:, at]
            least = min(table.knobs[at].candidates)
            count += int(((values > left) & (values > least)).sum())
            left = -(-left // values)
    return count


def check(table: Table, points: Matrix, count: int = COUNT) -> None:
    assert len(points) == count
    assert in_candidates(table, points)
    assert overlong(table, points) == 0


@given(tables(), seeds)
def test_drawn_points_are_in_range(table: Table, seed: int) -> None:
    check(table, draw(table, COUNT, generator(seed)))


@given(tables(), seeds)
def test_mutated_points_are_in_range(table: Table, seed: int) -> None:
    rng = generator(seed)
    points = draw(table, COUNT, rng)
    for _ in range(4):
        points = mutate(table, points, rng)
        check(table, points)


@given(tables(), seeds)
def test_children_are_in_range(table: Table, seed: int) -> None:
    rng = generator(seed)
    mothers, fathers = draw(table, COUNT, rng), draw(table, COUNT, rng)
    children = cross(table, stages_of(table), mothers, fathers, rng)
    check(table, children)
    assert ((children == mothers) | (children == fathers)).all()


@given(tables(), seeds)
def test_whole_splits_come_from_one_parent(table: Table, seed: int) -> None:
    rng = generator(seed)
    mothers, fathers = draw(table, COUNT, rng), draw(table, COUNT, rng)
    children = cross(table, stages_of(table), mothers, fathers, rng)
    for group in table.groups:
        at = list(group.columns)
        hers = (children[:, at] == mothers[:, at]).all(axis=1)
        his = (children[:, at] == fathers[:, at]).all(axis=1)
        assert (hers | his).all()


@given(tables(), seeds)
def test_a_child_of_identical_parents_is_the_parent(table: Table, seed: int) -> None:
    rng = generator(seed)
    points = draw(table, COUNT, rng)
    children = cross(table, stages_of(table), points, points.copy(), rng)
    np.testing.assert_array_equal(children, points)


@given(tables(), tables(), seeds)
def test_carried_points_are_in_range(one: Table, other: Table, seed: int) -> None:
    rng = generator(seed)
    check(other, carry(one, other, draw(one, COUNT, rng), rng))


@given(tables(), seeds)
def test_points_carried_to_their_own_table_stay(table: Table, seed: int) -> None:
    rng = generator(seed)
    points = draw(table, COUNT, rng)
    np.testing.assert_array_equal(carry(table, table, points, rng), points)


@given(tables(), seeds)
def test_repair_leaves_good_points_alone(table: Table, seed: int) -> None:
    rng = generator(seed)
    points = draw(table, COUNT, rng)
    np.testing.assert_array_equal(repair(table, points), points)
    wild = empty(COUNT, len(table.knobs))
    for at, knob in enumerate(table.knobs):
        wild[:, at] = rng.choice(knob.candidates, COUNT)
    check(table, repair(table, wild))


Operation = Callable[[Table, Matrix, np.random.Generator], Matrix]
OPERATIONS: dict[str, Operation] = {
    "draw": lambda table, points, rng: draw(table, len(points), rng),
    "mutate": mutate,
    "cross": lambda t, points, rng: cross(t, stages_of(t), points, points[::-1], rng),
    "carry": lambda table, points, rng: carry(table, table, points, rng),
    "repair": lambda table, points, rng: repair(table, points),
    "distinct": lambda table, points, rng: distinct(points),
}
every_operation = pytest.mark.parametrize("run", OPERATIONS.values(), ids=OPERATIONS)


@every_operation
@given(table=tables(), seed=seeds)
def test_the_same_seed_gives_the_same_bytes(
    run: Operation, table: Table, seed: int
) -> None:
    points = draw(table, COUNT, generator(seed))
    first, second = (run(table, points, generator(seed + 1)) for _ in range(2))
    assert first.tobytes() == second.tobytes()
    assert (first.dtype, first.shape) == (second.dtype, second.shape)


@every_operation
@given(table=tables(), seed=seeds)
def test_inputs_are_not_modified(run: Operation, table: Table, seed: int) -> None:
    points = draw(table, COUNT, generator(seed))
    before = points.tobytes()
    made = run(table, points, generator(seed))
    assert points.tobytes() == before
    made[:] = 0  # what comes back is no view of what was given
    assert points.tobytes() == before


@every_operation
@pytest.mark.parametrize("knobs", [0, 2])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_there_may_be_no_knobs_or_no_rows(
    run: Operation, knobs: int, rows: int
) -> None:
    named = tuple(Knob(f"C.i.{n}", (1, 2, 4)) for n in range(knobs))
    table = Table(named, (Group(tuple(range(knobs)), 16),) if knobs else ())
    points = draw(table, rows, generator(0))
    assert points.shape == (rows, knobs)
    assert run(table, points, generator(0)).shape[1] == knobs


def test_another_seed_gives_other_points() -> None:
    table = sketch_of("GMM512").table
    first, second = (draw(table, COUNT, generator(seed)) for seed in range(2))
    assert first.tobytes() != second.tobytes()


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=40))
def test_distinct_keeps_the_first_of_each_in_order(rows: list[tuple[int, int]]) -> None:
    points = np.array(rows, np.int32).reshape(len(rows), 2)
    assert [tuple(row) for row in distinct(points).tolist()] == list(
        dict.fromkeys(rows)
    )


def test_distinct_points_without_knobs_are_one() -> None:
    assert distinct(empty(5, 0)).shape == (1, 0)
    assert distinct(empty(0, 0)).shape == (0, 0)


def test_drawn_columns_come_from_the_tiles_given() -> None:
    table = sketch_of("GMM512").table
    names = [knob.name for knob in table.knobs]
    columns = (names.index("matmul.i.3"), names.index("matmul.j.3"))
    values = np.array([[2, 8], [4, 4]], np.int32)
    points = draw(table, COUNT, generator(0), [Tiles(columns, values)])
    check(table, points)
    assert {tuple(row) for row in points[:, columns].tolist()} == {(2, 8), (4, 4)}


def test_combinations_of_few_columns_are_complete() -> None:
    knobs = (Knob("a", (1, 2, 3)), Knob("b", (4, 8)))
    table = Table(knobs, (Group((0,), 3), Group((1,), 8)))
    found = combinations(table, (0, 1))
    assert len(found) == len(distinct(found)) == 6


def test_every_candidate_is_drawn_and_reached_by_mutation() -> None:
    table = Table((Knob("C.i.1", (1, 2, 3, 5, 8, 13)),), (Group((0,), 40),))
    assert set(draw(table, 500, generator(0))[:, 0]) == {1, 2, 3, 5, 8, 13}
    points = np.ones((500, 1), np.int32)
    for seed in range(3):
        points = mutate(table, points, generator(seed))
    assert set(points[:, 0]) == {1, 2, 3, 5, 8, 13}


@cache
def space(name: str) -> list[Sketch]:
    return sketches(task(name, TARGET), most=12)


def sketch_of(name: str) -> Sketch:
    return space(name)[0]


@pytest.mark.parametrize("name", NAMES)
def test_points_of_sketches_are_in_range(name: str) -> None:
    for number, sketch in enumerate(space(name)):
        points = sketch.sample(COUNT, number)
        check(sketch.table, points)
        assert sketch.feasible(points).all()
        mutated = sketch.mutate(points, number)
        check(sketch.table, mutated)
        check(sketch.table, sketch.cross(points, mutated, number))


@pytest.mark.parametrize("name", NAMES)
def test_most_mutations_change_something(name: str) -> None:
    sketch = sketch_of(name)
    points = sketch.sample(1000, 0)
    changed = (sketch.mutate(points, 1) != points).any(axis=1)
    assert changed.mean() > 0.5


@pytest.mark.parametrize("name", NAMES)
def test_samples_are_the_same_for_the_same_seed(name: str) -> None:
    first, second = (sketches(task(name, TARGET), most=3)[-1] for _ in range(2))
    points = [s.sample(COUNT, 7) for s in (first, second)]
    assert points[0].tobytes() == points[1].tobytes()
    moved = [s.mutate(points[0], 7) for s in (first, second)]
    assert moved[0].tobytes() == moved[1].tobytes()


def test_points_carry_over_to_a_sibling() -> None:
    first, second = space("GMM512")[:2]
    points = first.sample(COUNT, 0)
    moved = carry(first.table, second.table, points, generator(0))
    check(second.table, moved)
    names = [knob.name for knob in first.knobs]
    shared = [knob.name for knob in second.knobs if knob.name in names]
    assert "matmul.i.3" in shared
    ours = [names.index(x) for x in shared]
    theirs = [[knob.name for knob in second.knobs].index(x) for x in shared]
    np.testing.assert_array_equal(points[:, ours], moved[:, theirs])
