"""How far a search has come, for people and for those who may stop it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from ansor.records.record import Record
from ansor.te.task import Task

PERCENT = 0.99


@dataclass(frozen=True)
class Progress:
    """The state of a search after an outcome."""

    task: Task
    trials: int  # outcomes so far, those remembered from before included
    total: int | None  # trials at the end, if that is how it ends
    seconds: float  # spent, in this run and before
    limit: float | None  # seconds at the end, if that is how it ends
    best: float | None  # seconds of the fastest program
    first: float | None  # seconds of the first one that ran
    failures: int
    record: Record | None = None  # the newest

    @property
    def gflops(self) -> float | None:
        return None if self.best is None else self.task.flops / self.best / 1e9

    @property
    def gain(self) -> float | None:
        """How many times faster the best is than the first that ran."""
        if self.best is None or self.first is None:
            return None
        return self.first / self.best

    @property
    def left(self) -> float | None:
        """Seconds until the end, about."""
        return _left(self.trials, self.total, self.seconds, self.limit)


@dataclass(frozen=True)
class Row:
    """One of several tasks."""

    task: Task
    seconds: float  # of its best program; before there is one, as the model believes
    is_measured: bool
    trials: int
    stopped: str  # why it gets no more; empty while it may


@dataclass(frozen=True)
class Overview:
    """The state of a search over several tasks after an outcome."""

    now: Progress  # of the task that the outcome is of
    index: int  # its number
    rows: tuple[Row, ...]  # in the order of the tasks
    trials: int  # of all tasks
    total: int | None  # trials at the end, if that is how it ends
    seconds: float  # spent, in this run and before
    limit: float | None  # seconds at the end, if that is how it ends
    value: float  # of the objective
    first: float  # its value before the first trial

    @property
    def gain(self) -> float:
        """How many times smaller the objective has become."""
        return self.first / self.value if self.value else 1.0

    @property
    def left(self) -> float | None:
        """Seconds until the end, about."""
        return _left(self.trials, self.total, self.seconds, self.limit)


def _left(
    trials: int, total: int | None, seconds: float, limit: float | None
) -> float | None:
    ends = []
    if limit is not None:
        ends.append(max(0.0, limit - seconds))
    if total is not None and trials:
        ends.append((total - trials) * seconds / trials)
    return min(ends, default=None)


Listener = Callable[[Progress], None]
Stop = Callable[[Progress], bool]
OverviewListener = Callable[[Overview], None]
OverviewStop = Callable[[Overview], bool]


def listener(progress: Listener | bool | None) -> Listener | None:
    """What `tune(progress=…)` means: True prints, when something is new."""
    if callable(progress):
        return progress
    return _Printer(sys.stderr) if progress else None


def overview_listener(
    progress: OverviewListener | bool | None,
) -> OverviewListener | None:
    """The same for several tasks."""
    if callable(progress):
        return progress
    return _OverviewPrinter(sys.stderr) if progress else None


class _Printer:
    """A line for every better program, and one at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._best: float | None = None

    def __call__(self, now: Progress) -> None:
        is_last = now.total is not None and now.trials >= now.total
        if now.best is None or (now.best == self._best and not is_last):
            return
        self._best = now.best
        of = "" if now.total is None else f" of {now.total}"
        print(
            f"trial {now.trials}{of}: {now.best * 1e6:.4g} µs, "
            f"{now.gflops:.4g} GFLOP/s, {now.seconds:.1f} s",
            file=self._stream,
            flush=True,
        )


class _OverviewPrinter:
    """A line for every task when it is first measured, and whenever the objective has
    fallen by a percent; one at the end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._value, self._tuned = 0.0, 0

    def __call__(self, now: Overview) -> None:
        tuned = sum(row.is_measured for row in now.rows)
        is_last = now.total is not None and now.trials >= now.total
        is_news = tuned > self._tuned or now.value < PERCENT * self._value
        if not is_news and not is_last:
            return
        self._value, self._tuned = now.value, tuned
        of = "" if now.total is None else f" of {now.total}"
        print(
            f"trial {now.trials}{of}: objective {now.value:.4g}, "
            f"{tuned} of {len(now.rows)} tasks measured, {now.seconds:.1f} s",
            file=self._stream,
            flush=True,
        )
