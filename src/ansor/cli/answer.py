"""What a command has to say, to people and to machines."""

from __future__ import annotations

import json
from dataclasses import dataclass

import click
from rich.console import Console
from rich.table import Table

PIPED = 10_000  # columns where there is no terminal: a row is one line


@dataclass(frozen=True)
class Answer:
    """The same answer as data and as text; `is_good` decides the exit code."""

    data: object
    text: str
    is_good: bool = True
    table: Table | None = None  # above the text
    notes: tuple[str, ...] = ()  # what a person should know of the database

    def show(self, as_json: bool, quiet: bool) -> None:
        """Print it; quiet is without headings, and without text below a table."""
        if as_json:
            click.echo(json.dumps(self.data, indent=2))
        elif self.table is not None:
            self.table.show_header = not quiet
            print_table(self.table)
        if not as_json and not (quiet and self.table is not None):
            click.echo(self.text)
        show_notes(self.notes)


def print_table(table: Table) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PIPED
    console.print(table)


def show_notes(notes: tuple[str, ...]) -> None:
    """On stderr, what a person should know of a database."""
    for note in notes:
        click.echo(f"ansor: note: {note}", err=True)
