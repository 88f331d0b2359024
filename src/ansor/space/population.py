"""All sketches of a task with their points: what a search works on.

A population is a list of matrices, one per sketch of the space, in its order. The
sketch is part of a point: a mutation may move it to a sibling, a sketch that differs in
one choice (where a stage is computed, what is packed, which axis is vectorised).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ansor.errors import ScheduleError
from ansor.space.points import carry, chosen, distinct, together
from ansor.space.sketch import Sketch
from ansor.space.table import Matrix

MOVED = 0.1  # share of points that a mutation moves to a sibling
Population = list[Matrix]


@dataclass(frozen=True)
class Space:
    """The sketches of a task.

    >>> import ansor
    >>> A, B = ansor.placeholder((64, 64)), ansor.placeholder((64, 64))
    >>> space = Space(ansor.sketches(ansor.Task(ansor.ops.matmul(A, B, name="C"))))
    >>> population = space.sample(1000, seed=0)
    >>> children = space.mutate(population, seed=1)
    >>> sum(map(len, population)), sum(map(len, children))
    (1000, 1000)
    """

    sketches: Sequence[Sketch]

    def __post_init__(self) -> None:
        if not self.sketches:
            raise ScheduleError("space", "no sketches given", "see ansor.sketches")

    def sample(self, count: int, seed: int | np.random.Generator = 0) -> Population:
        """Random feasible points, the same number of each sketch as far as it goes."""
        generator = np.random.default_rng(seed)
        usable = [at for at, sketch in enumerate(self.sketches) if sketch.is_feasible]
        population = [sketch.sample(0) for sketch in self.sketches]
        for left, at in zip(range(len(usable), 0, -1), usable, strict=True):
            share = -(-count // left)
            population[at] = self.sketches[at].sample(share, generator)
            count -= len(population[at])
        return population

    def mutate(
        self, population: Population, seed: int | np.random.Generator = 0
    ) -> Population:
        """Every point with one decision changed: a length, or the sketch itself."""
        generator = np.random.default_rng(seed)
        new: list[list[Matrix]] = [[] for _ in self.sketches]
        for at, points in enumerate(population):
            sketch, siblings = self.sketches[at], self.siblings[at]
            moved = generator.random(len(points)) < (MOVED if siblings else 0.0)
            new[at].append(sketch.mutate(chosen(points, ~moved), generator))
            rows = np.flatnonzero(moved)
            goal = generator.integers(max(len(siblings), 1), size=len(rows))
            for number, other in enumerate(siblings):
                going = points[rows[goal == number]]
                table = self.sketches[other].table
                new[other].append(carry(sketch.table, table, going, generator))
        return [together(parts) for parts in new]

    def cross(
        self, population: Population, seed: int | np.random.Generator = 0
    ) -> Population:
        """A child of every point with another of the same sketch."""
        generator = np.random.default_rng(seed)
        return [
            sketch.cross(points, points[generator.permutation(len(points))], generator)
            for sketch, points in zip(self.sketches, population, strict=True)
        ]

    def feasible(self, population: Population) -> Population:
        """The points that the target can run, each once."""
        return [
            distinct(chosen(points, sketch.feasible(points)))
            for sketch, points in zip(self.sketches, population, strict=True)
        ]

    @cached_property
    def siblings(self) -> tuple[tuple[int, ...], ...]:
        """Of each sketch the sketches that differ least from it, by their traces."""
        traces = [frozenset(sketch.trace) for sketch in self.sketches]
        found = []
        for at, trace in enumerate(traces):
            apart = [max(len(trace - x), len(x - trace)) for x in traces]
            least = min((d for n, d in enumerate(apart) if n != at), default=0)
            found.append(
                tuple(n for n, d in enumerate(apart) if n != at and d == least)
            )
        return tuple(found)
