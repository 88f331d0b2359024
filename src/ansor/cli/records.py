"""`ansor records`: look at a database, check it, move records in and out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from ansor.cli import care
from ansor.cli.answer import Answer
from ansor.cli.measuring import Measuring, run_timeout
from ansor.cli.measuring import as_json as json_option
from ansor.cli.table import Filter, look

HELP = """Look at the records in FILE, check them, move them in and out.

    Without options that say otherwise: the newest records. --verify checks the file
    and every row of it, and runs the best record of each workload again, isolated and
    compared with the reference. --reproduce runs any record again, a failed one, too.

    \b
    Examples:
      ansor records tuning.db --best
      ansor records tuning.db --failures
      ansor records tuning.db --reproduce 17
      ansor records tuning.db --verify
      ansor records tuning.db --merge other.db
      ansor records tuning.db --export tuning.jsonl
"""


@click.command(help=HELP)
@click.argument("file")
@click.option("--best", is_flag=True, help="The fastest of each workload and target.")
@click.option("--failures", is_flag=True, help="Those that gave no time, and why.")
@click.option(
    "--workload",
    default="",
    metavar="WORD",
    help="Of outputs called WORD, or whose key begins with it.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="The newest N. [default: 50 in a table, all in JSON]",
)
@click.option(
    "--verify", is_flag=True, help="Check the file; run the best records again."
)
@click.option("--reproduce", type=int, metavar="N", help="Run record N again.")
@click.option("--export", metavar="PATH", help="Write all records as lines of JSON.")
@click.option("--import", "load", metavar="PATH", help="Add what --export wrote.")
@click.option("--merge", metavar="PATH", help="Add the records of another database.")
@click.option(
    "--prune",
    type=click.IntRange(min=1),
    metavar="N",
    help="Keep the N fastest and last failed of each workload and target.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Of the inputs to check with. [default: 0]",
)
@run_timeout
@json_option
@click.option("--quiet", is_flag=True, help="Only records: no headings.")
def records(
    file: str,
    best: bool,
    failures: bool,
    workload: str,
    limit: int | None,
    seed: int,
    run_timeout: float | None,
    as_json: bool,
    quiet: bool,
    **actions: str | int | None,
) -> None:
    name, value = _chosen(actions)
    if name:
        asked = Asked(Path(file), value, Measuring(run_timeout, seed))
        answer = ACTIONS[name].answer(asked)
    else:
        which = Filter(best, failures, workload, limit, as_json)
        answer = look(Path(file), which)
    answer.show(as_json, quiet)
    if not answer.is_good:
        click.get_current_context().exit(1)


@dataclass(frozen=True)
class Asked:
    """What an action is about: the database, the option's value, how to measure."""

    path: Path
    value: str
    measuring: Measuring


@dataclass(frozen=True)
class Action:
    """An option that does something else than look."""

    option: str
    answer: Callable[[Asked], Answer]


ACTIONS = {
    "verify": Action("--verify", lambda x: care.verify(x.path, x.measuring)),
    "reproduce": Action(
        "--reproduce", lambda x: care.reproduce(x.path, int(x.value), x.measuring)
    ),
    "export": Action("--export", lambda x: care.export(x.path, x.value)),
    "load": Action("--import", lambda x: care.load(x.path, x.value)),
    "merge": Action("--merge", lambda x: care.merge(x.path, x.value)),
    "prune": Action("--prune", lambda x: care.prune(x.path, int(x.value))),
}


def _chosen(actions: Mapping[str, str | int | None]) -> tuple[str, str]:
    """The one action that was asked for, and its value; an empty name to look."""
    given = [
        (name, value)
        for name, value in actions.items()
        if value is not None and value is not False
    ]
    if len(given) > 1:
        names = " and ".join(ACTIONS[name].option for name, _ in given)
        raise click.UsageError(f"{names} are given: ask for one at a time")
    return (given[0][0], str(given[0][1])) if given else ("", "")
