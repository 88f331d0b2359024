"""A runner that measures nothing: outcomes as a test wants them."""

from collections.abc import Callable, Iterator, Sequence

import ansor
from ansor.measure.builder import Candidate
from ansor.measure.runner import Incumbent, Measured, Ranked
from ansor.records.outcome import Failed, Outcome, Timed

WRONG = Failed("check", "wrong", "output 'relu': 3 of 64 elements differ")
CRASH = Failed("run", "crash", "ended by SIGSEGV")


class ScriptedRunner:
    """Asks `script` for the outcome of the n-th candidate; it may raise instead."""

    def __init__(self, script: Callable[[int], Outcome]) -> None:
        self.script, self.count, self.is_closed = script, 0, False

    def measure(
        self,
        task: ansor.Task,
        candidates: Sequence[Candidate],
        incumbent: Incumbent | None = None,
    ) -> Iterator[Measured]:
        for index in range(len(candidates)):
            outcome = self.script(self.count)
            self.count += 1
            yield Measured(index, outcome, "scripted", 0.5)

    def rank(self, task: ansor.Task, candidates: Sequence[Candidate]) -> Ranked:
        return Ranked(
            tuple(Timed((1e-6 * (n + 1),)) for n in range(len(candidates))), 0
        )

    def close(self) -> None:
        self.is_closed = True


def falling(number: int) -> Outcome:
    """Every candidate is faster than the one before, every third fails."""
    return WRONG if number % 3 == 2 else Timed((1e-3 / (number + 1),))
