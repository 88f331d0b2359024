"""Which of several tasks gets the next batch.

A chooser sees how the tasks stand, nothing else. Told the same it chooses the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import isfinite
from typing import Protocol

import numpy as np

from ansor.errors import MeasureError
from ansor.search.fastest import fastest
from ansor.search.objective import Objective, value

STEP = 1e-3  # of a time: about nothing
EARLY = 2  # batches more than there were: the first ones do not bring most of all
NARROW = 0.1  # of a time: what may be gained even where nothing seems possible
FRESH = 3.0  # times longer than believed that a task may take that never ran
LATE = 5  # batches more than all tasks like it, from which on these prove nothing
AHEAD = 2  # batches that a task may need to overtake another in its place


@dataclass(frozen=True)
class Standing:
    """How one task stands."""

    seconds: float  # of its best program; before there is one, as the model believes
    bests: tuple[float, ...] = ()  # after each batch; infinite while nothing has run
    cost: float = 1.0  # of its next batch, in what the budget counts
    least: float = 0.0  # seconds that no program is below, if that is known
    ideal: float = 0.0  # seconds of its arithmetic at full speed
    flops: float = 0.0
    alike: tuple[int, ...] = ()  # numbers of tasks that are much like it
    is_open: bool = True  # False: it gets no batch any more
    places: tuple[int, ...] = ()  # where the objective has its time

    @property
    def batches(self) -> int:
        return len(self.bests)

    @property
    def has_run(self) -> bool:
        return bool(self.bests) and isfinite(self.bests[-1])

    @property
    def speed(self) -> float:
        """Operations per second; 0 if that says nothing."""
        return self.flops / self.seconds if self.has_run else 0.0


class Chooser(Protocol):
    """Chooses among tasks that stand thus, with their objective."""

    def choose(self, tasks: Sequence[Standing], objective: Objective) -> int | None:
        """The number of a task that is open; None if none of them is worth it."""


def spread(
    tasks: Sequence[Standing], changed: int = -1, to: float = 0.0
) -> list[float]:
    """The seconds of all places, with those of one task changed, as if it had run.

    Of tasks that share a place the fastest that has run counts; before one has, the
    first."""
    count = 1 + max(place for task in tasks for place in task.places)
    found: list[list[tuple[float, bool]]] = [[] for _ in range(count)]
    for number, task in enumerate(tasks):
        own = (to, True) if number == changed else (task.seconds, task.has_run)
        for place in task.places:
            found[place].append(own)
    return [rows[fastest(rows)][0] if rows else 0.0 for rows in found]


def worth(
    tasks: Sequence[Standing], objective: Objective, number: int, to: float
) -> float:
    """How much the objective falls if one task takes `to` seconds."""
    now = value(objective, spread(tasks))
    return now - value(objective, spread(tasks, number, to))


@dataclass
class Gradient:
    """Where the objective falls most for what it costs.

    What the next batch brings a task is, as in the paper, `alpha` times what each of
    the last `window` batches brought, and for the rest a hope: that of what lies above
    its arithmetic at full speed a part is gained, which becomes smaller with the
    batches it had; or, where this is more, that its time falls to `beta` times what it
    would be at the speed of the fastest task that is much like it. No time falls below
    the least one that is known.

    The objective is asked for both times, now and then, and the difference is divided
    by the cost of the batch. A task that was never measured may take FRESH times what
    is believed, and all of that may be gained: so each that matters has its first batch
    early.

    Where several tasks share a place only the fastest counts. For another one the next
    batch may bring nothing, but several may: it is worth what the objective falls by in
    up to AHEAD batches, for each of these.

    With probability `epsilon` any open task is chosen.
    """

    seed: int = 0
    alpha: float = 0.2
    beta: float = 2.0
    window: int = 3
    epsilon: float = 0.05

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def choose(self, tasks: Sequence[Standing], objective: Objective) -> int | None:
        open_ = _open(tasks)
        is_bold = self._rng.random() < self.epsilon
        bold = int(self._rng.integers(max(1, len(open_))))  # drawn in any case
        if not open_:
            return None
        if is_bold:
            return open_[bold]
        rates = {n: self.gain(tasks, objective, n) / tasks[n].cost for n in open_}
        if max(rates.values()) > 0:
            return max(open_, key=lambda n: rates[n])
        return self._sideways(tasks, objective, open_)

    def gain(self, tasks: Sequence[Standing], objective: Objective, at: int) -> float:
        """What the next batch of a task is expected to do for the objective."""
        task = tasks[at]
        if not task.batches:
            slow, fast = (
                value(objective, spread(tasks, at, times * task.seconds))
                for times in (FRESH, STEP)
            )
            return (slow - fast) / (1 + EARLY)
        after = islice(self._expected(tasks, at), AHEAD if _is_rival(tasks, at) else 1)
        return max(
            worth(tasks, objective, at, to) / count for count, to in enumerate(after, 1)
        )

    def _expected(self, tasks: Sequence[Standing], at: int) -> Iterator[float]:
        """Seconds of a task after its next batch, and those that follow."""
        now, past = list(tasks), self._past(tasks[at])
        while True:
            task = now[at]
            fall = self.alpha * past + (1 - self.alpha) * self._hope(now, at)
            fall = min(fall, task.seconds * (1 - STEP))
            to = max(task.seconds - fall, min(task.least, task.seconds))
            yield to
            now[at] = replace(task, seconds=to, bests=(*task.bests, to))

    def _past(self, task: Standing) -> float:
        """Seconds that each of the last batches brought."""
        recent = [x for x in task.bests[-1 - self.window :] if np.isfinite(x)]
        if len(recent) < 2:
            return 0.0
        return (recent[0] - recent[-1]) / (len(recent) - 1)

    def _hope(self, tasks: Sequence[Standing], at: int) -> float:
        task = tasks[at]
        above = max(task.seconds - task.ideal, NARROW * task.seconds)
        hope = above / (task.batches + EARLY)
        others = [tasks[n] for n in task.alike if tasks[n].speed]
        if not others or not task.flops:
            return hope
        if task.batches > LATE + max(other.batches for other in others):
            return hope
        fastest = max(other.speed for other in others)
        return max(hope, task.seconds - self.beta * task.flops / fastest)

    def _sideways(
        self, tasks: Sequence[Standing], objective: Objective, open_: Sequence[int]
    ) -> int | None:
        """An objective that no single batch can lower may still fall after several: as
        if all that counted were the sum. None if it would not fall at all."""
        now = value(objective, spread(tasks))
        times = [task.seconds for task in tasks]
        least = spread([_taking(task, max(task.least, STEP * task.seconds))
                        for task in tasks])  # fmt: skip
        if value(objective, least) >= now:
            return None
        fresh = FRESH / (1 + EARLY)
        hopes = {n: self._hope(tasks, n) if tasks[n].batches else fresh * times[n]
                 for n in open_}  # fmt: skip
        return max(open_, key=lambda n: hopes[n] / tasks[n].cost)


class RoundRobin:
    """Every open task in its turn; those first that matter most."""

    def choose(self, tasks: Sequence[Standing], objective: Objective) -> int | None:
        open_ = _open(tasks)
        if not open_:
            return None
        fewest = min(tasks[n].batches for n in open_)
        first = [n for n in open_ if tasks[n].batches == fewest]
        shares = {n: worth(tasks, objective, n, STEP * tasks[n].seconds) for n in first}
        return max(first, key=lambda n: shares[n])


class Chance:
    """Any open task."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def choose(self, tasks: Sequence[Standing], objective: Objective) -> int | None:
        open_ = _open(tasks)
        return int(self._rng.choice(open_)) if open_ else None


SCHEDULERS = ("gradient", "round-robin", "random")


def make_chooser(scheduler: str | Chooser, seed: int) -> Chooser:
    """The chooser of one of these names, or one that is given."""
    match scheduler:
        case "gradient":
            return Gradient(seed)
        case "round-robin":
            return RoundRobin()
        case "random":
            return Chance(seed)
        case str():
            known = ", ".join(map(repr, SCHEDULERS))
            raise MeasureError(
                f"scheduler {scheduler!r}", "unknown", f"schedulers are {known}"
            )
    return scheduler


def _open(tasks: Sequence[Standing]) -> list[int]:
    return [number for number, task in enumerate(tasks) if task.is_open]


def _is_rival(tasks: Sequence[Standing], at: int) -> bool:
    """True if a task shares a place with another."""
    own = set(tasks[at].places)
    return any(own & set(task.places) for n, task in enumerate(tasks) if n != at)


def _taking(task: Standing, seconds: float) -> Standing:
    return Standing(seconds, (seconds,), places=task.places)
