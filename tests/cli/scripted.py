"""A runner that measures nothing: outcomes as a test wants them."""

from collections.abc import Callable, Iterator, Sequence

import pytest

import ansor
from ansor.measure.builder import Candidate
from ansor.measure.runner import FOREVER, Incumbent, Measured, Ranked
from ansor.records.outcome import Failed, Outcome, Timed

WRONG = Failed("check", "wrong", "output 'relu': 3 of 64 elements differ")
CRASH = Failed("run", "crash", "ended by SIGSEGV")


class Clock:
    """Stands still, but for the trials of scripted runners: half a second each."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


CLOCK = Clock()


def stop_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let searches take as long as their trials."""
    monkeypatch.setattr("ansor.search.budget.time", CLOCK)


class ScriptedRunner:
    """Asks `script` for the outcome of the n-th candidate; it may raise instead."""

    def __init__(self, script: Callable[[int], Outcome]) -> None:
        self.script, self.count, self.is_closed = script, 0, False

    def measure(
        self,
        task: ansor.Task,
        candidates: Sequence[Candidate],
        incumbent: Incumbent | None = None,
        until: float = FOREVER,
    ) -> Iterator[Measured]:
        for index in range(len(candidates)):
            outcome = self.script(self.count)
            self.count += 1
            CLOCK.now += 0.5
            yield Measured(index, outcome, "scripted", 0.5)

    def rank(
        self,
        task: ansor.Task,
        candidates: Sequence[Candidate],
        until: float = FOREVER,
    ) -> Ranked:
        return Ranked(
            tuple(Timed((1e-6 * (n + 1),)) for n in range(len(candidates))), 0
        )

    def close(self) -> None:
        self.is_closed = True


def falling(number: int) -> Outcome:
    """Every candidate is faster than the one before, every third fails."""
    return WRONG if number % 3 == 2 else Timed((1e-3 / (number + 1),))
