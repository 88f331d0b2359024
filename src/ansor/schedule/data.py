"""Sketches and programs as plain data, and back by replay.

    {"version": 1, "workload": task.key, "trace": [rule, …], "steps": [step, …],
     "point": {knob: value, …}}                          (programs only)
    step   = {"step": kind, field: value, …}             one kind per row of STEPS
    length = integer | {"knob": name, "candidates": [integer, …]}
           | {"follow": [stage, loop]}

Reading checks everything and trusts nothing: whatever the data, the result is a
program that replays on the task, or a ScheduleError that says why there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields
from typing import get_type_hints

from ansor.errors import ScheduleError
from ansor.reading import Data, Reader, brief
from ansor.schedule.knobs import Follow, Knob, Length
from ansor.schedule.program import Program, Sketch
from ansor.schedule.steps import STEPS, Step
from ansor.te.task import Task

VERSION = 1
MAX_STEPS = 500
MAX_ENTRIES = 64  # of one list in a step, and of the trace
MAX_CANDIDATES = 10_000
MAX_TEXT = 512  # characters; loops nest no deeper than their names are long
MAX_INTEGER = 2**31 - 1

SKETCH_FIELDS = ("version", "workload", "trace", "steps")
PROGRAM_FIELDS = (*SKETCH_FIELDS, "point")

_read = Reader(ScheduleError)


def to_data(program: Program) -> Data:
    """A program as numbers, texts, lists and dictionaries: ready for JSON.

    >>> import ansor
    >>> from ansor.schedule import Knob, Sketch, Split, to_data
    >>> A = ansor.placeholder((31,), name="A")
    >>> B = ansor.compute((31,), lambda i: A[i] * 2.0, name="B")
    >>> sketch = Sketch(ansor.Task(B)).then(Split("B", "i", (Knob("t", (4, 8)),)))
    >>> to_data(sketch.program((8,)))["point"]
    {'t': 8}
    """
    knobs = program.sketch.knobs
    values = zip(knobs, program.point, strict=True)
    point = {knob.name: int(value) for knob, value in values}
    return {**sketch_to_data(program.sketch), "point": point}


def from_data(task: Task, data: object, kind: type[Sketch] = Sketch) -> Program:
    """The program that `to_data` was given, replayed on a task of the same workload.

    `kind` is the class of its sketch. Raises ScheduleError, and nothing else, for data
    that is malformed, of another workload, or does not apply.

    >>> import ansor
    >>> from ansor.schedule import Program, Sketch, Split, from_data, to_data
    >>> A = ansor.placeholder((31,), name="A")
    >>> B = ansor.compute((31,), lambda i: A[i] * 2.0, name="B")
    >>> task = ansor.Task(B)
    >>> program = Program(Sketch(task, (Split("B", "i", (12,)),)))
    >>> from_data(task, to_data(program)) == program
    True
    """
    what = "program data"
    checked = _checked(what, task, data, PROGRAM_FIELDS)
    sketch = _sketch(what, task, checked, kind)
    return Program(sketch, _point(what, sketch.knobs, checked["point"]))


def sketch_to_data(sketch: Sketch) -> Data:
    """A sketch as data; like that of its programs, without a point.

    >>> import ansor
    >>> from ansor.schedule import Inline, Sketch, sketch_to_data
    >>> A = ansor.placeholder((31,), name="A")
    >>> P = ansor.compute((31,), lambda i: A[i] * 2.0, name="P")
    >>> B = ansor.compute((31,), lambda i: P[i] + 1.0, name="B")
    >>> sketch_to_data(Sketch(ansor.Task(B)).then(Inline("P")))["steps"]
    [{'step': 'inline', 'stage': 'P'}]
    """
    _ = sketch.plan  # raises where a step does not apply
    return {
        "version": VERSION,
        "workload": sketch.task.key,
        "trace": list(sketch.trace),
        "steps": [_step_data(step) for step in sketch.steps],
    }


def sketch_from_data(task: Task, data: object, kind: type[Sketch] = Sketch) -> Sketch:
    """The sketch that `sketch_to_data` was given; refuses what `from_data` refuses.

    >>> import ansor
    >>> from ansor.schedule import Sketch, sketch_from_data, sketch_to_data
    >>> A = ansor.placeholder((31,), name="A")
    >>> B = ansor.compute((31,), lambda i: A[i] * 2.0, name="B")
    >>> task = ansor.Task(B)
    >>> sketch_from_data(task, sketch_to_data(Sketch(task))) == Sketch(task)
    True
    """
    what = "sketch data"
    return _sketch(what, task, _checked(what, task, data, SKETCH_FIELDS), kind)


# -- writing --------------------------------------------------------------------------


def _step_data(step: Step) -> Data:
    (kind,) = (name for name, made in STEPS.items() if made is type(step))
    values = {field.name: _plain(getattr(step, field.name)) for field in fields(step)}
    return {"step": kind, **values}


def _plain(value: object) -> object:
    match value:
        case Knob(name, candidates):
            return {"knob": name, "candidates": list(map(int, candidates))}
        case Follow(stage, loop):
            return {"follow": [stage, loop]}
        case tuple():
            return [_plain(entry) for entry in value]
        case _:
            return value


# -- reading --------------------------------------------------------------------------


def _checked(what: str, task: Task, data: object, names: Collection[str]) -> Data:
    """The outermost dictionary, if it is one for this task."""
    found = _read.versioned(what, data, VERSION, names)
    workload = _text(f"{what}, workload", found["workload"])
    if workload != task.key:
        raise ScheduleError(
            what,
            f"was written for workload {workload}, the task is {task.key}",
            "take data of a task that computes the same",
        )
    return found


def _sketch(what: str, task: Task, data: Data, kind: type[Sketch]) -> Sketch:
    trace = _texts(f"{what}, trace", data["trace"])
    entries = _read.list(f"{what}, steps", data["steps"], MAX_STEPS)
    steps = tuple(_step(f"{what}, steps[{n}]", x) for n, x in enumerate(entries))
    sketch = kind(task, steps, trace)
    try:
        _ = sketch.plan, sketch.knobs  # the checks of steps made by hand
    except RecursionError as error:
        raise ScheduleError(
            what, "its steps nest loops too deep", "split a loop fewer times"
        ) from error
    return sketch


def _step(what: str, data: object) -> Step:
    found = _read.dictionary(what, data)
    if "step" not in found:
        raise ScheduleError(what, "field 'step' is missing", "it names the kind")
    kind = found["step"]
    if not isinstance(kind, str) or kind not in STEPS:
        known = ", ".join(STEPS)
        raise ScheduleError(what, f"unknown kind {brief(kind)}", f"kinds are {known}")
    what = f"{what} ({kind})"
    schema = SCHEMA[kind]
    _read.names(what, found, ("step", *schema))
    make: Callable[..., Step] = STEPS[kind]
    values = {name: read(f"{what}, {name}", found[name])
              for name, read in schema.items()}  # fmt: skip
    return make(**values)


def _point(what: str, knobs: Collection[Knob], data: object) -> tuple[int, ...]:
    what = f"{what}, point"
    values = _read.dictionary(what, data)
    names = [knob.name for knob in knobs]
    for name in names:
        if name not in values:
            raise ScheduleError(
                what, f"knob {name!r} has no value", "give one value to each knob"
            )
    for name in values:
        if name not in names:
            known = ", ".join(names) or "none"
            raise ScheduleError(what, f"no knob {brief(name)}", f"knobs are {known}")
    return tuple(_integer(f"{what}, {name}", values[name]) for name in names)


def _length(what: str, data: object) -> Length:
    if not isinstance(data, dict):
        return _integer(what, data)
    if "follow" in data:
        _read.names(what, data, ("follow",))
        pair = _texts(f"{what}, follow", data["follow"])
        if len(pair) != 2:
            raise ScheduleError(
                what, f"follows {len(pair)} names", "name a stage and a loop"
            )
        return Follow(*pair)
    _read.names(what, data, ("knob", "candidates"))
    name = _text(f"{what}, knob", data["knob"])
    candidates = _read.list(f"{what}, candidates", data["candidates"], MAX_CANDIDATES)
    values = (_integer(f"{what}, candidate {n}", x) for n, x in enumerate(candidates))
    return Knob(name, tuple(values))


def _lengths(what: str, data: object) -> tuple[Length, ...]:
    entries = _read.list(what, data, MAX_ENTRIES)
    return tuple(_length(f"{what}[{n}]", entry) for n, entry in enumerate(entries))


def _texts(what: str, data: object) -> tuple[str, ...]:
    entries = _read.list(what, data, MAX_ENTRIES)
    return tuple(_text(f"{what}[{n}]", entry) for n, entry in enumerate(entries))


def _text(what: str, data: object) -> str:
    return _read.text(what, data, MAX_TEXT)


def _optional_text(what: str, data: object) -> str | None:
    return None if data is None else _text(what, data)


def _integer(what: str, data: object) -> int:
    return _read.integer(what, data, 1, MAX_INTEGER)


READERS: dict[object, Callable[[str, object], object]] = {
    str: _text,
    int: _integer,
    bool: _read.flag,
    str | None: _optional_text,
    tuple[str, ...]: _texts,
    tuple[Length, ...]: _lengths,
}

# How to read each field of each kind of step.
SCHEMA = {
    kind: {field.name: READERS[get_type_hints(step)[field.name]]
           for field in fields(step)}
    for kind, step in STEPS.items()
}  # fmt: skip
