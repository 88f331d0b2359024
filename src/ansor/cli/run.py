"""`ansor run`: run a whole model on files, and see where its time goes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import numpy as np
import numpy.typing as npt
from rich.table import Table
from rich.text import Text

from ansor.cli.answer import Answer
from ansor.cli.errors import CommandError
from ansor.cli.measuring import as_json as json_option
from ansor.cli.network import db as db_option
from ansor.cli.network import memory as memory_option
from ansor.cli.network import memory_limit, takes_model
from ansor.cli.units import clock, duration, plural, size

if TYPE_CHECKING:  # a model is not needed for --help
    from ansor.frontend.executor import Executable
    from ansor.frontend.graph import Value
    from ansor.frontend.model import Model
    from ansor.frontend.profile import Profile, Row

Array = npt.NDArray[np.generic]
REPEATS = 10
SHOWN = 100  # characters of a row's operators

HELP = """Run a model of an ONNX file.

    Inputs are .npy files, in order or by name; those that are not given are random.
    Kernels are the best of the database, or untuned. Nothing is measured before.

    \b
    Examples:
      ansor run model.onnx --input x.npy --output y.npy
      ansor run model.onnx --db tuning.db --profile
      ansor run model.onnx --shape batch=1 --input ids=ids.npy --json
"""


@click.command(help=HELP)
@takes_model
@db_option
@memory_option
@click.option(
    "--input", "inputs", multiple=True, metavar="[NAME=]FILE",
    help="An input as .npy; once for each.",
)  # fmt: skip
@click.option(
    "--output", "outputs", multiple=True, metavar="FILE",
    help="Where to write an output as .npy; once for each, in order.",
)  # fmt: skip
@click.option("--profile", is_flag=True, help="The time of every step.")
@click.option(
    "--repeats", type=click.IntRange(min=1), default=REPEATS, metavar="N",
    help=f"Runs that are timed. [default: {REPEATS}]",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Only the result: no progress, no heading.")
@json_option
def run(
    model: Model,
    db: str | None,
    memory: float | None,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    profile: bool,
    repeats: int,
    quiet: bool,
    as_json: bool,
) -> None:
    limit = memory_limit(memory)
    given = read_inputs(model.inputs, inputs)
    if len(outputs) > len(model.outputs):
        raise CommandError(
            f"{len(outputs)} times --output",
            f"the model has {plural(len(model.outputs), 'output')}",
        )
    for path in outputs:
        _check_writable(path)
    start = time.perf_counter()
    exe = model.compile(db, memory=limit)
    compiled = time.perf_counter() - start
    if not quiet:
        click.echo(f"compiled in {clock(compiled)}", err=True)
    results = exe(*given)
    for path, result in zip(outputs, results, strict=False):
        with Path(path).open("wb") as file:  # of exactly this name
            np.save(file, np.asarray(result))
    found = exe.profile(*given, repeats=repeats)
    data = describe(exe, found, results, compiled)
    table = _table(found) if profile else None
    Answer(data, _text(exe, found, outputs), table=table).show(as_json, quiet)


def read_inputs(values: Sequence[Value], words: Sequence[str]) -> list[Array]:
    """The arrays of a model's inputs: from files, else random."""
    paths: dict[str, str] = {}
    for word in words:
        name, path = _named(word, values, paths)
        if name in paths:
            raise CommandError(f"--input {word}", f"input {name!r} is given twice")
        paths[name] = path
    rng = np.random.default_rng(0)
    return [_load(paths[x.name], x) if x.name in paths else _random(x, rng)
            for x in values]  # fmt: skip


def _named(
    word: str, values: Sequence[Value], known: dict[str, str]
) -> tuple[str, str]:
    """The name of an input, and its file."""
    names = [value.name for value in values]
    name, equals, path = word.partition("=")
    if equals and name in names:
        return name, path
    if equals and not Path(word).exists():
        raise CommandError(
            f"--input {word}", f"no input {name!r}", f"inputs are {', '.join(names)}"
        )
    free = [x for x in names if x not in known]
    if not free:
        raise CommandError(
            f"--input {word}", f"the model has {plural(len(names), 'input')}"
        )
    return free[0], word


def _load(path: str, value: Value) -> Array:
    what = f"--input {path}"
    try:
        found = np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise CommandError(what, "there is no such file") from None
    except (OSError, ValueError, EOFError) as error:
        raise CommandError(what, f"not a .npy file: {error}") from error
    if not isinstance(found, np.ndarray):
        raise CommandError(what, "not a .npy file", "save one array with numpy.save")
    if value.dtype == "bfloat16" and found.dtype.str == "|V2":  # as NumPy saves it
        found = found.view(value.dtype)
    if (found.dtype.name, found.shape) != (value.dtype, value.shape):
        raise CommandError(
            what,
            f"is {found.dtype.name}{list(found.shape)}, but input {value.name!r} is "
            f"{value.dtype}{list(value.shape)}",
        )
    # C order, and bytes in the order of this machine
    return np.asarray(found, found.dtype.newbyteorder("="), order="C")


def _check_writable(path: str) -> None:
    """Before minutes are spent on what goes there."""
    place = Path(path)
    if place.is_dir():
        raise CommandError(f"--output {path}", "is a directory", "name a file in it")
    if not place.parent.is_dir():
        raise CommandError(
            f"--output {path}", f"there is no directory {str(place.parent)!r}"
        )


def _random(value: Value, rng: np.random.Generator) -> Array:
    """Numbers around zero; of integers zeros, which are indices more often than not."""
    if value.dtype.startswith(("float", "bfloat")):
        return rng.standard_normal(value.shape, np.float32).astype(value.dtype)
    return np.zeros(value.shape, value.dtype)


def describe(
    exe: Executable, found: Profile, results: Sequence[object], compiled: float
) -> dict[str, object]:
    """A run as plain data."""
    return {
        "model": exe.name,
        "target": str(exe.target),
        "compile_seconds": compiled,
        "seconds": found.total,
        "memory": {
            "arena_bytes": exe.memory.arena,
            "constant_bytes": exe.memory.constants,
        },
        "outputs": [
            {"name": value.name, **_summary(np.asarray(x))}
            for value, x in zip(exe.outputs, results, strict=True)
        ],
        "steps": [_row(row) for row in found.rows],
    }


def _summary(array: Array) -> dict[str, object]:
    facts: dict[str, object] = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if array.size and array.dtype != bool:
        wide = array.astype(np.float64)
        low, mean, high = (float(f(wide)) for f in (np.min, np.mean, np.max))
        numbers = {"min": low, "mean": mean, "max": high}
        # JSON has no word for these
        facts |= {key: x if np.isfinite(x) else str(x) for key, x in numbers.items()}
    return facts


def _row(row: Row) -> dict[str, object]:
    return {
        "step": row.step,
        "operators": list(row.operators),
        "task": row.task,
        "seconds": row.seconds,
        "share": row.share,
        "gflops": row.gflops,
        "tuned": row.is_tuned,
    }


def _text(exe: Executable, found: Profile, outputs: Sequence[str]) -> str:
    tuned = sum(row.is_tuned for row in found.rows)
    lines = [
        f"{exe.name}: {duration(found.total)} on {exe.target}",
        f"{plural(len(found.rows), 'step')}, {tuned} tuned; arena "
        f"{size(exe.memory.arena)}, constants {size(exe.memory.constants)}",
    ]
    lines += [f"stored in {path}" for path in outputs]
    return "\n".join(lines)


def _table(found: Profile) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("step", "time", "share", "GFLOP/s"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("tuned", no_wrap=True)
    table.add_column("operators", overflow="fold")
    for row in found.rows:
        table.add_row(
            str(row.step),
            duration(row.seconds),
            f"{row.share:.1%}",
            f"{row.gflops:.1f}",
            "yes" if row.is_tuned else "no",
            Text(" ".join(row.operators)[:SHOWN]),
        )
    return table
