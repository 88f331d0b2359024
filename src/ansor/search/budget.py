"""Where a search ends: after so many trials, or so much time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean

BATCH = 16  # candidates that are decided upon together
GUESS = 0.25  # seconds of a trial, before there was one
RECENT = 16  # trials that tell what the next one takes
# What ranking takes beside the calls: a new process, and code that is built again.
START, REBUILD, KEPT = 0.4, 0.3, 24
RANK = 1.0  # seconds for which calls are repeated in turn
SHARE = 0.25  # of all time that ranking may take


def monotonic() -> float:
    """The clock of searches; tests have their own."""
    return time.monotonic()


@dataclass(frozen=True)
class Budget:
    """Trials, seconds, or both: what is reached first ends the search."""

    trials: int | None
    seconds: float | None
    size: int = BATCH  # of a batch

    def batch(self, trials: int) -> int:
        """Candidates of the batch after so many trials."""
        return (
            self.size if self.trials is None else min(self.size, self.trials - trials)
        )


@dataclass
class Spent:
    """Wall-clock of a search, since it was called for: what each trial took, with the
    thinking before it. Of trials remembered from earlier runs it is what they took
    then; going over them again does not count."""

    since: float = field(default_factory=monotonic)  # the moment of the last trial
    counted: float = 0.0
    trials: int = 0  # those remembered included
    runs: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))

    @property
    def seconds(self) -> float:
        return self.counted + monotonic() - self.since

    def remember(self, seconds: float) -> None:
        """A trial of an earlier run."""
        self.trials += 1
        self.counted += seconds
        self.since = monotonic()

    def lap(self, running: float) -> float:
        """Seconds since the last trial. `running` is what this one took by itself."""
        now = monotonic()
        seconds, self.since = now - self.since, now
        self.trials += 1
        self.counted += seconds
        self.runs.append(running)
        return seconds

    @property
    def trial(self) -> float:
        """Seconds of the next trial, about."""
        return mean(self.runs) if self.runs else GUESS


@dataclass(frozen=True)
class Finalist:
    """What ranking one candidate will take."""

    seconds: float  # of a call
    checking: float  # of a check
    age: int  # trials since it was built


def ranking_seconds(finalists: Sequence[Finalist]) -> float:
    """What ranking these will take, about: each is checked, warmed up, and called in
    turn with the others until they are told apart, at least once."""
    calls = sum(one.seconds for one in finalists)
    checks = sum(one.checking for one in finalists)
    builds = REBUILD * sum(one.age > KEPT for one in finalists)
    return START + builds + checks + max(RANK, calls) + 2 * calls


def affordable(finalists: Sequence[Finalist], seconds: float) -> int:
    """How many of the first can be ranked within a time; 0 if not two of them."""
    for count in range(len(finalists), 1, -1):
        if ranking_seconds(finalists[:count]) <= seconds:
            return count
    return 0
