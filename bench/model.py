"""How well the cost models rank programs that they have not seen.

    python bench/model.py DB…                     the table, written to bench/results/
    python bench/model.py DB… --folds 3           fewer groups held out
    python bench/model.py DB… --output FILE       somewhere else
    python bench/model.py DB… --model trees       another learner

Two ways of holding out, which answer different questions:

    by task      all programs of a task at once: what a search of a new task starts from
    by program   programs of tasks whose others are known: what published figures of
                 cost models mostly are, and what a search has after some trials

Per task: pairs of programs in the right order, the fastest 30 found among the best
predicted 30, and R2 of normalised throughput; "chance" is the recall of a guess. The
ceiling is what a perfect model would reach, since measurements of the same program
differ; of the few tasks that have repeats only, with what the model reaches on these.
"top" is the analytic model alone: how close to the best known program the fastest known
one comes that is at least as good, to the model, as the best TOP of POINTS points of
the space.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ansor import Target, sketches
from ansor.cost.analytic import seconds
from ansor.cost.features import Features
from ansor.cost.model import AnalyticModel, CostModel, default_model, model_from_name
from ansor.cost.sample import Sample, task_key
from ansor.cost.scores import TOP as FASTEST
from ansor.cost.scores import Scores, evaluate, mean, r_squared, score
from ansor.cost.train import Collected, collect, folds, hold_out, tasks_of
from ansor.records.database import Database
from ansor.records.text import canonical
from ansor.te.task import Task
from ansor.te.workloads import MORE, WORKLOADS, task

RESULTS = Path(__file__).resolve().parent / "results"
GOALS = {"pairwise": 0.85, "recall": 0.62, "r2": 0.95, "top": 0.9}
FEWEST = 30  # programs of a task that is judged
REPEATS = 5  # programs of a task measured again, from which on its noise is known
ROUNDS = 5  # of noise, for the ceiling
POINTS, TOP = 50_000, 2_000
NEAR = 1.05  # times the best known
LEVELS = np.arange(-0.5, 0.5, 0.01)  # of the best predicted program, in logarithms

Doubles = npt.NDArray[np.float64]
Fold = tuple[list[Sample], list[Sample]]  # to train on, to test on
Make = Callable[[], CostModel]
Fact = dict[str, object]


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
    """Timed programs of tasks that have enough of them."""
    counts: dict[str, int] = {}
    timed = [taken(x, np.isfinite(x.seconds)) for x in collected.samples]
    for sample in timed:
        counts[sample.task] = counts.get(sample.task, 0) + len(sample.seconds)
    return [x for x in timed if counts[x.task] >= FEWEST and len(x.seconds)]


def taken(sample: Sample, chosen: npt.NDArray[np.bool_]) -> Sample:
    """Some of the programs."""
    features = sample.features
    part = Features(features.values[:, chosen], features.seconds[:, chosen])
    return Sample(sample.task, part, sample.seconds[chosen])


# -- holding out -----------------------------------------------------------------------


def by_task(samples: Sequence[Sample], count: int) -> Iterator[Fold]:
    yield from folds(samples, count)


def by_program(samples: Sequence[Sample], count: int) -> Iterator[Fold]:
    """Programs of each task in `count` groups, the same for all that a model cannot
    tell apart."""
    rng = np.random.default_rng(0)
    looks = [
        [v.tobytes() for v in np.moveaxis(x.features.values, 1, 0)] for x in samples
    ]
    group: dict[tuple[str, bytes], int] = {}
    for name in tasks_of(samples):
        own = (y for x, y in zip(samples, looks, strict=True) if x.task == name)
        distinct = dict.fromkeys(look for every in own for look in every)
        numbers = rng.permutation(len(distinct)) % count
        group |= {(name, x): int(n) for x, n in zip(distinct, numbers, strict=True)}
    groups = [
        np.array([group[x.task, look] for look in every])
        for x, every in zip(samples, looks, strict=True)
    ]
    for number in range(count):
        yield _apart(samples, [found == number for found in groups])


def _apart(samples: Sequence[Sample], masks: Sequence[npt.NDArray[np.bool_]]) -> Fold:
    """Programs outside the masks, and those inside."""
    pairs = list(zip(samples, masks, strict=True))
    return (
        [taken(sample, ~mask) for sample, mask in pairs if not mask.all()],
        [taken(sample, mask) for sample, mask in pairs if mask.any()],
    )


@dataclass
class Held:
    """Programs of one task that were held out: predicted and measured seconds, and
    normalised throughput as predicted."""

    guess: Doubles
    truth: Doubles
    throughput: Doubles
    levelled: Doubles  # with the level learned from other tasks

    @property
    def normalised(self) -> Doubles:
        found: Doubles = self.truth.min() / self.truth
        return found

    def __add__(self, other: Held) -> Held:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Held(*(np.concatenate(pair) for pair in pairs))


def predicted(
    model: CostModel, samples: Sequence[Sample], best: dict[str, float], level: float
) -> dict[str, Held]:
    """Throughput is over the best known time of the task, where there is one, else
    over the best predicted: this one, or this one at some level."""
    found: dict[str, Held] = {}
    for name in tasks_of(samples):
        own = [x for x in samples if x.task == name]
        guess = np.concatenate([model.predict(x.features, name).seconds for x in own])
        truth = np.concatenate([x.seconds for x in own])
        rate = np.minimum(best.get(name, guess.min()) / guess, 1)
        shift = 0.0 if name in best else level
        levelled = np.minimum(rate * np.exp(shift), 1)
        found[name] = Held(guess, truth, rate, levelled)
    return found


def level_of(make: Make, samples: Sequence[Sample]) -> float:
    """How far the fastest program of a task is from the best predicted one, as some of
    these tasks show to a model of the others."""
    train, test = hold_out(samples)
    model = make()
    model.fit(train)
    found = predicted(model, test, {}, 0.0).values()

    def error(level: float) -> float:
        rates = (np.minimum(x.throughput * np.exp(level), 1) for x in found)
        pairs = zip(rates, found, strict=True)
        return float(sum(((rate - x.normalised) ** 2).sum() for rate, x in pairs))

    return float(min(LEVELS, key=error))


def held_out(split: Iterator[Fold], make: Make) -> tuple[dict[str, Held], Fact]:
    """Every program as seen by a model that was trained without it."""
    every: dict[str, Held] = {}
    groups: list[list[int]] = []
    each: list[Scores] = []
    levels: list[float] = []
    for train, test in split:
        best = {
            name: min(float(x.seconds.min()) for x in train if x.task == name)
            for name in tasks_of(train)
        }
        is_new = not best.keys() & set(tasks_of(test))
        levels.append(level_of(make, train) if is_new else 0.0)
        model = make()
        model.fit(train)
        now = predicted(model, test, best, levels[-1])
        each.append(mean(score(x.guess, x.truth) for x in now.values()))
        groups.append([sum(len(x.seconds) for x in part) for part in (train, test)])
        for name, held in now.items():
            every[name] = every[name] + held if name in every else held
    return every, facts_of(every, each, groups)


def facts_of(
    every: dict[str, Held], each: list[Scores], groups: list[list[int]]
) -> Fact:
    """The figures of one way of holding out."""
    truth = np.concatenate([x.normalised for x in every.values()])
    scores = mean(score(x.guess, x.truth) for x in every.values())
    own = [r_squared(x.levelled, x.normalised) for x in every.values()]
    raw, levelled = (
        r_squared(np.concatenate([getattr(x, part) for x in every.values()]), truth)
        for part in ("throughput", "levelled")
    )
    return {
        "groups": groups,
        "tasks": len(every),
        "programs": scores.programs,
        "pairwise": scores.pairwise,
        "recall": scores.recall,
        "pooled_r2": levelled,
        "pooled_r2_without_level": raw,
        "median_r2": float(np.median(own)),
        "pairwise_of_groups": [x.pairwise for x in each],
        "recall_of_groups": [x.recall for x in each],
    }


# -- what is possible ------------------------------------------------------------------


def repeats(databases: Sequence[Database]) -> dict[str, Doubles]:
    """Of each task, log of a program's time over what it took before, for one of the
    two measurements: of the programs that were measured more than once."""
    found: dict[str, list[float]] = {}
    for database in databases:
        known: dict[tuple[str, str, str], float] = {}
        for record in database.records(role="trial"):
            if record.seconds is not None:
                key = (record.form, record.target, canonical(record.program))
                if key in known:
                    ratio = float(np.log(record.seconds / known[key])) / 2**0.5
                    name = f"{record.workload} {record.target}"
                    found.setdefault(name, []).extend((ratio, -ratio))
                known.setdefault(key, record.seconds)
    return {name: np.array(ratios) for name, ratios in found.items()}


def ceiling(samples: Sequence[Sample], noise: dict[str, Doubles]) -> Fact | None:
    """Scores of the measured times against the same with noise once more: of tasks
    that have repeats enough, each with its own noise."""
    rng = np.random.default_rng(0)
    scores: list[Scores] = []
    guesses, truths, names = [], [], []
    for name in tasks_of(samples):
        ratios = noise.get(name, np.zeros(0))
        if len(ratios) < 2 * REPEATS:
            continue
        names.append(name)
        times = np.concatenate([x.seconds for x in samples if x.task == name])
        for _ in range(ROUNDS):
            again = times * np.exp(rng.choice(ratios, len(times)))
            scores.append(score(times, again))
            guesses.append(np.minimum(again.min() / times, 1))
            truths.append(again.min() / again)
    if not names:
        return None
    whole = mean(scores)
    return {
        "tasks": names,
        "deviation": float(np.mean([noise[x].std() for x in names])),
        "pairwise": whole.pairwise,
        "recall": whole.recall,
        "pooled_r2": r_squared(np.concatenate(guesses), np.concatenate(truths)),
    }


def chance(samples: Sequence[Sample]) -> float:
    """The recall of a guess: tasks with few programs make it easy."""
    counts = (
        sum(len(x.seconds) for x in samples if x.task == name)
        for name in tasks_of(samples)
    )
    return float(np.mean([min(FASTEST / count, 1.0) for count in counts]))


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


# -- showing ---------------------------------------------------------------------------

WAYS = {"by task": by_task, "by program": by_program}
WIDTHS = (10, 8, 8)


def cells(scores: Scores) -> str:
    figures = (scores.pairwise, scores.recall, scores.r2)
    return "".join(f"{x:>{n}.3f}" for x, n in zip(figures, WIDTHS, strict=True))


def show_heads() -> None:
    titles = "".join(f"{x:>26}" for x in ("analytic", *WAYS))
    pairs = zip(("pairs", "recall", "R2"), WIDTHS, strict=True)
    heads = "".join(f"{x:>{n}}" for x, n in pairs) * (1 + len(WAYS))
    print(f"{'':<28}{titles}\n{'':<28}{heads}{'top':>8}")


def show(name: str, columns: Sequence[Scores], top: float) -> None:
    text = "".join(cells(x) for x in columns)
    print(f"{name:<22}{columns[0].programs:>6}{text}{top:>8.3f}", flush=True)


def show_split(name: str, facts: Fact) -> None:
    keys = ("pairwise", "recall", "pooled_r2", "pooled_r2_without_level", "median_r2")
    text = ", ".join(f"{x} {facts[x]:.3f}" for x in keys if x in facts)
    print(f"{name}: {text}; {facts.get('groups', '')}")


def lines(
    samples: Sequence[Sample],
    tasks: dict[str, Task],
    analytic: dict[str, Scores],
    splits: dict[str, dict[str, Held]],
) -> list[Fact]:
    """One of each task, shown as they come: the worst ranked first."""
    known = names(next(iter(tasks.values())).target)
    learned = {
        split: {name: score(x.guess, x.truth) for name, x in every.items()}
        for split, every in splits.items()
    }
    found: list[Fact] = []
    for key in sorted(tasks, key=lambda x: learned["by task"][x].pairwise):
        own = [sample for sample in samples if sample.task == key]
        name = known.get(key, key.split()[0])
        top = reached(tasks[key], own)
        columns = {"analytic": analytic[key]} | {x: y[key] for x, y in learned.items()}
        show(name, list(columns.values()), top)
        scores = {split: asdict(x) for split, x in columns.items()}
        found.append({"task": name, **scores, "top": top})
    every = (analytic, *learned.values())
    show("mean", [mean(x.values()) for x in every], top_share(found))
    return found


def top_share(found: Sequence[Fact]) -> float:
    """Tasks whose best known program, or one nearly as good, is in the analytic top."""
    return float(np.mean([float(str(line["top"])) * NEAR >= 1 for line in found]))


def limits(
    samples: Sequence[Sample],
    databases: Sequence[Database],
    splits: dict[str, dict[str, Held]],
) -> dict[str, Fact]:
    """The ceiling of the tasks whose noise is known, and the model on these alone."""
    limit = ceiling(samples, repeats(databases))
    if limit is None:
        return {}
    names = limit["tasks"]
    assert isinstance(names, list)
    own = {
        f"{split}, the same tasks": facts_of({x: every[x] for x in names}, [], [])
        for split, every in splits.items()
    }
    return {f"ceiling of {len(names)} tasks": limit, **own}


def judge(databases: Sequence[Database], count: int, name: str) -> Fact:
    """The table, shown and as what is written."""
    samples = judged(collect(databases))
    tasks = tasks_by_key(databases, tasks_of(samples))
    analytic = evaluate(AnalyticModel(), samples)

    def make() -> CostModel:
        return model_from_name(name)

    found = {x: held_out(way(samples, count), make) for x, way in WAYS.items()}
    show_heads()
    each = lines(samples, tasks, analytic, {x: held for x, (held, _) in found.items()})
    splits = {x: facts for x, (_, facts) in found.items()}
    for title, facts in splits.items():
        show_split(title, facts)
    limit = limits(samples, databases, {x: held for x, (held, _) in found.items()})
    for title, facts in limit.items():
        show_split(title, facts)
    print(f"recall by chance: {chance(samples):.3f}")
    return {
        "target": next(iter(tasks.values())).target.fingerprint,
        "model": name,
        "goals": GOALS,
        "analytic": asdict(mean(analytic.values())),
        "splits": splits,
        "ceiling": limit,
        "chance_recall": chance(samples),
        "top_share": top_share(each),
        "tasks": each,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("databases", nargs="+")
    parser.add_argument("--folds", type=int, default=4)
    parser.add_argument("--model", default=default_model().name)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    databases = [Database(path) for path in options.databases]
    found = judge(databases, options.folds, options.model)
    cpu = str(found["target"]).split()[2]
    path = options.output or RESULTS / f"model-{cpu}.json"
    path.write_text(json.dumps(found, indent=1) + "\n")
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
