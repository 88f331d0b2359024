"""A benchmark's folder of databases and data, and how its competitors are started."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from ansor.te.reference import expected
from peers import data
from peers.protocol import Competitor, environment
from peers.tasks import find, task

HERE = Path(__file__).parent

Row = dict[str, Any]  # as it is in a file of results


@dataclass(frozen=True)
class Bench:
    """Settings of a run, and the folder with its databases and data."""

    folder: Path
    trials: int
    seeds: tuple[int, ...]
    rounds: int
    passive: bool
    verbose: bool

    @property
    def settings(self) -> Row:
        names = ("trials", "seeds", "rounds", "passive")
        return {name: getattr(self, name) for name in names}

    def data(self, workload: str) -> Path:
        """The file of inputs and right results, made when it is first needed."""
        path = self.folder / f"{workload}.npz"
        if not path.exists():
            made, source = task(workload, 1), find(workload)
            inputs = source.inputs(made.dag, np.random.default_rng(0))
            (values,), (allowed,) = expected(made.dag, inputs)
            names = [buffer.name for buffer in made.dag.inputs]
            named = dict(zip(names, inputs, strict=True))
            data.save(path, named, values, allowed)
        return path

    def tuned(self, workload: str, threads: int, seed: int) -> tuple[Path, Row]:
        """A database with the result, and what it took; found if it was done before."""
        database = self.folder / f"{workload}-t{threads}-s{seed}-n{self.trials}.db"

        def make() -> Row:
            forget(database)
            return tune(workload, threads, seed, database, f"trials={self.trials}")

        return database, once(database, make)

    @contextmanager
    def competitors(
        self, commands: dict[str, list[str]], threads: int
    ) -> Iterator[list[Competitor]]:
        """All that are ready, set up one after the other; they end with the block."""
        with ExitStack() as stack:
            found = []
            for name, command in commands.items():
                one = Competitor(name, command, threads, self.passive, not self.verbose)
                stack.callback(one.close)
                one.wait()
                found.append(one)
            yield found


def versions() -> Row:
    """Of what competes; packages that are not there are left out."""
    found: Row = {"python": platform.python_version()}
    for name in ("ansor", "llvmlite", "numpy", "torch"):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def once(path: Path, make: Callable[[], Row]) -> Row:
    """What `make` says, kept beside `path` if it was complete."""
    facts = path.with_name(path.name + ".facts.json")
    if facts.exists():
        known: Row = json.loads(facts.read_text())
        return known
    found = make()
    if found.get("is_complete"):
        facts.write_text(json.dumps(found))
    return found


def forget(database: Path) -> None:
    for path in database.parent.glob(f"{database.name}*"):
        path.unlink()


def tune(workload: str, threads: int, seed: int, database: Path, *more: str) -> Row:
    """Tune in a process of its own; what it took."""
    rest = ["tune", workload, str(threads), str(seed), str(database), *more]
    return answer([sys.executable, str(HERE / "ours.py"), *rest])


def answer(command: list[str], threads: int | None = None) -> Row:
    """The line of JSON that a command prints."""
    more = {} if threads is None else environment(threads)
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **more}
    )
    if done.returncode or not done.stdout:
        return {"error": f"ended with status {done.returncode}"}
    found: Row = json.loads(done.stdout)
    return found


def ours(workload: str, threads: int, path: Path, database: Path) -> list[str]:
    script = str(HERE / "ours.py")
    rest = ["race", workload, str(threads), str(path), str(database)]
    return [sys.executable, script, *rest]


def torch(kind: str, workload: str, threads: int, path: Path) -> list[str]:
    script = str(HERE / "torch_peer.py")
    return [sys.executable, script, kind, workload, str(threads), str(path)]
