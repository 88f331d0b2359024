"""What models learn from: measured programs as rows of statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ansor.cost.features import Features
from ansor.errors import CostError
from ansor.te.task import Task

Floats: TypeAlias = npt.NDArray[np.float32]
Doubles: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.intp]

MEMBERS = 4  # of an ensemble, each on a bootstrap of the programs
MANY = 8  # tasks, from which on members differ by tasks
TINY = 1e-12  # seconds: no statement takes less
FAR = 60.0  # in logarithms: a prediction further off counts as this far off


class Sample(NamedTuple):
    """Measured programs of one sketch of a task."""

    task: str  # what `task_key` gives
    features: Features
    seconds: Doubles  # one entry per point; inf or nan where the program failed


@dataclass(frozen=True)
class Prediction:
    """What a model expects of each point."""

    seconds: Doubles
    spread: Doubles  # how far its opinions differ: deviation of log(seconds)


def task_key(task: Task) -> str:
    """What samples of a task are known by: times on other machines differ."""
    return f"{task.key} {task.target.fingerprint}"


def log_seconds(features: Features) -> Doubles:
    """log of the analytic seconds: float64[statements, points]."""
    return np.log(np.maximum(features.seconds.astype(np.float64), TINY))


@dataclass(frozen=True)
class Rows:
    """Statements of measured programs, flat: r rows of p programs.

    A program takes sum(exp(analytic + f(values))) over its rows, where f is to be
    learned. Each task may be off by a factor of its own, which nobody has to learn.
    """

    values: Floats  # [r, columns]
    analytic: Doubles  # [r], log seconds of the statement as known before
    program: Ints  # [r]
    measured: Doubles  # [p], log seconds
    weight: Doubles  # [p], normalised throughput; its mean in every task is 1
    task: Ints  # [p]
    tasks: tuple[str, ...]

    @staticmethod
    def of(samples: Sequence[Sample]) -> Rows:
        """All programs that have a time; those that failed teach nothing here."""
        names = sorted({task for task, _, _ in samples})
        parts = [_part(names.index(task), x, t) for task, x, t in samples]
        parts = [part for part in parts if len(part.measured)]
        if not parts:
            none = np.zeros(0)
            empty = np.zeros(0, np.intp)
            values = np.zeros((0, 0), np.float32)
            return Rows(values, none, empty, none, none, empty, tuple(names))
        starts = np.cumsum([0, *(len(part.measured) for part in parts)])
        shifted = [x.program + at for x, at in zip(parts, starts, strict=False)]
        measured = np.concatenate([part.measured for part in parts])
        task = np.concatenate([part.task for part in parts])
        return Rows(
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.analytic for part in parts]),
            np.concatenate(shifted),
            measured,
            _throughput(measured, task, len(names)),
            task,
            tuple(names),
        )

    def __len__(self) -> int:
        """The number of programs."""
        return len(self.measured)

    def after(self, learned: Doubles) -> Rows:
        """What remains to be learned after f took these values."""
        return replace(self, analytic=self.analytic + learned)

    def subset(self, programs: Ints) -> tuple[Rows, Ints]:
        """Some programs, and which rows are theirs."""
        number = np.full(len(self), -1, np.intp)
        number[programs] = np.arange(len(programs))
        rows = np.flatnonzero(number[self.program] >= 0)
        chosen = replace(
            self,
            values=self.values[rows],
            analytic=self.analytic[rows],
            program=number[self.program[rows]],
            measured=self.measured[programs],
            weight=self.weight[programs],
            task=self.task[programs],
        )
        return chosen, rows

    def errors(self, learned: Doubles) -> tuple[Doubles, Doubles]:
        """log(predicted / measured) of programs, and each row's share of its program's
        predicted time."""
        off = self.analytic + learned - self.measured[self.program]
        times = np.exp(np.clip(off, -FAR, FAR))
        total = np.bincount(self.program, times, len(self))
        return np.log(total), times / total[self.program]

    def centred(self, errors: Doubles, weight: Doubles) -> Doubles:
        """Values of programs inside their tasks: each task's mean is taken away."""
        shape = (-1, *(1 for _ in errors.shape[1:]))
        total = np.bincount(self.task, weight, len(self.tasks))
        sums = np.zeros((len(self.tasks), *errors.shape[1:]))
        np.add.at(sums, self.task, weight.reshape(shape) * errors)
        return errors - (sums / np.maximum(total, TINY).reshape(shape))[self.task]

    def slopes(self, learned: Doubles, weight: Doubles) -> tuple[Doubles, Doubles]:
        """Gradient and curvature of the weighted squared error, for each row.

        The curvature bounds the true one: if all rows of a program take their own
        step, the program makes one whole step, not one for each of them.
        """
        errors, shares = self.errors(learned)
        pull = (weight * self.centred(errors, weight))[self.program]
        return pull * shares, weight[self.program] * shares

    def loss(self, learned: Doubles) -> float:
        errors, _ = self.errors(learned)
        inside = self.centred(errors, self.weight)
        return float(np.average(inside * inside, weights=self.weight))

    def offsets(self, errors: Doubles) -> dict[str, float]:
        """Of each task, the median of log(measured / predicted), by weight."""
        found: dict[str, float] = {}
        for at, name in enumerate(self.tasks):
            mask = self.task == at
            if mask.any():
                found[name] = -_median(errors[mask], self.weight[mask])
        return found

    def bootstraps(self, members: int, rng: np.random.Generator) -> Doubles:
        """Weights of the programs for each member of an ensemble, [members, p].

        Programs are drawn with replacement, or whole tasks where there are many: what
        a member has not seen, with weight 0, shows how it does on anything new.
        """
        tasks, number = np.unique(self.task, return_inverse=True)
        drawn = number if len(tasks) >= MANY else np.arange(len(self))
        units = int(drawn.max()) + 1
        counts = rng.multinomial(units, np.full(units, 1 / units), size=members)
        return self.weight * counts[:, drawn]


def _part(task: int, features: Features, seconds: npt.ArrayLike) -> Rows:
    """The rows of one sample; weights are not known yet."""
    times = np.asarray(seconds, np.float64)
    statements, points, columns = features.values.shape
    if times.shape != (points,):
        raise CostError(
            "sample",
            f"{times.shape} seconds for {points} points",
            "give one time to each point, inf where it failed",
        )
    chosen = np.flatnonzero(np.isfinite(times) & (times > 0))
    measured = np.log(times[chosen])
    return Rows(
        features.values[:, chosen].reshape(-1, columns),
        log_seconds(features)[:, chosen].reshape(-1),
        np.tile(np.arange(len(chosen)), statements),
        measured,
        np.ones_like(measured),
        np.full(len(chosen), task, np.intp),
        (),
    )


def _throughput(measured: Doubles, task: Ints, tasks: int) -> Doubles:
    """The fastest program of the task over each; scaled to a mean of 1, so that tasks
    with many slow programs are not drowned by regularisation."""
    best = np.full(tasks, np.inf)
    np.minimum.at(best, task, measured)
    fast = np.exp(best[task] - measured)
    counts = np.bincount(task, minlength=tasks)
    mean = np.bincount(task, fast, tasks) / np.maximum(counts, 1)
    weights: Doubles = fast / mean[task]
    return weights


def _median(values: Doubles, weights: Doubles) -> float:
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    return float(values[order[np.searchsorted(total, total[-1] / 2)]])
