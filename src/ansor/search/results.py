"""What tuning several tasks found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from ansor.search.fastest import fastest
from ansor.search.result import INTERRUPTED, Moment, Result


@dataclass(frozen=True, eq=False)
class Results(Sequence[Result]):
    """The result of every task, in the order of the tasks.

    `seconds` is the objective's value with these results, and `history` how it fell:
    `best` of a moment is the value after so many trials of all tasks, in which tasks
    that were not measured yet count as the analytic model believes.

    `places` says of each task which of the objective's times is its own. Where several
    have the same, `fastest` has the number of the one that counts.
    """

    results: tuple[Result, ...]
    seconds: float
    history: tuple[Moment, ...]
    stopped: str  # what ended it
    places: tuple[int, ...] = ()  # as many as tasks; without, each has its own

    @overload
    def __getitem__(self, at: int) -> Result: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Result, ...]: ...
    def __getitem__(self, at: int | slice) -> Result | tuple[Result, ...]:
        return self.results[at]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    @property
    def is_complete(self) -> bool:
        """False if it was interrupted: these are the best so far."""
        return self.stopped != INTERRUPTED

    @property
    def fastest(self) -> tuple[int, ...]:
        """Of each place, the number of the task that is fastest there."""
        rivals: dict[int, list[int]] = {}
        for n, place in enumerate(self.places or range(len(self))):
            rivals.setdefault(place, []).append(n)
        return tuple(
            numbers[fastest((self[n].seconds, self[n].is_measured) for n in numbers)]
            for _, numbers in sorted(rivals.items())
        )

    @property
    def trials(self) -> int:
        """Of all tasks; equal tasks share theirs."""
        return len(self.history)

    @property
    def spent(self) -> float:
        """Seconds of wall-clock up to the last trial, in earlier runs too."""
        return self.history[-1].spent if self.history else 0.0

    @property
    def allocation(self) -> tuple[int, ...]:
        """Trials of each task."""
        return tuple(result.trials for result in self.results)

    def __repr__(self) -> str:
        tuned = sum(result.is_measured for result in self.results)
        return (
            f"<Results of {len(self)} tasks, {tuned} measured: {self.seconds:.4g}, "
            f"{self.trials} trials>"
        )
