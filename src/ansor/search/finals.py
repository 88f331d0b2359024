"""Which tasks have their best programs timed side by side, when time is short."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansor.search.budget import Finalist, ranking_seconds

FINALISTS = 4  # of each task, if there are several tasks
SPREAD = 0.15  # a rival so much slower is none
DOUBT = 0.03  # of a time: what a wrong winner costs, about


@dataclass(frozen=True)
class Final:
    """A ranking that may take place."""

    number: int  # of the task
    stake: float  # what the objective loses if the winner is DOUBT slower
    finalists: tuple[Finalist, ...]  # the fastest first

    @property
    def doubt(self) -> float:
        """How many rivals the fastest has; one that is slower counts for less."""
        best = self.finalists[0].seconds if self.finalists else 0.0
        gaps = [rival.seconds / best - 1 for rival in self.finalists[1:]]
        return sum(max(0.0, 1 - gap / SPREAD) for gap in gaps)

    @property
    def seconds(self) -> float:
        return ranking_seconds(self.finalists)


def in_order(finals: Sequence[Final]) -> list[Final]:
    """Those with something to decide, by what it is worth for its time."""
    open_ = [final for final in finals if final.doubt > 0 and final.stake > 0]
    return sorted(open_, key=lambda x: -x.stake * x.doubt / x.seconds)


def reserved(finals: Sequence[Final], most: float) -> float:
    """Seconds that rankings will take, if they may take no more than `most`."""
    total = 0.0
    for final in in_order(finals):
        if total + final.seconds <= most:
            total += final.seconds
    return total
