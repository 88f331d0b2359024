"""What commands that take a whole model share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, ParamSpec

import click

from ansor.cli.errors import CommandError
from ansor.target import Target

if TYPE_CHECKING:  # a model is not needed for --help
    from ansor.frontend.model import Model

P = ParamSpec("P")
SUFFIX = ".onnx"

plain = click.option(
    "--plain", is_flag=True,
    help="Compute convolutions as they are written, not by Winograd's method.",
)  # fmt: skip

_OPTIONS = (
    click.argument("path", metavar="MODEL"),
    click.option(
        "--shape", "shapes", multiple=True, metavar="NAME=N[,N…]",
        help="A shape or length that the file leaves open: x=1,3,224,224 or batch=1.",
    ),
    click.option(
        "--cores", type=click.IntRange(min=1), metavar="N", help="Cores to use."
    ),
    plain,
)  # fmt: skip

db = click.option(
    "--db", metavar="FILE", help="Records of `ansor tune`. [default: untuned]"
)

memory = click.option(
    "--memory", type=float, metavar="TIMES",
    help="Weights of faster ways may need so many times the memory of the plain ones; "
    "inf is no limit. [default: 1.16]",
)  # fmt: skip


def memory_limit(given: float | None) -> float:
    """What --memory means."""
    from ansor.frontend.ways import MEMORY, checked

    return MEMORY if given is None else checked(given)


def takes_model(command: Callable[Concatenate[Model, P], None]) -> Callable[..., None]:
    """Give a command the arguments that name a model; it gets the model first."""

    @wraps(command)
    def wrapped(
        path: str,
        shapes: tuple[str, ...],
        cores: int | None,
        plain: bool,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> None:
        target = Target("cpu", cores=cores) if cores else None
        command(read_model(path, shapes, target, plain), *args, **kwargs)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


def is_model(word: str) -> bool:
    """The word names a file with a model."""
    return word.lower().endswith(SUFFIX)


def read_model(
    path: str,
    shapes: Sequence[str] = (),
    target: Target | None = None,
    is_plain: bool = False,
) -> Model:
    """The model of a file; `shapes` as they are written on the command line."""
    if not is_model(path):
        raise CommandError(
            f"model {path!r}", f"its name does not end in {SUFFIX}", "name an ONNX file"
        )
    if not Path(path).is_file():
        reason = "is not a file" if Path(path).exists() else "there is no such file"
        raise CommandError(f"model {path!r}", reason)
    from ansor.frontend.onnx import from_onnx

    given = dict(map(_shape, shapes))
    others = () if is_plain else None
    return from_onnx(path, shapes=given, target=target, alternatives=others)


def _shape(text: str) -> tuple[str, int | tuple[int, ...]]:
    name, _, numbers = text.rpartition("=")
    try:
        lengths = tuple(map(int, numbers.split(",")))
    except ValueError:
        lengths = ()
    if not name or not lengths:
        raise CommandError(
            f"--shape {text}", "is not a shape", "write x=1,3,224,224 or batch=1"
        )
    return name, lengths if "," in numbers else lengths[0]
