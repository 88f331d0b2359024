"""The machine code of one task: which program it is, and what calls it needs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from os import PathLike

from ansor.codegen import engine
from ansor.ir.expr import Buffer
from ansor.measure.identity import versions
from ansor.measure.source import source
from ansor.reading import Data
from ansor.records.database import Database
from ansor.schedule.data import to_data
from ansor.search.untuned import untuned
from ansor.space.replay import replay
from ansor.te.task import Task


@dataclass(frozen=True)
class Choice:
    """What a task is to be compiled from.

    `program` is data that replays on `form`, the task with the names it was found
    with; without one the analytic model chooses. `seconds` were measured.
    """

    form: Task
    program: Data | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Packing:
    """Argument number `argument` enters the code in another layout; the function
    `entry`, void(ptr argument, ptr packed), writes it."""

    argument: int
    packed: Buffer
    entry: str


@dataclass(frozen=True)
class Unit:
    """Code of a task: `symbol` takes one pointer per argument of the task."""

    symbol: str
    made: engine.Object
    packings: tuple[Packing, ...]
    program: Data
    seconds: float | None = None  # as measured when it was tuned

    @property
    def is_tuned(self) -> bool:
        return self.seconds is not None


def choose(
    tasks: list[Task], database: Database | str | PathLike[str] | None
) -> list[Choice]:
    """The best record of each task, where the database has one for this LLVM."""
    if database is None:
        return [Choice(task) for task in tasks]
    if not isinstance(database, Database):
        with Database(database, mode="r") as opened:
            return choose(tasks, opened)
    return [_best(task, database) for task in tasks]


def _best(task: Task, database: Database) -> Choice:
    record = database.best(task, llvm=versions()["llvm"])
    if record is None:
        return Choice(task)
    form = database.task_of(record, task.target)
    return Choice(form, record.program, record.seconds)


def compile_choice(choice: Choice) -> Unit:
    """Lower and compile; half a second where the program must be chosen, too."""
    if choice.program is None:
        program = untuned(choice.form)
    else:
        program = replay(choice.form, choice.program)
    data = to_data(program)
    build = source(program, name=_symbol(choice.form, data))
    positions = {x.name: at for at, x in enumerate(choice.form.dag.arguments)}
    packings = tuple(
        Packing(positions[row.name], row.packed, row.entry) for row in build.prepared
    )
    made = engine.compile_object(build.text, build.target)
    return Unit(build.name, made, packings, data, choice.seconds)


def _symbol(task: Task, program: Data) -> str:
    """A name that belongs to this program alone, so that code of several models can
    be linked together."""
    known = versions()
    facts = [task.target.fingerprint, program, known["ansor"], known["llvm"]]
    text = json.dumps(facts, sort_keys=True)
    return f"kernel_{hashlib.sha256(text.encode()).hexdigest()[:20]}"
