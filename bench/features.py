"""The speed of features and of the analytic model: points per second on one core.

    python bench/features.py            the standard cases
    python bench/features.py LNG ATT    other workloads

Rates are medians over rounds, of the first, middle and last sketch of a workload.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from functools import partial
from statistics import median

from ansor import Target, sketches
from ansor.cost.analytic import seconds
from ansor.cost.features import extract
from ansor.te.workloads import task

POPULATION = 32_768  # points
ROUNDS = 5
CASES = ("GMM1024", "C2D-nhwc", "SFM")
GOAL = 3e5  # points per second, features and seconds together


def rate(run: Callable[[], object], count: int, rounds: int) -> float:
    """Points per second, the median of the rounds."""
    run()
    found = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        found.append(count / (time.process_time() - start))
    return median(found)


def show(name: str, count: int, rounds: int) -> None:
    found = sketches(task(name, Target("cpu")))
    for number in sorted({0, len(found) // 2, len(found) - 1}):
        sketch = found[number]
        points = sketch.sample(count, 0)
        both = rate(partial(extract, sketch, points), len(points), rounds)
        only = rate(partial(seconds, sketch, points), len(points), rounds)
        verdict = "ok" if both >= GOAL else "!!"
        stages = sum(not nest.ahead for nest in sketch.plan)
        print(
            f"{name:<12}{number:>4}{stages:>12}{both / 1e3:>12.0f}k{only / 1e3:>12.0f}k"
            f" {verdict}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=list(CASES))
    parser.add_argument("--points", type=int, default=POPULATION)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(f"{'workload':<12}{'':>4}{'statements':>12}{'features':>13}{'seconds':>13}")
    for name in options.workloads:
        show(name, options.points, options.rounds)


if __name__ == "__main__":
    main()
