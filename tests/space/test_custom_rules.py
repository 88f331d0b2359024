"""Rules of users: asked first, need nothing but two methods."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

import ansor
from ansor.schedule import Annotate, Fuse, Knob, Reorder, Split, Step
from ansor.space import Rule, Sketch, sketches

TARGET = ansor.Target("aarch64", cpu="neoverse-n1", cores=4)
ROWS = Knob("rows", (2, 4, 8))
COLUMNS = Knob("columns", (4, 8))


def product(target: ansor.Target = TARGET) -> ansor.Task:
    a, b = (ansor.placeholder((64, 64), name=name) for name in "AB")
    return ansor.Task(ansor.ops.matmul(a, b, name="C"), target)


def layer() -> ansor.Task:
    a, b = (ansor.placeholder((64, 64), name=name) for name in "AB")
    return ansor.Task(ansor.ops.relu(ansor.ops.matmul(a, b, name="C"), "D"), TARGET)


@dataclass(frozen=True)
class TwoWays:
    """Block rows, or columns, of one stage."""

    stage: str = "C"

    def matches(self, sketch: Sketch, stage: str) -> bool:
        return stage == self.stage and sketch.is_untouched(stage)

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        rows, columns = (axis.name for axis in sketch.stage(stage).axes)
        yield sketch.then(Split(stage, rows, (ROWS,)))
        yield sketch.then(Split(stage, columns, (COLUMNS,)))


@dataclass(frozen=True)
class AsWell(TwoWays):
    """The same, and the built-in rules are asked too."""

    alone = False


def test_a_rule_that_stands_alone_gives_its_sketches_and_no_others() -> None:
    found = sketches(product(), rules=[TwoWays()])
    assert len(found) == 2
    assert [sketch.knobs for sketch in found] == [(ROWS,), (COLUMNS,)]
    assert [sketch.trace for sketch in found] == [("TwoWays C",)] * 2


def test_so_it_does_on_a_gpu() -> None:
    found = sketches(product(ansor.Target("cuda", arch="sm_90")), rules=[TwoWays()])
    assert [sketch.knobs[0] for sketch in found] == [ROWS, COLUMNS]


def test_a_rule_that_does_not_stand_alone_adds_to_the_others() -> None:
    usual = sketches(product())
    found = sketches(product(), rules=[AsWell()])
    assert len(found) == len(usual) + 2
    assert {sketch.steps for sketch in usual} < {sketch.steps for sketch in found}


def test_other_stages_are_derived_as_usual() -> None:
    found = sketches(layer(), rules=[TwoWays()])
    assert {sketch.trace[0] for sketch in found} == {"TwoWays C"}
    for sketch in found:
        assert "vectorize" in sketch.plan.nest("D").annotations.values()


@dataclass(frozen=True)
class Complete(TwoWays):
    """The same, and nothing else is decided."""

    finishes = True


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_a_rule_that_finishes_gives_exactly_its_sketches(kind: str) -> None:
    target = TARGET if kind == "cpu" else ansor.Target("cuda", arch="sm_90")
    task = product(target)
    found = sketches(task, rules=[Complete()])
    assert [s.steps for s in found] == [
        s.steps for s in Complete().apply(Sketch(task), "C")
    ]
    assert [s.trace for s in found] == [("Complete C",)] * 2


def test_so_it_does_where_other_stages_were_not_asked_about() -> None:
    task = layer()
    found = sketches(task, rules=[Complete("D")])  # D is the last: asked first
    made = Complete().apply(Sketch(task), "D")
    assert [s.steps for s in found] == [s.steps for s in made]
    assert all(sketch.is_untouched("C") for sketch in found)
    assert all(s.program(s.sample(1, 0)[0].tolist()).lower() for s in found)


def test_stages_asked_before_it_stay_as_they_were_decided() -> None:
    found = sketches(layer(), rules=[Complete("C")])
    made = [step for s in Complete().apply(Sketch(layer()), "C") for step in s.steps]
    assert len(found) == len({sketch.steps for sketch in found})
    assert {sketch.steps[-1] for sketch in found} == set(made)
    for sketch in found:
        kinds = {k for nest in sketch.plan for k in nest.annotations.values()}
        assert "parallel" not in kinds


def test_a_rule_that_never_matches_changes_nothing() -> None:
    assert sketches(product(), rules=[TwoWays("Z")]) == sketches(product())


def test_rules_are_asked_in_order() -> None:
    @dataclass(frozen=True)
    class Whole:
        """Unroll nothing, split nothing, but vectorise."""

        def matches(self, sketch: Sketch, stage: str) -> bool:
            return stage == "C"

        def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
            steps: list[Step] = [Reorder(stage, ("i", "k", "j"))]
            yield sketch.by("whole", *steps, Annotate(stage, "j", "vectorize"))

    rules: list[Rule] = [Whole(), TwoWays()]
    (first,) = sketches(product(), rules=rules)
    assert first.trace == ("whole",)
    assert len(sketches(product(), rules=rules[::-1])) == 2


@pytest.mark.parametrize("rule", [TwoWays(), AsWell()])
def test_points_of_its_sketches_are_drawn_like_any_other(rule: Rule) -> None:
    (first, *_) = sketches(product(), rules=[rule])
    points = first.sample(20, 0)
    assert len(points) == 20
    assert first.program(tuple(points[0])).lower()


@dataclass(frozen=True)
class FusedVector:
    """Vectorises two axes of a matmul as one."""

    def matches(self, sketch, stage):
        return sketch.is_untouched(stage)

    def apply(self, sketch, stage):
        yield sketch.then(
            Split(stage, "k", (2,)),
            Reorder(stage, ("k.0", "k.1", "i", "j")),
            Fuse(stage, ("i", "j")),
            Annotate(stage, "i@j", "vectorize"),
        )


def test_a_rule_may_vectorize_a_fused_loop():
    A, B = ansor.placeholder((4, 6)), ansor.placeholder((6, 8))
    task = ansor.Task(ansor.ops.matmul(A, B, name="C"))
    assert ansor.sketches(task, rules=[FusedVector()])


class NoSketch:
    def matches(self, sketch, stage):
        return True

    def apply(self, sketch, stage):
        yield None


def test_misuses_are_named():
    A, B = ansor.placeholder((4, 6)), ansor.placeholder((6, 8))
    task = ansor.Task(ansor.ops.matmul(A, B, name="C"))
    with pytest.raises(ansor.ScheduleError, match="yields None of type NoneType"):
        ansor.sketches(task, rules=[NoSketch()])
    with pytest.raises(ansor.ScheduleError, match="without a method restrict"):
        ansor.sketches(task, constraints=["k.1 <= 64"])
    with pytest.raises(ansor.ScheduleError, match="not a task"):
        ansor.sketches("matmul")
    sketch = ansor.sketches(task)[0]
    with pytest.raises(ansor.ScheduleError, match="not a number of points"):
        sketch.sample(-1)
    with pytest.raises(ansor.ScheduleError, match=r"the sketch has \d+ knobs"):
        sketch.feasible([[1, 2]])
    assert sketch.feasible(sketch.sample(3).tolist()).all()
