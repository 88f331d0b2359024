"""Running recorded programs again: is it as the records say?"""

from __future__ import annotations

from collections.abc import Iterator

from ansor.errors import AnsorError, ScheduleError
from ansor.measure.identity import versions
from ansor.measure.runner import Measured, Runner
from ansor.records.database import Database
from ansor.records.outcome import Failed
from ansor.records.record import Record
from ansor.space.replay import replay
from ansor.target import Target


def reproduce(database: Database, record: Record, runner: Runner) -> Measured:
    """Build, check and time the program of a record again, failed or not.

    A program that does not replay any more is refused at stage "lower". Raises
    MeasureError if the runner cannot measure for the record's target at all.
    """
    task = database.task_of(record)
    try:
        program = replay(task, record.program)
    except ScheduleError as error:
        return Measured(0, Failed("lower", "refused", str(error)))
    (measured,) = runner.measure(task, [program])
    return measured


def is_as_recorded(record: Record, measured: Measured) -> bool:
    """It was timed then and now, or failed at the same stage of the same cause."""
    return _kind(record.outcome) == _kind(measured.outcome)


def _kind(outcome: object) -> tuple[str, str] | None:
    return (outcome.stage, outcome.cause) if isinstance(outcome, Failed) else None


def loops(database: Database, record: Record) -> str:
    """The loop program of a record; its steps and why, if it cannot be lowered."""
    try:
        program = replay(database.task_of(record), record.program)
    except ScheduleError as error:
        return f"it does not replay: {error}"
    try:
        return str(program.lower(program.task.dag.outputs[0].name))
    except AnsorError as error:
        return f"{program}\nit cannot be lowered: {error}"


def rerun_best(
    database: Database, target: Target, runner: Runner
) -> Iterator[tuple[Record, Measured]]:
    """Run what `build` would use again: of every workload on a target its best record.

    Records of another version of LLVM are left out, as `build` does.
    """
    seen: set[str] = set()
    for record in database.records(target=target.fingerprint):
        if record.workload in seen:
            continue
        seen.add(record.workload)
        best = database.best(database.task_of(record), llvm=versions()["llvm"])
        if best is not None:
            yield best, reproduce(database, best, runner)


def targets(database: Database) -> list[Target]:
    """The targets of all records, in the order they were first measured."""
    found: dict[str, Target] = {}
    for record in database.records():
        if record.target not in found:
            found[record.target] = database.task_of(record).target
    return list(found.values())
