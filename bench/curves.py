"""Tasks that exist on paper: how schedulers share trials, without a machine.

Of every task there is a curve: its time after each batch. The curves are like those of
real searches in batches of 8, of which 83 were looked at: after the first batch every
other one brings something, 2 % then and 1 % later; tasks differ by factors in that, and
those that are near the speed of the machine gain less than others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ansor.search.chooser import Chooser, Standing
from ansor.search.objective import Objective, Total, bound

GAIN = 0.05  # of a time, divided by the batches there were and 2 more
VARIED = 0.7  # deviation of the logarithm of that, among tasks
OFTEN = 0.45  # the part of batches that bring anything
ROOM = 4.0  # times GAIN that lies between a time and the arithmetic at full speed
VAGUE = 0.5  # deviation of the logarithm of that
ERROR = 0.3  # of the analytic model, likewise

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Simulated:
    """Some tasks. `curves[i, t]` are the seconds of task i after t + 1 batches."""

    curves: Floats
    believed: Floats
    ideal: Floats
    costs: Floats  # of a batch of each

    @classmethod
    def network(
        cls, tasks: int, spread: float, seed: int, batches: int = 400
    ) -> Simulated:
        """Tasks whose weighted times differ by factors: `spread` is the deviation of
        their logarithm, 0.8 in ResNet-50, 1.3 in two different networks together."""
        rng = np.random.default_rng(seed)
        base = rng.lognormal(-7, spread, tasks)
        gain = GAIN * rng.lognormal(-(VARIED**2) / 2, VARIED, tasks)
        room = ROOM * gain * rng.lognormal(0, VAGUE, tasks)
        size = (tasks, batches - 1)
        jumps = (rng.random(size) < OFTEN) * rng.exponential(1 / OFTEN, size)
        falls = gain[:, None] / (np.arange(1, batches) + 2) * jumps
        left = np.cumprod(1 - np.minimum(falls, 0.5), axis=1)
        curves = base[:, None] * np.concatenate([np.ones((tasks, 1)), left], axis=1)
        believed = base * rng.lognormal(0.1, ERROR, tasks)
        ideal = base * np.clip(1 - room, 0.0, 0.95)
        return cls(curves, believed, ideal, np.ones(tasks))

    def standings(self) -> list[Standing]:
        return [
            Standing(
                float(self.believed[at]),
                cost=float(self.costs[at]),
                ideal=float(self.ideal[at]),
                places=(at,),
            )
            for at in range(len(self.believed))
        ]

    def run(
        self, chooser: Chooser, batches: int, objective: Objective | None = None
    ) -> tuple[list[float], list[int]]:
        """The objective after each batch, and the batches of each task."""
        tasks = self.standings()
        goal = bound(objective or Total(), [1.0] * len(tasks))
        values = []
        for _ in range(batches):
            number = chooser.choose(tasks, goal)
            if number is None:
                break
            tasks[number] = self.after(tasks[number], number)
            values.append(goal([task.seconds for task in tasks]))
        return values, [task.batches for task in tasks]

    def after(self, task: Standing, number: int) -> Standing:
        """A task after one more batch."""
        last = self.curves.shape[1] - 1
        best = float(self.curves[number, min(task.batches, last)])
        return replace(task, seconds=best, bests=(*task.bests, best))


def until(values: Sequence[float], goal: float) -> int | None:
    """After how many steps the values are at the goal and stay there."""
    above = [at for at, value in enumerate(values) if value > goal * (1 + 1e-12)]
    first = above[-1] + 2 if above else 1
    return first if first <= len(values) else None


def hindsight(curves: Sequence[Sequence[float]]) -> float:
    """The part of all steps that one would have needed who knew what each brings.

    `curves` are the times of tasks, each with its weight, before the first and after
    every step. The stretch that falls most per step is next, until the sum is what it
    is after all steps.

    >>> hindsight([[4.0, 2.0, 2.0], [3.0, 3.0, 2.0]])
    0.75
    """
    goal = sum(curve[-1] for curve in curves)
    at = [0] * len(curves)
    while sum(curve[n] for curve, n in zip(curves, at, strict=True)) > goal:
        task, to = max(
            ((task, to) for task, curve in enumerate(curves)
             for to in range(at[task] + 1, len(curve))),
            key=lambda pair: _rate(curves[pair[0]], at[pair[0]], pair[1]),
        )  # fmt: skip
        at[task] = to
    return sum(at) / sum(len(curve) - 1 for curve in curves)


def _rate(curve: Sequence[float], now: int, then: int) -> float:
    return (curve[now] - curve[then]) / (then - now)


def share(
    tasks: Simulated, make: Callable[[], Chooser], other: Chooser, batches: int
) -> float:
    """The part of the other's batches that a scheduler needs to get as far."""
    goal = tasks.run(other, batches)[0][-1]
    found = until(tasks.run(make(), batches)[0], goal)
    return float("inf") if found is None else found / batches
