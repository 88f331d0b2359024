"""What a search found."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from ansor.codegen.kernel import Kernel
from ansor.errors import AnsorError
from ansor.records.outcome import Failed
from ansor.records.record import Record
from ansor.schedule.program import Program
from ansor.search.build import kernel_of
from ansor.search.untuned import untuned
from ansor.te.task import Task

INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Moment:
    """The best after a trial."""

    trial: int  # from 1
    best: float | None  # seconds of the fastest program so far
    spent: float  # seconds of wall-clock since the search began


@dataclass(frozen=True, eq=False)
class Result:
    """The best program of a task, and how it was found.

    Names in `program` are those of the task as the database first saw it; `kernel`
    takes arrays by the names of `task`.

    Of several tasks, one may have no program that was measured, because there was no
    time for it or because none ran: then `program` is the analytic model's choice,
    `seconds` its estimate, and `error` says what went wrong, if something did.
    """

    task: Task
    found: Program | None  # None: nothing was measured
    seconds: float  # of one call
    records: tuple[Record, ...]  # of this search, in order of the trials
    history: tuple[Moment, ...]
    stopped: str = "trials"  # what ended the search
    error: AnsorError | None = None

    @cached_property
    def program(self) -> Program:
        """The best program; where nothing was measured, what `ansor.build` takes."""
        return untuned(self.task) if self.found is None else self.found

    @property
    def is_measured(self) -> bool:
        """False if `seconds` is no more than an estimate."""
        return self.found is not None

    @property
    def is_complete(self) -> bool:
        """False if the search was interrupted: this is the best so far."""
        return self.stopped != INTERRUPTED

    @property
    def spent(self) -> float:
        """Seconds of wall-clock up to the last trial, in earlier runs too."""
        return self.history[-1].spent if self.history else 0.0

    @property
    def trials(self) -> int:
        return len(self.records)

    @property
    def gflops(self) -> float:
        return self.task.flops / self.seconds / 1e9

    @property
    def failures(self) -> dict[str, int]:
        """How many candidates failed at which stage."""
        failed = (r.outcome for r in self.records if isinstance(r.outcome, Failed))
        return dict(Counter(outcome.stage for outcome in failed))

    @cached_property
    def kernel(self) -> Kernel:
        """The best program, compiled in this process."""
        seconds = self.seconds if self.is_measured else None
        return kernel_of(self.program, self.task, seconds)

    def __repr__(self) -> str:
        name = self.task.dag.outputs[0].name
        return (
            f"<Result {name}: {self.seconds * 1e6:.4g} µs, {self.gflops:.4g} GFLOP/s, "
            f"{self.trials} trials>"
        )
