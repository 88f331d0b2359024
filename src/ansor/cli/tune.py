"""`ansor tune`: search for a fast program and keep what was measured."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

import click

from ansor.cli.answer import Answer
from ansor.cli.errors import CommandError
from ansor.cli.measuring import Asked, Measuring, run_timeout
from ansor.cli.measuring import as_json as json_option
from ansor.cli.network import memory as memory_option
from ansor.cli.network import memory_limit
from ansor.cli.options import KNOWN, SETTINGS, takes_task_or_model
from ansor.cli.progress import display
from ansor.cli.tune_model import tune_model
from ansor.cli.units import clock, computation, duration, plural
from ansor.te.task import Task

if TYPE_CHECKING:  # the search loads LLVM, which --help does not need
    from ansor.frontend.model import Model
    from ansor.records.database import Database
    from ansor.records.record import Record
    from ansor.search.result import Result

TRIALS = 64
CACHES = "caches"  # of a database: whether its times are with warm or cold ones
USUAL = ("trials", "seconds", "interrupted")  # ends that need no word, or have one
INTERRUPTED = 130  # what shells say of a command ended by Ctrl-C

HELP = """Search for a fast program of a computation.

    WORDS name it: an operator and its sizes, in order or by name; a workload such as
    C2D-nhwc; file.py:name, a Task, a tensor, or a function that returns one; or
    model.onnx, all of whose tasks share the budget.

    Every result is checked before its time counts, and everything measured is in the
    database at once. Tuning again goes on where the database is; both budgets count
    what was spent before. Ctrl-C ends the search with the best so far, and exit code
    130.

    \b
    Examples:
      ansor tune matmul 512 512 512 --trials 64
      ansor tune conv2d --c 64 --h 56 --w 56 --o 64 --k 3 --pad 1 --seconds 60
      ansor tune model.onnx --seconds 300 --db tuning.db
      ansor tune mine.py:my_task --db mine.db --json
      ansor tune softmax 512 512 --cluster tcp://scheduler:8786
"""


@click.command(context_settings=SETTINGS, help=HELP, epilog=KNOWN)
@takes_task_or_model
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"Candidates to measure. [default: {TRIALS}, of a model for each task; or no "
    "limit with --seconds]",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Time for all of it, by the clock.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Of all random choices. [default: 0]",
)
@click.option(
    "--db",
    default="tuning.db",
    metavar="FILE",
    help="Where records are kept. [default: tuning.db]",
)
@click.option(
    "--policy",
    default="evolution",
    metavar="NAME",
    help="How candidates are chosen: evolution, or to compare with: beam, divisors, "
    "mutation, sampling, random. [default: evolution]",
)
@click.option(
    "--model",
    metavar="FILE",
    help="Start from what `ansor model train` learned.",
)
@click.option(
    "--cluster", metavar="ADDRESS", help="Measure on the workers of a Dask cluster."
)
@run_timeout
@click.option(
    "--cold", is_flag=True, help="Time with empty caches; needs a database of its own."
)
@memory_option
@click.option("--quiet", is_flag=True, help="Only the result: no progress.")
@json_option
def tune(
    subject: Task | Model,
    trials: int | None,
    seconds: float | None,
    seed: int,
    db: str,
    policy: str,
    model: str | None,
    cluster: str | None,
    run_timeout: float | None,
    cold: bool,
    memory: float | None,
    quiet: bool,
    as_json: bool,
) -> None:
    from ansor.cost.model import load_model
    from ansor.records.database import Database

    if isinstance(subject, Task) and memory is not None:
        raise CommandError("--memory", "is for models, not for one task")
    limit = memory_limit(memory)
    known = None if model is None else load_model(model, seed)
    measuring = Measuring(run_timeout, seed, cluster, subject.target if cold else None)
    with Database(db) as database:
        _check_caches(database, cold)
        asked = Asked(database, trials, seconds, seed, policy, known, quiet)
        if isinstance(subject, Task):
            answer, is_complete = _tune_task(subject, asked, measuring)
        else:
            answer, is_complete = tune_model(subject, asked, measuring, limit)
        answer.show(as_json, quiet)
    if not is_complete:
        click.get_current_context().exit(INTERRUPTED)


def _tune_task(task: Task, asked: Asked, measuring: Measuring) -> tuple[Answer, bool]:
    """What was found, and whether the search came to its end."""
    from ansor.measure.identity import versions
    from ansor.search.tune import tune as search

    database, db = asked.database, str(asked.database.path)
    name = task.dag.outputs[0].name
    with measuring.runner() as runner, display(name, asked.quiet) as listener:
        result = search(
            task,
            trials=asked.limit(TRIALS),
            seconds=asked.seconds,
            seed=asked.seed,
            database=database,
            runner=runner,
            model=asked.model,
            policy=asked.policy,
            progress=listener,
        )
    best = database.best(task, llvm=versions()["llvm"])
    text = _line(result) if asked.quiet else _text(result, db, best)
    answer = Answer(describe(result, db, best), text, notes=database.notes)
    return answer, result.is_complete


def _check_caches(database: Database, cold: bool) -> None:
    """Times with cold and with warm caches do not compare: each has its own file."""
    wanted = "cold" if cold else "warm"
    known = database.meta(CACHES) or ("warm" if len(database) else wanted)
    if known != wanted:
        raise CommandError(
            f"database {str(database.path)!r}",
            f"holds times with {known} caches",
            f"name another file, or {'leave --cold out' if cold else 'add --cold'}",
        )
    if cold:
        database.set_meta(CACHES, wanted)


def describe(result: Result, db: str, best: Record | None) -> dict[str, object]:
    """A result as plain data; `best` is what `build` takes from the database."""
    task = result.task
    return {
        "task": computation(task.dag),
        "workload": task.key,
        "target": str(task.target),
        "fingerprint": task.target.fingerprint,
        "seconds": result.seconds,
        "gflops": result.gflops,
        "gain": _gain(result),
        "trials": result.trials,
        "failures": result.failures,
        "spent": result.spent,
        "complete": result.is_complete,
        "stopped": result.stopped,
        "database": db,
        "best": best and {"record": best.id, "seconds": best.seconds},
        "steps": str(result.program).splitlines(),
        "history": [[x.trial, x.best, x.spent] for x in result.history],
    }


def _gain(result: Result) -> float:
    """How many times faster the best trial is than the first that ran."""
    times = [x.seconds for x in result.records if x.seconds is not None]
    return times[0] / min(times) if times else 1.0


def _line(result: Result) -> str:
    speed = f", {result.gflops:.4g} GFLOP/s" if result.gflops else ""
    return f"{result.task.dag.outputs[0].name}: {duration(result.seconds)}{speed}"


def _text(result: Result, db: str, best: Record | None) -> str:
    failed = ", ".join(f"{n} at {stage}" for stage, n in result.failures.items())
    trials = f"{plural(result.trials, 'trial')} in {clock(result.spent)}"
    if result.stopped not in USUAL:
        trials += f", then ended: {result.stopped}"
    lines = [
        f"{_line(result)} on {result.task.target}",
        f"{trials}; failed: {failed or 'none'}; gain over the first: "
        f"{_gain(result):.3g}x",
        f"stored in {db}{_stored(result, best)}",
        f"  use it:  ansor.build(task, database={db!r})",
        f"  see it:  ansor records {quote(db)} --best",
    ]
    if not result.is_complete:
        lines.insert(0, "interrupted; the best so far:")
    return "\n".join(lines)


def _stored(result: Result, best: Record | None) -> str:
    """Which record `build` takes; of several runs another one may have found it."""
    from ansor.schedule.data import to_data

    if best is None or best.seconds is None:  # measured elsewhere with another LLVM
        return ""
    if best.program == to_data(result.program):
        return f"; the best is record {best.id}"
    return f"; the best is record {best.id} of another run, {duration(best.seconds)}"
