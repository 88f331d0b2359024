"""Evolution under a model: many points are judged for each one that is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ansor.records.outcome import Outcome, Timed
from ansor.schedule.program import Program
from ansor.search.judge import Judge, Trials
from ansor.search.roofline import roofline
from ansor.search.scored import Scored
from ansor.space.points import chosen, distinct, together
from ansor.space.population import Population, Space
from ansor.space.sketch import Sketch
from ansor.space.table import Matrix

ENOUGH = 0.95  # of the roofline: nothing more is worth its trials
BEYOND = 1.02  # of it: what was measured about the machine cannot be right
WORTH = 0.99  # of the best time: what is not below it is no gain


@dataclass(frozen=True)
class Evolution:
    """How the search divides its attention."""

    first: int = 256  # points of each sketch that are judged before the first trial
    population: int = 2048
    generations: int = 3
    fresh: float = 0.25  # share of a generation that is drawn anew
    parents: int = 24  # best measured points that every generation starts from
    alive: int = 8  # sketches that evolve: those believed or measured to be best
    courage: float = 0.5  # how far an unsure point is given the benefit of the doubt
    random: float = 0.06  # share of a batch that is drawn at random
    novel: int = 8  # points of the first batch, one for each rule
    doubt: float = 1.5  # times slower than the best that is believed, at most
    share: float = 0.34  # of a batch that one sketch may have
    cell: int = 2  # points of one register tile in a batch
    explore: int = 32  # trials before the neighbours of the best are looked at
    local: float = 0.5  # share of a batch for these neighbours, from then on
    around: int = 4  # best points whose neighbours are tried
    certain: int = 48  # trials before it may be said that nothing better is in sight


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

    `seeds` are points that were good elsewhere, the most promising first. They get half
    of the first batch; the other half is what would have been chosen without them.
    """

    def __init__(
        self,
        sketches: Sequence[Sketch],
        seed: int,
        judge: Judge,
        settings: Evolution = Evolution(),  # noqa: B008 - frozen
        seeds: Sequence[tuple[Sketch, Matrix]] = (),
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
        self._idle: set[int] = set()  # trials after which nothing better was in sight
        numbers = {id(sketch): at for at, sketch in enumerate(usable)}
        self._seeds = [(numbers[id(sketch)], row) for sketch, row in seeds]

    def ask(self, count: int) -> list[Program]:
        if self.space is None or count < 1:
            return []
        programs = []
        if self._seeds:
            return [self._program(*found) for found in self._seeded(count)]
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

    def is_done(self, best: float | None) -> str:
        """At the machine's roofline, or when nothing better is in sight: neither near
        the best points nor in the population, before two batches in a row."""
        trials = len(self._measured)
        if best is None or self.space is None or trials < self.settings.explore:
            return ""
        reached = roofline(self.space.sketches[0].task) / best
        if ENOUGH <= reached < BEYOND:
            return f"{reached:.0%} of the roofline"
        if trials < self.settings.certain or self._hopes(best):
            self._idle.clear()
        else:
            self._idle.add(trials)
        return "no gain expected" if len(self._idle) > 1 else ""

    def _hopes(self, best: float) -> bool:
        """True if one near the best is new, or another is believed to be faster."""
        if self.space is None or self._population is None or self._nearby(1):
            return True
        found = self._scored(self._population)
        for at, row in self._ranked(found):
            belief = self._judge.believe(self.space.sketches[at], row[None])
            return bool(belief.optimistic(self.settings.courage)[0] < best * WORTH)
        return True

    # -- choosing a batch --------------------------------------------------------------

    def _seeded(self, count: int) -> list[tuple[int, Matrix]]:
        """Seeds, then what is chosen without them; other seeds join the population."""
        cold = self._evolved(count)
        kept = {_gene(found) for found in cold[: count - count // 2]}
        new = [seed for seed in self._seeds if _gene(seed) not in kept]
        seeds, others = new[: count // 2], new[count // 2 :]
        taken = {_gene(seed) for seed in seeds}
        assert self._population is not None
        for at, row in others:
            joined = together([self._population[at], row[None]])
            self._population[at] = distinct(joined)
        self._seeds = []
        rest = [found for found in cold if _gene(found) not in taken]
        return seeds + rest[: count - len(seeds)]

    def _evolved(self, count: int) -> list[tuple[int, Matrix]]:
        """The best believed of several generations, spread out; some at random."""
        if count < 1:
            return []
        is_first = self._population is None
        population = self._grown()
        found = self._novel(population)[:count] if is_first else []
        lucky = self._rng.binomial(count, self.settings.random)
        found += self._pick(population, count - lucky - len(found), found)
        return found + self._random(count - len(found), found)

    def _novel(self, population: Scored) -> list[tuple[int, Matrix]]:
        """Of each rule that made a sketch which may be good, the best believed point:
        a judge errs for all points of a rule in the same way."""
        assert self.space is not None
        if not any(map(len, population.points)):
            return []
        tried: set[str] = set()
        found: list[tuple[int, Matrix]] = []
        for at, row in self._ranked(population.below(self.settings.doubt)):
            rules = set(self.space.sketches[at].trace)
            if not rules <= tried and len(found) < self.settings.novel:
                tried |= rules
                found.append((at, row))
        return found

    def _grown(self) -> Scored:
        """The first points, or those of before after some more generations."""
        if self._population is None or not self.settings.generations:
            found = self._first()
        else:
            found = self._scored(self._survivors(self._population))
            for _ in range(self.settings.generations):
                found = found.with_more(self._scored(self._children(found.points)))
                found = found.best(self.settings.population)
        self._population = found.points
        return found

    def _first(self) -> Scored:
        """Some points of every sketch; the best sketches stay."""
        assert self.space is not None
        count = self.settings.first
        sketches = self.space.sketches
        some = [distinct(sketch.sample(count, self._rng)) for sketch in sketches]
        found = self._scored(some)
        best = [part.min() if len(part) else np.inf for part in found.seconds]
        self._alive = [int(at) for at in np.argsort(best, kind="stable")]
        self._alive = [at for at in self._alive if np.isfinite(best[at])]
        return found

    def _survivors(self, population: Population) -> Population:
        """Points of the sketches that are alive, and the best measured ones."""
        alive = self._living()
        parents = self._parents()
        return [
            distinct(together([points, parents[at]])) if at in alive else _none(points)
            for at, points in enumerate(population)
        ]

    def _children(self, population: Population) -> Population:
        """Children of a generation, and newcomers of the sketches that are alive."""
        assert self.space is not None
        alive = self._living()
        herd = Space([self.space.sketches[at] for at in alive])
        parents = [population[at] for at in alive]
        mutated = herd.mutate(parents, self._rng)
        crossed = herd.cross(parents, self._rng)
        fresh = max(1, int(self.settings.population * self.settings.fresh / len(alive)))
        result = [_none(points) for points in population]
        for n, at in enumerate(alive):
            newcomers = herd.sketches[n].sample(fresh, self._rng)
            new = together([mutated[n], crossed[n], newcomers])
            result[at] = distinct(chosen(new, herd.sketches[n].feasible(new)))
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

    def _scored(self, population: Population) -> Scored:
        assert self.space is not None
        courage = self.settings.courage if self._measured else 0.0
        parts = zip(self.space.sketches, population, strict=True)
        seconds = [
            self._judge.believe(sketch, points).optimistic(courage)
            if len(points)
            else np.zeros(0)
            for sketch, points in parts
        ]
        return Scored(population, seconds)

    def _pick(
        self,
        population: Scored,
        count: int,
        beside: Sequence[tuple[int, Matrix]] = (),
    ) -> list[tuple[int, Matrix]]:
        """The best believed that are new, a few of each sketch and register tile."""
        most = max(1, int(np.ceil(count * self.settings.share)))
        sketches: Counter[int] = Counter()
        cells: Counter[tuple[int, bytes]] = Counter()
        taken = {_gene(one) for one in beside}
        found: list[tuple[int, Matrix]] = []
        for at, row in self._ranked(population):
            if len(found) >= count:
                break
            cell = (at, self._tile(at, row))
            is_full = sketches[at] >= most or cells[cell] >= self.settings.cell
            if is_full or _gene((at, row)) in taken:
                continue
            sketches[at] += 1
            cells[cell] += 1
            found.append((at, row))
        return found

    def _ranked(self, population: Scored) -> Iterator[tuple[int, Matrix]]:
        """What was not proposed yet, the best believed first."""
        for at, row in population.ranked():
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
        ranked = self._ranked(self._scored(population))
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


def _gene(found: tuple[int, Matrix]) -> Gene:
    return Gene(found[0], found[1].tobytes())


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
