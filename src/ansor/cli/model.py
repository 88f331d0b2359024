"""`ansor model`: train cost models from databases, look at them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from ansor.cli.answer import Answer
from ansor.cli.errors import CommandError
from ansor.cli.measuring import as_json as json_option
from ansor.cli.table import Tasks
from ansor.cli.units import plural

if TYPE_CHECKING:  # models load NumPy, which --help does not need
    from collections.abc import Iterable, Mapping, Sequence

    from ansor.cost.learned import LearnedModel
    from ansor.cost.sample import Sample
    from ansor.cost.scores import Scores
    from ansor.cost.train import Collected
    from ansor.records.database import Database

KINDS = ("trees", "boosting", "deep", "network")
SHARE = 0.25  # of the tasks, held out unless told how many
NOTHING = (
    "nothing that was learned holds for programs not seen: the model is the analytic "
    "one; more trials or more tasks would help"
)

HELP = """Train cost models from databases, or look at them.

    A search learns from its own trials in any case. A trained model knows something
    before the first: what trials of other shapes and operators have in common.

    \b
    Examples:
      ansor model train tuning.db -o model.bin
      ansor model show model.bin
      ansor tune matmul 512 512 512 --model model.bin
"""
TRAIN = """Train a model from the trials in databases DB, and save it.

    Some tasks are held out first: scores say how a model that has not seen them ranks
    their programs, beside the analytic model's own scores. The model that is saved has
    then seen all tasks.

    \b
    Examples:
      ansor model train tuning.db -o model.bin
      ansor model train a.db b.db -o model.bin --kind network --hold-out 5
"""
SHOW = """What a model FILE holds.

    \b
    Example:
      ansor model show model.bin --json
"""

quiet_option = click.option("--quiet", is_flag=True, help="Only rows: no headings.")


@click.group(help=HELP)
def model() -> None:
    pass


# -- train ----------------------------------------------------------------------------


@model.command(help=TRAIN)
@click.argument("databases", metavar="DB...", nargs=-1, required=True)
@click.option(
    "-o", "--output", required=True, metavar="FILE", help="Where the model goes."
)
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    help="What learns. [default: trees where LightGBM is installed, else boosting]",
)
@click.option(
    "--hold-out",
    type=click.IntRange(min=0),
    metavar="N",
    help="Tasks to judge by. [default: a quarter]",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Of all random choices. [default: 0]",
)
@json_option
@quiet_option
def train(
    databases: tuple[str, ...],
    output: str,
    kind: str | None,
    hold_out: int | None,
    seed: int,
    as_json: bool,
    quiet: bool,
) -> None:
    from ansor.cost.learned import LEAST

    lesson = Lesson.of(databases)
    _check_enough(databases, lesson.collected, LEAST)
    judged = _judged(lesson.collected.samples, kind, hold_out, seed)
    learner = _fresh(kind, seed)
    learner.fit(lesson.collected.samples)
    learner.save(output)
    _answer(lesson, judged, learner, output).show(as_json, quiet)


@dataclass(frozen=True)
class Lesson:
    """What databases hold to learn from, with names for people."""

    collected: Collected
    names: dict[str, str]  # of each task by its key
    notes: tuple[str, ...]

    @classmethod
    def of(cls, paths: Iterable[str]) -> Lesson:
        from ansor.cost.train import collect
        from ansor.records.database import Database

        with ExitStack() as stack:
            opened = [stack.enter_context(Database(path, "r")) for path in paths]
            collected = collect(opened)
            names: dict[str, str] = {}
            for database in opened:
                names |= _names(database)
            notes = [note for database in opened for note in database.notes]
        if collected.left_out:
            reasons = "; ".join(collected.reasons)
            notes.append(f"{plural(collected.left_out, 'record')} left out: {reasons}")
        return cls(collected, names, tuple(notes))


def _names(database: Database) -> dict[str, str]:
    from ansor.cost.sample import task_key

    tasks = Tasks(database)
    found: dict[str, str] = {}
    for record in database.records(role="trial"):
        task = tasks(record)
        if task is not None:
            found.setdefault(task_key(task), tasks.name(record))
    return found


def _check_enough(paths: Sequence[str], found: Collected, least: int) -> None:
    if found.programs < least:
        raise CommandError(
            f"training from {', '.join(map(repr, paths))}",
            f"{plural(found.programs, 'trial')} with a time, at least {least} are "
            "needed",
            "tune some tasks first: ansor tune … --db FILE",
        )


@dataclass(frozen=True)
class Judged:
    """Scores of tasks that were held out, by a trained and by the analytic model."""

    trained: Mapping[str, Scores]
    analytic: Mapping[str, Scores]


def _judged(
    samples: Sequence[Sample], kind: str | None, count: int | None, seed: int
) -> Judged:
    """Train on other tasks, judge by those held out; without any, nothing."""
    from ansor.cost.model import AnalyticModel
    from ansor.cost.scores import evaluate
    from ansor.cost.train import hold_out, tasks_of

    tasks = len(tasks_of(samples))
    if count is not None and count >= tasks:
        raise CommandError(
            f"--hold-out {count}",
            f"the databases have {plural(tasks, 'task')}, and one must be left to "
            "train on",
            f"hold out at most {tasks - 1}",
        )
    if count == 0 or tasks < 2:
        return Judged({}, {})
    share = SHARE if count is None else count / tasks
    taught, held = hold_out(samples, share, seed)
    learner = _fresh(kind, seed)
    learner.fit(taught)
    return Judged(evaluate(learner, held), evaluate(AnalyticModel(), held))


def _fresh(kind: str | None, seed: int) -> LearnedModel:
    from ansor.cost.learned import LearnedModel
    from ansor.cost.model import default_model, model_from_name

    if kind is None:
        return default_model(seed)
    made = model_from_name(kind, seed)
    assert isinstance(made, LearnedModel)
    return made


def _answer(
    lesson: Lesson, judged: Judged, learner: LearnedModel, output: str
) -> Answer:
    rows = _rows(lesson, judged)
    programs, tasks = lesson.collected.programs, plural(len(rows), "task")
    data = {
        "model": output,
        "kind": learner.name,
        "programs": programs,
        "tasks": [row.data for row in rows],
        "left_out": lesson.collected.left_out,
    }
    saved = f"{output}: {learner.name}, {plural(programs, 'program')} of {tasks}"
    notes = (*lesson.notes, NOTHING) if not learner.parts else lesson.notes
    text = "\n".join(["", *_means(judged), saved])
    return Answer(data, text, table=_table(rows), notes=notes)


@dataclass(frozen=True)
class Row:
    """One task: how much there was to learn from, and scores if it was held out."""

    name: str
    programs: int
    failed: int
    scores: Scores | None

    @property
    def data(self) -> dict[str, object]:
        scores = None if self.scores is None else asdict(self.scores)
        return {
            "task": self.name,
            "programs": self.programs,
            "failed": self.failed,
            "held_out": scores,
        }

    @property
    def cells(self) -> tuple[str, ...]:
        return (self.name, str(self.programs), str(self.failed), *_figures(self.scores))


def _rows(lesson: Lesson, judged: Judged) -> list[Row]:
    import numpy as np

    rows = []
    for task in lesson.collected.tasks:
        own = [x.seconds for x in lesson.collected.samples if x.task == task]
        timed = int(sum(np.isfinite(seconds).sum() for seconds in own))
        failed = sum(map(len, own)) - timed
        name = lesson.names.get(task, task)
        rows.append(Row(name, timed, failed, judged.trained.get(task)))
    return rows


def _figures(scores: Scores | None) -> tuple[str, ...]:
    if scores is None:
        return ("", "", "")
    return tuple(f"{x:.3f}" for x in (scores.pairwise, scores.recall, scores.r2))


def _table(rows: Iterable[Row]) -> Table:
    from ansor.cost.scores import TOP

    table = Table(box=None, pad_edge=False)
    table.add_column("task", overflow="fold")
    for name in ("programs", "failed", "pairwise", f"recall@{TOP}", "R²"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row.cells))
    return table


def _means(judged: Judged) -> list[str]:
    from ansor.cost.scores import mean

    if not judged.trained:
        return ["no task held out: nothing to judge by"]
    held = plural(len(judged.trained), "task")
    return [
        f"held out, mean of {held}:  {mean(judged.trained.values())}",
        f"the analytic model alone:  {mean(judged.analytic.values())}",
    ]


# -- show -----------------------------------------------------------------------------


@model.command(help=SHOW)
@click.argument("file")
@json_option
@quiet_option
def show(file: str, as_json: bool, quiet: bool) -> None:
    from ansor.cost.columns import COLUMNS, VERSION
    from ansor.cost.model import load_model

    found = load_model(file)  # which checks all of it
    parts = [{"kind": x.learner.name, "trust": x.trust} for x in found.parts]
    data = {
        "model": file,
        "kind": found.name,
        "features": VERSION,
        "columns": len(COLUMNS),
        "bytes": Path(file).stat().st_size,
        "parts": parts,
    }
    learned = ", ".join(f"{x['kind']} (trust {x['trust']:.2f})" for x in parts)
    lines = (
        f"{file}: {found.name}",
        f"features  version {VERSION}, {len(COLUMNS)} columns",
        f"learned   {learned or 'nothing: the analytic model'}",
    )
    text = lines[0] if quiet else "\n".join(lines)
    Answer(data, text).show(as_json, quiet)
