"""Tuning tasks: from budgets and names to a search, and its result."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast, overload

from ansor.cost.model import CostModel
from ansor.errors import MeasureError, ScheduleError
from ansor.measure.runner import Runner
from ansor.records.database import Database
from ansor.search.budget import BATCH, Budget, Spent
from ansor.search.chooser import Chooser, make_chooser
from ansor.search.loop import Search
from ansor.search.objective import Objective, bound
from ansor.search.policies import check_policy
from ansor.search.progress import (
    Listener,
    OverviewListener,
    OverviewStop,
    Stop,
    listener,
    overview_listener,
)
from ansor.search.result import Result
from ansor.search.results import Results
from ansor.search.scheduler import SIZE, Plan, tune_all
from ansor.search.wishes import Place, Wishes, with_means
from ansor.space.constraints import Constraint
from ansor.space.rules import Rule
from ansor.te.task import Task


@overload
def tune(
    task: Task,
    *,
    trials: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    database: Place = None,
    runner: Runner | None = None,
    model: CostModel | None = None,
    policy: str = "evolution",
    rules: Sequence[Rule] = (),
    constraints: Sequence[Constraint] = (),
    transfer: bool = True,
    batch: int | None = None,
    progress: Listener | bool | None = None,
    stop: Stop | None = None,
) -> Result: ...
@overload
def tune(
    task: Sequence[Task],
    *,
    trials: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    database: Place = None,
    runner: Runner | None = None,
    model: CostModel | None = None,
    policy: str = "evolution",
    weights: Sequence[float] | None = None,
    places: Sequence[int] | None = None,
    objective: Objective | None = None,
    scheduler: str | Chooser = "gradient",
    rules: Sequence[Rule] = (),
    constraints: Sequence[Constraint] = (),
    transfer: bool = True,
    batch: int | None = None,
    progress: OverviewListener | bool | None = None,
    stop: OverviewStop | None = None,
) -> Results: ...
def tune(
    task: Task | Sequence[Task],
    *,
    trials: int | None = None,
    seconds: float | None = None,
    seed: int = 0,
    database: Place = None,
    runner: Runner | None = None,
    model: CostModel | None = None,
    policy: str = "evolution",
    weights: Sequence[float] | None = None,
    places: Sequence[int] | None = None,
    objective: Objective | None = None,
    scheduler: str | Chooser = "gradient",
    rules: Sequence[Rule] = (),
    constraints: Sequence[Constraint] = (),
    transfer: bool = True,
    batch: int | None = None,
    progress: Listener | OverviewListener | bool | None = None,
    stop: Stop | OverviewStop | None = None,
) -> Result | Results:
    """Search for fast programs: measure up to `trials` candidates, or for `seconds`.

    Every candidate's result is checked before its time counts, and everything measured
    is in the database when it is reported. With a database that has seen the task the
    search goes on where it was: decisions are made again, what was measured is not
    measured again, and both budgets count what was spent before.

    Records of other tasks in the database help, unless `transfer` is False: good
    programs of related ones are half of the first batch, and what a model learns from
    their trials counts while it ranks those of this task well. What there was when a
    search first began counts for it, also when it goes on later.

    Several tasks share the budget: batch after batch goes where the `objective` falls
    most for what it costs, which is by default the sum of all times, each multiplied by
    its weight; see `ansor.objectives`. A task that fails does not end the others: its
    result has an `error`.

    Tasks with the same number in `places` compute the same, and only the fastest of
    them will run: the objective has one time, and one weight, for each place.

    `progress` is called after every trial, or prints if True; `stop` ends the search
    when it returns True. Ctrl-C ends it, too, with the best so far.

    >>> import ansor
    >>> A, B = ansor.placeholder((64, 64)), ansor.placeholder((64, 64))
    >>> task = ansor.Task(ansor.ops.matmul(A, B))
    >>> result = ansor.tune(task, trials=4)
    >>> result.trials, result.seconds < 1
    (4, True)
    >>> other = ansor.Task(ansor.ops.softmax(A))
    >>> results = ansor.tune([task, other], trials=8, weights=[2, 1], batch=4)
    >>> len(results), results.trials
    (2, 8)
    """
    spent = Spent()
    _check(trials, seconds, policy, batch)
    is_alone = isinstance(task, Task)
    wishes = Wishes(seed, policy, model, rules, constraints, transfer, not is_alone)
    budget = Budget(trials, seconds, batch or (BATCH if is_alone else SIZE))
    if isinstance(task, Task):
        _check_alone(weights=weights, places=places, objective=objective)
        hear = listener(cast(Listener | bool | None, progress))
        search = partial(
            _alone, task, wishes, budget, spent, hear, cast(Stop | None, stop)
        )
        return with_means(search, database, runner, seed)
    tasks = _tasks(task)
    where = _places(tasks, places)
    plan = Plan(
        tasks,
        where,
        bound(objective, _weights(tasks, where, weights)),
        make_chooser(scheduler, seed),
        overview_listener(cast(OverviewListener | bool | None, progress)),
        cast(OverviewStop | None, stop),
    )
    search_all = partial(tune_all, plan, wishes, budget, spent)
    return with_means(search_all, database, runner, seed)


def _alone(
    task: Task,
    wishes: Wishes,
    budget: Budget,
    spent: Spent,
    hear: Listener | None,
    stop: Stop | None,
    database: Database,
    runner: Runner,
) -> Result:
    known, decide = database.task(task), wishes.decide
    return Search(
        task, known, decide, database, runner, budget, hear, stop, spent
    ).run()


# -- what was asked for ----------------------------------------------------------------


def _check(
    trials: int | None, seconds: float | None, policy: str, batch: int | None
) -> None:
    what = "tune"
    if trials is None and seconds is None:
        raise MeasureError(what, "no budget", "give trials=… or seconds=…, or both")
    for name, number in (("trials", trials), ("batch", batch)):
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int):
            raise MeasureError(f"{what}({name}={number!r})", "is not an integer")
        if number < 1:
            raise MeasureError(f"{what}({name}={number})", "is below 1")
    if seconds is not None and not 0 < seconds < float("inf"):
        raise MeasureError(f"{what}(seconds={seconds})", "is not a time above 0")
    check_policy(policy)


def _check_alone(**options: object) -> None:
    for name, given in options.items():
        if given is not None:
            raise MeasureError(
                f"tune({name}=…)", "is for several tasks", "give a list of tasks"
            )


def _tasks(given: object) -> list[Task]:
    found: list[Task] = []
    for task in given if isinstance(given, list | tuple) else [given]:
        if not isinstance(task, Task):
            raise ScheduleError(
                f"tune of {task!r}",
                f"is of type {type(task).__name__}, not a task",
                "tune(ansor.Task(outputs), trials=64)",
            )
        found.append(task)
    if not found:
        raise ScheduleError("tune of no task", "the list is empty")
    return found


def _places(tasks: Sequence[Task], given: Sequence[int] | None) -> list[int]:
    places = list(range(len(tasks))) if given is None else list(given)
    if len(places) != len(tasks):
        raise MeasureError(
            f"tune with {len(places)} places",
            f"has {len(tasks)} tasks",
            "give one place for each task",
        )
    if set(places) != set(range(len(set(places)))):
        raise MeasureError(
            f"places {places}", "are not numbers from 0 up, without a gap"
        )
    return places


def _weights(
    tasks: Sequence[Task], places: Sequence[int], given: Sequence[float] | None
) -> list[float]:
    """Of each place; unless given, that of its first task."""
    count = len(set(places))
    firsts = [tasks[places.index(place)] for place in range(count)]
    weights = [task.weight for task in firsts] if given is None else list(given)
    if len(weights) != count:
        raise MeasureError(
            f"tune with {len(weights)} weights",
            f"has {count} places" if count < len(tasks) else f"has {count} tasks",
            "give one weight for each of them",
        )
    for weight in weights:
        if not 0 < weight < float("inf"):
            raise MeasureError(f"weight {weight!r}", "is not a positive number")
    return weights
