"""Which programs to measure next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from ansor.records.outcome import Outcome
from ansor.schedule.program import Program
from ansor.space.sketch import Sketch

DRAWN = 8  # points drawn for each one wanted, as many are drawn twice or not feasible


class Policy(Protocol):
    """Proposes programs of one task, and hears what became of them.

    Decisions depend on the seed and on what was told, on nothing else: told the same,
    a policy asks the same. It never proposes a program twice.
    """

    def ask(self, count: int) -> list[Program]:
        """Up to `count` programs; fewer near the end of the space, none at its end."""

    def tell(self, programs: Sequence[Program], outcomes: Sequence[Outcome]) -> None:
        """The outcomes of programs that were asked for, in that order."""

    def is_done(self, best: float | None) -> str:
        """Why more trials are not worth their time, in a few words; empty while they
        are. `best` is what the fastest program takes."""


class RandomPolicy:
    """Programs drawn at random, every sketch as often as the others."""

    def __init__(self, sketches: Sequence[Sketch], seed: int) -> None:
        self._sketches = [sketch for sketch in sketches if sketch.is_feasible]
        self._rng = np.random.default_rng(seed)
        self._seen: set[tuple[int, bytes]] = set()
        self._turn: list[int] = []

    def ask(self, count: int) -> list[Program]:
        found: list[Program] = []
        misses = 0
        while len(found) < count and misses < 2 * len(self._sketches):
            program = self._draw(self._next())
            if program is None:
                misses += 1
            else:
                misses = 0
                found.append(program)
        return found

    def tell(self, programs: Sequence[Program], outcomes: Sequence[Outcome]) -> None:
        """Chance does not learn."""

    def is_done(self, best: float | None) -> str:
        return ""

    def _next(self) -> int:
        """The sketches in a new random order, again and again."""
        if not self._turn:
            self._turn = list(self._rng.permutation(len(self._sketches)))
        return self._turn.pop()

    def _draw(self, at: int) -> Program | None:
        sketch = self._sketches[at]
        for row in sketch.sample(DRAWN, self._rng):
            key = (at, row.tobytes())
            if key not in self._seen:
                self._seen.add(key)
                return sketch.program(tuple(map(int, row)))
        return None
