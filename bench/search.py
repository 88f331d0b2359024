"""The search: beside its baselines, with records of other tasks, and its speed.

    python bench/search.py                 all parts; writes bench/results/
    python bench/search.py ablation        only: policies against each other
    python bench/search.py transfer        only: cold, and with records of other tasks
    python bench/search.py points          only: points scored per second
    python bench/search.py --db FOLDER     keep the databases, go on where it was

Every search runs in a process of its own, with a database of its own. Times that were
measured in different searches do not compare well: so the winners of all searches of a
workload are timed side by side in one ranking, and each curve ends where its winner is.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

import features
import numpy as np
from peers.arena import Row, forget, once, tune, versions
from peers.tasks import task
from plot import Points, chart

from ansor import Database, Program, Target, Task, sketches
from ansor.cost.analytic import seconds
from ansor.cost.model import default_model
from ansor.measure.identity import versions as compilers
from ansor.measure.local import LocalRunner
from ansor.records.outcome import Timed
from ansor.search.judge import ModelJudge, Trials
from ansor.search.policies import POLICIES
from ansor.space.replay import replay

RESULTS = Path(__file__).parent / "results"
CASES = ("GMM512", "C2D-nhwc", "R50a-nhwc", "SFM")
TASKS = (
    "GMM512", "GMM1009", "GMMsk-31x1000x768", "C1D-nhwc", "C2D-nhwc", "DEP-nhwc",
    "GRP-nhwc", "R50a-nhwc", "R50b-nhwc", "SFM", "LNG", "TBG",
)  # fmt: skip
OURS = "evolution"
NEAR = 0.95  # of the cold run's final speed
SHARE = 1 / 3  # of the cold run's trials, at most, until then
POINTS = 200_000  # scored per second, at least
POPULATION = 16_384
LEARNT = 64  # trials that the model has seen when it is timed

History = Sequence[tuple[int, float | None, float]]  # trial, best, seconds spent


class Bench:
    """Settings, and the folder with the databases."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self.folder = folder
        self.trials: int = args.trials
        self.threads: int = args.threads
        self.seeds: list[int] = args.seeds

    def search(self, workload: str, seed: int, *options: str) -> tuple[Path, Row]:
        """A search from nothing, with these options; found if it was done before."""
        words = [workload, f"t{self.threads}", f"s{seed}", f"n{self.trials}", *options]
        database = self.folder / ("-".join(words).replace("=", "") + ".db")

        def run() -> Row:
            forget(database)
            return self.tune(workload, seed, database, *options)

        return database, once(database, run)

    def tune(self, workload: str, seed: int, database: Path, *options: str) -> Row:
        limit = f"trials={self.trials}"
        return tune(workload, self.threads, seed, database, limit, *options)

    def task(self, workload: str) -> Task:
        return task(workload, self.threads)


# -- side by side ----------------------------------------------------------------------


def winner(database: Path, made: Task) -> Program:
    with Database(database, "r") as opened:
        record = opened.best(made, llvm=compilers()["llvm"])
        assert record is not None, f"{database.name} has no record of the task"
        return replay(opened.task_of(record, made.target), record.program)


def side_by_side(made: Task, databases: Sequence[Path]) -> list[float | None]:
    """Seconds of the winner of each, timed in one ranking; None for one that failed."""
    programs = [winner(database, made) for database in databases]
    with LocalRunner() as runner:
        ranked = runner.rank(made, programs)
    return [x.estimate if isinstance(x, Timed) else None for x in ranked.outcomes]


def rescaled(history: History, final: float | None) -> list[Row]:
    """Trial, best and spent, with times such that the last best is `final`."""
    last = next((best for _, best, _ in reversed(history) if best), None)
    if last is None or final is None:
        return []
    return [
        {"trial": trial, "s": best * final / last, "spent": spent}
        for trial, best, spent in history
        if best
    ]


# -- ablation --------------------------------------------------------------------------


def ablation(bench: Bench, workload: str, policies: Sequence[str]) -> Row:
    """Every policy with every seed; speeds are relative to the best winner of all."""
    runs = [
        (policy, seed, *bench.search(workload, seed, f"policy={policy}"))
        for policy in policies
        for seed in bench.seeds
    ]
    ran = [run for run in runs if "error" not in run[3]]
    timed = side_by_side(bench.task(workload), [database for _, _, database, _ in ran])
    best = min(x for x in timed if x is not None)
    row: Row = {"workload": workload, "threads": bench.threads, "best_us": 1e6 * best}
    row["failed"] = {f"{p} {s}": f["error"] for p, s, _, f in runs if "error" in f}
    row["policies"] = {}
    for policy in policies:
        found = [
            {
                "seed": seed,
                "speed": 0.0 if final is None else best / final,
                "wall_s": facts["wall_s"],
                "trials": facts["trials"],
                "stopped": facts.get("stopped"),
                "curve": curve(facts["history"], final, best),
            }
            for (name, seed, _, facts), final in zip(ran, timed, strict=True)
            if name == policy
        ]
        if found:
            row["policies"][policy] = together(found)
    return row


def together(runs: Sequence[Row]) -> Row:
    """The seeds of one policy, by their medians."""
    return {
        "speed": median(run["speed"] for run in runs),
        "least": min(run["speed"] for run in runs),
        "wall_s": median(run["wall_s"] for run in runs),
        "runs": list(runs),
    }


def curve(history: History, final: float | None, best: float) -> list[list[float]]:
    """Trial, seconds of wall-clock and relative speed, where it got better."""
    found: list[list[float]] = []
    for row in rescaled(history, final):
        speed = best / row["s"]
        if not found or speed > found[-1][2]:
            found.append([row["trial"], row["spent"], speed])
    return found


def medians(runs: Sequence[Row], axis: int) -> Points:
    """The median speed of some runs after each trial, or second, in which one got
    better."""
    places = sorted({point[axis] for run in runs for point in run["curve"]})

    def at(run: Row, place: float) -> float:
        number = bisect_right([point[axis] for point in run["curve"]], place)
        return float(run["curve"][number - 1][2]) if number else 0.0

    return [(0.0, 0.0)] + [(x, median(at(run, x) for run in runs)) for x in places]


def plots(row: Row, stem: str) -> Iterator[tuple[str, str]]:
    """Names and texts of the two charts of a workload."""
    for axis, across, name in (
        (0, "trials", "trials"),
        (1, "seconds of wall-clock", "seconds"),
    ):
        series = {
            policy: medians(found["runs"], axis)
            for policy, found in row["policies"].items()
        }
        title = f"{row['workload']}: best found, median of the seeds"
        text = chart(title, across, "speed, the best of all is 1", series, top=1.0)
        yield f"{stem}-{row['workload']}-{name}.svg", text


def show_ablation(row: Row) -> None:
    ranked = sorted(row["policies"].items(), key=lambda item: -item[1]["speed"])
    line = ", ".join(
        f"{policy} {found['speed']:.3f} (least {found['least']:.3f}, "
        f"{found['wall_s']:.1f} s)"
        for policy, found in ranked
    )
    verdict = "ok" if ranked and ranked[0][0] == OURS else "!!"
    print(f"{row['workload']:<12} {row['best_us']:8.1f} us  {line} {verdict}")
    for name, error in row["failed"].items():
        print(f"  {name} failed: {error}")


# -- transfer --------------------------------------------------------------------------


def transfer(bench: Bench, workload: str, others: Sequence[str]) -> Row:
    """One task from nothing, and with the records of the other tasks' cold runs."""
    seed = bench.seeds[0]
    cold, before = bench.search(workload, seed)
    warm = cold.with_name(f"{cold.stem}-warm{len(others)}.db")

    def run() -> Row:
        forget(warm)
        with Database(warm, durable=False) as database:
            for other in others:
                database.merge(bench.search(other, seed)[0])
        return bench.tune(workload, seed, warm)

    after = once(warm, run)
    row: Row = {"workload": workload, "threads": bench.threads, "seed": seed}
    if errors := [facts["error"] for facts in (before, after) if "error" in facts]:
        return {**row, "error": "; ".join(errors)}
    finals = side_by_side(bench.task(workload), [cold, warm])
    if None in finals or not finals[0] or not finals[1]:
        return {**row, "error": "a winner failed when they were ranked"}
    goal = finals[0] / NEAR
    row |= {"cold_us": 1e6 * finals[0], "warm_us": 1e6 * finals[1]}
    row["final_ratio"] = finals[0] / finals[1]
    row["cold_trials"], row["warm_trials"] = before["trials"], after["trials"]
    row["cold_wall_s"], row["warm_wall_s"] = before["wall_s"], after["wall_s"]
    row["cold_until"] = until(before["history"], finals[0], goal)
    row["warm_until"] = until(after["history"], finals[1], goal)
    reached = row["warm_until"]
    row["share"] = None if reached is None else reached / before["trials"]
    return row


def until(history: History, final: float, goal: float) -> int | None:
    """The first trial after which the best is as fast as the goal."""
    found = (row["trial"] for row in rescaled(history, final) if row["s"] <= goal)
    return next(found, None)


def show_transfer(row: Row) -> None:
    if "error" in row:
        print(f"{row['workload']:<20} {row['error']}", flush=True)
        return
    share = row["share"]
    print(
        f"{row['workload']:<20} cold {row['cold_us']:8.1f} us, 95 % after "
        f"{row['cold_until']} of {row['cold_trials']}; with others "
        f"{row['warm_us']:8.1f} us, 95 % of cold after {row['warm_until']}: "
        f"{'never' if share is None else f'{share:.2f}'}",
        flush=True,
    )


def summary(rows: Sequence[Row]) -> Row:
    done = [row for row in rows if "error" not in row]
    shares = [float("inf") if row["share"] is None else row["share"] for row in done]
    middle = median(shares) if shares else None
    return {
        "tasks": len(done),
        "share": None if middle == float("inf") else middle,
        "goal": SHARE,
        "least_final_ratio": min((row["final_ratio"] for row in done), default=None),
    }


# -- points ----------------------------------------------------------------------------


def points(workload: str, count: int, rounds: int) -> Iterator[Row]:
    """Points per second through features, analytic and learned model, on one core, for
    the first, middle and last sketch."""
    made = task(workload, Target("cpu").cores)
    found = sketches(made)
    for number in sorted({0, len(found) // 2, len(found) - 1}):
        sketch = found[number]
        judge = ModelJudge(default_model(), made)
        seen, many = sketch.sample(LEARNT, 1), sketch.sample(count, 0)
        noise = np.random.default_rng(0).lognormal(0, 0.2, len(seen))
        judge.learn([Trials(sketch, seen, seconds(sketch, seen) * noise)])
        score = partial(judge.believe, sketch, many)
        rate = features.rate(score, len(many), rounds)
        yield {"workload": workload, "sketch": number, "rate": rate, "goal": POINTS}


def show_points(row: Row) -> None:
    verdict = "ok" if row["rate"] >= row["goal"] else "!!"
    print(
        f"{row['workload']:<12}{row['sketch']:>4}{row['rate'] / 1e3:>10.0f} thousand "
        f"points per second {verdict}",
        flush=True,
    )


# -- running ---------------------------------------------------------------------------


def run_ablation(bench: Bench, args: argparse.Namespace) -> Row:
    policies = args.policies or list(POLICIES)
    rows = []
    for workload in args.workloads or CASES:
        rows.append(row := ablation(bench, workload, policies))
        show_ablation(row)
        for name, text in plots(row, args.output.stem):
            (args.output.parent / name).write_text(text)
    return {"rows": rows}


def run_transfer(bench: Bench, args: argparse.Namespace) -> Row:
    tasks = args.workloads or TASKS
    rows = []
    for workload in tasks:
        others = [name for name in tasks if name != workload]
        rows.append(row := transfer(bench, workload, others))
        show_transfer(row)
    found = summary(rows)
    print(json.dumps(found, indent=1))
    return {"rows": rows, "summary": found}


def run_points(bench: Bench, args: argparse.Namespace) -> Row:
    rows = []
    for workload in args.workloads or features.CASES:
        for row in points(workload, args.points, args.rounds):
            rows.append(row)
            show_points(row)
    return {"rows": rows}


PARTS: dict[str, Callable[[Bench, argparse.Namespace], Row]] = {
    "points": run_points,
    "ablation": run_ablation,
    "transfer": run_transfer,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    path = RESULTS / f"search-{Target('cpu').cpu}.json"
    add = parser.add_argument
    add("parts", nargs="*", choices=[[], *PARTS])
    add("--workloads", nargs="+", help="instead of those that each part has")
    add("--policies", nargs="+", choices=list(POLICIES))
    add("--seeds", type=int, nargs="+", default=[0, 1, 2])
    add("--trials", type=int, default=64)
    add("--threads", type=int, default=1)
    add("--points", type=int, default=POPULATION)
    add("--rounds", type=int, default=5, help="of scoring points")
    add("--db", type=Path, help="folder for databases; kept, and used again")
    add("--output", type=Path, default=path)
    return parser.parse_args()


def write(path: Path, part: str, found: Row, settings: Row) -> None:
    content: Row = json.loads(path.read_text()) if path.exists() else {}
    content |= {"target": Target("cpu").fingerprint, "versions": versions()}
    content[part] = {**found, "settings": settings}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def main() -> None:
    args = arguments()
    settings = {name: getattr(args, name) for name in ("seeds", "trials", "threads")}
    with ExitStack() as stack:
        folder = args.db
        if folder is None:
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="ansor-"))
            folder = Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(args, folder)
        for part in args.parts or PARTS:
            write(args.output, part, PARTS[part](bench, args), settings)
    print(f"written to {args.output.name}")


if __name__ == "__main__":
    main()
