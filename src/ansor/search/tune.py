"""Tuning a task: from budgets and names to a search, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

from ansor.codegen.calibrate import calibrate
from ansor.cost.machine import look_again
from ansor.cost.model import CostModel
from ansor.errors import MeasureError, ScheduleError
from ansor.measure.identity import versions
from ansor.measure.local import LocalRunner
from ansor.measure.runner import Runner
from ansor.records.database import Database
from ansor.search.budget import Budget, Spent
from ansor.search.loop import Search
from ansor.search.policies import TRANSFERS, check_policy, make_policy
from ansor.search.policy import Policy
from ansor.search.progress import Listener, Stop, listener
from ansor.search.result import Result
from ansor.search.transfer import start_of
from ansor.space.constraints import Constraint
from ansor.space.derive import sketches
from ansor.space.rules import Rule
from ansor.target import Target
from ansor.te.task import Task


def tune(
    task: Task,
    *,
    trials: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    database: Database | str | PathLike[str] | None = None,
    runner: Runner | None = None,
    model: CostModel | None = None,
    policy: str = "evolution",
    rules: Sequence[Rule] = (),
    constraints: Sequence[Constraint] = (),
    transfer: bool = True,
    progress: Listener | bool | None = None,
    stop: Stop | None = None,
) -> Result:
    """Search for a fast program: measure up to `trials` candidates, or for `seconds`.

    Every candidate's result is checked before its time counts, and everything measured
    is in the database when it is reported. With a database that has seen the task the
    search goes on where it was: decisions are made again, what was measured is not
    measured again, and both budgets count what was spent before.

    Records of other tasks in the database help, unless `transfer` is False: good
    programs of related ones are half of the first batch, and what a model learns from
    their trials counts while it ranks those of this task well. What there was when a
    search first began counts for it, also when it goes on later.

    `progress` is called after every trial, or prints if True; `stop` ends the search
    when it returns True. Ctrl-C ends it, too, with the best so far.

    >>> import ansor
    >>> A, B = ansor.placeholder((64, 64)), ansor.placeholder((64, 64))
    >>> result = ansor.tune(ansor.Task(ansor.ops.matmul(A, B)), trials=4)
    >>> result.trials, result.seconds < 1
    (4, True)
    """
    spent = Spent()
    _check(task, trials, seconds, policy)

    def decide(known: Task, database: Database) -> Policy:
        _calibrated(known.target)
        found = sketches(known, rules, constraints)
        start = None
        if transfer and policy in TRANSFERS:
            llvm = versions()["llvm"]
            start = start_of(database, known, found, seed, llvm, model is None)
        return make_policy(policy, known, found, seed, model, start)

    result = None
    budget, hear = Budget(trials, seconds), listener(progress)
    try:
        with ExitStack() as stack:
            if not isinstance(database, Database):
                database = stack.enter_context(_opened(database, stack))
            if runner is None:
                runner = stack.enter_context(LocalRunner(seed=seed))
            known = database.task(task)
            result = Search(
                task, known, decide, database, runner, budget, hear, stop, spent
            ).run()
    except KeyboardInterrupt:  # while closing, if there is a result
        if result is None:
            raise
    return result


def _calibrated(target: Target) -> None:
    """Let the analytic model know this machine; it is measured once, then stored."""
    if target.kind == "cpu" and target.is_host:
        calibrate(target)
        look_again()


def _opened(path: str | PathLike[str] | None, stack: ExitStack) -> Database:
    """The database at a path; without one, a file for the time of the search."""
    if path is not None:
        return Database(path)
    folder = stack.enter_context(TemporaryDirectory(prefix="ansor-"))
    return Database(Path(folder) / "tuning.db", durable=False)


def _check(task: Task, trials: int | None, seconds: float | None, policy: str) -> None:
    what = "tune"
    if not isinstance(task, Task):
        raise ScheduleError(
            f"{what} of {task!r}",
            f"is of type {type(task).__name__}, not a task",
            "tune(ansor.Task(outputs), trials=64)",
        )
    if trials is None and seconds is None:
        raise MeasureError(what, "no budget", "give trials=… or seconds=…, or both")
    if trials is not None and (isinstance(trials, bool) or not isinstance(trials, int)):
        raise MeasureError(f"{what}(trials={trials!r})", "is not an integer")
    if trials is not None and trials < 1:
        raise MeasureError(f"{what}(trials={trials})", "is below 1")
    if seconds is not None and not 0 < seconds < float("inf"):
        raise MeasureError(f"{what}(seconds={seconds})", "is not a time above 0")
    check_policy(policy)
