"""What a search may take over from tasks that a database has seen.

Seeds are good programs of related tasks, as points of the sketches of this one. A prior
is a model of how long their programs took. Neither has to be right: seeds get a share
of the first batch, and a prior counts while it ranks the task's own trials well.

Everything follows from the seed and the records that there were when the search of the
task first began: the database keeps the number of the last of them, so that a search
that goes on later starts from the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice

import numpy as np
import numpy.typing as npt

from ansor.cost.features import extract
from ansor.cost.model import AnalyticModel, CostModel, default_model
from ansor.cost.train import Collected, add_sketch, row_of
from ansor.errors import AnsorError, RecordError
from ansor.records.database import Database
from ansor.records.record import Record
from ansor.records.rows import short_hash
from ansor.records.text import canonical
from ansor.schedule.data import SKETCH_FIELDS, sketch_from_data
from ansor.search.judge import Prior
from ansor.search.mapping import Anatomy, likeness, proposals, settled
from ansor.search.related import UNRELATED, anchor, distance
from ansor.space.sketch import Sketch
from ansor.space.table import Matrix
from ansor.te.task import Task

NEAREST = 5  # tasks that give seeds
PROGRAMS = 8  # of each of them, the fastest
GOALS = 2  # sketches that a program is mapped to
LIKE = 0.3  # how much alike sketches must be
SEEDS = 24
VARIANTS = 2  # seeds from one program
CELL = 2  # seeds of one register tile
REMOTE = 0.15  # what a unit of distance costs, in logarithms of seconds
UNLIKE = 0.5  # what it costs that a sketch has another structure

# Of a prior. Bounds are numbers, not seconds, so that a slow moment changes nothing.
TRIALS = 128  # of one task
STRUCTURES = 5  # sketches of one task, those with most trials
SAMPLES = 15  # sketches of all tasks: the time goes into these
LEAST = 32  # programs, before a prior is worth it
NEAR = 3.0  # the distance of tasks: other arithmetic teaches little

Seed = tuple[Sketch, Matrix]  # a sketch and a row


@dataclass(frozen=True)
class Start:
    """What a search knows before its first trial."""

    seeds: tuple[Seed, ...] = ()  # the most promising first
    prior: Prior | None = None


@dataclass(frozen=True)
class Source:
    """A good program of a related task."""

    anatomy: Anatomy
    point: tuple[int, ...]
    slower: float  # than the best of its task, as a factor
    distance: float
    lanes: float  # what a vector has here for each lane there


@dataclass(frozen=True)
class Candidates:
    """Points of one sketch, what each costs in logarithms, and where it comes from."""

    sketch: Sketch
    points: Matrix
    cost: npt.NDArray[np.float64]
    source: npt.NDArray[np.intp]


def start_of(
    database: Database,
    task: Task,
    sketches: Sequence[Sketch],
    seed: int,
    llvm: str = "",
    learns: bool = True,
) -> Start:
    """What the database has to offer for a task, which is known by its names there.

    Records of the task itself do not count, unless another LLVM than `llvm` compiled
    them. Without `learns` there is no prior.
    """
    last = _beginning(database, task, seed)
    related = Related(database, task, last, llvm)
    if not related.tasks:
        return Start()
    prior = related.prior(seed) if learns else None
    model = AnalyticModel() if prior is None else prior.model
    sources = list(related.sources())
    return Start(tuple(seeds_of(sources, sketches, model)), prior)


def _beginning(database: Database, task: Task, seed: int) -> int:
    """The last record that there was when the search with this seed first began."""
    names = short_hash(task.key, task.target.fingerprint, seed)
    key = f"search {names} began after"
    last = database.meta(key)
    if isinstance(last, int):
        return last
    last = database.last
    with suppress(RecordError):  # of a file that cannot be written the search will tell
        database.set_meta(key, last)
    return last


# -- what there is ---------------------------------------------------------------------


@dataclass(frozen=True)
class Related:
    """The records of other tasks, up to number `last`."""

    database: Database
    task: Task
    last: int
    llvm: str = ""

    @cached_property
    def tasks(self) -> list[tuple[float, Task]]:
        """Those that have something in common with the task, the nearest first."""
        found = [(distance(self.task, x), x) for x in self.database.tasks(self.last)]
        near = [pair for pair in found if pair[0] < UNRELATED]
        return sorted(near, key=lambda pair: pair[0])

    def sources(self) -> Iterator[Source]:
        for apart, other in self.tasks[:NEAREST]:
            records = list(islice(self._fastest(other), PROGRAMS))
            dtype = str(anchor(other.dag).output.dtype)
            lanes = self.task.target.lanes(dtype) / other.target.lanes(dtype)
            best = min((_seconds(record) for record in records), default=1.0)
            known: dict[str, Anatomy] = {}
            for record in records:
                with suppress(AnsorError):  # it does not replay with this release
                    anatomy, point = self._read(record, known)
                    slower = _seconds(record) / best
                    yield Source(anatomy, point, slower, apart, lanes)

    def _fastest(self, other: Task) -> Iterator[Record]:
        """Each program once."""
        seen: set[str] = set()
        for record in self.database.fastest(other, self.last, 4 * PROGRAMS):
            text = canonical(record.program)
            if text not in seen and not (self._is_own(other) and self._here(record)):
                seen.add(text)
                yield record

    def _read(
        self, record: Record, known: dict[str, Anatomy]
    ) -> tuple[Anatomy, tuple[int, ...]]:
        data = {name: record.program[name] for name in SKETCH_FIELDS}
        text = record.form + canonical(data)
        if text not in known:
            task = self.database.task_of(record)
            known[text] = Anatomy(sketch_from_data(task, data, kind=Sketch))  # type: ignore[arg-type]
        row = row_of(known[text].sketch.knobs, record.program)
        if row is None:
            raise RecordError(f"record {record.id}", "its point is none of its sketch")
        return known[text], tuple(row)

    def _is_own(self, other: Task) -> bool:
        mine = (self.task.key, self.task.target.fingerprint)
        return (other.key, other.target.fingerprint) == mine

    def _here(self, record: Record) -> bool:
        return not self.llvm or record.versions.get("llvm") == self.llvm

    def prior(self, seed: int) -> Prior | None:
        """Trials of the nearest tasks, if there are enough."""
        found = Collected()
        near = (other for apart, other in self.tasks if apart < NEAR)
        for other in near:
            for records in _by_sketch(self._trials(other)):
                if len(found.samples) < SAMPLES:
                    add_sketch(found, self.database, records)
        if found.programs < LEAST:
            return None
        model = default_model(seed)
        model.fit(found.samples)
        return Prior(tuple(found.samples), model)

    def _trials(self, other: Task) -> Iterator[Record]:
        """The first of a task: later ones are all alike."""
        if self._is_own(other):
            return
        place = (other, other.target.fingerprint, "trial")
        for record in islice(self.database.records(*place), TRIALS):
            if record.id is not None and record.id <= self.last:
                yield record


def _by_sketch(records: Iterator[Record]) -> list[list[Record]]:
    """Those of one sketch together; the sketches with most of them."""

    def key(record: Record) -> str:
        return record.form + canonical(record.program["steps"])

    groups = groupby(sorted(records, key=key), key)
    found = [list(group) for _, group in groups]
    return sorted(found, key=len, reverse=True)[:STRUCTURES]


def _seconds(record: Record) -> float:
    assert record.seconds is not None
    return record.seconds


# -- seeds -----------------------------------------------------------------------------


def seeds_of(
    sources: Sequence[Source], sketches: Sequence[Sketch], model: CostModel
) -> Iterator[Seed]:
    """Points of the sketches that do what the sources do, the most promising first:
    believed in by the model, from fast programs of near tasks, of different kinds."""
    goals = [Anatomy(sketch) for sketch in sketches if sketch.is_feasible]
    found = [
        _candidates(goals[at], [(n, like, sources[n]) for n, like in chosen], model)
        for at, chosen in sorted(_goals(sources, goals).items())
    ]
    found = [part for part in found if len(part.points)]
    if not found:
        return
    taken: Counter[object] = Counter()
    count = 0
    for part, row, source in _ranked(found):
        cell = (id(part.sketch), _tile(part.sketch, row))
        if taken[source] >= VARIANTS or taken[cell] >= CELL:
            continue
        taken.update([source, cell])
        yield part.sketch, row
        count += 1
        if count == SEEDS:
            return


def _goals(
    sources: Sequence[Source], goals: Sequence[Anatomy]
) -> dict[int, list[tuple[int, float]]]:
    """By number of the goal: sources with how much they are alike."""
    found: dict[int, list[tuple[int, float]]] = {}
    known: dict[int, list[tuple[int, float]]] = {}
    for n, source in enumerate(sources):
        best = known.get(id(source.anatomy))
        if best is None:
            best = known[id(source.anatomy)] = _alike(source.anatomy, goals)
        for at, like in best:
            found.setdefault(at, []).append((n, like))
    return found


def _alike(anatomy: Anatomy, goals: Sequence[Anatomy]) -> list[tuple[int, float]]:
    """The goals most like a sketch; one is enough if it has the same structure."""
    likes = [(at, likeness(anatomy, goal)) for at, goal in enumerate(goals)]
    best = sorted(likes, key=lambda pair: -pair[1])[:GOALS]
    if best and best[0][1] == 1.0:
        best = best[:1]
    return [(at, like) for at, like in best if like >= LIKE]


def _candidates(
    goal: Anatomy, chosen: Sequence[tuple[int, float, Source]], model: CostModel
) -> Candidates:
    sketch = goal.sketch
    wanted = [proposals(x.anatomy, x.point, goal, x.lanes) for _, _, x in chosen]
    owner = np.repeat(np.arange(len(chosen)), [len(part) for part in wanted])
    points, row = settled(sketch, np.concatenate(wanted))
    source = owner[row]
    numbers = np.array([n for n, _, _ in chosen], np.intp)
    extra = np.array([_handicap(like, x) for _, like, x in chosen])
    if not len(points):
        return Candidates(sketch, points, np.zeros(0), numbers[source])
    seconds = model.predict(extract(sketch, points)).seconds
    cost = np.log(seconds) + extra[source]
    return Candidates(sketch, points, cost, numbers[source])


def _handicap(like: float, source: Source) -> float:
    """Why a point may be worse than it looks."""
    known = float(np.log(source.slower))
    return known + REMOTE * source.distance + UNLIKE * (1 - like)


def _ranked(found: Sequence[Candidates]) -> Iterator[tuple[Candidates, Matrix, int]]:
    """All points, the cheapest first; each once."""
    part = np.repeat(np.arange(len(found)), [len(x.points) for x in found])
    place = np.concatenate([np.arange(len(x.points)) for x in found])
    seen: set[tuple[int, bytes]] = set()
    for n in np.argsort(np.concatenate([x.cost for x in found]), kind="stable"):
        of, at = found[part[n]], place[n]
        key = (int(part[n]), of.points[at].tobytes())
        if key not in seen:
            seen.add(key)
            yield of, of.points[at], int(of.source[at])


def _tile(sketch: Sketch, row: Matrix) -> bytes:
    columns = [column for tiles in sketch.tiles for column in tiles.columns]
    return row[columns].tobytes()
