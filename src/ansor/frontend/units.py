"""The machine code of one task: which program it is, and what calls it needs.

Where a subgraph has alternatives, also which task it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from os import PathLike
from typing import TYPE_CHECKING

from ansor.codegen import engine
from ansor.errors import ScheduleError
from ansor.frontend.subgraph import Plan, Subgraph
from ansor.frontend.ways import MEMORY, Way, more_bytes, room, take, within
from ansor.ir.expr import Buffer
from ansor.measure.identity import versions
from ansor.reading import Data
from ansor.te.task import Task

if TYPE_CHECKING:  # memory that a process without a database does not need
    from ansor.codegen.kernel import Build
    from ansor.records.database import Database

CLEARLY = 0.8  # of a time: where an alternative is believed in without a measurement

Believe = Callable[[Sequence[Task]], Sequence[float]]


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
    from ansor.records.database import Database

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


def choose_all(
    plan: Plan,
    database: Database | str | PathLike[str] | None,
    memory: float | None = MEMORY,
    believe: Believe | None = None,
) -> tuple[Plan, list[Choice]]:
    """The plan with one way for each subgraph, and what each is compiled from.

    The fastest way that was measured counts; where none was, the plain one, unless the
    analytic model believes that another is CLEARLY faster. Where constants would be
    more than `memory` times the plain ones, what saves less for its bytes gives way.
    `believe` asks the analytic model about several tasks at once.
    """
    most, fitting = room(plan, memory), within(plan, memory)
    steps = [step.ways for step in fitting.subgraphs]
    tasks = {id(way.task): way.task for ways in steps for way in ways}
    found = dict(zip(tasks, choose(list(tasks.values()), database), strict=True))
    seconds = [[found[id(way.task)].seconds for way in ways] for ways in steps]
    unknown = [ways for ways, known in zip(steps, seconds, strict=True)
               if len(ways) > 1 and known.count(None) == len(known)]  # fmt: skip
    beliefs = _beliefs(unknown, believe or estimates)
    rows = [
        list(map(Way, _seconds(ways, known, beliefs), more))
        for ways, known, more in zip(steps, seconds, more_bytes(fitting), strict=True)
    ]
    taken = [ways[n] for ways, n in zip(steps, take(rows, most), strict=True)]
    return plan.using(taken), [found[id(way.task)] for way in taken]


def _beliefs(steps: Iterable[Sequence[Subgraph]], believe: Believe) -> dict[str, float]:
    """Seconds of tasks by their keys, each asked for once."""
    tasks = {way.task.key: way.task for ways in steps for way in ways}
    return dict(zip(tasks, believe(list(tasks.values())), strict=True))


def estimates(tasks: Sequence[Task]) -> list[float]:
    """Seconds of tasks, by the analytic model."""
    from ansor.search.estimate import estimate

    return [estimate(task) for task in tasks]


def _seconds(
    ways: Sequence[Subgraph],
    seconds: Sequence[float | None],
    beliefs: Mapping[str, float],
) -> list[float]:
    """Of each way, by what was measured, else by beliefs; infinite for those that must
    not be taken. A plain way that was not measured, where another was, counts as
    slower: a belief is no match for it."""
    if len(ways) == 1:
        return [0.0]
    known = [x for x in seconds if x is not None]
    if not known:
        plain, *others = (beliefs[way.task.key] for way in ways)
        return [plain, *(x if x <= CLEARLY * plain else inf for x in others)]
    first, *rest = seconds
    slow = max(known) / CLEARLY if first is None else first
    return [slow, *(inf if x is None else x for x in rest)]


def compile_choice(choice: Choice) -> Unit:
    """Lower and compile; half a second where the program must be chosen, too."""
    data, build = _source(choice)
    positions = {x.name: at for at, x in enumerate(choice.form.dag.arguments)}
    packings = tuple(
        Packing(positions[row.name], row.packed, row.entry) for row in build.prepared
    )
    made = engine.compile_object(build.text, build.target)
    return Unit(build.name, made, packings, data, choice.seconds)


def _source(choice: Choice) -> tuple[Data, Build]:
    """The program as data, and its code. Without one, the first that can be lowered of
    those that the analytic model believes in."""
    # Several megabytes, which a process that leaves this to others does not need.
    from ansor.measure.source import source
    from ansor.schedule.data import to_data
    from ansor.search.untuned import believed
    from ansor.space.replay import replay

    if choice.program is not None:
        programs = iter([replay(choice.form, choice.program)])
    else:
        programs = believed(choice.form)
    error: ScheduleError | None = None
    for program in programs:
        data = to_data(program)
        try:
            return data, source(program, name=_symbol(choice.form, data))
        except ScheduleError as found:
            error = error or found
    assert error is not None
    raise error


def _symbol(task: Task, program: Data) -> str:
    """A name that belongs to this program alone, so that code of several models can
    be linked together."""
    known = versions()
    facts = [task.target.fingerprint, program, known["ansor"], known["llvm"]]
    text = json.dumps(facts, sort_keys=True)
    return f"kernel_{hashlib.sha256(text.encode()).hexdigest()[:20]}"
