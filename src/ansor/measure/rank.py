"""The last word on the best few: timed side by side, with a stated rule for ties."""

import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from ansor.errors import ArgumentError
from ansor.measure.sampling import Clock, Run, Sampling, Stolen, Timer

_FIRST_LOOK = 8  # rounds: the fewest whose full range is a 99 % interval
_DOUBT = 0.01


@dataclass(frozen=True)
class Ranking:
    """How kernels compare, by position in what `rank` was given.

    The rule: the fastest has the least median time relative to its rounds; kernels
    whose paired ratio to it may be within `tie` (99 % interval) are tied with it, and
    among the tied ones the first given wins. So the caller's order, which should be
    one that does not depend on noise, decides where timing cannot.
    """

    winner: int
    fastest: int
    tied: tuple[int, ...]  # with the fastest, itself included, in the given order
    seconds: tuple[tuple[float, ...], ...]  # one sample per round; fewer if given up
    ratios: tuple[float, ...]  # to the fastest, median of the rounds both ran in
    intervals: tuple[tuple[float, float], ...]  # of these ratios

    @property
    def order(self) -> tuple[int, ...]:
        """All, the winner first, then by ratio."""
        rest = (at for at in range(len(self.ratios)) if at != self.winner)
        return (self.winner, *sorted(rest, key=lambda at: (self.ratios[at], at)))


def rank(
    runs: Sequence[Run],
    *,
    settings: Sampling = Sampling(),  # noqa: B008 - frozen
    rng: np.random.Generator,
    watch: Stolen | None = None,
    clock: Clock = time.perf_counter,
) -> Ranking:
    """Time all in rounds, in a new random order each round, until they are told apart.

    A kernel leaves once it is surely slower than the fastest. Ends when each of the
    others is tied for sure, after `settings.rounds`, or after `settings.rank_budget`.
    """
    if not runs:
        raise ArgumentError("rank()", "nothing to rank", "give at least one kernel")
    end = clock() + settings.rank_budget
    timers = [Timer(run, settings, watch) for run in runs]
    for timer in timers:
        timer.warm()
    seconds: list[list[float]] = [[] for _ in runs]
    running = list(range(len(runs)))
    for count in range(1, settings.rounds + 1):
        for at in rng.permutation(running):
            seconds[at].append(timers[at].take().seconds)
        if count >= _FIRST_LOOK and count % 4 == 0:
            fastest = _fastest(seconds, running)
            running = _contenders(seconds, running, fastest, settings)
            if all(_is_tied(seconds, at, fastest, settings) for at in running):
                break
        if clock() >= end:
            break
    return _ranking(seconds, running, settings)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Where the median is, 99 % sure, whatever the distribution (order statistics).

    Of fewer than eight values it is the full range, which is less sure.
    """
    skip = _skipped(len(values))
    ordered = sorted(values)
    return (ordered[skip], ordered[-1 - skip])


@cache
def _skipped(count: int) -> int:
    """Values on each side that lie outside the interval of the median."""
    below, skip = 1, 0  # of 2**count equally likely sides of the median, all but skip
    while 2 * (below := below + math.comb(count, skip + 1)) <= _DOUBT * 2**count:
        skip += 1
    return skip


def _paired(
    seconds: Sequence[Sequence[float]], at: int, other: int, outlier: float
) -> list[float]:
    """Ratios of the rounds both ran in.

    Rounds in which one of them was an outlier are left out, unless these are most: a
    machine under load all the time has no better ones.
    """
    pairs = list(zip(seconds[at], seconds[other], strict=False))
    low, beside = (outlier * min(column) for column in zip(*pairs, strict=True))
    quiet = [(a, b) for a, b in pairs if a <= low and b <= beside]
    return [a / b for a, b in (quiet if 2 * len(quiet) > len(pairs) else pairs)]


def _fastest(seconds: Sequence[Sequence[float]], running: Sequence[int]) -> int:
    """The least median ratio to the middle of the round."""
    rounds = np.array([seconds[at] for at in running])
    relative = np.median(rounds / np.median(rounds, axis=0), axis=1)
    return running[int(np.argmin(relative))]


def _contenders(
    seconds: Sequence[Sequence[float]],
    running: Sequence[int],
    fastest: int,
    settings: Sampling,
) -> list[int]:
    return [
        at
        for at in running
        if at == fastest
        or interval(_paired(seconds, at, fastest, settings.outlier))[0]
        <= 1 + settings.tie
    ]


def _is_tied(
    seconds: Sequence[Sequence[float]], at: int, fastest: int, settings: Sampling
) -> bool:
    """Surely within `tie`: no more rounds are needed."""
    return (
        at == fastest
        or interval(_paired(seconds, at, fastest, settings.outlier))[1]
        <= 1 + settings.tie
    )


def _ranking(
    seconds: Sequence[Sequence[float]], running: Sequence[int], settings: Sampling
) -> Ranking:
    fastest = _fastest(seconds, running)
    pairs = [
        _paired(seconds, at, fastest, settings.outlier) for at in range(len(seconds))
    ]
    tied = tuple(sorted(_contenders(seconds, running, fastest, settings)))
    return Ranking(
        tied[0],
        fastest,
        tied,
        tuple(map(tuple, seconds)),
        tuple(map(statistics.median, pairs)),
        tuple(map(interval, pairs)),
    )
