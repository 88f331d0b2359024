"""The analytic model's choice: a program of a task without measuring anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from ansor import schedule
from ansor.cost.analytic import seconds
from ansor.errors import ScheduleError
from ansor.schedule.program import Program
from ansor.search.evolution import neighbours
from ansor.search.judge import Floats
from ansor.space.derive import derive
from ansor.space.points import chosen, distinct, draw, empty, together
from ansor.space.sketch import Sketch
from ansor.space.table import Matrix
from ansor.te.task import Task

# Most of the time goes into sketches and their nests, hardly any into points.
SKETCHES = 16  # that are looked at: those with the fewest unusual choices
NESTS = 72  # of these sketches together, about
DRAWN = 1024  # points of each sketch
SCORED = 192  # of these, if the target can run so many
FEW = 64  # points that are too few to start from
REFINED = (4, 2, 1, 1, 1)  # sketches, round by round: those with the best points
KEPT = 128  # best points of a sketch, from which a round starts
CROSSED = 512  # children of pairs of these
MUTATED = 16  # the best, with
CHILDREN = 8  # changes of each
TRIES = 8  # programs that may turn out not to lower


def untuned(task: Task) -> Program:
    """The program of a task that the analytic model believes in most, the same at
    every call. Where no structure fits the target, the loops as they are written."""
    programs = list(believed(task))
    return next(filter(_lowers, programs), programs[-1])


def believed(task: Task) -> Iterator[Program]:
    """What `untuned` takes the first of that can be lowered; who lowers it anyway may
    find out by that. The last are the loops as they are written."""
    if task.target.kind == "cpu":  # there is no code for what the rules make of others
        yield from best_believed(task)
    yield Program(schedule.Sketch(task))


def best_believed(task: Task) -> Iterator[Program]:
    """A few programs of a task, the best first."""
    rng = np.random.default_rng(0)
    started = [Believed.of(x, _drawn(x, rng)) for x in _structures(task)]
    parts = _sorted(started)
    for count in REFINED:
        parts = _sorted([x.refined(rng) for x in parts[:count]]) + parts[count:]
    rows = [(time, x.sketch, row) for x in parts for time, row in x.top(TRIES)]
    for _, sketch, row in sorted(rows, key=lambda entry: entry[0])[:TRIES]:
        yield sketch.program(row)


def _lowers(program: Program) -> bool:
    try:
        program.lower()
    except ScheduleError:
        return False
    return True


def _structures(task: Task) -> list[Sketch]:
    found: list[Sketch] = []
    nests = 0
    for sketch in islice(derive(task), SKETCHES):
        found.append(sketch)
        nests += len(sketch.plan.nests)
        if nests >= NESTS:
            break
    return found


@dataclass(frozen=True)
class Believed:
    """Points of a sketch with their analytic seconds, the best first."""

    sketch: Sketch
    points: Matrix
    seconds: Floats

    @classmethod
    def of(cls, sketch: Sketch, points: Matrix) -> Believed:
        times = seconds(sketch, points)
        order = np.argsort(times, kind="stable")
        return cls(sketch, points[order], times[order])

    def top(self, count: int) -> Iterator[tuple[float, tuple[int, ...]]]:
        for time, row in zip(self.seconds[:count], self.points, strict=False):
            yield float(time), tuple(map(int, row))

    def refined(self, rng: np.random.Generator) -> Believed:
        """After neighbours of the best point, mutations, and children of pairs: a time
        is a sum over statements, so good stages of two points are good together."""
        sketch, best = self.sketch, self.points[:KEPT]
        mothers, fathers = rng.integers(len(best), size=(2, CROSSED))
        new = together(
            [
                neighbours(sketch, best[0]),
                sketch.mutate(np.repeat(best[:MUTATED], CHILDREN, axis=0), rng),
                sketch.cross(best[mothers], best[fathers], rng),
            ]
        )
        new = chosen(new, sketch.feasible(new))
        return self.of(sketch, distinct(together([best, new])))


def _sorted(parts: Iterable[Believed]) -> list[Believed]:
    """By their best points; without those that have none."""
    return sorted((x for x in parts if len(x.points)), key=lambda x: x.seconds[0])


def _drawn(sketch: Sketch, rng: np.random.Generator) -> Matrix:
    """Points that the target can run. Where chance finds few, parts of points that
    are too large are replaced by the smallest there is: cheaper than to enumerate
    what fits, as `sketch.sample` does."""
    drawn = draw(sketch.table, DRAWN, rng)
    fits = sketch.feasible(drawn)
    found = chosen(drawn, fits)
    if len(found) < FEW:
        smallest = empty(DRAWN, len(sketch.knobs))
        smallest[:] = [knob.candidates[0] for knob in sketch.knobs]
        mixed = sketch.cross(drawn, smallest, rng)
        mixed = together([mixed, smallest[:1]])
        found = together([found, chosen(mixed, sketch.feasible(mixed))])
    return distinct(found)[:SCORED]
