"""How long a call takes: samples that other load and drift do not spoil.

One rule gives the estimate: the median of the paired ratios to the anchor, among pairs
without a sign of other load. Pairing cancels drift, which ratios of medians or minima
do not; the median bears samples that were disturbed unseen, which means do not.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from ansor.errors import ArgumentError

Run = Callable[[int], float]  # seconds of so many calls
Stolen = Callable[[], float]  # seconds taken by others since it was asked last
Clock = Callable[[], float]

_WARM_BATCHES = 8
_RESOLUTION = 1e-9  # seconds; a clock that is coarser may see none pass


@dataclass(frozen=True)
class Sampling:
    """How much timing is done for one candidate. Plain numbers, all in seconds.

    A sample is a loop of calls that lasts about `sample`; one call if that is longer.
    Samples are taken until the estimate is known to `precision`, or `budget` is spent;
    there are at least `fewest`, unless they would take longer than `limit`.
    """

    sample: float = 1e-3
    budget: float = 0.028  # for the samples, the anchor's included
    limit: float = 1.0  # of a candidate whose calls are long; one sample at least
    fewest: int = 3
    most: int = 64
    precision: float = 0.01  # half of the interval of the estimate, as a share of it
    warm_up: float = 0.005  # at most, before the samples, for each kernel
    agree: float = 0.05  # warm when a batch of calls took as long as the one before
    hopeless: float = 1.3  # three samples this many times slower than the best: stop
    long: float = 0.02  # of calls longer than this one is enough to give up, if it is
    near: float = 1.15  # this many times slower than the best
    stolen: float = 0.02  # a sample that lost a greater share to others is repeated
    retries: int = 2  # so often; then the least disturbed one counts
    outlier: float = 1.25  # nor counts one this many times slower than its fastest
    cold: int = 0  # bytes walked before each call, to empty the caches; 0: warm caches
    tie: float = 0.01  # `rank`: kernels closer than this are equally fast
    rounds: int = 150  # `rank`: at most
    rank_budget: float = 1.0  # `rank`: at most

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value >= 0):
                raise ArgumentError(
                    f"Sampling({field.name}={value})",
                    "not a finite number from 0 up",
                )
        if not 1 <= self.fewest <= self.most:
            raise ArgumentError(
                f"Sampling(fewest={self.fewest}, most={self.most})",
                "the fewest samples are at least 1 and not above the most",
            )

    @classmethod
    def cold_cache(cls, nbytes: int) -> "Sampling":
        """Single calls, each after a walk over `nbytes`: twice the last-level cache."""
        return cls(cold=nbytes, budget=0.3)


@dataclass(frozen=True)
class Samples:
    """What was seen: seconds of one call, in order, and the anchor's next to each.

    `anchor` is as long as `seconds`, or empty. The estimate of a candidate is
    `median(seconds)`, or `median(seconds[i] / anchor[i])` times what the anchor is
    known to take.
    """

    seconds: tuple[float, ...]
    anchor: tuple[float, ...] = ()
    disturbed: bool = False  # other load was seen until the end
    stopped: bool = False  # ended early: it cannot win

    @property
    def ratios(self) -> tuple[float, ...]:
        """Seconds relative to the anchor's; the seconds if there is none."""
        if not self.anchor:
            return self.seconds
        return tuple(s / a for s, a in zip(self.seconds, self.anchor, strict=True))


def sample(
    run: Run,
    *,
    anchor: Run | None = None,
    best: float | None = None,
    lead: float = 1.0,
    settings: Sampling = Sampling(),  # noqa: B008 - frozen
    watch: Stolen | None = None,
    clock: Clock = time.perf_counter,
) -> Samples:
    """Time `run` sample by sample, in turn with `anchor` if there is one.

    `anchor` is a fast kernel: each sample has one of the anchor beside it, before or
    after in turn, and their ratio does not depend on the machine's speed of the moment.
    `best` is what the fastest takes, and `lead` that relative to the anchor: candidates
    that are far slower are timed once or twice and then given up, with `stopped` set.
    `watch` says what other load took; samples that lost time are repeated, or left out
    if enough others are undisturbed.
    """
    start = clock()
    tried = Timer(run, settings, watch)
    tried.warm()
    if best is not None and tried.once > _far(tried.once, settings) * best:
        alone = tried.take()  # not even near: spare the anchor's time
        if not alone.disturbed and alone.seconds > _far(alone.seconds, settings) * best:
            return _samples([Pair(alone, None)], settings, stopped=True)
    beside = None if anchor is None else Timer(anchor, settings, watch)
    if beside is not None:
        beside.warm()
    pairs: list[Pair] = []
    end = clock() + settings.budget
    while _more(pairs, settings, clock(), end, start + settings.limit):
        pairs.append(_pair(tried, beside, len(pairs)))
        if len(pairs) >= 2 and _cannot_win(pairs, best, lead, settings):
            return _samples(pairs, settings, stopped=True)
    return _samples(pairs, settings, stopped=False)


def _far(seconds: float, settings: Sampling) -> float:
    """How many times slower than the best a call must be that is not timed again. A
    long one averages noise by itself, and its repetitions are dear."""
    return settings.near if seconds > settings.long else 3 * settings.hopeless


@dataclass(frozen=True)
class Taken:
    """One sample: seconds of a call, and the share of its time that others took."""

    seconds: float
    stolen: float
    disturbed: bool
    repeated: bool = False  # an earlier try was disturbed


class Timer:
    """Takes samples of one kernel; knows how many calls make one."""

    def __init__(self, run: Run, settings: Sampling, watch: Stolen | None) -> None:
        self.run = emptying(run, settings.cold) if settings.cold else run
        self.settings = settings
        self.watch = watch
        self.calls = 1
        self.once = 0.0  # about what a call takes, once warm

    def warm(self) -> None:
        """Call until two batches agree, and find how many calls make a sample."""
        settings = self.settings
        spent = self.once = self._run(1)
        for _ in range(_WARM_BATCHES):
            if spent >= settings.warm_up:
                break
            before, calls = self.once, self.calls
            self.calls = self._filling(settings.sample)
            seconds = self._run(self.calls)
            spent += seconds
            self.once = seconds / self.calls
            grown = self.calls > 2 * calls
            if not grown and abs(self.once / before - 1) <= settings.agree:
                break
        self.calls = self._filling(settings.sample)
        if self.watch is not None:
            self.watch()  # what was before does not count

    def _run(self, calls: int) -> float:
        return max(self.run(calls), _RESOLUTION)

    def _filling(self, seconds: float) -> int:
        """Calls that fill a sample, as far as the last batch tells."""
        if self.settings.cold:
            return 1
        return max(1, min(round(seconds / self.once), 16 * self.calls, 1 << 24))

    def take(self) -> Taken:
        """A sample; repeated while others take time, then the least disturbed."""
        best = self._take()
        for _ in range(self.settings.retries):
            if not best.disturbed:
                break
            again = min(best, self._take(), key=lambda taken: taken.stolen)
            best = replace(again, repeated=True)
        return best

    def _take(self) -> Taken:
        seconds = self._run(self.calls)
        stolen = 0.0 if self.watch is None else min(1.0, self.watch() / seconds)
        return Taken(seconds / self.calls, stolen, stolen > self.settings.stolen)


@dataclass(frozen=True)
class Pair:
    """A sample, and the anchor's beside it."""

    tried: Taken
    anchor: Taken | None

    @property
    def disturbed(self) -> bool:
        return self.tried.disturbed or (
            self.anchor is not None and self.anchor.disturbed
        )

    @property
    def ratio(self) -> float:
        if self.anchor is None:
            return self.tried.seconds
        return self.tried.seconds / self.anchor.seconds


def _pair(tried: Timer, anchor: Timer | None, turn: int) -> Pair:
    """The two samples, side by side; which one is first changes: A B, B A, A B."""
    if anchor is None:
        return Pair(tried.take(), None)
    if turn % 2:
        first = anchor.take()
        return Pair(tried.take(), first)
    return Pair(tried.take(), anchor.take())


def _more(
    pairs: Sequence[Pair], settings: Sampling, now: float, end: float, limit: float
) -> bool:
    """Another pair is worth its time, and there is time for it."""
    count = len(pairs)
    if count == 0:
        return True
    if count >= settings.most or now >= limit:
        return False
    if count < settings.fewest:
        return True
    ratios = [pair.ratio for pair in _quiet(pairs, settings)]
    return now < end and spread(ratios) > settings.precision


def _quiet(pairs: Sequence[Pair], settings: Sampling) -> list[Pair]:
    """Pairs without a sign of other load: no time lost, neither sample an outlier.

    A machine drifts by less than `outlier` while it does the same work, so a sample
    that is slower than the fastest of its kernel by more shared the machine, even if
    the system did not say so.
    """
    left = [pair for pair in pairs if not pair.disturbed]
    for kernel in (_tried, _anchor):
        fastest = min(map(kernel, left), default=0.0)
        left = [x for x in left if kernel(x) <= fastest * settings.outlier]
    return left


def _tried(pair: Pair) -> float:
    return pair.tried.seconds


def _anchor(pair: Pair) -> float:
    return 0.0 if pair.anchor is None else pair.anchor.seconds


def spread(values: Sequence[float]) -> float:
    """Half of the median's 95 % interval, as a share of it; infinite below 5 values.

    From the median deviation, so that a few bad values do not count.
    """
    if len(values) < 5:
        return math.inf
    middle = statistics.median(values)
    deviation = statistics.median(abs(value - middle) for value in values)
    return 2 * 1.2533 * 1.4826 * deviation / (middle * math.sqrt(len(values)))


def _cannot_win(
    pairs: Sequence[Pair], best: float | None, lead: float, settings: Sampling
) -> bool:
    """All samples are far slower than the best: as the anchor is now, if there is one.

    By `hopeless` if there are three or more, and no sign of other load; otherwise by
    its fourth power.
    """
    known = best if pairs[0].anchor is None else lead * max(map(_anchor, pairs))
    if known is None:
        return False
    calm = _quiet(pairs, settings) == list(pairs) and not any(map(_repeated, pairs))
    power = 1 if calm and len(pairs) >= 3 else 4
    return min(map(_tried, pairs)) > known * settings.hopeless**power


def _repeated(pair: Pair) -> bool:
    return pair.tried.repeated or (pair.anchor is not None and pair.anchor.repeated)


def _samples(pairs: Sequence[Pair], settings: Sampling, stopped: bool) -> Samples:
    """The undisturbed pairs if they are enough, else all of them."""
    quiet = _quiet(pairs, settings)
    enough = len(quiet) >= min(settings.fewest, len(pairs))
    kept = quiet if enough else pairs
    return Samples(
        tuple(pair.tried.seconds for pair in kept),
        tuple(pair.anchor.seconds for pair in kept if pair.anchor is not None),
        not enough,
        stopped,
    )


def emptying(run: Run, nbytes: int) -> Run:
    """The same calls, each after a walk over `nbytes` that is not timed."""
    block = np.zeros(max(1, nbytes), np.uint8)

    def cold(count: int) -> float:
        total = 0.0
        for _ in range(count):
            np.add(block, 1, out=block)
            total += run(1)
        return total

    return cold
