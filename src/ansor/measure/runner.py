"""The seam between search and measurement: candidates in, outcomes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from ansor.measure.builder import Candidate
from ansor.records.outcome import Outcome
from ansor.te.task import Task

FOREVER = float("inf")


@dataclass(frozen=True)
class Incumbent:
    """A good candidate and what it takes: others are timed in turn with it.

    It need not be the best. Of many equally fast candidates the best is the one that
    chance has helped most; if each new best were what the next ones are compared with,
    their times would fall step by step, and nothing would have become faster.
    """

    candidate: Candidate
    seconds: float
    best: float | None = None  # seconds of the fastest so far; None: these

    @property
    def least(self) -> float:
        return self.seconds if self.best is None else self.best


@dataclass(frozen=True)
class Measured:
    """What became of one candidate of a batch."""

    index: int
    outcome: Outcome
    verified: str = ""  # how its result was checked
    spent: float = 0.0  # wall-clock seconds of the batch that went into it
    checking: float = 0.0  # of these, seconds for checking its result
    host: str = ""  # the machine it ran on; empty: this one
    versions: Mapping[str, str] = field(default_factory=dict)  # likewise


@dataclass(frozen=True)
class Ranked:
    """Candidates timed side by side: their outcomes, in order, and who is first.

    `winner` is None if every one failed its second check. There are no outcomes if the
    time was not enough.
    """

    outcomes: tuple[Outcome, ...]
    winner: int | None


class Closing:
    """To be used in a `with` block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let everything go; safe to call twice."""
        raise NotImplementedError


class Runner(Protocol):
    """Builds, checks and times candidates, somewhere.

    Each candidate of a batch gets exactly one outcome, in whatever order they are
    ready; nothing a candidate does is raised. MeasureError means that measuring as
    such is impossible, and says what to do. After `close` there is nothing left of it.
    One that needs time before the first candidate may have a method `prepare(task)`,
    which begins and does not wait.
    """

    def measure(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        incumbent: Incumbent | None = None,
        until: float = FOREVER,
    ) -> Iterator[Measured]:
        """One outcome per candidate, as they come. What is not finished at the moment
        `until` (of time.monotonic) is given up and has none; without an incumbent, as
        soon after it as one of them has a time."""

    def rank(
        self, task: Task, candidates: Sequence[Candidate], until: float = FOREVER
    ) -> Ranked:
        """Check again with other memory contents, then time side by side, in a process
        that has run nothing else. Ties go to the candidate that stands first."""

    def close(self) -> None:
        """End all processes; safe to call twice."""
