"""The task scheduler beside round-robin, on whole networks.

    python bench/scheduler.py                    all sets; writes bench/results/
    python bench/scheduler.py resnet50           only this set
    python bench/scheduler.py simulated          only the simulation: a few seconds
    python bench/scheduler.py --trials 16        trials per task (default: 32)
    python bench/scheduler.py --db FOLDER        keep the databases, go on where it was

Each run is a process of its own with a database of its own, and all have the same
number of trials. Times of different runs do not compare well: so the winners of all
runs are timed side by side, task by task, and every run's times of a task are scaled
such that they end there. The question is after how many trials, and seconds, the
gradient is where round-robin ends. "hindsight" is the part of round-robin's own trials
that would have been enough, had one known what each of them brings.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

import networks
from curves import Simulated, hindsight, share, until
from peers.arena import Row, answer, forget, once, versions
from peers.protocol import private_output
from plot import Points, chart

import ansor
from ansor import Database, Target, Task
from ansor.measure.identity import versions as compilers
from ansor.measure.local import LocalRunner
from ansor.records.outcome import Timed
from ansor.schedule.program import Program
from ansor.search.chooser import SCHEDULERS, Gradient, RoundRobin
from ansor.search.progress import Overview
from ansor.search.untuned import untuned
from ansor.space.replay import replay

RESULTS = Path(__file__).parent / "results"
SETS: dict[str, tuple[str, ...]] = {
    "resnet50": ("resnet50",),
    "mobilenet_v2+bert": ("mobilenet_v2", "bert"),
    "smoke": ("smoke",),  # only by name
}
OURS, BASELINE = "gradient", "round-robin"
GOAL = 0.5  # of round-robin's trials
FRESH = 3.0  # times its first time that a task takes before, in hindsight
SMOKE = (
    networks.Layer("dense", (16, 32, 32), "relu"),
    networks.Layer("dense", (16, 64, 48), "add"),
    networks.Layer("softmax", (32, 32)),
)
networks.NETWORKS["smoke"] = lambda: iter([*SMOKE, SMOKE[1]])

Event = tuple[int, float, int, float]  # trial, seconds spent, task, its seconds


def tasks_of(name: str, threads: int) -> list[Task]:
    """The different layers of a set of networks, with their weights."""
    counts = sum(map(networks.layers, SETS[name]), networks.Counter())
    target = Target("cpu", cores=threads)
    return [networks.task(layer, target, count) for layer, count in counts.items()]


# -- one run ---------------------------------------------------------------------------


def tuned(name: str, scheduler: str, seed: int, args: argparse.Namespace) -> Row:
    """What became of a set, in this process."""
    tasks = tasks_of(name, args.threads)
    believed: list[float] = []
    events: list[Event] = []

    def hear(now: Overview) -> None:
        if not believed:
            believed.extend(row.seconds for row in now.rows)
        seconds = now.rows[now.index].seconds
        if now.rows[now.index].is_measured:
            events.append((now.trials, now.seconds, now.index, seconds))

    start = time.perf_counter()
    try:
        found = ansor.tune(
            tasks,
            trials=args.trials * len(tasks),
            seed=seed,
            database=args.database,
            scheduler=scheduler,
            batch=args.batch,
            progress=hear,
        )
    except ansor.AnsorError as error:
        return {"error": str(error)}
    return {
        "wall_s": time.perf_counter() - start,
        "trials": found.trials,
        "objective_s": found.seconds,
        "stopped": found.stopped,
        "is_complete": found.is_complete,
        "allocation": found.allocation,
        "ended": [one.stopped for one in found],
        "errors": [str(one.error) for one in found if one.error is not None],
        "believed": believed,
        "events": events,
    }


class Bench:
    """Settings, and the folder with the databases."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self.args, self.folder = args, folder

    def run(self, name: str, scheduler: str, seed: int) -> tuple[Path, Row]:
        """A run from nothing, in a process of its own; found if it was done before."""
        args = self.args
        words = (name, scheduler, f"t{args.threads}", f"s{seed}", f"n{args.trials}")
        database = self.folder / ("-".join((*words, f"b{args.batch}")) + ".db")
        options = {"threads": args.threads, "trials": args.trials, "batch": args.batch}
        texts = [f"--{option}={x}" for option, x in options.items() if x is not None]
        one = [f"--one={name},{scheduler},{seed}", f"--database={database}"]

        def make() -> Row:
            forget(database)
            return answer([sys.executable, __file__, *one, *texts])

        return database, once(database, make)


# -- side by side ----------------------------------------------------------------------


def winner(database: Path, task: Task) -> Program:
    """The best program of a task; what `ansor.build` takes if none was measured."""
    with Database(database, "r") as opened:
        record = opened.best(task, llvm=compilers()["llvm"])
        if record is None:
            return untuned(task)
        return replay(opened.task_of(record, task.target), record.program)


def side_by_side(task: Task, databases: Sequence[Path]) -> list[float | None]:
    programs = [winner(database, task) for database in databases]
    with LocalRunner() as runner:
        ranked = runner.rank(task, programs)
    return [x.estimate if isinstance(x, Timed) else None for x in ranked.outcomes]


def finals(tasks: Sequence[Task], databases: Sequence[Path]) -> list[list[float]]:
    """Of each run, the seconds of every task's winner; where one failed, the worst."""
    columns: list[list[float]] = []
    for task in tasks:
        timed = side_by_side(task, databases)
        worst = max((x for x in timed if x is not None), default=0.0)
        columns.append([worst if x is None else x for x in timed])
    return [list(row) for row in zip(*columns, strict=True)]


def scaled(facts: Row, ends: Sequence[float]) -> tuple[list[float], list[Event]]:
    """The times before the first trial, and the trials, as if every task ended at its
    final time."""
    events: list[Event] = [tuple(event) for event in facts["events"]]
    last = {index: seconds for _, _, index, seconds in events}
    times = list(ends)  # of those that were never measured: believed by nobody
    for index, seconds in last.items():
        believed = facts["believed"][index]
        times[index] = believed * ends[index] / seconds
    return times, [(t, s, n, x * ends[n] / last[n]) for t, s, n, x in events]


def curve(facts: Row, ends: Sequence[float], weights: Sequence[float]) -> list[Event]:
    """The objective after each trial."""
    times, events = scaled(facts, ends)
    found = []
    for trial, spent, index, seconds in events:
        times[index] = seconds
        value = sum(w * x for w, x in zip(weights, times, strict=True))
        found.append((trial, spent, index, value))
    return found


def enough(facts: Row, ends: Sequence[float], weights: Sequence[float]) -> float:
    """The part of a run's trials that would have been enough."""
    curves: dict[int, list[float]] = {}
    for _, _, index, seconds in scaled(facts, ends)[1]:
        time = weights[index] * seconds
        curves.setdefault(index, [FRESH * time]).append(time)
    return hindsight([*curves.values()])


# -- a set -----------------------------------------------------------------------------


def compared(bench: Bench, name: str) -> Row:
    """Both schedulers with every seed."""
    args = bench.args
    tasks = tasks_of(name, args.threads)
    weights = [task.weight for task in tasks]
    runs = [
        (scheduler, seed, *bench.run(name, scheduler, seed))
        for seed in args.seeds
        for scheduler in args.schedulers
    ]
    ran = [run for run in runs if "error" not in run[3]]
    row: Row = {"set": name, "tasks": len(tasks), "weights": weights}
    row["failed"] = {f"{s} {n}": f["error"] for s, n, _, f in runs if "error" in f}
    ends = finals(tasks, [database for _, _, database, _ in ran])
    row["runs"] = [
        {
            "scheduler": scheduler,
            "seed": seed,
            **{k: facts[k] for k in ("wall_s", "trials", "stopped", "allocation")},
            "final_s": sum(w * x for w, x in zip(weights, end, strict=True)),
            "hindsight": enough(facts, end, weights),
            "curve": thinned(curve(facts, end, weights)),
        }
        for (scheduler, seed, _, facts), end in zip(ran, ends, strict=True)
    ]
    row["seeds"] = list(shares(row["runs"], args.seeds))
    known = [x["trials"] for x in row["seeds"] if x["trials"] is not None]
    row["share"] = median(known) if len(known) == len(row["seeds"]) and known else None
    return row


def thinned(events: Sequence[Event]) -> list[list[float]]:
    """Trial, seconds and objective, where that changed."""
    found: list[list[float]] = []
    for trial, spent, _, value in events:
        if not found or value != found[-1][2]:
            found.append([trial, spent, value])
    return found


def shares(runs: Sequence[Row], seeds: Sequence[int]) -> Iterator[Row]:
    """Of each seed, the part of round-robin's trials and seconds that ours needs."""
    for seed in seeds:
        of = {run["scheduler"]: run for run in runs if run["seed"] == seed}
        if OURS not in of or BASELINE not in of:
            continue
        ours, base = of[OURS], of[BASELINE]
        at = until([point[2] for point in ours["curve"]], base["final_s"])
        point = None if at is None else ours["curve"][at - 1]
        yield {
            "seed": seed,
            "trials": None if point is None else point[0] / base["trials"],
            "seconds": None if point is None else point[1] / base["curve"][-1][1],
            "final_ratio": base["final_s"] / ours["final_s"],
        }


def show(row: Row) -> None:
    print(f"{row['set']}: {row['tasks']} tasks")
    for run in row["runs"]:
        final = 1e3 * run["final_s"]
        print(
            f"  {run['scheduler']:<12} seed {run['seed']}: {final:.3f} ms "
            f"after {run['trials']} trials, {run['wall_s']:.0f} s; "
            f"{run['hindsight']:.2f} of them in hindsight"
        )
    for found in row["seeds"]:
        trials, seconds = (
            "never" if found[x] is None else f"{found[x]:.2f}"
            for x in ("trials", "seconds")
        )
        print(
            f"  seed {found['seed']}: where {BASELINE} ends after {trials} of its "
            f"trials and {seconds} of its seconds; {found['final_ratio']:.3f} x at the "
            "end"
        )
    share = row["share"]
    verdict = "ok" if share is not None and share <= GOAL else "!!"
    print(f"  goal {GOAL}: {'never' if share is None else f'{share:.2f}'} {verdict}")
    for name, error in row["failed"].items():
        print(f"  {name} failed: {error}")


def plots(row: Row, stem: str) -> Iterator[tuple[str, str]]:
    """Names and texts of the charts of a set."""
    for axis, across, name in (
        (0, "trials", "trials"),
        (1, "seconds of wall-clock", "seconds"),
    ):
        series: dict[str, Points] = {
            f"{run['scheduler']} {run['seed']}": [
                (point[axis], 1e3 * point[2]) for point in run["curve"]
            ]
            for run in row["runs"]
        }
        title = f"{row['set']}: sum of weighted times"
        yield f"{stem}-{row['set']}-{name}.svg", chart(title, across, "ms", series)


# -- simulated -------------------------------------------------------------------------


def simulated(seeds: int = 20) -> Row:
    """Shares of round-robin's batches on tasks that exist on paper."""
    rows = []
    for spread, tasks, batches in ((0.8, 25, 4), (1.3, 40, 4), (1.3, 40, 8)):
        found = [
            share(
                Simulated.network(tasks, spread, seed),
                partial(Gradient, seed),
                RoundRobin(),
                batches * tasks,
            )
            for seed in range(seeds)
        ]
        middle = median(found)
        rows.append(
            {"tasks": tasks, "spread": spread, "batches": batches, "share": middle}
        )
        print(
            f"{tasks} tasks, spread {spread}, {batches} batches each: {middle:.2f}",
            flush=True,
        )
    return {"rows": rows}


# -- running ---------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    path = RESULTS / f"scheduler-{Target('cpu').cpu}.json"
    add = parser.add_argument
    add("sets", nargs="*", choices=[[], *SETS, "simulated"])
    add("--schedulers", nargs="+", choices=SCHEDULERS, default=[BASELINE, OURS])
    add("--seeds", type=int, nargs="+", default=[0])
    add("--trials", type=int, default=32, help="per task, on average")
    add("--batch", type=int, help="candidates of a batch")
    add("--threads", type=int, default=Target("cpu").cores)
    add("--db", type=Path, help="folder for databases; kept, and used again")
    add("--output", type=Path, default=path)
    add("--one", help=argparse.SUPPRESS)
    add("--database", help=argparse.SUPPRESS)
    return parser.parse_args()


def write(path: Path, name: str, found: Row, settings: Row) -> None:
    content: Row = json.loads(path.read_text()) if path.exists() else {}
    content |= {"target": Target("cpu").fingerprint, "versions": versions()}
    content[name] = {**found, "settings": settings}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")


def one(args: argparse.Namespace) -> None:
    """A run of one scheduler: a line of JSON."""
    line = private_output()
    name, scheduler, seed = args.one.split(",")
    line.write(json.dumps(tuned(name, scheduler, int(seed), args)) + "\n")


def main() -> None:
    args = arguments()
    if args.one:
        return one(args)
    names = ("seeds", "trials", "batch", "threads")
    settings = {name: getattr(args, name) for name in names}
    with ExitStack() as stack:
        folder = args.db
        if folder is None:
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="ansor-"))
            folder = Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(args, folder)
        for name in args.sets or ["simulated", *(x for x in SETS if x != "smoke")]:
            if name == "simulated":
                write(args.output, name, simulated(), {})
                continue
            show(row := compared(bench, name))
            write(args.output, name, row, settings)
            for file, text in plots(row, args.output.stem):
                (args.output.parent / file).write_text(text)
    print(f"written to {args.output.name}")
    return None


if __name__ == "__main__":
    main()
