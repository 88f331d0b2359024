"""What is to become small when several tasks are tuned: a function of their times.

An objective is called with the seconds of one call of every task, in the order in which
they were given to `tune`, and answers with a number; smaller is better. It may be any
function. Those of the paper are here: `Total`, `Deadlines`, `Speedup`, `Patient`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import TypeAlias

from ansor.errors import MeasureError

Seconds: TypeAlias = Sequence[float]
Objective: TypeAlias = Callable[[Seconds], float]


@dataclass(frozen=True)
class Network:
    """A network is the tasks it calls, each so many times.

    >>> Network("small", {0: 2, 3: 1}).latency([0.5, 9.0, 9.0, 0.25])
    1.25
    """

    name: str
    counts: Mapping[int, float]  # by the number of the task

    def __post_init__(self) -> None:
        what = f"network {self.name!r}"
        if not self.counts:
            raise MeasureError(what, "calls no task", "give {number of a task: calls}")
        for number, count in self.counts.items():
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise MeasureError(what, f"{number!r} is not the number of a task")
            if not 0 < count < inf:
                raise MeasureError(what, f"calls task {number} {count} times")

    def latency(self, seconds: Seconds) -> float:
        return sum(count * seconds[at] for at, count in self.counts.items())


@dataclass(frozen=True)
class Total:
    """The seconds of all networks together (f1 of the paper): the default.

    Without networks, here and below, there is one: all tasks, each with its weight.

    >>> Total((Network("a", {0: 2}), Network("b", {0: 1, 1: 1})))([1.0, 4.0])
    7.0
    """

    networks: tuple[Network, ...] = ()

    def __call__(self, seconds: Seconds) -> float:
        return sum(network.latency(seconds) for network in self.networks)


@dataclass(frozen=True)
class Deadlines:
    """Every network within its seconds (f2): nothing is gained by being faster.

    >>> within = Deadlines((3.0, 1.0), (Network("a", {0: 1}), Network("b", {1: 1})))
    >>> within([5.0, 0.5]), within([2.0, 0.5]) == within([3.0, 1.0])
    (6.0, True)
    """

    seconds: float | tuple[float, ...]
    networks: tuple[Network, ...] = ()

    def __call__(self, seconds: Seconds) -> float:
        limits = _each(self.seconds, self.networks)
        pairs = zip(self.networks, limits, strict=True)
        return sum(max(network.latency(seconds), limit) for network, limit in pairs)


@dataclass(frozen=True)
class Speedup:
    """How much faster the networks are than given seconds, as a geometric mean (f3).

    The value is the reciprocal: the share of the reference's time that is left, so that
    smaller is better, as everywhere.

    >>> twice = Speedup((2.0, 8.0), (Network("a", {0: 1}), Network("b", {1: 1})))
    >>> round(twice([1.0, 4.0]), 6)
    0.5
    """

    reference: float | tuple[float, ...]
    networks: tuple[Network, ...] = ()

    def __call__(self, seconds: Seconds) -> float:
        references = _each(self.reference, self.networks)
        product = 1.0
        for network, reference in zip(self.networks, references, strict=True):
            product *= (network.latency(seconds) / reference) ** (1 / len(references))
        return product


@dataclass(frozen=True)
class Patient:
    """Another objective, with early stopping (f4): a task that has not become faster
    for so many trials is left alone."""

    trials: int
    objective: Objective = field(default_factory=Total)

    def __post_init__(self) -> None:
        if isinstance(self.trials, bool) or not isinstance(self.trials, int):
            raise MeasureError(f"Patient({self.trials!r})", "is not a number of trials")
        if self.trials < 1:
            raise MeasureError(f"Patient({self.trials})", "is below 1")

    def __call__(self, seconds: Seconds) -> float:
        return self.objective(seconds)


def patience(objective: Objective) -> float:
    """Trials without a gain after which a task is left alone."""
    return objective.trials if isinstance(objective, Patient) else inf


def bound(objective: Objective | None, weights: Sequence[float]) -> Objective:
    """The objective for tasks with these weights, checked."""
    if objective is None:
        return bound(Total(), weights)
    if not callable(objective):
        raise MeasureError(
            f"objective {objective!r}",
            "cannot be called",
            "give a function of the seconds of the tasks, or one of ansor.objectives",
        )
    if isinstance(objective, Patient):
        return replace(objective, objective=bound(objective.objective, weights))
    if isinstance(objective, Total | Deadlines | Speedup):
        return _with_networks(objective, weights)
    return objective


def _with_networks(
    objective: Total | Deadlines | Speedup, weights: Sequence[float]
) -> Objective:
    if not objective.networks:
        everything = Network("all tasks", dict(enumerate(weights)))
        objective = replace(objective, networks=(everything,))
    for network in objective.networks:
        last = max(network.counts)
        if last >= len(weights):
            raise MeasureError(
                f"network {network.name!r}",
                f"calls task {last}, but there are {len(weights)}",
                "tasks are numbered from 0",
            )
    if isinstance(objective, Deadlines):
        _each(objective.seconds, objective.networks)
    if isinstance(objective, Speedup):
        _each(objective.reference, objective.networks)
    return objective


def _each(
    given: float | tuple[float, ...], networks: Sequence[Network]
) -> tuple[float, ...]:
    """One number of seconds for each network."""
    values = (given,) if isinstance(given, int | float) else tuple(given)
    if len(values) != len(networks):
        raise MeasureError(
            f"an objective with {len(values)} times",
            f"has {len(networks)} networks",
            "give one number of seconds for each network",
        )
    for value in values:
        if not 0 < value < inf:
            raise MeasureError(f"an objective with {value} s", "is not a time above 0")
    return values


def value(objective: Objective, seconds: Seconds) -> float:
    """The objective's value, or an error that says which times it does not like."""
    found = float(objective(seconds))
    if not isfinite(found):
        times = ", ".join(f"{time:.3g}" for time in seconds)
        raise MeasureError(
            f"objective {objective!r}", f"is {found} where the tasks take {times} s"
        )
    return found
