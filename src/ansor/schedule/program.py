"""Sketches and programs: a task with steps, with holes or without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

from ansor.errors import ScheduleError
from ansor.ir.stmt import Function
from ansor.schedule.bounds import Bounds
from ansor.schedule.knobs import Knob, Points
from ansor.schedule.lower import Lowered, lower
from ansor.schedule.plan import Plan
from ansor.schedule.steps import Step
from ansor.te.task import Task


@dataclass(frozen=True)
class Sketch:
    """Steps with knobs: one structure of the search space.

    >>> import ansor
    >>> from ansor.schedule import Knob, Sketch, Split
    >>> A = ansor.placeholder((31,), name="A")
    >>> B = ansor.compute((31,), lambda i: A[i] * 2.0, name="B")
    >>> sketch = Sketch(ansor.Task(B)).then(Split("B", "i", (Knob("t", (4, 8, 12)),)))
    >>> print(sketch.program((12,)))
    split B.i -> [12]
    """

    task: Task
    steps: tuple[Step, ...] = ()

    @cached_property
    def plan(self) -> Plan:
        """The loops that the steps make. Raises ScheduleError if one does not apply."""
        plan = Plan.of(self.task.dag)
        for step in self.steps:
            plan = step.apply(plan)
        return plan

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """The holes, in the order of the columns of points; each name once."""
        found = {knob.name: knob for step in self.steps for knob in step.knobs}
        return tuple(found.values())

    def then(self, *steps: Step) -> Sketch:
        """This sketch after more steps. An illegal sketch does not exist."""
        sketch = replace(self, steps=(*self.steps, *steps))
        _ = sketch.plan
        return sketch

    def program(self, point: tuple[int, ...] = ()) -> Program:
        """This structure with its holes filled by one row of points."""
        return Program(self, tuple(int(value) for value in point))

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))


@dataclass(frozen=True)
class Program:
    """A sketch and one value per knob: everything that decides the code.

    `Program(Sketch(task, steps))` is a program given by explicit steps.
    """

    sketch: Sketch
    point: tuple[int, ...] = field(default=())

    def __post_init__(self) -> None:
        knobs = self.sketch.knobs
        if len(self.point) != len(knobs):
            names = ", ".join(knob.name for knob in knobs) or "none"
            raise ScheduleError(
                "program",
                f"{len(self.point)} values for {len(knobs)} knobs",
                f"the knobs are {names}",
            )
        for knob, value in zip(knobs, self.point, strict=True):
            if value not in knob.candidates:
                raise ScheduleError(
                    f"program with {knob.name} = {value}",
                    f"candidates are {', '.join(map(str, knob.candidates))}",
                )

    @property
    def task(self) -> Task:
        return self.sketch.task

    @property
    def points(self) -> Points:
        """The batch of one that this program is."""
        return Points.of(self.sketch.knobs, [list(self.point)])

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.sketch.plan, self.points)

    @property
    def steps(self) -> tuple[str, ...]:
        """The steps as text, holes filled."""
        values = dict(zip((k.name for k in self.sketch.knobs), self.point, strict=True))
        texts = map(str, self.sketch.steps)
        return tuple(_filled(text, values) for text in texts)

    def lower(
        self, name: str = "kernel", dump: Callable[[str, Function], None] | None = None
    ) -> Lowered:
        """The loop functions of this program; `dump` sees the result of each pass."""
        return lower(self.sketch.plan, self.points, self.task.target, name, dump)

    def __str__(self) -> str:
        return "\n".join(self.steps)


def _filled(text: str, values: dict[str, int]) -> str:
    for name in sorted(values, key=len, reverse=True):
        text = text.replace(f"?{name}", str(values[name]))
    return text
