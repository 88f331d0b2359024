"""The speed of features and cost models: points per second on one core.

    python bench/features.py            the standard cases, written to bench/results/
    python bench/features.py LNG ATT    other workloads

"features" are those with the analytic seconds, "seconds" these alone, "model" what the
learned model makes of the features, "whole" features and model: what a search does for
each point. Rates are medians over rounds, of the first, middle and last sketch of a
workload.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from ansor import Target, sketches
from ansor.cost.analytic import seconds
from ansor.cost.features import Features, extract
from ansor.cost.model import LearnedModel, default_model
from ansor.cost.sample import Sample
from ansor.space.sketch import Sketch
from ansor.te.workloads import task

RESULTS = Path(__file__).resolve().parent / "results"
POPULATION = 32_768  # points
ROUNDS = 5
CASES = ("GMM1024", "C2D-nhwc", "SFM")
GOAL = 2e5  # points per second, features and the learned model together
LEARNED = 256  # programs that the model has learned from
RATES = ("features", "seconds", "model", "whole")


def rate(run: Callable[[], object], count: int, rounds: int) -> float:
    """Points per second, the median of the rounds."""
    run()
    found = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        found.append(count / (time.process_time() - start))
    return median(found)


def taught(found: Sequence[Sketch]) -> LearnedModel:
    """A model that has learned from times that differ from the analytic ones: what it
    does for a point does not depend on whether they are real."""
    each = max(2, LEARNED // len(found))
    samples = [_stand_in(extract(x, x.sample(each, 1))) for x in found if x.is_feasible]
    model = default_model()
    model.fit(samples)
    assert model.latest is not None
    return model


def _stand_in(features: Features) -> Sample:
    spread = features.values / (1 + abs(features.values).max((0, 1)))
    factors = np.exp(np.sin(3 * spread.sum(2)))
    return Sample("bench", features, (features.seconds * factors).sum(0))


def rates(
    model: LearnedModel, sketch: Sketch, count: int, rounds: int
) -> dict[str, float]:
    points = sketch.sample(count, 0)
    features = extract(sketch, points)
    runs: dict[str, Callable[[], object]] = {
        "features": partial(extract, sketch, points),
        "seconds": partial(seconds, sketch, points),
        "model": partial(model.predict, features),
        "whole": lambda: model.predict(extract(sketch, points)),
    }
    return {name: rate(runs[name], len(points), rounds) for name in RATES}


def show(name: str, count: int, rounds: int) -> list[dict[str, object]]:
    found = sketches(task(name, Target("cpu")))
    model = taught(found)
    lines: list[dict[str, object]] = []
    for number in sorted({0, len(found) // 2, len(found) - 1}):
        speeds = rates(model, found[number], count, rounds)
        verdict = "ok" if speeds["whole"] >= GOAL else "!!"
        stages = sum(not nest.ahead for nest in found[number].plan)
        cells = "".join(f"{speeds[x] / 1e3:>11.0f}k" for x in RATES)
        print(f"{name:<12}{number:>4}{stages:>12}{cells} {verdict}", flush=True)
        lines.append(
            {"workload": name, "sketch": number, "statements": stages, **speeds}
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workloads", nargs="*")
    parser.add_argument("--points", type=int, default=POPULATION)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    heads = "".join(f"{x:>12}" for x in RATES)
    print(f"{'workload':<12}{'':>4}{'statements':>12}{heads}")
    lines = []
    for name in options.workloads or CASES:
        lines += show(name, options.points, options.rounds)
    if not options.workloads:
        host = Target.host()
        path = RESULTS / f"features-{host.cpu}.json"
        facts = {"target": host.fingerprint, "goal": GOAL, "rates": lines}
        path.write_text(json.dumps(facts, indent=1) + "\n")
        print(f"written to {path.name}")


if __name__ == "__main__":
    main()
