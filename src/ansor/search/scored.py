"""Points of several sketches, each with what a judge believes it takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ansor.search.judge import Floats
from ansor.space.points import chosen, firsts, together
from ansor.space.population import Population
from ansor.space.table import Matrix


@dataclass(frozen=True)
class Scored:
    """One matrix of points per sketch, one array of seconds beside each."""

    points: Population
    seconds: list[Floats]

    def with_more(self, other: Scored) -> Scored:
        """Both together; of equal points the first."""
        points, seconds = [], []
        for at, more in enumerate(other.points):
            joined = together([self.points[at], more])
            first = firsts(joined)
            points.append(joined[first])
            all_ = np.concatenate([self.seconds[at], other.seconds[at]])
            seconds.append(all_[first])
        return Scored(points, seconds)

    def best(self, count: int) -> Scored:
        """Those with the least seconds over all sketches."""
        owner, place = self._order()
        found = [np.sort(place[:count][owner[:count] == n]) for n in self._numbers]
        return Scored(
            [self.points[n][rows] for n, rows in enumerate(found)],
            [self.seconds[n][rows] for n, rows in enumerate(found)],
        )

    def below(self, factor: float) -> Scored:
        """Those that take less than `factor` times the least seconds."""
        limit = factor * min(part.min() for part in self.seconds if len(part))
        kept = [part < limit for part in self.seconds]
        return Scored(
            [
                chosen(points, mask)
                for points, mask in zip(self.points, kept, strict=True)
            ],
            [part[mask] for part, mask in zip(self.seconds, kept, strict=True)],
        )

    def ranked(self) -> Iterator[tuple[int, Matrix]]:
        """The sketch's number and the point, the least seconds first."""
        for at, row in zip(*self._order(), strict=True):
            yield int(at), self.points[at][row]

    @property
    def _numbers(self) -> range:
        return range(len(self.points))

    def _order(self) -> tuple[np.ndarray, np.ndarray]:
        """Sketch and row of all points, the least seconds first."""
        lengths = [len(points) for points in self.points]
        owner = np.repeat(np.arange(len(lengths)), lengths)
        place = np.concatenate([np.arange(length) for length in lengths])
        order = np.argsort(np.concatenate(self.seconds), kind="stable")
        return owner[order], place[order]
