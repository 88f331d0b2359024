"""What `ansor records` does besides looking: check, run again, move, delete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ansor.cli.answer import Answer
from ansor.cli.errors import CommandError
from ansor.cli.measuring import Measuring
from ansor.cli.table import Tasks
from ansor.cli.units import duration, plural
from ansor.errors import RecordError

if TYPE_CHECKING:  # databases and measuring are not needed for --help
    from ansor.measure.runner import Measured
    from ansor.records.database import Database
    from ansor.records.integrity import Report
    from ansor.records.jsonl import Loaded
    from ansor.records.outcome import Outcome
    from ansor.records.record import Record

NOTHING = (
    "nothing to run again: no record is of a target that this machine can run and of "
    "this version of LLVM"
)

# -- checking -------------------------------------------------------------------------


def verify(path: Path, measuring: Measuring) -> Answer:
    """The file and its rows are as written, and its best programs still compute."""
    database, report = _checked(path)
    with database:
        tasks = Tasks(database)
        again = [_again(*pair, tasks) for pair in _rerun(database, measuring)]
        is_good = report.is_clean and all(x.is_good for x in again)
        data = {
            "ok": is_good,
            "intact": report.intact,
            "damaged": list(map(str, report.damaged)),
            "notes": report.notes,
            "again": [x.data for x in again],
        }
        texts = [x.text for x in again] or [NOTHING]
        text = "\n".join([str(report), *texts])
        return Answer(data, text, is_good, notes=database.notes)


def _checked(path: Path) -> tuple[Database, Report]:
    """The database and what was found; repaired if it does not open any more."""
    from ansor.records.connection import RECOVER
    from ansor.records.database import Database

    mode = "rw" if os.access(path, os.W_OK) else "r"
    try:
        database = Database(path, mode)
    except RecordError as error:
        if not str(error.args[2]).endswith(RECOVER):
            raise
        report = Database.repair(path)
        return Database(path), report
    return database, database.verify()


def _rerun(
    database: Database, measuring: Measuring
) -> Iterator[tuple[Record, Measured]]:
    """The best records of all targets that this machine can run."""
    from ansor.search.reproduce import rerun_best, targets

    with measuring.runner() as runner:
        for target in targets(database):
            if target.is_host:
                yield from rerun_best(database, target, runner)


def _again(record: Record, now: Measured, tasks: Tasks) -> Answer:
    """A best record that was run again: it has to be right, however fast."""
    from ansor.records.outcome import Timed, outcome_to_data

    is_good = isinstance(now.outcome, Timed)
    data = {
        "record": record.id,
        "task": tasks.name(record),
        "ok": is_good,
        "recorded": outcome_to_data(record.outcome),
        "now": outcome_to_data(now.outcome),
    }
    text = f"record {record.id}, {tasks.name(record)}: recorded {_text(record.outcome)}"
    verdict = f"right, {_text(now.outcome)}" if is_good else f"FAILED {now.outcome}"
    return Answer(data, f"{text}, now {verdict}", is_good)


def _text(outcome: Outcome) -> str:
    seconds = getattr(outcome, "estimate", None)
    return str(outcome) if seconds is None else duration(seconds)


def reproduce(path: Path, number: int, measuring: Measuring) -> Answer:
    """A record run again: good if it ends as recorded."""
    from ansor.records.database import Database
    from ansor.records.outcome import outcome_to_data
    from ansor.search.reproduce import is_as_recorded, loops
    from ansor.search.reproduce import reproduce as run_again

    with Database(path, "r") as database, measuring.runner() as runner:
        record = _record(database, number)
        name = Tasks(database).name(record)
        now = run_again(database, record, runner)
        is_same = is_as_recorded(record, now)
        shown = loops(database, record)
        data = {
            "record": number,
            "task": name,
            "target": record.target,
            "as_recorded": is_same,
            "recorded": outcome_to_data(record.outcome),
            "now": outcome_to_data(now.outcome),
            "loops": shown,
        }
        lines = (
            f"{shown}\n",
            f"record {number}, {name}",
            f"on {record.target}",
            f"recorded: {_text(record.outcome)}",
            f"now:      {_text(now.outcome)}",
            f"{'as' if is_same else 'NOT as'} recorded",
        )
        return Answer(data, "\n".join(lines), is_same, notes=database.notes)


def _record(database: Database, number: int) -> Record:
    for record in database.records():
        if record.id == number:
            return record
    raise CommandError(
        f"record {number}",
        f"{str(database.path)!r} has no such record",
        f"`ansor records {database.path}` lists them",
    )


# -- moving ---------------------------------------------------------------------------


def export(path: Path, to: str) -> Answer:
    from ansor.records.database import Database

    with Database(path, "r") as database:
        count = database.export(to)
        data = {"exported": count, "to": to}
        text = f"{plural(count, 'record')} written to {to}"
        return Answer(data, text, notes=database.notes)


def load(path: Path, source: str) -> Answer:
    from ansor.records.database import Database

    with Database(path) as database:
        return _taken(database.load(source), database)


def merge(path: Path, other: str) -> Answer:
    from ansor.records.database import Database

    with Database(path) as database:
        return _taken(database.merge(other), database)


def _taken(loaded: Loaded, database: Database) -> Answer:
    """Good if nothing was refused; the rest is added in any case."""
    data = {
        "added": loaded.added,
        "known": loaded.known,
        "refused": loaded.refused,
        "reasons": [[line, why] for line, why in loaded.reasons],
    }
    return Answer(data, str(loaded), not loaded.refused, notes=database.notes)


def prune(path: Path, keep: int) -> Answer:
    from ansor.records.database import Database

    with Database(path, "rw" if path.exists() else "r") as database:
        count = database.prune(keep)
        data = {"deleted": count, "left": len(database)}
        text = f"{plural(count, 'record')} deleted, {len(database)} left"
        return Answer(data, text, notes=database.notes)
