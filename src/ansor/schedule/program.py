"""Sketches and programs: a task with steps, with holes or without."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import index

from ansor.errors import ScheduleError
from ansor.ir.stmt import Function
from ansor.schedule.bounds import Bounds
from ansor.schedule.knobs import Knob, Points
from ansor.schedule.legal import check
from ansor.schedule.lower import Lowered, lower
from ansor.schedule.plan import Plan
from ansor.schedule.show import show, show_knobs
from ansor.schedule.steps import STEPS, Step
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
    trace: tuple[str, ...] = field(default=(), compare=False)  # rules that made it

    def __post_init__(self) -> None:
        if not isinstance(self.task, Task):
            raise ScheduleError(
                f"sketch of {self.task!r}",
                f"is of type {type(self.task).__name__}, not a task",
                "write Sketch(ansor.Task(outputs))",
            )
        object.__setattr__(self, "steps", tuple(self.steps))

    @cached_property
    def plan(self) -> Plan:
        """The loops that the steps make. Raises ScheduleError if one does not apply."""
        return _replay(Plan.of(self.task.dag), self.steps)

    @property
    def knobs(self) -> tuple[Knob, ...]:
        """The holes, in the order of the columns of points; each name once."""
        found: dict[str, Knob] = {}
        for knob in (knob for step in self.steps for knob in step.knobs):
            if found.setdefault(knob.name, knob) != knob:
                raise ScheduleError(
                    f"knob {knob.name!r}",
                    f"candidates {knob.candidates} here, "
                    f"{found[knob.name].candidates} in an earlier step",
                    "give one of the two another name",
                )
        return tuple(found.values())

    def then(self, *steps: Step) -> Sketch:
        """This sketch after more steps. An illegal sketch does not exist."""
        sketch = replace(self, steps=(*self.steps, *steps))
        sketch.__dict__["plan"] = _replay(self.plan, steps)  # only what is new
        return sketch

    def program(self, point: tuple[int, ...] = ()) -> Program:
        """This structure with its holes filled by one row of points."""
        return Program(self, tuple(map(_integer, point)))

    def __str__(self) -> str:
        return "\n".join([show(self.plan), *show_knobs(self.knobs)])


@dataclass(frozen=True)
class Program:
    """A sketch and one value per knob: everything that decides the code.

    `Program(Sketch(task, steps))` is a program given by explicit steps.

    >>> import ansor
    >>> from ansor.schedule import Program, Sketch, Split
    >>> A = ansor.placeholder((31,), name="A")
    >>> B = ansor.compute((31,), lambda i: A[i] * 2.0, name="B")
    >>> program = Program(Sketch(ansor.Task(B), (Split("B", "i", (12,)),)))
    >>> print(program.lower("double"))
    def double(A: float32[31]) -> B: float32[31]:
      for B.i.0 in 2:
        for B.i.1 in 12:
          B[B.i.0 * 12 + B.i.1] = A[B.i.0 * 12 + B.i.1] * 2.0
      for B.i.1 in 7:
        B[B.i.1 + 24] = A[B.i.1 + 24] * 2.0
    """

    sketch: Sketch
    point: tuple[int, ...] = field(default=())

    def __post_init__(self) -> None:
        if not isinstance(self.sketch, Sketch):
            raise ScheduleError(
                "program",
                f"its sketch is of type {type(self.sketch).__name__}, not Sketch",
                "write Program(Sketch(task, steps))",
            )
        _ = self.sketch.plan  # raises where a step does not apply
        knobs = self.sketch.knobs
        if len(self.point) != len(knobs):
            names = ", ".join(knob.name for knob in knobs) or "none"
            raise ScheduleError(
                "program",
                f"{len(self.point)} values for {len(knobs)} knobs",
                f"give one value to each knob: {names}",
            )
        for knob, value in zip(knobs, self.point, strict=True):
            if value not in knob.candidates:
                raise ScheduleError(
                    f"program with {knob.name} = {value}",
                    f"{value} is not a candidate of the knob",
                    f"use one of {', '.join(map(str, knob.candidates))}",
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


def _replay(plan: Plan, steps: Iterable[Step]) -> Plan:
    """The plan after more steps, each checked."""
    for step in steps:
        if not isinstance(step, Step):
            known = ", ".join(kind.__name__ for kind in STEPS.values())
            raise ScheduleError(
                f"step {step!r}",
                f"is of type {type(step).__name__}, not a step",
                f"use one of {known}",
            )
        before, plan = plan, step.apply(plan)
        check(step, plan, before)
    return plan


def _integer(value: object) -> int:
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ScheduleError(
            f"program with value {value!r}",
            f"is of type {type(value).__name__}, not an integer",
            "a point holds one candidate of each knob",
        ) from None


def _filled(text: str, values: dict[str, int]) -> str:
    for name in sorted(values, key=len, reverse=True):
        text = text.replace(f"?{name}", str(values[name]))
    return text
