"""What a search is made of: how programs are chosen, where records go, who measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias, TypeVar

from ansor.codegen.calibrate import calibrate
from ansor.cost.machine import look_again
from ansor.cost.model import CostModel
from ansor.measure.identity import versions
from ansor.measure.local import LocalRunner
from ansor.measure.runner import Runner
from ansor.records.database import Database
from ansor.search.policies import TRANSFERS, make_policy
from ansor.search.policy import Policy
from ansor.search.transfer import start_of
from ansor.space.constraints import Constraint
from ansor.space.derive import sketches
from ansor.space.rules import Rule
from ansor.target import Target
from ansor.te.task import Task

Place: TypeAlias = Database | str | PathLike[str] | None
Found = TypeVar("Found")


@dataclass
class Wishes:
    """How programs of a task are to be chosen."""

    seed: int
    policy: str
    model: CostModel | None
    rules: Sequence[Rule]
    constraints: Sequence[Constraint]
    transfer: bool
    is_shared: bool = False  # among several tasks: each has a model of its own
    _calibrated: set[str] = field(default_factory=set)

    def decide(self, known: Task, database: Database) -> Policy:
        """The policy for a task, by the names the database has."""
        self.calibrate(known.target)
        found = sketches(known, self.rules, self.constraints)
        start = None
        if self.transfer and self.policy in TRANSFERS:
            llvm, learns = versions()["llvm"], self.model is None
            start = start_of(database, known, found, self.seed, llvm, learns)
        model = deepcopy(self.model) if self.is_shared else self.model
        return make_policy(self.policy, known, found, self.seed, model, start)

    def calibrate(self, target: Target) -> None:
        """Let the analytic model know this machine, which is measured once."""
        if target.fingerprint in self._calibrated:
            return
        self._calibrated.add(target.fingerprint)
        if target.kind == "cpu" and target.is_host:
            calibrate(target)
            look_again()


def with_means(
    search: Callable[[Database, Runner], Found],
    database: Place,
    runner: Runner | None,
    seed: int,
) -> Found:
    """What a search gives, with a database and a runner that end with it if they are
    not the caller's."""
    result = None
    try:
        with ExitStack() as stack:
            if not isinstance(database, Database):
                database = stack.enter_context(_opened(database, stack))
            if runner is None:
                runner = stack.enter_context(LocalRunner(seed=seed))
            result = search(database, runner)
    except KeyboardInterrupt:  # while closing, if there is a result
        if result is None:
            raise
    assert result is not None
    return result


def _opened(path: str | PathLike[str] | None, stack: ExitStack) -> Database:
    """The database at a path; without one, a file for the time of the search."""
    if path is not None:
        return Database(path)
    folder = stack.enter_context(TemporaryDirectory(prefix="ansor-"))
    return Database(Path(folder) / "tuning.db", durable=False)
