"""The speed of the search space: points per second, and seconds to derive sketches.

    python bench/space.py              all of it; writes bench/results/
    python bench/space.py GMM          only workloads whose name contains "GMM"

The process is confined to one CPU. Rates are medians over rounds, of the first, middle
and last sketch of a workload; the table shows the median and the worst of the three.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import numpy as np

from ansor import Sketch, Target, sketches
from ansor.space.points import draw
from ansor.te.workloads import MORE, WORKLOADS, task

RESULTS = Path(__file__).parent / "results"
POPULATION = 65_536  # points
ROUNDS = 7
CASES = ("GMM1024", "C2D-nhwc", "R50a-nchw", "SFM")
GPU = Target("cuda", arch="sm_90")
SLOWEST = 5  # derivations shown

# Least points per second; the most seconds to derive any workload.
GOALS = {"sample": 1e6, "draw": 1e6, "mutate": 5e5, "cross": 5e5, "feasible": 1e6}
DERIVE_GOAL = 0.2


@dataclass(frozen=True)
class Rate:
    """Points per second of one operation on some sketches of a workload."""

    workload: str
    operation: str
    goal: float
    median: float
    least: float  # the slowest of the sketches
    sketches: tuple[int, ...]  # their numbers


@dataclass(frozen=True)
class Derivation:
    """How long all sketches of a workload take."""

    workload: str
    target: str
    sketches: int
    seconds: float


def operations(
    sketch: Sketch, count: int, rng: np.random.Generator
) -> dict[str, Callable[[], int]]:
    """Each does its work once and says how many points came out."""
    drawn = draw(sketch.table, count, rng)
    points = sketch.sample(count, rng)
    others = points[rng.permutation(len(points))]
    return {
        "sample": lambda: len(sketch.sample(count, rng)),
        "draw": lambda: len(draw(sketch.table, count, rng)),
        "mutate": lambda: len(sketch.mutate(points, rng)),
        "cross": lambda: len(sketch.cross(points, others, rng)),
        "feasible": lambda: len(sketch.feasible(drawn)),
    }


def rate(run: Callable[[], int], rounds: int) -> float:
    """Points per second, the median of the rounds."""
    run()
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        count = run()
        found.append(count / (time.perf_counter() - start))
    return median(found)


def rates(name: str, target: Target, count: int, rounds: int) -> Iterator[Rate]:
    """All operations on the first, middle and last sketch of a workload."""
    found = sketches(task(name, target))
    numbers = tuple(sorted({0, len(found) // 2, len(found) - 1}))
    speeds: dict[str, list[float]] = {what: [] for what in GOALS}
    for number in numbers:
        rng = np.random.default_rng(number)
        for what, run in operations(found[number], count, rng).items():
            speeds[what].append(rate(run, rounds))
    for what, values in speeds.items():
        yield Rate(name, what, GOALS[what], median(values), min(values), numbers)


def derivation(name: str, target: Target, rounds: int) -> Derivation:
    made = task(name, target)
    seconds, count = [], 0
    for _ in range(rounds):
        start = time.perf_counter()
        count = len(sketches(made))
        seconds.append(time.perf_counter() - start)
    return Derivation(name, target.kind, count, median(seconds))


def show_rate(row: Rate) -> None:
    verdict = "ok" if row.least >= row.goal else "!!"
    print(
        f"{row.workload:<12}{row.operation:<10}{row.median / 1e6:>10.2f}"
        f"{row.least / 1e6:>10.2f}{row.goal / 1e6:>8.1f} {verdict}",
        flush=True,
    )


def show_derivations(rows: list[Derivation]) -> None:
    slowest = sorted(rows, key=lambda row: -row.seconds)
    print(f"\nderivation of {len(rows)} spaces, the slowest of them:")
    print(f"{'workload':<20}{'target':<8}{'sketches':>9}{'seconds':>9}{'goal':>6}")
    for row in slowest[:SLOWEST]:
        verdict = "ok" if row.seconds <= DERIVE_GOAL else "!!"
        print(
            f"{row.workload:<20}{row.target:<8}{row.sketches:>9}{row.seconds:>9.3f}"
            f"{DERIVE_GOAL:>6.1f} {verdict}"
        )
    print(f"the most: {slowest[0].seconds:.3f} s", flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("only", nargs="?", default="", help="part of a workload's name")
    parser.add_argument("--count", type=int, default=POPULATION, help="points")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    return parser.parse_args()


def main() -> None:
    args = arguments()
    host = Target("cpu")  # with all its cores, although one of them does the work
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    found = []
    print(f"{args.count} points at a time, one core of {host.cpu}, millions a second:")
    print(f"{'workload':<12}{'operation':<10}{'median':>10}{'least':>10}{'goal':>8}")
    for name in (x for x in CASES if args.only in x):
        for row in rates(name, host, args.count, args.rounds):
            found.append(row)
            show_rate(row)
    names = [name for name in (*WORKLOADS, *MORE) if args.only in name]
    derived = [
        derivation(name, target, min(args.rounds, 3))
        for name in names
        for target in (host, GPU)
    ]
    if derived:
        show_derivations(derived)
    if not args.only and (args.count, args.rounds) == (POPULATION, ROUNDS):
        RESULTS.mkdir(exist_ok=True)
        rows = {"rates": map(asdict, found), "derivations": map(asdict, derived)}
        text = json.dumps({what: list(part) for what, part in rows.items()}, indent=1)
        (RESULTS / f"space-{host.cpu}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
