"""`ansor tune` of a whole model: its tasks share one budget."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from ansor.cli.answer import Answer
from ansor.cli.measuring import Asked, Measuring
from ansor.cli.overview import display_all
from ansor.cli.units import clock, computation, duration, plural

if TYPE_CHECKING:  # the search loads LLVM, which --help does not need
    from ansor.frontend.model import Model
    from ansor.frontend.subgraph import Candidate
    from ansor.search.result import Result
    from ansor.search.results import Results

TRIALS = 64  # of each task, on average
WIDTH = 40  # characters of a task's operators
USUAL = ("trials", "seconds", "interrupted")  # ends that need no word, or have one


def tune_model(
    model: Model, asked: Asked, measuring: Measuring, memory: float
) -> tuple[Answer, bool]:
    """What was found, and whether the search came to its end."""
    candidates = model.candidates_within(memory)
    names = task_names(candidates)
    with (
        measuring.runner() as runner,
        display_all(model.name, names, asked.quiet) as listener,
    ):
        results = model.tune(
            trials=asked.limit(TRIALS * len(model.tasks)),
            seconds=asked.seconds,
            seed=asked.seed,
            database=asked.database,
            runner=runner,
            model=asked.model,
            policy=asked.policy,
            memory=memory,
            progress=listener,
        )
    db = str(asked.database.path)
    text = _line(model, results) if asked.quiet else _text(model, results, db)
    table = None if asked.quiet else _table(candidates, results)
    data = describe(model, candidates, results, db)
    notes = asked.database.notes
    return Answer(data, text, table=table, notes=notes), results.is_complete


def task_names(candidates: Sequence[Candidate]) -> list[str]:
    """The operators of each candidate, as one text."""
    return [_short(x.operators) for x in candidates]


def _short(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def describe(
    model: Model, candidates: Sequence[Candidate], results: Results, db: str
) -> dict[str, object]:
    """Results as plain data."""
    rows = zip(candidates, task_names(candidates), results, strict=True)
    taken = set(results.fastest)
    return {
        "model": model.name,
        "target": str(model.target),
        "seconds": results.seconds,
        "trials": results.trials,
        "spent": results.spent,
        "complete": results.is_complete,
        "stopped": results.stopped,
        "database": db,
        "tasks": [
            _describe(*row) | {"fastest": n in taken} for n, row in enumerate(rows)
        ],
        "history": [[x.trial, x.best, x.spent] for x in results.history],
    }


def _describe(candidate: Candidate, name: str, result: Result) -> dict[str, object]:
    return {
        "task": computation(candidate.task.dag),
        "operators": name,
        "workload": candidate.task.key,
        "place": candidate.place,
        "weight": candidate.weight,
        "seconds": result.seconds,
        "measured": result.is_measured,
        "gflops": result.gflops,
        "trials": result.trials,
        "failures": result.failures,
        "stopped": result.stopped,
        "error": None if result.error is None else str(result.error),
    }


def _table(candidates: Sequence[Candidate], results: Results) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("task", overflow="fold")
    for name in ("times", "trials", "each", "share", "GFLOP/s"):
        table.add_column(name, justify="right", no_wrap=True)
    shares = {n: results[n].seconds * candidates[n].weight for n in results.fastest}
    whole = sum(shares.values())
    rows = zip(task_names(candidates), results, strict=True)
    for n, (name, result) in enumerate(rows):
        mark = "" if result.is_measured else "~"
        table.add_row(
            Text(name),
            str(candidates[n].weight),
            str(result.trials),
            f"{mark}{duration(result.seconds)}",
            f"{shares[n] / whole:.1%}" if n in shares and whole else "",
            f"{result.gflops:.4g}" if result.is_measured else "",
        )
    return table


def _line(model: Model, results: Results) -> str:
    return f"{model.name}: {duration(results.seconds)}"


def _text(model: Model, results: Results, db: str) -> str:
    trials = f"{plural(results.trials, 'trial')} in {clock(results.spent)}"
    if not results.trials and results.stopped == "seconds":
        trials = "no trials: the time was too short for any, give more --seconds"
    if results.stopped not in USUAL:
        trials += f", then ended: {results.stopped}"
    unmeasured = sum(not results[n].is_measured for n in results.fastest)
    if unmeasured:
        trials += f"; {plural(unmeasured, 'task')} not measured, times with ~ are "
        trials += "the analytic model's"
    lines = [
        "",
        f"{_line(model, results)} in all on {model.target}",
        trials,
        f"stored in {db}",
        f"  use it:  model.compile(database={db!r})",
        f"  run it:  ansor run MODEL --db {quote(db)}",
    ]
    errors = [str(x.error).splitlines()[0] for x in results if x.error is not None]
    lines += [f"failed: {error}" for error in errors]
    if not results.is_complete:
        lines.insert(1, "interrupted; the best so far:")
    return "\n".join(lines)
