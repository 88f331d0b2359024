"""Building, inside a worker: a program as data becomes object code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from ansor.codegen import engine
from ansor.codegen.kernel import Build, Prepared
from ansor.errors import AnsorError, MeasureError
from ansor.ir.expr import Buffer
from ansor.measure.source import source
from ansor.measure.wire import Header
from ansor.records.outcome import Failed, outcome_to_data
from ansor.schedule.data import sketch_from_data, sketch_to_data
from ansor.schedule.program import Program, Sketch
from ansor.target import Target
from ansor.target.data import target_from_data, target_to_data
from ansor.te.data import dag_from_data, dag_to_data
from ansor.te.task import Task

Data = dict[str, object]
KNOWN = 512  # texts that are remembered

_T = TypeVar("_T")
Candidate = Program | Build  # a program, or LLVM text of one's own


@dataclass(frozen=True)
class Built:
    """Object code and what is needed to call it, in any process."""

    name: str
    exports: tuple[str, ...]
    prepared: tuple[Prepared, ...]
    code: bytes

    @property
    def header(self) -> Data:
        """Everything but the code, as data."""
        return {
            "name": self.name,
            "exports": list(self.exports),
            "prepared": _prepared_to_data(self.prepared),
        }

    @staticmethod
    def read(header: object, code: bytes) -> Built:
        assert isinstance(header, dict)
        prepared = _prepared_from_data(header["prepared"])
        return Built(str(header["name"]), tuple(header["exports"]), prepared, code)


# -- in the process that searches ------------------------------------------------------


class Asker:
    """Writes requests for builders; remembers what is the same from one to the next."""

    def __init__(self) -> None:
        self._texts: dict[int, tuple[object, str]] = {}

    def request(self, task: Task, candidate: Candidate) -> Header:
        """What a builder is asked."""
        text = self._text(task, _task_text)
        if isinstance(candidate, Program):
            sketch = self._text(candidate.sketch, _sketch_text)
            return {"task": text, "sketch": sketch, "point": list(candidate.point)}
        return {
            "task": text,
            "name": candidate.name,
            "text": candidate.text,
            "prepared": _prepared_to_data(candidate.prepared),
        }

    def _text(self, thing: _T, write: Callable[[_T], str]) -> str:
        """By identity; the thing is kept so that its id stays its."""
        known = self._texts.get(id(thing))
        if known is None:
            if len(self._texts) > KNOWN:
                self._texts.clear()
            known = self._texts[id(thing)] = (thing, write(thing))
        return known[1]


def _task_text(task: Task) -> str:
    facts = {"dag": dag_to_data(task.dag), "target": target_to_data(task.target)}
    return json.dumps(facts)


def _sketch_text(sketch: Sketch) -> str:
    return json.dumps(sketch_to_data(sketch))


# -- in a worker -----------------------------------------------------------------------


def preload() -> None:
    """Load LLVM and compile something, so that its tables are there."""
    engine.compile_object("define void @nothing() {\n  ret void\n}", Target.host())


def work(header: Header, payload: bytes) -> Iterator[tuple[Header, bytes]]:
    """Answer one request: object code, or where and why it stopped."""
    try:
        _, candidate = candidate_of(header)
        made = candidate if isinstance(candidate, Build) else source(candidate)
    except MemoryError:
        raise
    except Exception as error:  # whatever a rule of the user's led to
        yield _failed("lower", error)
        return
    yield {"stage": "build"}, b""
    try:
        compiled = engine.compile_object(made.text, made.target)
    except AnsorError as error:
        yield _failed("build", error)
        return
    built = Built(made.name, compiled.exports, made.prepared, compiled.code)
    yield {"built": built.header}, built.code


def _failed(stage: str, error: Exception) -> tuple[Header, bytes]:
    is_ours = isinstance(error, AnsorError)
    message = str(error) if is_ours else f"{type(error).__name__}: {error}"
    return {"outcome": outcome_to_data(Failed(stage, "refused", message))}, b""


def candidate_of(asked: Header) -> tuple[Task, Candidate]:
    """The task and the candidate that `Asker.request` was given."""
    task = _task(str(asked["task"]))
    if "sketch" in asked:
        sketch = _sketch(str(asked["task"]), str(asked["sketch"]))
        point = asked["point"]
        assert isinstance(point, list)
        return task, sketch.program(tuple(point))
    return task, Build(
        name=str(asked["name"]),
        text=str(asked["text"]),
        target=task.target,
        parameters=task.dag.arguments,
        outputs=len(task.dag.outputs),
        prepared=_prepared_from_data(asked["prepared"]),
    )


@lru_cache(maxsize=8)
def _task(text: str) -> Task:
    facts = json.loads(text)
    return Task.from_dag(dag_from_data(facts["dag"]), target_from_data(facts["target"]))


@lru_cache(maxsize=256)
def _sketch(task: str, text: str) -> Sketch:
    return sketch_from_data(_task(task), json.loads(text))


def _prepared_to_data(rows: Sequence[Prepared]) -> list[object]:
    return [[x.name, x.packed.name, list(x.packed.shape), x.packed.dtype, x.entry]
            for x in rows]  # fmt: skip


def _prepared_from_data(rows: object) -> tuple[Prepared, ...]:
    if not isinstance(rows, list):
        raise MeasureError("prepared inputs", "not a list")
    return tuple(
        Prepared(name, Buffer(packed, tuple(shape), dtype), entry)
        for name, packed, shape, dtype, entry in rows
    )
