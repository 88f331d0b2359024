"""Constraints: every point that is left obeys, and nothing else changes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

import ansor
from ansor.errors import ScheduleError
from ansor.schedule.bounds import Bounds
from ansor.schedule.knobs import Points
from ansor.space import (
    Constraint,
    NoParallel,
    Sketch,
    Vectorized,
    Without,
    at_least,
    at_most,
    one_of,
    sketches,
)
from ansor.te.workloads import task

TARGET = ansor.Target("aarch64", cpu="neoverse-n1", cores=4)
COUNT = 100  # points drawn of a sketch


@cache
def all_of(name: str) -> list[Sketch]:
    return sketches(task(name, TARGET))


def under(name: str, *constraints: Constraint) -> list[Sketch]:
    return sketches(task(name, TARGET), constraints=constraints)


def values(found: list[Sketch], loop: str) -> Iterator[np.ndarray]:
    """The lengths of a loop at points of every sketch that has such a knob."""
    for sketch in found:
        points = sketch.sample(COUNT, 0)
        assert len(points) == COUNT, sketch.trace
        for at, knob in enumerate(sketch.knobs):
            if knob.name.endswith(loop):
                yield points[:, at]


LENGTHS: list[tuple[str, Constraint, Callable[[np.ndarray], np.ndarray]]] = [
    (".k.1", at_most("k.1", 64), lambda n: n <= 64),
    (".k.1", at_least("k.1", 16), lambda n: n >= 16),
    (".i.3", one_of("i.3", 4, 6), lambda n: np.isin(n, (4, 6))),
    (".j.3", at_most("matmul.j.3", 8), lambda n: n <= 8),
]


@pytest.mark.parametrize(("loop", "constraint", "holds"), LENGTHS)
def test_every_point_obeys(
    loop: str, constraint: Constraint, holds: Callable[[np.ndarray], np.ndarray]
) -> None:
    found = under("GMM512", constraint)
    assert [sketch.trace for sketch in found] == [s.trace for s in all_of("GMM512")]
    drawn = list(values(found, loop))
    assert len(drawn) == len(found)
    assert all(holds(lengths).all() for lengths in drawn)
    assert any(not holds(lengths).all() for lengths in values(all_of("GMM512"), loop))


def test_loops_are_as_long_as_their_knobs_say() -> None:
    (sketch, *_) = under("GMM512", at_most("k.1", 64))
    points = Points.of(sketch.knobs, sketch.sample(COUNT, 0))
    assert Bounds(sketch.plan, points).extent("matmul", "k.1").max() <= 64


def test_mutations_and_children_obey() -> None:
    (sketch, *_) = under("GMM512", at_most("k.1", 64), one_of("i.3", 4, 6))
    names = [knob.name for knob in sketch.knobs]
    points = sketch.sample(COUNT, 0)
    for seed in range(8):
        moved = sketch.mutate(points, seed)
        points = sketch.cross(points, moved, seed)
        for some in (points, moved):
            assert (some[:, names.index("matmul.k.1")] <= 64).all()
            assert np.isin(some[:, names.index("matmul.i.3")], (4, 6)).all()


def test_a_stage_may_be_named() -> None:
    (sketch, *_) = under("matmul-chain", at_most("AB.k.1", 8))
    most = {knob.name: max(knob.candidates) for knob in sketch.knobs}
    assert most["AB.k.1"] == 8
    assert most["ABC.k.1"] == 512


@pytest.mark.parametrize("loop", ["C.k.1", "atmul.k.1", "k", "matmul", "K.1"])
def test_part_of_a_name_means_nothing(loop: str) -> None:
    with pytest.raises(ScheduleError, match=f"no loop '{loop}' has a length to choose"):
        under("GMM512", at_most(loop, 2))


def test_a_loop_need_not_be_in_all_sketches() -> None:
    found = all_of("matmul-8x8x512")
    has = [any(k.name.endswith(".j.3") for k in s.knobs) for s in found]
    assert any(has)
    assert not all(has)
    left = under("matmul-8x8x512", at_most("j.3", 4))
    assert [s.trace for s in left] == [s.trace for s in found]


def test_constraints_are_plain_values() -> None:
    lengths = [at_most("k.1", 8), at_least("k.1", 8), one_of("k.1", 4, 8)]
    given: list[Constraint] = [*lengths, NoParallel(), Vectorized("j"), Without("pack")]
    again = pickle.loads(pickle.dumps(given))
    assert again == given
    assert len({*given, *again}) == len(given)
    assert at_most("k.1", 8) != at_most("k.1", 16)
    assert under("GMM512", *again) == under("GMM512", *given)
    texts = ["k.1 at most 8", "k.1 at least 8", "k.1 one of 4, 8"]
    assert [str(x) for x in lengths] == texts


def test_one_core() -> None:
    found = under("GMM512", NoParallel())
    assert len(found) == len(all_of("GMM512"))
    for before, sketch in zip(all_of("GMM512"), found, strict=True):
        kinds = [k for nest in sketch.plan for k in nest.annotations.values()]
        assert "parallel" not in kinds
        assert "vectorize" in kinds
        assert (sketch.trace, sketch.knobs) == (before.trace, before.knobs)


def vectors(sketch: Sketch) -> set[tuple[str, str]]:
    """(stage, axis) of every vectorised loop of an element of the DAG."""
    return {
        (nest.name, axis)
        for nest in sketch.plan
        for loop, kind in nest.annotations.items()
        if kind == "vectorize"
        for axis in nest.axis_of(loop)
    }


def test_an_axis_is_vectorised() -> None:
    found = under("matmul-8x8x512", Vectorized("i"))
    assert 0 < len(found) < len(all_of("matmul-8x8x512"))
    assert all("i" in {axis for _, axis in vectors(sketch)} for sketch in found)
    both = under("matmul-chain", Vectorized("j", "AB"))
    assert all({("AB", "j"), ("AB.local", "j")} & vectors(sketch) for sketch in both)


def test_a_kind_of_choice_is_left_out() -> None:
    found = under("GMM512", Without("pack"))
    plain = [s for s in all_of("GMM512") if all(n.layout is None for n in s.plan)]
    assert found == plain
    assert under("matmul-8x8x512", Without("cache-write"), Without("rfactor"))


def test_constraints_add_up_and_may_come_from_a_generator() -> None:
    given = (Without("pack"), NoParallel(), at_most("k.1", 8), at_least("i.3", 4))
    found = sketches(task("GMM512", TARGET), constraints=(x for x in given))
    assert found == under("GMM512", *given)
    for sketch in found:
        assert sketch.feasible(sketch.sample(COUNT, 0)).all()


def test_a_constraint_of_ones_own_needs_one_method() -> None:
    @dataclass(frozen=True)
    class FewKnobs:
        most: int

        def restrict(self, sketch: Sketch) -> Sketch | None:
            return sketch if len(sketch.knobs) <= self.most else None

    found = under("softmax-2x1024", FewKnobs(4))
    assert found == [s for s in all_of("softmax-2x1024") if len(s.knobs) <= 4]


def test_none_asked_for_is_no_error() -> None:
    assert sketches(task("GMM512", TARGET), most=0) == []


def of_small(*constraints: Constraint) -> Callable[[], object]:
    a, b = (ansor.placeholder((64, 64), name=name) for name in "AB")
    small = ansor.Task(ansor.ops.matmul(a, b, name="C"), TARGET)
    return lambda: sketches(small, constraints=constraints)


def with_nothing() -> object:
    class Nothing:
        def matches(self, sketch: Sketch, stage: str) -> bool:
            return True

        def apply(self, sketch: Sketch, stage: str) -> list[Sketch]:
            return []

    return sketches(task("sum-128", TARGET), rules=[Nothing()])


RELAX = "  hint: relax a constraint; print(sketch) shows the knobs and their candidates"
SUCH = '  hint: such as at_most("k.1", 64)'

# One misuse per row, full message compared.
ERRORS: dict[str, tuple[Callable[[], object], str]] = {
    "too short": (
        of_small(at_most("j.3", 2)),
        f"sketches of C: none is left under j.3 at most 2\n{RELAX}",
    ),
    "two at once": (
        of_small(NoParallel(), at_least("i.3", 100)),
        f"sketches of C: none is left under NoParallel(), i.3 at least 100\n{RELAX}",
    ),
    "no candidate": (
        of_small(one_of("i.3", 99, 101)),
        f"sketches of C: none is left under i.3 one of 99, 101\n{RELAX}",
    ),
    "no such loop": (
        of_small(NoParallel(), at_most("D.k.1", 2)),
        "constraint D.k.1 at most 2: no loop 'D.k.1' has a length to choose\n"
        "  hint: loops that do: C.i.1, C.i.2, C.i.3, C.j.1, C.j.2, C.j.3, C.k.1, C.k.2",
    ),
    "no such axis": (
        of_small(Vectorized("z")),
        f"sketches of C: none is left under Vectorized(axis='z', stage=None)\n{RELAX}",
    ),
    "no choice": (
        of_small(Without("tile"), Without("rfactor")),
        "sketches of C: none is left under "
        f"Without(word='tile'), Without(word='rfactor')\n{RELAX}",
    ),
    "a rule without sketches": (
        with_nothing,
        "sketches of reduce_sum: the rules make none\n"
        "  hint: a rule that matches a stage yields at least one sketch",
    ),
    "zero": (
        lambda: at_most("k.1", 0),
        f"at_most('k.1', 0): 0 is not a positive integer\n{SUCH}",
    ),
    "negative": (
        lambda: at_least("k.1", -4),
        f"at_least('k.1', -4): -4 is not a positive integer\n{SUCH}",
    ),
    "a fraction": (
        lambda: at_most("k.1", 6.5),  # type: ignore[arg-type]
        f"at_most('k.1', 6.5): 6.5 is not a positive integer\n{SUCH}",
    ),
    "a truth": (
        lambda: at_most("k.1", True),
        f"at_most('k.1', True): True is not a positive integer\n{SUCH}",
    ),
    "a text among lengths": (
        lambda: one_of("i.3", 4, "8"),  # type: ignore[arg-type]
        f"one_of('i.3', …): '8' is not a positive integer\n{SUCH}",
    ),
}


@pytest.mark.parametrize(("misuse", "message"), ERRORS.values(), ids=ERRORS)
def test_messages(misuse: Callable[[], object], message: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        misuse()
    assert str(caught.value) == message
