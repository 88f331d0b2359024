"""How far a search has come, on stderr: one live line, or lines for a log."""

from __future__ import annotations

import sys
import time
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, TextIO, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, TextColumn
from rich.progress import Progress as Bar
from rich.progress import Task as Line
from rich.text import Text

from ansor.cli.units import clock, duration

if TYPE_CHECKING:  # the search loads LLVM, which --help does not need
    from ansor.search.progress import Listener, Progress

SILENCE = 10.0  # seconds, after which a log gets a line though nothing is better

Display: TypeAlias = "AbstractContextManager[Listener | None]"


def display(name: str, quiet: bool) -> Display:
    """What to show while a search for `name` runs: within it, what to call."""
    if quiet:
        return nullcontext()
    console = Console(stderr=True, highlight=False)
    return _Live(name, console) if console.is_terminal else nullcontext(_Log())


def facts(now: Progress) -> list[str]:
    """What a search has found so far, in the order of interest."""
    if now.best is None:
        return [f"no time yet, {now.failures} failed"] if now.failures else []
    found = [f"best {duration(now.best)}"]
    if now.gflops:
        found.append(f"{now.gflops:.4g} GFLOP/s")
    if now.gain is not None:
        found.append(f"gain {now.gain:.3g}x")
    if now.failures:
        found.append(f"{now.failures} failed")
    return found


class _Live:
    """A line that is drawn again and again."""

    def __init__(self, name: str, console: Console) -> None:
        self._left = _Left()
        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[trials]}", markup=False),
            TextColumn("{task.fields[facts]}", markup=False),
            self._left,
            console=console,
            transient=True,
        )
        self._line = self._bar.add_task(name, total=None, trials="starting", facts="")

    def __enter__(self) -> Listener:
        self._bar.start()
        return self._hear

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def _hear(self, now: Progress) -> None:
        self._left.tell(now.left)
        by_trials = now.total is not None
        self._bar.update(
            self._line,
            completed=now.trials if by_trials else now.seconds,
            total=now.total if by_trials else now.limit,
            trials=f"{now.trials}/{now.total}" if by_trials else f"{now.trials} trials",
            facts=", ".join(facts(now)),
        )


class _Left(ProgressColumn):
    """The time left, which passes between two trials, too."""

    def __init__(self) -> None:
        super().__init__()
        self._end: float | None = None

    def tell(self, left: float | None) -> None:
        self._end = None if left is None else time.monotonic() + left

    def render(self, task: Line) -> Text:
        if self._end is None:
            return Text()
        return Text(f"{clock(max(0.0, self._end - time.monotonic()))} left")


class _Log:
    """A line for every better program and one now and then."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._best: float | None = None
        self._said = time.monotonic()

    def __call__(self, now: Progress) -> None:
        is_last = now.total is not None and now.trials >= now.total
        is_due = time.monotonic() - self._said >= SILENCE
        if now.best == self._best and not is_last and not is_due:
            return
        self._best, self._said = now.best, time.monotonic()
        of = "" if now.total is None else f" of {now.total}"
        left = [] if now.left is None else [f"{clock(now.left)} left"]
        text = ", ".join([*facts(now), *left])
        print(f"trial {now.trials}{of}: {text}", file=self._stream, flush=True)
