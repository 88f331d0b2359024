"""Options that commands share."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec

import click

from ansor.cli.errors import CommandError
from ansor.cli.network import is_model, plain, read_model
from ansor.cli.operators import OPERATORS
from ansor.cli.source import find_task, refuse
from ansor.ir.dtypes import DTYPES
from ansor.target import Target
from ansor.target.target import KINDS
from ansor.te.task import Task
from ansor.te.workloads import MORE, WORKLOADS

if TYPE_CHECKING:  # a model is not needed for --help
    from ansor.frontend.model import Model

P = ParamSpec("P")

# Unknown options are sizes of the operator: its row of the table reads them.
SETTINGS = {"ignore_unknown_options": True, "help_option_names": ["--help"]}

KNOWN = "\n\n".join(
    (
        "\b\nOperators, with their sizes and defaults:",
        "\b\n" + "\n".join(f"  {row}" for row in OPERATORS.values()),
        f"Workloads: {', '.join((*WORKLOADS, *MORE))}.",
    )
)

_OPTIONS = (
    click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED),
    click.option(
        "--target", "kind", metavar="KIND",
        help=f"What to make programs for: {', '.join(KINDS)}. [default: this CPU]",
    ),
    click.option("--cpu", metavar="NAME", help="A CPU by LLVM's name: neoverse-n1."),
    click.option("--arch", metavar="NAME", help="A GPU's architecture: sm_90."),
    click.option(
        "--cores", type=click.IntRange(min=1), metavar="N", help="Cores to use."
    ),
    click.option("--batch", type=int, metavar="N", help="Batch size. [default: 1]"),
    click.option(
        "--dtype", type=click.Choice(tuple(DTYPES)), metavar="TYPE",
        help="Type of an operator's inputs. [default: float32]",
    ),
)  # fmt: skip


def takes_task(command: Callable[Concatenate[Task, P], None]) -> Callable[..., None]:
    """Give a command the arguments that name a task; it gets the task first."""

    @wraps(command)
    def wrapped(
        words: tuple[str, ...],
        kind: str | None,
        cpu: str | None,
        arch: str | None,
        cores: int | None,
        batch: int | None,
        dtype: str | None,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        target = _target(kind, cpu, arch, cores)
        command(find_task(words, target, batch, dtype), *args, **kwargs)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


_SHAPE = click.option(
    "--shape", "shapes", multiple=True, metavar="NAME=N[,N…]",
    help="A shape or length that a model's file leaves open: x=1,3,224,224 or batch=1.",
)  # fmt: skip


def takes_task_or_model(
    command: Callable[Concatenate[Task | Model, P], None],
) -> Callable[..., None]:
    """Likewise; the first word may name a file with a model."""

    @wraps(command)
    def wrapped(
        words: tuple[str, ...],
        kind: str | None,
        cpu: str | None,
        arch: str | None,
        cores: int | None,
        batch: int | None,
        dtype: str | None,
        shapes: tuple[str, ...],
        plain: bool,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        target = _target(kind, cpu, arch, cores)
        found: Task | Model
        if is_model(words[0]):
            refuse(words[0], words[1:], batch=batch, dtype=dtype)
            found = read_model(words[0], shapes, target, plain)
        else:
            refuse(words[0], (), shape=" ".join(shapes) or None)
            if plain:
                raise CommandError("--plain", f"is for models, not for {words[0]}")
            found = find_task(words, target, batch, dtype)
        command(found, *args, **kwargs)

    for option in (plain, _SHAPE, *reversed(_OPTIONS)):
        wrapped = option(wrapped)
    return wrapped


def _target(
    kind: str | None, cpu: str | None, arch: str | None, cores: int | None
) -> Target | None:
    """The target that the options describe; None where none is given."""
    if kind is None and cpu is None and arch is None and cores is None:
        return None
    return Target(kind or "cpu", arch or "", cpu or "", cores=cores or 0)
