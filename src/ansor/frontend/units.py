"""The machine code of one task: which program it is, and what calls it needs.

Where a subgraph has alternatives, also which task it is.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike

from ansor.codegen import engine
from ansor.frontend.subgraph import Plan, Subgraph
from ansor.ir.expr import Buffer
from ansor.measure.identity import versions
from ansor.measure.source import source
from ansor.reading import Data
from ansor.records.database import Database
from ansor.schedule.data import to_data
from ansor.search.estimate import estimate
from ansor.search.fastest import fastest
from ansor.search.untuned import untuned
from ansor.space.replay import replay
from ansor.te.task import Task

CLEARLY = 0.8  # of a time: where an alternative is believed in without a measurement


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


def choose_all(
    plan: Plan, database: Database | str | PathLike[str] | None
) -> tuple[Plan, list[Choice]]:
    """The plan with one way for each subgraph, and what each is compiled from.

    The fastest way that was measured counts; where none was, the plain one, unless the
    analytic model believes that another is CLEARLY faster.
    """
    ways = [way for step in plan.subgraphs for way in step.ways]
    tasks = {id(way.task): way.task for way in ways}
    found = dict(zip(tasks, choose(list(tasks.values()), database), strict=True))
    beliefs = _Beliefs()
    taken = [_fastest(step, found, beliefs) for step in plan.subgraphs]
    return plan.using(taken), [found[id(way.task)] for way in taken]


def _fastest(
    step: Subgraph, choices: Mapping[int, Choice], beliefs: _Beliefs
) -> Subgraph:
    ways = step.ways
    seconds = [choices[id(way.task)].seconds for way in ways]
    if len(ways) > 1 and all(x is None for x in seconds):
        return beliefs.fastest(ways)
    return ways[fastest((x or 0.0, x is not None) for x in seconds)]


class _Beliefs(dict[str, float]):
    """Seconds of tasks by the analytic model, each asked for once."""

    def of(self, task: Task) -> float:
        if task.key not in self:
            self[task.key] = estimate(task)
        return self[task.key]

    def fastest(self, ways: Sequence[Subgraph]) -> Subgraph:
        plain, best = ways[0], min(ways, key=lambda way: self.of(way.task))
        is_clear = self.of(best.task) <= CLEARLY * self.of(plain.task)
        return best if is_clear else plain


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
