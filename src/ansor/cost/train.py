"""Training from databases: records to samples, tasks held out, models judged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ansor.cost.features import extract
from ansor.cost.model import CostModel
from ansor.cost.sample import Sample, task_key
from ansor.cost.scores import Scores, evaluate
from ansor.errors import AnsorError, CostError
from ansor.reading import Data
from ansor.records.database import Database
from ansor.records.record import Record
from ansor.records.text import canonical
from ansor.schedule.data import SKETCH_FIELDS, sketch_from_data
from ansor.schedule.knobs import Knob
from ansor.space.sketch import Sketch

REASONS = 5  # that are kept, of records left out


@dataclass
class Collected:
    """Samples of all tasks in databases, and what had to be left out."""

    samples: list[Sample] = field(default_factory=list)
    left_out: int = 0  # records that do not replay with this release
    reasons: list[str] = field(default_factory=list)  # the first few

    @property
    def tasks(self) -> tuple[str, ...]:
        return tasks_of(self.samples)

    @property
    def programs(self) -> int:
        """Those that have a time."""
        return int(sum(np.isfinite(sample.seconds).sum() for sample in self.samples))

    def leave_out(self, count: int, reason: str) -> None:
        self.left_out += count
        if len(self.reasons) < REASONS and reason not in self.reasons:
            self.reasons.append(reason)


def tasks_of(samples: Iterable[Sample]) -> tuple[str, ...]:
    """Each task once, in the order of the samples."""
    return tuple(dict.fromkeys(sample.task for sample in samples))


def collect(databases: Iterable[Database]) -> Collected:
    """All trials, one sample for each sketch of each task. A program that was measured
    several times counts as often."""
    found = Collected()
    for database in databases:
        for records in _by_sketch(database).values():
            add_sketch(found, database, records)
    return found


def _by_sketch(database: Database) -> dict[tuple[str, str, str], list[Record]]:
    """Trials of the same steps of the same named DAG on the same target."""
    groups: dict[tuple[str, str, str], list[Record]] = {}
    for record in database.records(role="trial"):
        steps = canonical(record.program["steps"])
        groups.setdefault((record.form, record.target, steps), []).append(record)
    return groups


def add_sketch(found: Collected, database: Database, records: list[Record]) -> None:
    """A sample of records of the same steps of the same named DAG and target."""
    try:
        task = database.task_of(records[0])
        data = {name: records[0].program[name] for name in SKETCH_FIELDS}
        sketch = sketch_from_data(task, data, kind=Sketch)
    except AnsorError as error:
        found.leave_out(len(records), str(error))
        return
    rows = [row_of(sketch.knobs, record.program) for record in records]
    missing = sum(row is None for row in rows)
    if missing:
        found.leave_out(missing, "a knob has a value that is no candidate, or none")
    if missing == len(rows):
        return
    points = np.array([row for row in rows if row is not None], np.int32)
    times = [r.seconds for r, row in zip(records, rows, strict=True) if row is not None]
    seconds = np.array([np.inf if time is None else time for time in times])
    features = extract(sketch, points.reshape(len(times), len(sketch.knobs)))
    found.samples.append(Sample(task_key(task), features, seconds))


def row_of(knobs: Sequence[Knob], program: Data) -> list[int] | None:
    """The point of a program in the order of the knobs, if it is one."""
    point = program["point"]
    if not isinstance(point, dict) or len(point) != len(knobs):
        return None
    row: list[int] = [point.get(knob.name, 0) for knob in knobs]
    allowed = zip(row, knobs, strict=True)
    return row if all(value in knob.candidates for value, knob in allowed) else None


# -- judging ---------------------------------------------------------------------------


def hold_out(
    samples: Sequence[Sample], share: float = 0.25, seed: int = 0
) -> tuple[list[Sample], list[Sample]]:
    """Samples to train on and samples to test on: of different tasks, at least one on
    either side."""
    tasks = tasks_of(samples)
    if len(tasks) < 2:
        raise CostError(
            f"holding out of {len(tasks)} task(s)",
            "training and testing need one each",
            "collect records of more tasks",
        )
    count = min(max(1, round(share * len(tasks))), len(tasks) - 1)
    order = np.random.default_rng(seed).permutation(len(tasks))
    return apart(samples, {tasks[at] for at in order[:count]})


def apart(
    samples: Sequence[Sample], tasks: Iterable[str]
) -> tuple[list[Sample], list[Sample]]:
    """Samples of other tasks, and of these."""
    held = set(tasks)
    return (
        [sample for sample in samples if sample.task not in held],
        [sample for sample in samples if sample.task in held],
    )


def folds(
    samples: Sequence[Sample], count: int
) -> Iterator[tuple[list[Sample], list[Sample]]]:
    """Every task is held out once, in `count` groups of about the same size."""
    tasks = tasks_of(samples)
    for number in range(min(count, len(tasks))):
        yield apart(samples, tasks[number::count])


def train(model: CostModel, samples: Sequence[Sample]) -> dict[str, Scores]:
    """Fit the model; how well it knows what it was taught, task by task.

    Judge it by tasks that it has not seen: `hold_out`, then `scores.evaluate`.
    """
    if not any(np.isfinite(sample.seconds).any() for sample in samples):
        raise CostError(
            "training",
            "no program in the samples has a time",
            "tune some tasks with a database first",
        )
    model.fit(samples)
    return evaluate(model, samples)
