"""`ansor export`: a model as a library for programs without Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ansor.cli.answer import Answer
from ansor.cli.measuring import as_json as json_option
from ansor.cli.network import db as db_option
from ansor.cli.network import memory as memory_option
from ansor.cli.network import memory_limit, takes_model
from ansor.cli.units import size

if TYPE_CHECKING:  # a model is not needed for --help
    from ansor.frontend.model import Model

HELP = """Write a model of an ONNX file as a C library.

    The directory gets a static and a shared library, a header, a manifest, and an
    example main.c. Weights are inside; nothing of ansor is needed to run it.

    \b
    Examples:
      ansor export model.onnx --db tuning.db -o out/
      ansor export model.onnx --name net -o out/ --json
"""


@click.command(help=HELP)
@takes_model
@db_option
@memory_option
@click.option("-o", "--out", required=True, metavar="FOLDER", help="Where to write.")
@click.option("--name", metavar="NAME", help="Of functions and files, in C.")
@click.option("--quiet", is_flag=True, help="Only the names of the files.")
@json_option
def export(
    model: Model,
    db: str | None,
    memory: float | None,
    out: str,
    name: str | None,
    quiet: bool,
    as_json: bool,
) -> None:
    from ansor.frontend.export import library_name

    limit = memory_limit(memory)  # all of these before minutes of compiling
    name = library_name(model.name, name)
    Path(out).mkdir(parents=True, exist_ok=True)
    exe = model.compile(db, memory=limit)
    exported = exe.export(out, name)
    names = [str(path) for path in exported.files]
    data = {
        "model": exe.name,
        "target": str(exe.target),
        "files": names,
        "notes": list(exported.notes),
        "workspace_bytes": exe.memory.arena,
        "weights_bytes": exe.memory.constants,
    }
    text = "\n".join(names)
    if not quiet:
        text += (
            f"\n{exe.name} for {exe.target}: weights {size(exe.memory.constants)}, "
            f"workspace {size(exe.memory.arena)}"
        )
    Answer(data, text, notes=exported.notes).show(as_json, quiet)
