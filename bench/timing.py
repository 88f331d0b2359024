"""How far times can be trusted, and what a candidate costs.

    python bench/timing.py              all of it; writes bench/results/
    python bench/timing.py copies       only: 50 copies of one kernel, timed one by one
    python bench/timing.py slowed       only: a kernel and the same 5 % slower, ranked
    python bench/timing.py cost         only: wall-clock of a candidate, build included,
                                        and the share of it that checking takes

The kernel is a matrix product of about a millisecond, on one core and on all. Copies
are timed as candidates are, each beside the incumbent, which is the same program.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

import ansor
from ansor.codegen.kernel import Build
from ansor.measure.local import LocalRunner
from ansor.measure.problem import Problem
from ansor.measure.runner import Incumbent
from ansor.measure.source import source
from ansor.records.outcome import Timed
from ansor.search.policy import RandomPolicy

RESULTS = Path(__file__).parent / "results"
COPIES = 50
RANKINGS = 40
CANDIDATES = 64
SIZES = {1: 256, 2: 320}  # cores -> rows and columns; about a millisecond each
WITHIN = 0.05
SLOWER = 1.05
GOALS = {"copies": 0.95, "slowed": 0.95, "cost": 0.15}


def matmul(cores: int) -> ansor.Task:
    n = SIZES.get(cores, 512)
    a, b = ansor.placeholder((n, n), name="A"), ansor.placeholder((n, n), name="B")
    target = replace(ansor.Target.host(), cores=cores)
    return ansor.Task(ansor.ops.matmul(a, b, name="C"), target=target)


def decent(runner: LocalRunner, task: ansor.Task) -> tuple[ansor.Program, float]:
    """The best of a few random programs, and its seconds."""
    programs = RandomPolicy(ansor.sketches(task), seed=1).ask(24)
    timed = {
        measured.index: measured.outcome.estimate
        for measured in runner.measure(task, programs)
        if isinstance(measured.outcome, Timed)
    }
    best = min(timed, key=lambda at: timed[at])
    return programs[best], timed[best]


def copies(cores: int) -> dict[str, object]:
    """Ratios of copies of one kernel to itself."""
    task = matmul(cores)
    with LocalRunner() as runner:
        program, seconds = decent(runner, task)
        same = [replace(program) for _ in range(COPIES)]
        incumbent = Incumbent(program, seconds)
        found = [m.outcome for m in runner.measure(task, same, incumbent)]
    ratios = [x.estimate / seconds for x in found if isinstance(x, Timed)]
    near = sum(abs(ratio - 1) <= WITHIN for ratio in ratios) / COPIES
    return {
        "kernel_ms": seconds * 1e3,
        "share": near,
        "disturbed": sum(x.disturbed for x in found if isinstance(x, Timed)),
        "ratios": sorted(ratios),
    }


def slowed(cores: int) -> dict[str, object]:
    """How often a kernel wins against itself made 5 % slower, given second."""
    task = matmul(cores)
    wins, ratios = 0, []
    with LocalRunner() as runner:
        program, seconds = decent(runner, task)
        plain = source(program)
        slower = with_delay(runner, task, plain, seconds)
        for _ in range(RANKINGS):
            ranked = runner.rank(task, [slower, plain])
            wins += ranked.winner == 1
            late, early = ranked.outcomes
            if isinstance(late, Timed) and isinstance(early, Timed):
                ratios.append(late.estimate / early.estimate)
    return {
        "kernel_ms": seconds * 1e3,
        "share": wins / RANKINGS,
        "slower": median(ratios),
        "ratios": sorted(ratios),
    }


def with_delay(
    runner: LocalRunner, task: ansor.Task, plain: Build, seconds: float
) -> Build:
    """The kernel followed by a loop that takes 5 % of its time."""
    low, high = 0, int(seconds * 1e9)
    for _ in range(6):
        steps = (low + high) // 2
        ranked = runner.rank(task, [plain, delayed(plain, steps)])
        first, second = ranked.outcomes
        assert isinstance(first, Timed)
        assert isinstance(second, Timed)
        if abs(second.estimate / first.estimate - SLOWER) < 0.002:
            break
        if second.estimate / first.estimate < SLOWER:
            low = steps
        else:
            high = steps
    return delayed(plain, steps)


def delayed(plain: Build, steps: int) -> Build:
    """The kernel, then `steps` steps of a loop that nothing depends on."""
    inner = plain.text.replace(f'@"{plain.name}"(', f"@{plain.name}_inner(")
    count = len(plain.parameters)
    types = ", ".join(f"ptr %p{n}" for n in range(count))
    outer = f"""
define void @{plain.name}({types}) {{
entry:
  call void @{plain.name}_inner({types})
  %cell = alloca i64
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  store volatile i64 %i, ptr %cell
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {max(1, steps)}
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
    return replace(plain, text=inner + outer)


def cost(cores: int) -> dict[str, object]:
    """Seconds of wall-clock per candidate of a search, from start to last outcome."""
    task = matmul(cores)
    policy = RandomPolicy(ansor.sketches(task), seed=0)
    spent, kernels, checking = [], [], 0.0
    with LocalRunner() as runner:
        start = time.perf_counter()
        Problem.create(task.dag, 0).close()  # as a worker does, once
        reference = time.perf_counter() - start
        list(runner.measure(matmul(cores), policy.ask(2)))  # start the workers
        best: Incumbent | None = None
        start = time.perf_counter()
        for _ in range(CANDIDATES // 16):
            batch = policy.ask(16)
            for measured in runner.measure(task, batch, best):
                spent.append(measured.spent)
                checking += measured.checking
                if not isinstance(measured.outcome, Timed):
                    continue
                kernels.append(measured.outcome.estimate)
                if best is None or measured.outcome.estimate < best.seconds:
                    better = batch[measured.index]
                    best = Incumbent(better, measured.outcome.estimate)
        whole = time.perf_counter() - start
    return {
        "kernel_ms": median(kernels) * 1e3,
        "candidates": len(spent),
        "median_s": median(spent),
        "mean_s": whole / len(spent),
        "checking_share": (checking + reference) / whole,
    }


PARTS: dict[str, Callable[[int], dict[str, object]]] = {
    "copies": copies,
    "slowed": slowed,
    "cost": cost,
}


def show(name: str, cores: int, row: dict[str, object]) -> str:
    if name == "cost":
        return (
            f"cost    {cores} core(s)  kernel {row['kernel_ms']:6.2f} ms  median "
            f"{row['median_s']:.3f} s  mean {row['mean_s']:.3f} s   (goal <= 0.15)  "
            f"checking {row['checking_share']:.1%}   (goal <= 10 %)"
        )
    what = "within 5 %" if name == "copies" else "ranked right"
    return (
        f"{name:7} {cores} core(s)  kernel {row['kernel_ms']:6.2f} ms  {what} "
        f"{row['share']:.1%}   (goal >= 95 %)"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS])
    chosen = parser.parse_args(arguments).parts or list(PARTS)
    host = ansor.Target.host()
    rows = []
    for name in chosen:
        for cores in sorted({1, host.cores}):
            row = PARTS[name](cores)
            rows.append({"part": name, "cores": cores, "goal": GOALS[name], **row})
            print(show(name, cores, row), flush=True)
    if len(chosen) == len(PARTS):
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"timing-{host.cpu}.json"
        facts = {"target": host.fingerprint, "rows": rows}
        path.write_text(json.dumps(facts, indent=1) + "\n")
        print(f"written to {path.name}")


if __name__ == "__main__":
    main()
