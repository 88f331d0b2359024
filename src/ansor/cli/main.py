"""The command `ansor` and what it does with errors."""

from __future__ import annotations

from importlib import import_module
from typing import IO, Any

import click

from ansor.cli.export import export
from ansor.cli.info import info
from ansor.cli.model import model
from ansor.cli.records import records
from ansor.cli.run import run
from ansor.cli.sketches import sketches
from ansor.cli.tune import INTERRUPTED, tune
from ansor.errors import AnsorError

VERSION = import_module("ansor").__version__  # the package itself is no layer below

HELP = """Fast, verified tensor kernels for the CPU or GPU at hand, found by search.

    \b
    Examples:
      ansor info
      ansor tune matmul 512 512 512 --trials 64
      ansor tune model.onnx --seconds 300
      ansor run model.onnx --db tuning.db --input x.npy
      ansor records tuning.db --best
"""


class Failure(click.ClickException):
    """An error of ours on its way to the shell."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"ansor: error: {self.message}", file, err=file is None)


class Interrupted(click.ClickException):
    """Ctrl-C before there was anything to show."""

    exit_code = INTERRUPTED

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"ansor: {self.message}", file, err=file is None)


class Commands(click.Group):
    """Commands raise AnsorError, or OSError about a file: both reach the shell as a
    message and exit code 1. Ctrl-C does so with the code that shells have for it."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except AnsorError as error:
            raise Failure(str(error)) from error
        except KeyboardInterrupt as error:
            raise Interrupted("interrupted") from error
        except OSError as error:
            if error.filename is None:  # not about a file that was named
                raise
            raise Failure(f"{error.filename}: {error.strerror}") from error


@click.group(cls=Commands, help=HELP)
@click.version_option(VERSION, prog_name="ansor")
def cli() -> None:
    pass


for command in (tune, run, export, sketches, records, model, info):
    cli.add_command(command)


def main() -> None:
    """Run the command line; leaves the process with its exit code."""
    cli(prog_name="ansor")
