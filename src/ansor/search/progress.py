"""How far a search has come, for people and for those who may stop it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

from ansor.records.record import Record
from ansor.te.task import Task


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
        ends = []
        if self.limit is not None:
            ends.append(max(0.0, self.limit - self.seconds))
        if self.total is not None and self.trials:
            ends.append((self.total - self.trials) * self.seconds / self.trials)
        return min(ends, default=None)


Listener = Callable[[Progress], None]
Stop = Callable[[Progress], bool]


def listener(progress: Listener | bool | None) -> Listener | None:
    """What `tune(progress=…)` means: True prints, when something is new."""
    if callable(progress):
        return progress
    return _Printer(sys.stderr) if progress else None


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
