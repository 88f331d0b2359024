"""A search among candidates that crash, hang and lie: is every one named, and how
long does it take to go on?

    python bench/containment.py            1,000 trials, 10 % faults; 100 modules
    python bench/containment.py 200        fewer trials

Recovery is what the candidate after a fault takes longer than candidates usually do.
Writes bench/results/. The faults are those of tests/measure.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

import ansor
from ansor.codegen.kernel import Build
from ansor.measure.builder import Candidate
from ansor.measure.limits import Limits
from ansor.measure.local import LocalRunner
from ansor.measure.runner import Measured
from ansor.measure.source import source
from ansor.records.outcome import Failed, Timed
from ansor.search.untuned import untuned

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from measure.faults import FAULTS, task  # noqa: E402
from measure.hostile import hostile_modules, scrambled  # noqa: E402

RESULTS = HERE / "results"
LIMITS = Limits(run_seconds=1.0, build_seconds=5.0, build_bytes=2 << 30)
SHARE = 0.1
MODULES = 100
GOALS = {"recovery_p95_s": 0.1, "hang_s": LIMITS.run_seconds + 0.25}


def trials(count: int) -> tuple[list[Candidate], list[str]]:
    """Candidates in random order, and the name of the fault of each, or nothing."""
    made, rng = task(), np.random.default_rng(0)
    sketch = ansor.sketches(made)[0]
    rows = sketch.sample(count, 0)
    candidates: list[Candidate] = [sketch.program(tuple(map(int, r))) for r in rows]
    names = [""] * count
    for turn, at in enumerate(rng.permutation(count)[: int(count * SHARE)]):
        fault = FAULTS[turn % len(FAULTS)]
        candidates[at], names[at] = fault.candidate(), fault.name
    return candidates, names


def contain(count: int) -> dict[str, object]:
    """Run them all; every outcome must be the one that its fault has."""
    expected = {fault.name: fault.outcome for fault in FAULTS}
    candidates, names = trials(count)
    before = set(os.listdir("/proc/self/fd"))
    runner = LocalRunner(limits=LIMITS)
    list(runner.measure(task(), candidates[:0]))
    order: list[Measured] = []
    start = time.perf_counter()
    for first in range(0, count, 50):
        for found in runner.measure(task(), candidates[first : first + 50]):
            order.append(Measured(found.index + first, found.outcome, "", found.spent))
    wall = time.perf_counter() - start
    zygote = runner._shop.crew._zygote
    assert zygote is not None
    session = zygote._process.pid
    runner.close()
    wrong = [
        (names[m.index], str(m.outcome))
        for m in order
        if kind(m) != expected.get(names[m.index])
    ]
    return {
        "trials": len(order),
        "faults": sum(map(bool, names)),
        "wall_s": wall,
        "misnamed": wrong,
        **recovery(order, names),
        "processes_left": [p for p in processes() if session_of(p) == session],
        "descriptors_left": len(set(os.listdir("/proc/self/fd")) - before),
    }


def kind(measured: Measured) -> tuple[str, str] | None:
    outcome = measured.outcome
    return None if isinstance(outcome, Timed) else (outcome.stage, outcome.cause)


def recovery(order: Sequence[Measured], names: Sequence[str]) -> dict[str, object]:
    """What comes after a fault in the same batch, against what comes after none."""
    after_fault, usual, hangs = [], [], []
    for one, two in pairwise(order):
        if names[one.index] == "infinite loop":
            hangs.append(one.spent)
        if names[two.index] or two.spent > 0.5:  # building comes first
            continue
        ended = names[one.index] and kind(one) is not None
        (after_fault if ended else usual).append(two.spent)
    normal = median(usual)
    late = sorted(max(0.0, spent - normal) for spent in after_fault)
    return {
        "usual_s": normal,
        "recovery_median_s": median(late),
        "recovery_p95_s": late[int(0.95 * len(late))],
        "hang_s": max(hangs),
    }


def builders(count: int) -> dict[str, object]:
    """Hostile modules, with a good candidate after each."""
    made = task()
    texts = list(hostile_modules().items())
    plain = source(untuned(made)).text
    more = scrambled(plain, count - len(texts), seed=0)
    texts += [("scrambled", text) for text in more]
    sketch = ansor.sketches(made)[0]
    fine = sketch.program(tuple(map(int, sketch.sample(1, 0)[0])))
    reported: Counter[str] = Counter()
    survived = 0
    with LocalRunner(limits=LIMITS) as runner:
        for turn in range(len(texts)):
            name, text = texts[turn]
            bad = Build("B", text, made.target, made.dag.arguments)
            found = {m.index: m.outcome for m in runner.measure(made, [bad, fine])}
            survived += isinstance(found[1], Timed)
            how = found[0]
            kind = f"{how.stage}, {how.cause}" if isinstance(how, Failed) else "timed"
            reported[f"{name}: {kind}"] += 1
    return {
        "modules": count,
        "reported": sum(reported.values()),
        "good_ones_timed": survived,
        "causes": dict(reported),
    }


def processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description="Candidates that misbehave.")
    parser.add_argument("trials", type=int, nargs="?", default=1000)
    count = parser.parse_args().trials
    runs = contain(count)
    print(f"{runs['trials']} trials, {runs['faults']} faults, {runs['wall_s']:.1f} s")
    print(f"  outcomes named wrong   {len(runs['misnamed'])}   (goal 0)")
    for line in runs["misnamed"][:5]:
        print("   ", *line)
    print(
        f"  recovery               median {runs['recovery_median_s'] * 1e3:.0f} ms, "
        f"p95 {runs['recovery_p95_s'] * 1e3:.0f} ms   (goal <= 100)\n"
        f"  slowest hang           {runs['hang_s']:.3f} s "
        f"  (goal <= {GOALS['hang_s']:.2f})\n"
        f"  processes left         {len(runs['processes_left'])}, descriptors left "
        f"{runs['descriptors_left']}   (goal 0)"
    )
    builds = builders(MODULES if count >= 1000 else 2 * len(hostile_modules()))
    print(
        f"{builds['modules']} hostile modules: {builds['reported']} reported, "
        f"{builds['good_ones_timed']} good candidates after them timed"
    )
    for cause, times in builds["causes"].items():
        print(f"    {times:3} {cause}")
    if count >= 1000:
        RESULTS.mkdir(exist_ok=True)
        host = ansor.Target.host()
        path = RESULTS / f"containment-{host.cpu}.json"
        facts = {"target": host.fingerprint, "runs": runs, "builders": builds}
        path.write_text(json.dumps(facts, indent=1) + "\n")
        print(f"written to {path.name}")


if __name__ == "__main__":
    main()
