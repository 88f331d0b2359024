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
from ansor.space.rules import origin
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
        if not hasattr(constraint, "restrict"):
            raise ScheduleError(
                f"constraint {constraint!r}",
                f"is of type {type(constraint).__name__}, without a method restrict",
                'such as at_most("k.1", 64)',
            )
        found = constraint.restrict(found)
    return found


@dataclass(frozen=True)
class Lengths:
    """Loops whose length stays between two bounds, or is one of some values."""

    loop: str
    least: int = 1
    most: int | None = None
    among: tuple[int, ...] = ()

    def restrict(self, sketch: Sketch) -> Sketch | None:
        """None if a knob would be left without any candidate."""
        changed: dict[str, Knob] = {}
        for knob in filter(self.is_meant, sketch.knobs):
            kept = tuple(filter(self.allows, knob.candidates))
            if not kept:
                return None
            changed[knob.name] = Knob(knob.name, kept)
        return with_knobs(sketch, changed)

    def is_meant(self, knob: Knob) -> bool:
        """True if the knob is the length of the loop, of any stage if none is named."""
        return knob.name == self.loop or knob.name.endswith(f".{self.loop}")

    def allows(self, length: int) -> bool:
        if self.among and length not in self.among:
            return False
        return self.least <= length and (self.most is None or length <= self.most)

    def __str__(self) -> str:
        if self.among:
            return f"{self.loop} one of {', '.join(map(str, self.among))}"
        if self.most is not None:
            return f"{self.loop} at most {self.most}"
        return f"{self.loop} at least {self.least}"


def at_most(loop: str, length: int) -> Lengths:
    """`at_most("k.1", 64)`: no such loop is longer. `"C.k.1"` means that of stage C."""
    _check_length(f"at_most({loop!r}, {length!r})", length)
    return Lengths(loop, most=length)


def at_least(loop: str, length: int) -> Lengths:
    """`at_least("j.3", 8)`: no such loop is shorter."""
    _check_length(f"at_least({loop!r}, {length!r})", length)
    return Lengths(loop, least=length)


def one_of(loop: str, *lengths: int) -> Lengths:
    """`one_of("i.3", 4, 8)`: such loops have one of these lengths."""
    for length in lengths:
        _check_length(f"one_of({loop!r}, …)", length)
    return Lengths(loop, among=lengths)


def check_meant(constraints: Iterable[Constraint], sketches: Iterable[Sketch]) -> None:
    """Refuse a constraint on a loop that no sketch has a knob for."""
    named = [c for c in constraints if isinstance(c, Lengths)]
    if not named:
        return
    knobs = {knob.name: knob for sketch in sketches for knob in sketch.knobs}
    for constraint in named:
        if not any(map(constraint.is_meant, knobs.values())):
            raise ScheduleError(
                f"constraint {constraint}",
                f"no loop {constraint.loop!r} has a length to choose",
                f"loops that do: {', '.join(sorted(knobs))}",
            )


@dataclass(frozen=True)
class NoParallel:
    """Use one core."""

    def restrict(self, sketch: Sketch) -> Sketch:
        return without(
            sketch, lambda s: isinstance(s, Annotate) and s.kind == "parallel"
        )


@dataclass(frozen=True)
class Vectorized:
    """Only sketches that vectorise an axis: `Vectorized("j")`; of one stage only with
    `Vectorized("j", stage="C")`."""

    axis: str
    stage: str | None = None

    def restrict(self, sketch: Sketch) -> Sketch | None:
        for nest in sketch.plan:
            if self.stage not in (None, nest.name, origin(sketch, nest.name)):
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


def _check_length(what: str, length: object) -> None:
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        raise ScheduleError(
            what, f"{length!r} is not a positive integer", 'such as at_most("k.1", 64)'
        )
