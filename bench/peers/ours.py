"""This project as a competitor.

    python bench/peers/ours.py tune WORKLOAD THREADS SEED DATABASE [OPTION=VALUE …]
    python bench/peers/ours.py race WORKLOAD THREADS DATA DATABASE

"tune" prints what it took, as one line of JSON; options are those of `ansor.tune`.
"race" builds the best program of a database, with constant inputs laid out ahead, and
runs it in turn with others.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from data import is_right, load
from protocol import Hello, private_output, serve
from tasks import task

import ansor
from ansor.codegen import runtime

OPTIONS: dict[str, Callable[[str], object]] = {
    "trials": int,
    "seconds": float,
    "policy": str,
    "transfer": lambda text: text == "yes",
}


def options(texts: list[str]) -> dict[str, Any]:
    pairs = [text.partition("=") for text in texts]
    return {name: OPTIONS[name](value) for name, _, value in pairs}


def tune(workload: str, threads: int, seed: int, database: str, *more: str) -> None:
    line = private_output()
    chosen = options(list(more))
    start = time.perf_counter()
    try:
        result = ansor.tune(
            task(workload, threads),
            seed=seed,
            database=database,
            **chosen,
        )
    except ansor.AnsorError as error:
        line.write(json.dumps({"error": str(error)}) + "\n")
        return
    facts = {
        "wall_s": time.perf_counter() - start,
        "trials": result.trials,
        "failures": result.failures,
        "seconds": result.seconds,
        "gflops": result.gflops,
        "is_complete": result.is_complete,
        "stopped": result.stopped,
        "history": [(at.trial, at.best, at.spent) for at in result.history],
    }
    line.write(json.dumps(facts) + "\n")


def prepare(
    workload: str, threads: int, path: Path, database: str
) -> tuple[Callable[[], object], Hello]:
    runtime.set_threads(threads)
    made = task(workload, threads)
    values, expected, allowed = load(path)
    start = time.perf_counter()
    kernel = ansor.build(made, database=database)
    compiling = time.perf_counter() - start
    constants = {name: values[name] for name in made.dag.constants}
    inputs = [values[b.name] for b in made.dag.inputs if b.name not in constants]
    bound = kernel.bind(**constants) if constants else kernel
    out = expected.copy()
    out.fill(float("nan"))
    bound(*inputs, out=out)
    right = is_right(out, expected, allowed)
    notes: dict[str, object] = {
        "compile_s": compiling,
        "tuned": kernel.seconds is not None,
    }
    return lambda: bound(*inputs, out=out), Hello(correct=right, notes=notes)


def main() -> None:
    command, workload, threads, *rest = sys.argv[1:]
    if command == "tune":
        seed, database, *more = rest
        tune(workload, int(threads), int(seed), database, *more)
    else:
        path, database = rest
        serve(lambda: prepare(workload, int(threads), Path(path), database))


if __name__ == "__main__":
    main()
