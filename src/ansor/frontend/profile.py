"""Where the time of a model goes, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TABLE_OPERATORS = 40  # characters


@dataclass(frozen=True)
class Row:
    """One step of a model."""

    step: int
    operators: tuple[str, ...]
    output: str  # the first value that it makes
    task: str  # the key of its task
    seconds: float  # median of one run
    share: float  # of the time of all steps
    gflops: float  # per second
    is_tuned: bool


@dataclass(frozen=True)
class Profile:
    """Rows in the order of the steps; `str()` is a table."""

    rows: tuple[Row, ...]
    total: float  # median seconds of a whole run, by the driver

    @property
    def kernels(self) -> float:
        """Seconds of all steps together."""
        return sum(row.seconds for row in self.rows)

    @property
    def overhead(self) -> float:
        """Seconds of a run that no step accounts for; below zero by chance."""
        return self.total - self.kernels

    def slowest(self, count: int = 10) -> tuple[Row, ...]:
        return tuple(sorted(self.rows, key=lambda row: -row.seconds)[:count])

    def __str__(self) -> str:
        head = ("step", "us", "share", "GFLOP/s", "tuned", "task", "operators")
        lines = [head, *(_cells(row) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = [_line(cells, widths) for cells in lines]
        tuned = sum(row.is_tuned for row in self.rows)
        return "\n".join(
            [
                *texts,
                f"{len(self.rows)} steps, {tuned} tuned: {self.kernels * 1e3:.4g} ms "
                f"in kernels, {self.total * 1e3:.4g} ms in all",
            ]
        )


def _cells(row: Row) -> tuple[str, ...]:
    operators = " ".join(row.operators)
    if len(operators) > TABLE_OPERATORS:
        operators = operators[: TABLE_OPERATORS - 1] + "…"
    return (
        str(row.step),
        f"{row.seconds * 1e6:.1f}",
        f"{row.share:.1%}",
        f"{row.gflops:.1f}",
        "yes" if row.is_tuned else "no",
        row.task[:12],
        operators,
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    pairs = list(zip(cells, widths, strict=True))
    numbers = [cell.rjust(width) for cell, width in pairs[:4]]
    texts = [cell.ljust(width) for cell, width in pairs[4:]]
    return "  ".join((*numbers, *texts)).rstrip()
