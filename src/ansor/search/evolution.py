"""Evolution under a model: many points are judged for each one that is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ansor.records.outcome import Outcome, Timed
from ansor.schedule.program import Program
from ansor.search.judge import Floats, Judge, Trials
from ansor.space.points import chosen, distinct, together
from ansor.space.population import Population, Space
from ansor.space.sketch import Sketch
from ansor.space.table import Matrix


@dataclass(frozen=True)
class Evolution:
    """How the search divides its attention."""

    first: int = 96  # points of each sketch that are judged before the first trial
    population: int = 1536
    generations: int = 4
    fresh: float = 0.25  # share of a generation that is drawn anew
    parents: int = 24  # best measured points that every generation starts from
    alive: int = 10  # sketches that evolve: those believed or measured to be best
    courage: float = 0.5  # how far an unsure point is given the benefit of the doubt
    random: float = 0.06  # share of a batch that is drawn at random
    share: float = 0.34  # of a batch that one sketch may have
    cell: int = 2  # points of one register tile in a batch
    explore: int = 32  # trials before the neighbours of the best are looked at
    local: float = 0.5  # share of a batch for these neighbours, from then on
    around: int = 4  # best points whose neighbours are tried


@dataclass(frozen=True)
class Gene:
    """A point and its sketch's number."""

    sketch: int
    row: bytes


class EvolutionPolicy:
    """Proposes what its judge believes in, with some chance, then looks nearby.

    The first batch is spread over sketches and register tiles, because a judge that has
    seen nothing errs in the same way for all points of one kind. Later batches come
    from generations of mutated and crossed points, and from the neighbours of the best
    measured ones: one length up or down.
    """

    def __init__(
        self,
        sketches: Sequence[Sketch],
        seed: int,
        judge: Judge,
        settings: Evolution = Evolution(),  # noqa: B008 - frozen
    ) -> None:
        usable = [sketch for sketch in sketches if sketch.is_feasible]
        self.space = Space(usable) if usable else None
        self.settings = settings
        self._judge = judge
        self._rng = np.random.default_rng(seed)
        self._asked: dict[int, tuple[Program, Gene]] = {}
        self._seen: set[Gene] = set()
        self._measured: list[tuple[Gene, float]] = []
        self._alive: list[int] = []
        self._population: Population | None = None

    def ask(self, count: int) -> list[Program]:
        if self.space is None or count < 1:
            return []
        programs = []
        if len(self._measured) >= self.settings.explore and self._best(1):
            share = round(count * self.settings.local)
            programs = [self._program(*found) for found in self._nearby(share)]
        for choose in (self._evolved, self._random):
            missing = count - len(programs)
            programs += [self._program(*found) for found in choose(missing)[:missing]]
        return programs

    def tell(self, programs: Sequence[Program], outcomes: Sequence[Outcome]) -> None:
        for program, outcome in zip(programs, outcomes, strict=True):
            _, gene = self._asked.pop(id(program))
            seconds = outcome.estimate if isinstance(outcome, Timed) else float("inf")
            self._measured.append((gene, seconds))
        self._judge.learn(self._lessons())

    # -- choosing a batch --------------------------------------------------------------

    def _evolved(self, count: int) -> list[tuple[int, Matrix]]:
        """The best believed of several generations, spread out; some at random."""
        if count < 1:
            return []
        lucky = self._rng.binomial(count, self.settings.random)
        population = self._grown()
        found = self._pick(population, count - lucky)
        return found + self._random(count - len(found), found)

    def _grown(self) -> Population:
        assert self.space is not None
        if self._population is None or not self.settings.generations:
            self._population = self._first()
            return self._population
        population = self._population
        for _ in range(self.settings.generations):
            population = self._survivors(self._children(population))
        self._population = population
        return population

    def _first(self) -> Population:
        """Some points of every sketch; the best sketches stay."""
        assert self.space is not None
        sketches = self.space.sketches
        count = self.settings.first
        some = [distinct(sketch.sample(count, self._rng)) for sketch in sketches]
        beliefs = self._beliefs(some)
        best = [b.min() if len(b) else np.inf for b in beliefs]
        self._alive = [int(at) for at in np.argsort(best, kind="stable")]
        self._alive = [at for at in self._alive if np.isfinite(best[at])]
        return some

    def _children(self, population: Population) -> Population:
        """Parents, their children, and newcomers of the sketches that are alive."""
        assert self.space is not None
        alive = self._living()
        parents = self._parents()
        kept = [
            together([points, parents[at]]) if at in alive else _none(points)
            for at, points in enumerate(population)
        ]
        mutated = self.space.mutate(kept, self._rng)
        crossed = self.space.cross(kept, self._rng)
        fresh = max(1, int(self.settings.population * self.settings.fresh / len(alive)))
        result = []
        for at, sketch in enumerate(self.space.sketches):
            if at not in alive:
                result.append(_none(population[at]))
                continue
            new = together([mutated[at], crossed[at], sketch.sample(fresh, self._rng)])
            new = chosen(new, sketch.feasible(new))
            result.append(distinct(together([kept[at], new])))
        return result

    def _living(self) -> list[int]:
        """The sketches of the best measured points, then those believed to be best."""
        order = [gene.sketch for gene, _ in self._best(self.settings.parents)]
        order += self._alive
        return list(dict.fromkeys(order))[: self.settings.alive]

    def _parents(self) -> Population:
        assert self.space is not None
        rows: list[list[bytes]] = [[] for _ in self.space.sketches]
        for gene, _ in self._best(self.settings.parents):
            rows[gene.sketch].append(gene.row)
        return [
            np.array([np.frombuffer(row, np.int32) for row in found], np.int32).reshape(
                len(found), len(sketch.knobs)
            )
            for found, sketch in zip(rows, self.space.sketches, strict=True)
        ]

    def _survivors(self, population: Population) -> Population:
        """The best believed points over all sketches."""
        beliefs = np.concatenate(self._beliefs(population))
        kept = np.zeros(len(beliefs), np.bool_)
        kept[np.argsort(beliefs, kind="stable")[: self.settings.population]] = True
        ends = np.cumsum([len(points) for points in population])[:-1]
        parts = zip(population, np.split(kept, ends), strict=True)
        return [chosen(points, mask) for points, mask in parts]

    def _beliefs(self, population: Population) -> list[Floats]:
        assert self.space is not None
        courage = self.settings.courage if self._measured else 0.0
        return [
            self._judge.believe(sketch, points).optimistic(courage)
            if len(points)
            else np.zeros(0)
            for sketch, points in zip(self.space.sketches, population, strict=True)
        ]

    def _pick(self, population: Population, count: int) -> list[tuple[int, Matrix]]:
        """The best believed that are new, a few of each sketch and register tile."""
        ranked = self._ranked(population)
        most = max(1, int(np.ceil(count * self.settings.share)))
        sketches: Counter[int] = Counter()
        cells: Counter[tuple[int, bytes]] = Counter()
        found: list[tuple[int, Matrix]] = []
        for at, row in ranked:
            if len(found) >= count:
                break
            cell = (at, self._tile(at, row))
            if sketches[at] >= most or cells[cell] >= self.settings.cell:
                continue
            sketches[at] += 1
            cells[cell] += 1
            found.append((at, row))
        return found

    def _ranked(self, population: Population) -> Iterator[tuple[int, Matrix]]:
        beliefs = self._beliefs(population)
        owner = np.repeat(np.arange(len(population)), [len(x) for x in population])
        place = np.concatenate([np.arange(len(x)) for x in population])
        for n in np.argsort(np.concatenate(beliefs), kind="stable"):
            at, row = int(owner[n]), population[owner[n]][place[n]]
            if Gene(at, row.tobytes()) not in self._seen:
                yield at, row

    def _tile(self, at: int, row: Matrix) -> bytes:
        assert self.space is not None
        columns = [c for tiles in self.space.sketches[at].tiles for c in tiles.columns]
        return row[columns].tobytes()

    def _random(
        self, count: int, beside: Sequence[tuple[int, Matrix]] = ()
    ) -> list[tuple[int, Matrix]]:
        assert self.space is not None
        found: list[tuple[int, Matrix]] = []
        taken = {Gene(at, row.tobytes()) for at, row in beside}
        for _ in range(4 * count):
            if len(found) == count:
                break
            at = int(self._rng.integers(len(self.space.sketches)))
            for row in self.space.sketches[at].sample(1, self._rng):
                gene = Gene(at, row.tobytes())
                if gene not in self._seen | taken:
                    taken.add(gene)
                    found.append((at, row))
        return found

    # -- near the best -----------------------------------------------------------------

    def _nearby(self, count: int) -> list[tuple[int, Matrix]]:
        """Neighbours of the best measured points, the best believed first."""
        assert self.space is not None
        population = [
            np.zeros((0, len(sketch.knobs)), np.int32) for sketch in self.space.sketches
        ]
        for gene, _ in self._best(self.settings.around):
            sketch = self.space.sketches[gene.sketch]
            near = neighbours(sketch, np.frombuffer(gene.row, np.int32))
            near = chosen(near, sketch.feasible(near))
            population[gene.sketch] = together([population[gene.sketch], near])
        population = [distinct(points) for points in population]
        ranked = self._ranked(population)
        return [found for found, _ in zip(ranked, range(count), strict=False)]

    # -- memory ------------------------------------------------------------------------

    def _program(self, at: int, row: Matrix) -> Program:
        assert self.space is not None
        gene = Gene(at, row.tobytes())
        self._seen.add(gene)
        program = self.space.sketches[at].program(tuple(map(int, row)))
        self._asked[id(program)] = (program, gene)
        return program

    def _best(self, count: int) -> list[tuple[Gene, float]]:
        ran = [pair for pair in self._measured if np.isfinite(pair[1])]
        return sorted(ran, key=lambda pair: pair[1])[:count]

    def _lessons(self) -> list[Trials]:
        """All that was measured, by sketch."""
        assert self.space is not None
        found: dict[int, list[tuple[bytes, float]]] = {}
        for gene, seconds in self._measured:
            found.setdefault(gene.sketch, []).append((gene.row, seconds))
        return [
            Trials(
                self.space.sketches[at],
                np.array([np.frombuffer(row, np.int32) for row, _ in pairs], np.int32),
                np.array([seconds for _, seconds in pairs]),
            )
            for at, pairs in sorted(found.items())
        ]


def neighbours(sketch: Sketch, row: Matrix) -> Matrix:
    """Points that differ in one length, or in two of one split in opposite ways."""
    table = sketch.table
    found = []
    numbers = [
        int(np.searchsorted(table.column_values(c), row[c])) for c in range(len(row))
    ]

    def moved(*steps: tuple[int, int]) -> None:
        new = row.copy()
        for column, step in steps:
            values = table.column_values(column)
            number = numbers[column] + step
            if not 0 <= number < len(values):
                return
            new[column] = values[number]
        found.append(new)

    for column in range(len(row)):
        for step in (-2, -1, 1, 2):
            moved((column, step))
    for group in table.groups:
        for one in group.columns:
            for other in group.columns:
                if one != other:
                    moved((one, 1), (other, -1))
    return np.array(found, np.int32).reshape(len(found), len(row))


def _none(points: Matrix) -> Matrix:
    return points[:0]
