"""ONNX's own backend suite, from the package `onnx`: what passes, and what does not.

    python bench/onnx_suite.py                  all; writes results/onnx-suite-CPU.json
    python bench/onnx_suite.py -k 'conv|pool'   cases whose name matches; others stay
    python bench/onnx_suite.py -n 4             in four processes
    python bench/onnx_suite.py --interpret      node by node in NumPy, nothing compiled
    python bench/onnx_suite.py --todo FILE      also write what is missing, by operator

Every case goes through `ansor.onnx_backend`: imported, compiled without tuning, run,
and compared by the suite's own tolerances; shape and element type must be equal too.
Inputs that a graph needs as constants (shapes, axes) are fixed to their values; the
table says in how many cases. A case ends as

    passed    all outputs agree
    refused   UnsupportedError: the message names node, operator and attribute
    failed    another error of ours: a fault, in the model or in us
    wrong     an output differs
    crashed   an unexpected exception, the end of the process, or no end in time

The 9 light models have one constant in all weights, so that wrong results would not
show: their weights are drawn anew, and onnxruntime says what is right.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
from peers.onnx_cases import Case, all_cases, load_arrays

from ansor import Target
from ansor.errors import AnsorError, UnsupportedError
from ansor.frontend.interpret import interpret
from ansor.frontend.onnx.load import load
from ansor.frontend.onnx.specialise import specialised

RESULTS = Path(__file__).parent / "results"
STATUSES = ("passed", "refused", "failed", "wrong", "crashed")
SECONDS = 600.0  # for one case


@dataclass(frozen=True)
class Outcome:
    """What became of a case."""

    name: str
    kind: str
    op: str
    is_core: bool
    is_expanded: bool
    status: str
    message: str = ""
    fixed: tuple[str, ...] = ()  # inputs that were made constants
    seconds: float = 0.0


# -- one case --------------------------------------------------------------------------


def outcome(case: Case, is_interpreted: bool) -> Outcome:
    """Run one case."""
    begin = time.perf_counter()
    fixed: set[str] = set()
    try:
        differs = difference(case, is_interpreted, fixed)
        status, message = ("wrong", differs) if differs else ("passed", "")
    except UnsupportedError as error:
        status, message = "refused", str(error)
    except AnsorError as error:
        status, message = "failed", f"{type(error).__name__}: {error}"
    except Exception as error:  # this is what is counted
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        status, message = "crashed", f"{type(error).__name__} at {place}: {error}"
    seconds = time.perf_counter() - begin
    return verdict(case, status, message[:600], tuple(sorted(fixed)), seconds)


def verdict(
    case: Case, status: str, message: str, fixed: tuple[str, ...], seconds: float
) -> Outcome:
    return Outcome(
        case.name, case.kind, case.op, case.is_core, case.is_expanded, status, message,
        fixed, round(seconds, 2),
    )  # fmt: skip


def difference(case: Case, is_interpreted: bool, fixed: set[str]) -> str:
    """How the outputs of a case differ from what is expected; "" where they do not."""
    model, sets = load_arrays(case)
    run = interpreted(model, fixed) if is_interpreted else compiled(model, fixed)
    for inputs, expected in sets:
        found = run(inputs)
        if len(found) != len(expected):
            return f"{len(found)} outputs instead of {len(expected)}"
        for number, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
            if text := differs(np.asarray(mine), theirs, case.rtol, case.atol):
                return f"output {number}: {text}"
    return ""


def compiled(model: bytes, fixed: set[str]) -> Any:
    from ansor import onnx_backend

    prepared = onnx_backend.prepare(model, workers=0)

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        results = prepared.run(list(map(plain, inputs)))
        fixed.update(prepared.fixed)
        return results

    return run


def interpreted(model: bytes, fixed: set[str]) -> Any:
    data = load(model)

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        arrays = list(map(plain, inputs))
        graph, names = specialised(data, arrays)
        fixed.update(names)
        taken = {x.name for x in graph.inputs}
        from ansor.frontend.onnx.model import input_names

        named = zip(input_names(data), arrays, strict=True)
        return interpret(graph, [x for name, x in named if name in taken])

    return run


def plain(value: Any) -> np.ndarray:
    """An input; the suite has sequences and optional values, which no graph takes."""
    if value is None or isinstance(value, list | dict):
        raise UnsupportedError("an input", "is a sequence or an optional value")
    return np.ascontiguousarray(value).reshape(np.shape(value))


def differs(mine: np.ndarray, theirs: Any, rtol: float, atol: float) -> str:
    if not isinstance(theirs, np.ndarray | np.generic):
        return f"an array instead of {type(theirs).__name__}"
    theirs = np.asarray(theirs)
    if mine.dtype != theirs.dtype:
        return f"{mine.dtype} instead of {theirs.dtype}"
    if mine.shape != theirs.shape:
        return f"shape {mine.shape} instead of {theirs.shape}"
    if theirs.dtype.kind in "biu":
        bad = mine != theirs
    else:
        if str(theirs.dtype) == "bfloat16":
            rtol = max(rtol, 2**-6)
        a, b = mine.astype(np.float64), theirs.astype(np.float64)
        bad = ~np.isclose(a, b, rtol, atol, equal_nan=True)
    if not bad.any():
        return ""
    at = tuple(int(x) for x in np.argwhere(bad)[0])
    return (
        f"{int(bad.sum())} of {bad.size} elements differ, the first at {at}: "
        f"{mine[at]} instead of {theirs[at]}"
    )


# -- many cases ------------------------------------------------------------------------


@dataclass
class Worker:
    """A process that runs cases; it is replaced when one of them ends it."""

    process: Any
    pipe: Connection
    case: int | None = None
    since: float = field(default_factory=time.monotonic)


def serve(pipe: Connection, cases: Sequence[Case], is_interpreted: bool) -> None:
    """What a worker does."""
    np.seterr(all="ignore")
    while (number := pipe.recv()) is not None:
        pipe.send((number, outcome(cases[number], is_interpreted)))


def start(cases: Sequence[Case], is_interpreted: bool) -> Worker:
    context = multiprocessing.get_context("fork")  # the cases are there already
    ours, theirs = context.Pipe()
    process = context.Process(target=serve, args=(theirs, cases, is_interpreted))
    process.start()
    theirs.close()
    return Worker(process, ours)


def run(cases: Sequence[Case], count: int, is_interpreted: bool) -> Iterator[Outcome]:
    """All cases, in any order."""
    todo = list(range(len(cases)))[::-1]
    workers = [start(cases, is_interpreted) for _ in range(min(count, len(todo)))]
    left = len(todo)
    for worker in workers:
        give(worker, todo)
    while left:
        wait([x.pipe for x in workers if x.case is not None], timeout=1.0)
        for place, worker in enumerate(workers):
            found = collect(worker, cases)
            if found is None:
                continue
            left -= 1
            yield found
            if worker.case is not None:  # it ended while it ran this one
                worker.pipe.close()
                workers[place] = worker = start(cases, is_interpreted)
            give(worker, todo)
    for worker in workers:
        worker.pipe.close()
        worker.process.terminate()
        worker.process.join()


def give(worker: Worker, todo: list[int]) -> None:
    worker.case = todo.pop() if todo else None
    worker.since = time.monotonic()
    if worker.case is not None:
        worker.pipe.send(worker.case)


def collect(worker: Worker, cases: Sequence[Case]) -> Outcome | None:
    """The outcome of a worker's case, if there is one; `case` stays set if the worker
    is gone."""
    if worker.case is None:
        return None
    seconds = time.monotonic() - worker.since
    try:
        if worker.pipe.poll():
            _, found = worker.pipe.recv()
            worker.case = None
            return found
    except (EOFError, ConnectionResetError):
        worker.process.join()
        text = f"the process ended with code {worker.process.exitcode}"
        return verdict(cases[worker.case], "crashed", text, (), seconds)
    if seconds < SECONDS:
        return None
    worker.process.kill()
    worker.process.join()
    return verdict(cases[worker.case], "crashed", f"over {SECONDS} s", (), seconds)


# -- what it prints and writes ---------------------------------------------------------


def table(outcomes: Sequence[Outcome]) -> list[tuple[str, list[Outcome]]]:
    """The rows: a name and the cases that it counts."""
    node = [x for x in outcomes if x.kind == "node"]
    rows = {
        "core inference": [x for x in node if x.is_core],
        "node": [x for x in node if not x.is_expanded],
        "node, expanded": [x for x in node if x.is_expanded],
        "node, all": node,
    }
    for kind in ("simple", "pytorch-operator", "pytorch-converted", "light"):
        rows[kind] = [x for x in outcomes if x.kind == kind]
    rows["all"] = list(outcomes)
    return [(name, cases) for name, cases in rows.items() if cases]


def print_table(outcomes: Sequence[Outcome]) -> None:
    print(f"{'':<20}{'cases':>7}" + "".join(f"{x:>9}" for x in STATUSES) + "  fixed")
    for name, cases in table(outcomes):
        counts = Counter(x.status for x in cases)
        fixed = sum(bool(x.fixed) for x in cases if x.status == "passed")
        cells = "".join(f"{counts[x]:>9}" for x in STATUSES)
        print(f"{name:<20}{len(cases):>7}{cells}{fixed:>7}")


def reason(one: Outcome) -> str:
    """The message without the names of nodes and numbers, to count alike ones."""
    text = one.message.splitlines()[0] if one.message else ""
    text = re.sub(r"node '[^']*' ", "", text)
    return re.sub(r"\d+", "#", text)[:110]


def write_todo(path: Path, outcomes: Sequence[Outcome]) -> None:
    """What is missing, most cases first: for those who write converters."""
    lines = [f"# {time.strftime('%H:%M:%S')} what bench/onnx_suite.py misses"]
    for status in STATUSES[:0:-1]:
        groups: dict[tuple[str, str], list[Outcome]] = {}
        for one in outcomes:
            if one.status == status:
                groups.setdefault((one.op, reason(one)), []).append(one)
        total = sum(map(len, groups.values()))
        lines.append(f"\n## {status}: {total}")
        order = sorted(groups.items(), key=lambda x: (-len(x[1]), x[0]))
        for (op, text), cases in order:
            core = sum(x.is_core for x in cases)
            names = ", ".join(x.name for x in cases[:4])
            lines.append(f"- {len(cases)} ({core} core) {op}: {text} [{names}]")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def path_of_results() -> Path:
    return RESULTS / f"onnx-suite-{Target('cpu').cpu}.json"


def written(cases: Sequence[Case]) -> list[Outcome]:
    """What the file of results says about cases."""
    path = path_of_results()
    if not path.exists():
        return []
    facts = json.loads(path.read_text(encoding="utf-8"))
    fixed = facts["fixed"]
    passed = set(facts["passed"])
    rows = {x["name"]: (x["status"], x["message"]) for x in facts["not_passed"]}
    rows |= dict.fromkeys(passed, ("passed", ""))
    return [
        verdict(case, *rows[case.name], tuple(fixed.get(case.name, ())), 0.0)
        for case in cases
        if case.name in rows
    ]


def write_results(outcomes: Sequence[Outcome]) -> Path:
    import onnx
    import onnxruntime

    counts = {
        name: {
            "cases": len(cases),
            **{x: sum(y.status == x for y in cases) for x in STATUSES},
        }
        for name, cases in table(outcomes)
    }
    keys = ("name", "status", "op", "message")
    facts = {
        "versions": {"onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__},
        "counts": counts,
        "not_passed": [
            {key: asdict(x)[key] for key in keys}
            for x in outcomes
            if x.status != "passed"
        ],
        "passed": [x.name for x in outcomes if x.status == "passed"],
        "fixed": {x.name: x.fixed for x in outcomes if x.fixed},
    }
    path = path_of_results()
    path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return path


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-k", metavar="PATTERN", default="", help="names that match")
    parser.add_argument("-n", type=int, default=2, help="processes")
    parser.add_argument("--interpret", action="store_true", help="compile nothing")
    parser.add_argument("--todo", type=Path, help="write what is missing")
    parser.add_argument("--core", action="store_true", help="core inference cases only")
    parser.add_argument("-v", action="store_true", help="print what does not pass")
    options = parser.parse_args()
    every = all_cases()
    cases = [
        x
        for x in every
        if re.search(options.k, x.name) and (x.is_core or not options.core)
    ]
    begin, outcomes = time.monotonic(), []
    for one in run(cases, options.n, options.interpret):
        outcomes.append(one)
        if len(outcomes) % 100 == 0:
            print(f"{len(outcomes)} of {len(cases)}", file=sys.stderr, flush=True)
        if options.v and one.status != "passed":
            print(f"{one.status:<8} {one.name}: {one.message}", flush=True)
    print(f"{time.monotonic() - begin:.0f} s in {options.n} processes")
    if not options.interpret:
        done = {x.name for x in outcomes}
        outcomes += [x for x in written(every) if x.name not in done]
    order = {case.name: n for n, case in enumerate(every)}
    outcomes.sort(key=lambda x: order[x.name])
    print_table(outcomes)
    if options.todo:
        write_todo(options.todo, outcomes)
    if not options.interpret:
        print(write_results(outcomes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
