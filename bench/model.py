"""How well the cost models rank programs of tasks that they have not seen.

    python bench/model.py DB…                 the table, written to bench/results/
    python bench/model.py DB… --folds 3       fewer groups of tasks held out

Every task is held out once, in groups; the model is trained on all others. Per task:
pairs of programs in the right order, the fastest 30 found among the best predicted 30,
and R2 of normalised throughput. "top" is the analytic model alone: how close to the
best known program the fastest known one comes that is at least as good, to the model,
as the best TOP of POINTS points of the space.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ansor import Target, sketches
from ansor.cost.analytic import seconds
from ansor.cost.model import AnalyticModel, CostModel, default_model
from ansor.cost.sample import Sample, task_key
from ansor.cost.scores import Scores, evaluate, mean, r_squared
from ansor.cost.train import Collected, collect, folds
from ansor.records.database import Database
from ansor.te.task import Task
from ansor.te.workloads import MORE, WORKLOADS, task

RESULTS = Path(__file__).resolve().parent / "results"
GOALS = {"pairwise": 0.85, "recall": 0.62, "r2": 0.95, "top": 0.9}
FEWEST = 30  # programs of a task that is judged
POINTS, TOP = 50_000, 2_000
NEAR = 1.05  # times the best known

Doubles = npt.NDArray[np.float64]


def tasks_by_key(
    databases: Sequence[Database], tasks: Sequence[str]
) -> dict[str, Task]:
    """The tasks of these keys."""
    found: dict[str, Task] = {}
    for database in databases:
        for record in database.records(role="trial"):
            key = f"{record.workload} {record.target}"  # as `task_key` has it
            if key in tasks and key not in found:
                found[key] = database.task_of(record)
    return found


def names(target: Target) -> dict[str, str]:
    return {task_key(task(x, target)): x for x in [*WORKLOADS, *MORE]}


def judged(collected: Collected) -> list[Sample]:
    """Samples of tasks that have programs enough."""
    counts: dict[str, int] = {}
    for sample in collected.samples:
        timed = int(np.isfinite(sample.seconds).sum())
        counts[sample.task] = counts.get(sample.task, 0) + timed
    return [x for x in collected.samples if counts[x.task] >= FEWEST]


def throughputs(
    model: CostModel, samples: Sequence[Sample]
) -> tuple[list[Doubles], list[Doubles]]:
    """Of all programs, predicted and measured, over the best of the task."""
    predicted, measured = [], []
    for name in dict.fromkeys(sample.task for sample in samples):
        own = [sample for sample in samples if sample.task == name]
        guess = np.concatenate([model.predict(x.features).seconds for x in own])
        truth = np.concatenate([x.seconds for x in own])
        timed = np.isfinite(truth)
        predicted.append(guess[timed].min() / guess[timed])
        measured.append(truth[timed].min() / truth[timed])
    return predicted, measured


def held_out(samples: Sequence[Sample], count: int) -> dict[str, object]:
    """Scores of every task by a model trained without it, and of all together."""
    learned: dict[str, Scores] = {}
    guesses: list[Doubles] = []
    truths: list[Doubles] = []
    groups = []
    for train, test in folds(samples, count):
        model = default_model()
        model.fit(train)
        learned |= evaluate(model, test)
        guess, truth = throughputs(model, test)
        guesses += guess
        truths += truth
        groups.append([len({x.task for x in part}) for part in (train, test)])
    pooled = r_squared(np.concatenate(guesses), np.concatenate(truths))
    return {"scores": learned, "pooled_r2": pooled, "groups": groups}


def reached(known: Task, samples: Sequence[Sample]) -> float:
    """The best known time over that of the fastest known program in the analytic top:
    1 if the top has the best one."""
    spaces = [x for x in sketches(known) if x.is_feasible]
    each = max(2, POINTS // len(spaces))
    every = np.concatenate([seconds(x, x.sample(each, 0)) for x in spaces])
    limit = np.partition(every, min(TOP, len(every) - 1))[min(TOP, len(every) - 1)]
    guess = np.concatenate(
        [AnalyticModel().predict(x.features).seconds for x in samples]
    )
    truth = np.concatenate([x.seconds for x in samples])
    inside = truth[guess <= limit]
    return float(truth.min() / inside.min()) if len(inside) else 0.0


def show(name: str, analytic: Scores, learned: Scores, top: float) -> None:
    print(
        f"{name:<22}{analytic.programs:>6}{analytic.pairwise:>10.3f}"
        f"{analytic.recall:>8.3f}{analytic.r2:>8.3f}{learned.pairwise:>10.3f}"
        f"{learned.recall:>8.3f}{learned.r2:>8.3f}{top:>8.3f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("databases", nargs="+")
    parser.add_argument("--folds", type=int, default=4)
    options = parser.parse_args()
    databases = [Database(path) for path in options.databases]
    samples = judged(collect(databases))
    tasks = tasks_by_key(databases, [sample.task for sample in samples])
    analytic = evaluate(AnalyticModel(), samples)
    result = held_out(samples, options.folds)
    learned = result["scores"]
    assert isinstance(learned, dict)
    heads = ("pairs", "recall", "R2")
    cells = "".join(f"{x:>{n}}" for x, n in zip(heads, (10, 8, 8), strict=True)) * 2
    print(f"{'':<28}{'analytic':>18}{'learned':>26}\n{'':<28}{cells}{'top':>8}")
    lines: list[dict[str, object]] = []
    tops: list[float] = []
    known = names(next(iter(tasks.values())).target)
    for key in sorted(tasks, key=lambda x: learned[x].pairwise):
        own = [sample for sample in samples if sample.task == key]
        name = known.get(key, key.split()[0])
        top = reached(tasks[key], own)
        show(name, analytic[key], learned[key], top)
        scores = {"analytic": asdict(analytic[key]), "learned": asdict(learned[key])}
        lines.append({"task": name, **scores, "top": top})
        tops.append(top)
    share = float(np.mean([top * NEAR >= 1 for top in tops]))
    both = mean(analytic.values()), mean(learned.values())
    show("mean", *both, share)
    print(f"{options.folds} groups of tasks (train, test): {result['groups']}")
    print(f"R2 over all programs together: {result['pooled_r2']:.3f}")
    host = Target.host()
    path = RESULTS / f"model-{host.cpu}.json"
    facts = {
        "target": next(iter(tasks.values())).target.fingerprint,
        "goals": GOALS,
        "groups": result["groups"],
        "analytic": asdict(both[0]),
        "learned": asdict(both[1]),
        "pooled_r2": result["pooled_r2"],
        "top_share": share,
        "tasks": lines,
    }
    path.write_text(json.dumps(facts, indent=1) + "\n")
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
