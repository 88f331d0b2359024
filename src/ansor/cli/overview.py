"""How far the tuning of several tasks has come, on stderr: a live table, or lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, TextIO, TypeAlias

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ansor.cli.progress import SILENCE
from ansor.cli.units import clock, duration

if TYPE_CHECKING:  # the search loads LLVM, which --help does not need
    from ansor.search.progress import Overview, OverviewListener, Row

BETTER = 0.99  # of the objective, after which a log gets a line
OFTEN = 4  # drawings in a second

Display: TypeAlias = "AbstractContextManager[OverviewListener | None]"


def display_all(name: str, tasks: Sequence[str], quiet: bool) -> Display:
    """What to show while the tasks of `name` are tuned: within it, what to call."""
    if quiet:
        return nullcontext()
    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        return _Live(name, tasks, console)
    return nullcontext(_Log(tasks))


def summary(now: Overview) -> str:
    """All tasks in a line."""
    parts = [f"{now.trials} trials" if now.total is None else
             f"trial {now.trials} of {now.total}"]  # fmt: skip
    measured = sum(row.is_measured for row in now.rows)
    parts.append(f"{measured} of {len(now.rows)} tasks measured")
    parts.append(f"{duration(now.value)} in all, gain {now.gain:.3g}x")
    if now.left is not None:
        parts.append(f"{clock(now.left)} left")
    return ", ".join(parts)


class _Live:
    """A table that is drawn again and again."""

    def __init__(self, name: str, tasks: Sequence[str], console: Console) -> None:
        self._name, self._tasks = name, tasks
        self._live = Live(
            Text(f"{name}: starting"),
            console=console,
            transient=True,
            refresh_per_second=OFTEN,
            vertical_overflow="crop",
        )

    def __enter__(self) -> OverviewListener:
        self._live.start()
        return self._hear

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._live.stop()

    def _hear(self, now: Overview) -> None:
        self._live.update(self._table(now))

    def _table(self, now: Overview) -> Table:
        table = Table(box=None, pad_edge=False, title=f"{self._name}: {summary(now)}")
        table.title_justify = "left"
        table.add_column("", width=1)
        table.add_column("task", overflow="ellipsis", no_wrap=True)
        for name in ("trials", "best", "GFLOP/s"):
            table.add_column(name, justify="right", no_wrap=True)
        table.add_column("", overflow="ellipsis", no_wrap=True)
        for number, row in enumerate(now.rows):
            mark = ">" if number == now.index else ""
            table.add_row(mark, Text(self._tasks[number]), *_cells(row))
        return table


def _cells(row: Row) -> tuple[str, ...]:
    if not row.is_measured:
        return str(row.trials), f"~{duration(row.seconds)}", "", row.stopped
    speed = row.task.flops / row.seconds / 1e9
    return str(row.trials), duration(row.seconds), f"{speed:.4g}", row.stopped


class _Log:
    """A line for every task when it is first measured, whenever the whole has become
    a percent better, and now and then."""

    def __init__(self, tasks: Sequence[str], stream: TextIO | None = None) -> None:
        self._tasks = tasks
        self._stream = stream or sys.stderr
        self._value = float("inf")
        self._measured = 0
        self._said = time.monotonic()

    def __call__(self, now: Overview) -> None:
        measured = sum(row.is_measured for row in now.rows)
        is_last = now.total is not None and now.trials >= now.total
        is_due = time.monotonic() - self._said >= SILENCE
        is_new = measured > self._measured or now.value < BETTER * self._value
        if not (is_new or is_last or is_due):
            return
        self._value, self._measured = now.value, measured
        self._said = time.monotonic()
        text = f"{summary(now)}; now {self._tasks[now.index]}"
        print(text, file=self._stream, flush=True)
