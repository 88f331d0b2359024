"""Records as a table."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ansor.cli.answer import Answer
from ansor.cli.units import computation, duration, plural
from ansor.errors import AnsorError
from ansor.te.task import Task

if TYPE_CHECKING:  # a database is not needed for --help
    from ansor.records.database import Database
    from ansor.records.record import Record

SHORT = 50  # records of a table, unless told otherwise


@dataclass(frozen=True)
class Filter:
    """Which records to show."""

    best: bool = False
    failures: bool = False
    workload: str = ""  # the name of an output, or the beginning of a key
    limit: int | None = None
    as_json: bool = False  # then all, without a limit

    @property
    def most(self) -> int | None:
        return SHORT if self.limit is None and not self.as_json else self.limit


class Tasks:
    """The tasks of records, each made once; None for one that cannot be made."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[tuple[str, str], Task | None] = {}

    def __call__(self, record: Record) -> Task | None:
        key = (record.form, record.target)
        if key not in self._known:
            try:
                self._known[key] = self._database.task_of(record)
            except AnsorError:
                self._known[key] = None
        return self._known[key]

    def name(self, record: Record) -> str:
        task = self(record)
        return record.workload if task is None else computation(task.dag)


def look(path: Path, which: Filter) -> Answer:
    """The records that a person asked for, the newest last."""
    from ansor.records.database import Database

    with Database(path, "r") as database:
        tasks = Tasks(database)
        found = _best(database, tasks) if which.best else database.records()
        chosen, count = _last(_chosen(found, which, tasks), which.most)
        if which.as_json:
            return Answer(
                [describe(x, tasks) for x in chosen], "", notes=database.notes
            )
        table = _table(chosen, tasks, which.failures)
        hidden = count - len(chosen)
        text = plural(count, "record") + (f"; {hidden} not shown" if hidden else "")
        return Answer([], f"\n{text}", table=table, notes=database.notes)


def _best(database: Database, tasks: Tasks) -> Iterator[Record]:
    """What is fastest, of each workload and target."""
    seen: set[tuple[str, str]] = set()
    for record in database.records():
        key = (record.workload, record.target)
        task = None if key in seen else tasks(record)
        if task is not None:
            seen.add(key)
            best = database.best(task)
            if best is not None:
                yield best


def _chosen(found: Iterable[Record], which: Filter, tasks: Tasks) -> Iterator[Record]:
    for record in found:
        if which.failures and record.seconds is not None:
            continue
        if not which.workload or _is_called(record, which.workload, tasks):
            yield record


def _is_called(record: Record, word: str, tasks: Tasks) -> bool:
    task = tasks(record)
    names = () if task is None else (x.name for x in task.dag.outputs)
    return word in names or record.workload.startswith(word)


def _last(found: Iterable[Record], most: int | None) -> tuple[list[Record], int]:
    """The last of them, and how many there are."""
    kept: deque[Record] = deque(maxlen=most)
    count = 0
    for record in found:
        kept.append(record)
        count += 1
    return list(kept), count


def describe(record: Record, tasks: Tasks) -> dict[str, object]:
    """A record as plain data, without its program."""
    from ansor.records.outcome import outcome_to_data

    return {
        "id": record.id,
        "task": tasks.name(record),
        "workload": record.workload,
        "target": record.target,
        "role": record.role,
        "seconds": record.seconds,
        "gflops": _gflops(record, tasks),
        "outcome": outcome_to_data(record.outcome),
        "point": record.program["point"],
        "spent": record.spent,
        "verified": record.verified,
        "versions": record.versions,
        "host": record.host,
        "created": record.created,
    }


def _gflops(record: Record, tasks: Tasks) -> float | None:
    task = tasks(record)
    if task is None or record.seconds is None:
        return None
    return task.flops / record.seconds / 1e9


def _table(chosen: Iterable[Record], tasks: Tasks, failures: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("id", justify="right", no_wrap=True)
    for name in ("task", "target", "outcome"):
        table.add_column(name, overflow="fold")
    table.add_column("GFLOP/s", justify="right", no_wrap=True)
    table.add_column("role", no_wrap=True)
    table.add_column("when", no_wrap=True)
    for record in chosen:
        cells = _cells(record, tasks, failures)
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _cells(record: Record, tasks: Tasks, failures: bool) -> Iterator[str]:
    task, speed = tasks(record), _gflops(record, tasks)
    yield str(record.id)
    yield tasks.name(record)
    yield record.target if task is None else _machine(task)
    yield outcome_text(record, failures)
    yield f"{speed:.4g}" if speed else ""
    yield record.role
    yield f"{datetime.fromtimestamp(record.created):%Y-%m-%d %H:%M}"


def _machine(task: Task) -> str:
    target = task.target
    return f"{target.kind} {target.cpu}, {plural(target.cores, 'core')}"


def outcome_text(record: Record, full: bool = True) -> str:
    """The time, or why there is none; of a failure only the kind unless `full`."""
    from ansor.records.outcome import Failed

    outcome = record.outcome
    if isinstance(outcome, Failed):
        return str(outcome) if full else f"{outcome.stage}, {outcome.cause}"
    return duration(outcome.estimate)
