"""`ansor sketches`: print the search space derived for a computation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import prod

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ansor.cli.options import KNOWN, SETTINGS, takes_task
from ansor.schedule import Sketch
from ansor.te.task import Task

PIPED = 10_000  # columns where there is no terminal: a sketch is one line

HELP = """Print the search space derived for a computation.

    WORDS name it: an operator and its sizes, in order or by name; a workload such as
    C2D-nhwc; or file.py:name, a Task, a tensor, or a function that returns one.

    \b
    Examples:
      ansor sketches matmul 512 512 512
      ansor sketches conv2d --c 64 --h 56 --w 56 --o 64 --k 3 --pad 1 --full
      ansor sketches C2D-nhwc --batch 16 --target cuda
      ansor sketches mine.py:my_task --json
"""


@click.command(context_settings=SETTINGS, help=HELP, epilog=KNOWN)
@takes_task
@click.option("--full", is_flag=True, help="The loop nest of every sketch.")
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Only the first N."
)
@click.option("--json", "as_json", is_flag=True, help="For machines: a JSON list.")
@click.option("--quiet", is_flag=True, help="Only sketches: no task, no headings.")
def sketches(
    task: Task, full: bool, limit: int | None, as_json: bool, quiet: bool
) -> None:
    from ansor import space  # derivation is not needed for --help

    found = space.sketches(task)
    shown = found[:limit]
    if as_json:
        click.echo(json.dumps([describe(sketch) for sketch in shown], indent=2))
        return
    if not quiet:
        click.echo(f"{task}\n")
    if full:
        click.echo("\n\n".join(map(_whole, range(1, len(shown) + 1), shown)))
    else:
        _print_table(shown, quiet)
    if not quiet:
        click.echo(f"\n{_count(found)}{_hidden(found, shown)}")


def describe(sketch: Sketch) -> dict[str, object]:
    """A sketch as plain data."""
    return {
        "trace": list(sketch.trace),
        "knobs": {knob.name: list(knob.candidates) for knob in sketch.knobs},
        "steps": [str(step) for step in sketch.steps],
        "loops": str(sketch),
    }


def _points(sketch: Sketch) -> int:
    """How many programs a sketch stands for, feasible or not."""
    return prod(len(knob.candidates) for knob in sketch.knobs)


def _whole(number: int, sketch: Sketch) -> str:
    trace = "\n".join(f"#   {rule}" for rule in sketch.trace)
    points = _number(_points(sketch))
    head = f"# sketch {number}: {len(sketch.knobs)} knobs, {points} points"
    return "\n".join(filter(None, (head, trace, str(sketch))))


def _print_table(shown: Sequence[Sketch], quiet: bool) -> None:
    table = Table(box=None, show_header=not quiet, pad_edge=False)
    for name in ("#", "knobs", "points"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("rules", overflow="fold")
    for number, sketch in enumerate(shown, 1):
        counts = (str(number), str(len(sketch.knobs)), _number(_points(sketch)))
        table.add_row(*counts, Text("; ".join(sketch.trace)))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PIPED
    console.print(table)


def _number(count: int) -> str:
    return f"{count:,}" if count < 1_000_000 else f"{count:.2e}"


def _count(found: Sequence[Sketch]) -> str:
    total = sum(map(_points, found))
    return (
        f"{len(found)} sketch{'' if len(found) == 1 else 'es'}, {_number(total)} points"
    )


def _hidden(found: Sequence[Sketch], shown: Sequence[Sketch]) -> str:
    rest = len(found) - len(shown)
    return f"; {rest} not shown" if rest else ""
