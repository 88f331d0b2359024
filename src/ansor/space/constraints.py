"""Constraints: what a user forbids, fixes or limits in the space of a task.

A constraint is an object with `restrict(sketch) -> Sketch | None`: the sketch with
fewer choices, or None where it does not belong to the space.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from ansor.errors import ScheduleError
from ansor.schedule.knobs import Knob
from ansor.schedule.steps import Annotate, Split, Step
from ansor.space.sketch import Sketch


class Constraint(Protocol):
    """A restriction of the space."""

    def restrict(self, sketch: Sketch) -> Sketch | None:
        """The sketch with fewer choices; None drops it."""


def restricted(sketch: Sketch, constraints: Iterable[Constraint]) -> Sketch | None:
    """The sketch under all constraints, or None if one drops it."""
    found: Sketch | None = sketch
    for constraint in constraints:
        if found is None:
            return None
        found = constraint.restrict(found)
    return found


@dataclass(frozen=True)
class _Lengths:
    """Keep the candidates of some knobs that pass a test."""

    loop: str
    test: Callable[[int], bool]
    text: str

    def restrict(self, sketch: Sketch) -> Sketch | None:
        """None if a knob would be left without any candidate."""
        changed: dict[str, Knob] = {}
        for knob in sketch.knobs:
            if not _is_meant(knob, self.loop):
                continue
            kept = tuple(filter(self.test, knob.candidates))
            if not kept:
                return None
            changed[knob.name] = Knob(knob.name, kept)
        return with_knobs(sketch, changed)

    def __str__(self) -> str:
        return f"{self.loop} {self.text}"


def at_most(loop: str, length: int) -> Constraint:
    """`at_most("k.1", 64)`: no such loop is longer. `"C.k.1"` means that of stage C."""
    _check_length(f"at_most({loop!r}, {length!r})", length)
    return _Lengths(loop, lambda n: n <= length, f"at most {length}")


def at_least(loop: str, length: int) -> Constraint:
    """`at_least("j.3", 8)`: no such loop is shorter."""
    _check_length(f"at_least({loop!r}, {length!r})", length)
    return _Lengths(loop, lambda n: n >= length, f"at least {length}")


def one_of(loop: str, *lengths: int) -> Constraint:
    """`one_of("i.3", 4, 8)`: such loops have one of these lengths."""
    for length in lengths:
        _check_length(f"one_of({loop!r}, …)", length)
    return _Lengths(loop, lambda n: n in lengths, f"one of {lengths}")


@dataclass(frozen=True)
class NoParallel:
    """Use one core."""

    def restrict(self, sketch: Sketch) -> Sketch:
        return without(
            sketch, lambda s: isinstance(s, Annotate) and s.kind == "parallel"
        )


@dataclass(frozen=True)
class Vectorized:
    """Only sketches that vectorise an axis: `Vectorized("j")`, or `("C", "j")`."""

    axis: str
    stage: str | None = None

    def restrict(self, sketch: Sketch) -> Sketch | None:
        for nest in sketch.plan:
            if self.stage not in (None, nest.name, nest.name.partition(".")[0]):
                continue
            for loop, kind in nest.annotations.items():
                if kind == "vectorize" and nest.axis_of(loop) == {self.axis}:
                    return sketch
        return None


@dataclass(frozen=True)
class Without:
    """Only sketches whose trace has no such word: `Without("pack")`."""

    word: str

    def restrict(self, sketch: Sketch) -> Sketch | None:
        has = any(self.word in entry.split() for entry in sketch.trace)
        return None if has else sketch


def with_knobs(sketch: Sketch, changed: dict[str, Knob]) -> Sketch:
    """The sketch with some knobs replaced by others of the same name."""
    if not changed:
        return sketch
    return replace(sketch, steps=tuple(_with_knobs(s, changed) for s in sketch.steps))


def without(sketch: Sketch, drop: Callable[[Step], bool]) -> Sketch:
    """The sketch without some of its steps, replayed."""
    kept = tuple(step for step in sketch.steps if not drop(step))
    return Sketch(sketch.task, (), sketch.trace).then(*kept)


def _with_knobs(step: Step, changed: dict[str, Knob]) -> Step:
    if not isinstance(step, Split):
        return step
    lengths = tuple(
        changed.get(x.name, x) if isinstance(x, Knob) else x for x in step.lengths
    )
    return replace(step, lengths=lengths)


def _is_meant(knob: Knob, loop: str) -> bool:
    return knob.name == loop or knob.name.endswith(f".{loop}")


def _check_length(what: str, length: object) -> None:
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise ScheduleError(
            what, f"{length!r} is not a positive integer", 'such as at_most("k.1", 64)'
        )
