"""The standard operators: tuned by this project, beside torch, in interleaved rounds.

    python bench/ops.py                       all; writes bench/results/ops-CPU.json
    python bench/ops.py SFM R50a-nhwc         these again; the other rows stay
    python bench/ops.py --resume --db FOLDER  go on with a run that was interrupted
    python bench/ops.py --primes              2039³ beside 2048³, 1009³ beside 1024³
    python bench/ops.py --seconds 10          only: does tune(seconds=10) keep its word?
    python bench/ops.py --metaschedule PYTHON only: TVM's MetaSchedule, run by a Python
                                              that has it, on C2D, R50a and SFM

Every competitor is a process of its own, on as many CPUs as it has threads, and they
take turns of some 30 ms in a new random order each round. Ratios are medians of those
of the rounds. Every seed is tuned from nothing in a new process; tuning seconds are
wall-clock of `ansor.tune`. All results are first compared with the NumPy reference.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import exp, log
from pathlib import Path
from statistics import mean, median
from typing import Any

from peers.arena import Bench, Row, answer, forget, once, ours, torch, tune, versions
from peers.protocol import figures, race, ratio
from peers.tasks import task

from ansor import Target
from ansor.codegen.calibrate import calibrate
from ansor.te.workloads import WORKLOADS

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PEERS = ("eager", "compiled")
PRIMES = {"GMM2039": "GMM2048", "GMM1009": "GMM1024"}
OTHERS = ("C2D-nchw", "C2D-nhwc", "R50a-nchw", "R50a-nhwc", "SFM")  # MetaSchedule's
LEAST = 0.92  # ratio to the faster peer that no operator may be below
NEAR = 0.95  # of the speed of a power of two that a prime size has to reach
GRACE = 2.0  # seconds that tune(seconds=…) may take more

# -- operators -------------------------------------------------------------------------


def operator(bench: Bench, workload: str, threads: int, peak: float) -> Row:
    """Tune with every seed, then race all seeds and both peers."""
    path = bench.data(workload)
    tuned = {seed: bench.tuned(workload, threads, seed) for seed in bench.seeds}
    commands = {
        f"seed {seed}": ours(workload, threads, path, database)
        for seed, (database, facts) in tuned.items()
        if "error" not in facts
    } | {kind: torch(kind, workload, threads, path) for kind in PEERS}
    with bench.competitors(commands, threads) as all_:
        times = race(all_, bench.rounds)
        hello = {one.name: one.hello for one in all_}
    flops = task(workload, threads).flops
    row: Row = {"workload": workload, "threads": threads, "flops": flops}
    row["peers"] = {
        kind: {
            "error": hello[kind].error,
            "setup_s": hello[kind].setup,
            **hello[kind].notes,
            **(figures(times[kind]) if kind in times else {}),
        }
        for kind in PEERS
    }
    row["faster"] = fastest(times, PEERS)
    row["seeds"] = [
        seed_row(seed, facts, hello.get(f"seed {seed}"), times, row)
        for seed, (_, facts) in tuned.items()
    ]
    row |= overall(row, times, peak * threads)
    row["rounds_s"] = times
    return row


def fastest(times: dict[str, list[float]], names: Sequence[str]) -> str:
    ready = [name for name in names if name in times]
    return min(ready, key=lambda name: median(times[name]), default="")


def seed_row(
    seed: int, facts: Row, hello: Any, times: dict[str, list[float]], row: Row
) -> Row:
    """One seed: what tuning took, and its ratios to both peers."""
    name = f"seed {seed}"
    found: Row = {"seed": seed, "error": facts.get("error", "")}
    if hello is not None:
        found["error"] = hello.error
    found |= {key: facts.get(key) for key in ("wall_s", "trials", "failures")}
    if name not in times:
        return found
    found |= {"correct": hello.correct, **hello.notes, **figures(times[name])}
    found["ratios"] = {
        kind: ratio(times[kind], times[name]) for kind in PEERS if kind in times
    }
    if row["faster"]:
        found["ratio"] = found["ratios"][row["faster"]]
        best = min(times[row["faster"]])
        found["best_ratio"] = best / min(times[name])
    return found


def overall(row: Row, times: dict[str, list[float]], peak: float) -> Row:
    """The seeds together; an operator counts by the median of its seeds."""
    ran = [seed for seed in row["seeds"] if "median_us" in seed]
    if not ran:
        return {"error": "; ".join(seed["error"] for seed in row["seeds"])}
    us = median(seed["median_us"] for seed in ran)
    gflops = row["flops"] / us / 1e3
    names = [f"seed {seed['seed']}" for seed in ran]
    beside = [ratio(times[name], times[names[0]]) for name in names]
    ratios = [seed["ratio"] for seed in ran if "ratio" in seed]
    return {
        "us": us,
        "best_us": min(seed["best_us"] for seed in ran),
        "gflops": gflops,
        "peak_share": gflops * 1e9 / peak,
        "ratio": median(ratios) if ratios else None,
        "worst_ratio": min(ratios, default=None),
        "spread": max(beside) / min(beside) - 1,
        "wall_s": median(seed["wall_s"] for seed in ran),
        "correct": all(seed["correct"] for seed in ran)
        and len(ran) == len(row["seeds"]),
    }


HEAD = (
    f"{'workload':<20}{'th':>2}{'us':>10}{'GFLOP/s':>9}{'peak':>6}{'eager us':>10}"
    f"{'compiled':>10}{'ratio':>7}{'worst':>7}{'tuning s':>9}{'trials':>7}"
    f"{'failed':>7}{'spread':>8}"
)


def text(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def show(row: Row) -> None:
    if "us" not in row:
        print(f"{row['workload']:<20}{row['threads']:>2}  {row['error']}", flush=True)
        return
    seeds = row["seeds"]
    failures = sum(sum((seed["failures"] or {}).values()) for seed in seeds)
    trials = median(seed["trials"] or 0 for seed in seeds)
    eager, compiled = (row["peers"][kind].get("median_us") for kind in PEERS)
    notes = [
        f"{kind}: {row['peers'][kind]['error'].splitlines()[0][:60]}"
        for kind in PEERS
        if row["peers"][kind]["error"]
    ] + ([] if row["correct"] else ["WRONG or missing seeds"])
    verdict = "ok" if (row["ratio"] or 0) >= LEAST and row["correct"] else "!!"
    print(
        f"{row['workload']:<20}{row['threads']:>2}{row['us']:>10.1f}"
        f"{row['gflops']:>9.1f}{row['peak_share']:>6.0%}{text(eager, '.1f'):>10}"
        f"{text(compiled, '.1f'):>10}{text(row['ratio'], '.2f'):>7}"
        f"{text(row['worst_ratio'], '.2f'):>7}{row['wall_s']:>9.1f}{trials:>7.0f}"
        f"{failures:>7}{row['spread']:>8.1%} {verdict} {'; '.join(notes)}",
        flush=True,
    )


def summary(rows: Sequence[Row]) -> Row:
    """The figures that the goals are about, by number of threads and of all."""
    found: Row = {}
    for threads in (*sorted({row["threads"] for row in rows}), "all"):
        some = [
            row
            for row in rows
            if threads in ("all", row["threads"]) and row.get("ratio") is not None
        ]
        if some:
            found[str(threads)] = {
                "operators": len(some),
                "geomean": exp(mean(log(row["ratio"]) for row in some)),
                "least": min(row["ratio"] for row in some),
                "least_of_seeds": min(row["worst_ratio"] for row in some),
                "below": [row["workload"] for row in some if row["ratio"] < LEAST],
                "spread": median(row["spread"] for row in some),
                "wall_s": median(row["wall_s"] for row in some),
            }
    return found


# -- other questions -------------------------------------------------------------------


def prime(bench: Bench, name: str, threads: int, peak: float) -> Row:
    """A product of a prime size beside one of a power of two, by GFLOP/s."""
    both = (name, PRIMES[name])
    tuned = {n: bench.tuned(n, threads, bench.seeds[0]) for n in both}
    commands = {
        n: ours(n, threads, bench.data(n), database)
        for n, (database, _) in tuned.items()
    }
    with bench.competitors(commands, threads) as all_:
        times = race(all_, bench.rounds)
        errors = [one.hello.error for one in all_ if not one.is_ready]
    row: Row = {"workload": name, "power": both[1], "threads": threads}
    if errors:
        return {**row, "error": "; ".join(errors)}
    flops = {n: task(n, threads).flops for n in both}
    speeds = [flops[n] / median(times[n]) / 1e9 for n in both]
    row |= {"gflops": speeds, "peak_share": [v * 1e9 / peak / threads for v in speeds]}
    row["share"] = ratio(times[both[1]], times[name]) * flops[name] / flops[both[1]]
    row["wall_s"] = [facts.get("wall_s") for _, facts in tuned.values()]
    return row


def show_prime(row: Row) -> None:
    if "error" in row:
        print(f"{row['workload']}: {row['error']}", flush=True)
        return
    mine, other = row["gflops"]
    verdict = "ok" if row["share"] >= NEAR else "!!"
    print(
        f"{row['workload']} {mine:.1f} GFLOP/s, {row['power']} {other:.1f}, "
        f"{row['threads']} thread(s): {row['share']:.3f} {verdict}",
        flush=True,
    )


def in_seconds(bench: Bench, workload: str, threads: int, limit: float) -> Row:
    """Whether tune(seconds=…) returns in time, with a kernel that is right."""
    database = bench.folder / f"{workload}-t{threads}-seconds.db"
    forget(database)
    found = tune(workload, threads, bench.seeds[0], database, f"seconds={limit}")
    row: Row = {"workload": workload, "threads": threads, "limit": limit}
    row |= {key: found.get(key) for key in ("wall_s", "trials", "seconds", "error")}
    if "error" not in found:
        command = {"ours": ours(workload, threads, bench.data(workload), database)}
        with bench.competitors(command, threads) as (one,):
            row |= {"correct": one.hello.correct, "error": one.hello.error}
    return row


def show_seconds(row: Row) -> None:
    right = bool(row.get("correct"))
    is_kept = right and row["wall_s"] <= row["limit"] + GRACE
    print(
        f"{row['workload']:<20}{row['threads']:>2}{text(row['wall_s'], '.1f'):>8} s"
        f"{row['trials'] or 0:>5} trials  {'right' if right else 'NOT RIGHT'}  "
        f"{'ok' if is_kept else '!!'} {row['error'] or ''}",
        flush=True,
    )


def metaschedule(bench: Bench, python: str, workload: str, threads: int) -> Row:
    """Tune by MetaSchedule, and race its kernel and ours."""
    path, seed, cpu = bench.data(workload), bench.seeds[0], Target("cpu").cpu
    database, mine = bench.tuned(workload, threads, seed)
    work = bench.folder / f"{workload}-t{threads}-n{bench.trials}-metaschedule"
    start = [python, str(HERE / "peers" / "metaschedule.py")]
    names, rest = [workload, str(threads)], [str(bench.trials), str(seed), cpu]
    tuning = [*start, "tune", *names, str(work), *rest]
    theirs = once(work, lambda: answer(tuning, threads))
    commands = {
        "ours": ours(workload, threads, path, database),
        "metaschedule": [*start, "race", *names, str(path), str(work), cpu],
    }
    if "error" in theirs:
        del commands["metaschedule"]
    with bench.competitors(commands, threads) as both:
        times = race(both, bench.rounds)
        hello = {one.name: one.hello for one in both}
    row: Row = {"workload": workload, "threads": threads, **theirs}
    row["ours_wall_s"] = mine.get("wall_s")
    if peer := hello.get("metaschedule"):
        row |= {**peer.notes, "correct": peer.correct, "error": peer.error}
    row |= {f"{name}_us": 1e6 * median(found) for name, found in times.items()}
    if len(times) == 2:
        row["ratio"] = ratio(times["metaschedule"], times["ours"])
    return row


def show_metaschedule(row: Row) -> None:
    start = f"{row['workload']:<20}{row['threads']:>2}"
    if row["error"]:
        print(f"{start}  {row['error'][:300]}", flush=True)
        return
    print(
        f"{start}  ours {text(row.get('ours_us'), '.1f')} us in "
        f"{text(row['ours_wall_s'], '.1f')} s, MetaSchedule "
        f"{row['metaschedule_us']:.1f} us in {row['wall_s']:.1f} s: "
        f"{text(row.get('ratio'), '.2f')} x, "
        f"{'right' if row['correct'] else 'NOT RIGHT'}",
        flush=True,
    )


# -- running ---------------------------------------------------------------------------


class Output:
    """The file of results: read at the start, written after every row.

    A new row takes the place of an old one; without `keep` a part starts empty.
    """

    def __init__(self, path: Path, part: str, facts: Row, keep: bool) -> None:
        self._path, self._part = path, part
        self.content: Row = json.loads(path.read_text()) if path.exists() else {}
        self.content |= facts
        if not keep:
            self.content[part] = []
        self.rows: list[Row] = self.content.setdefault(part, [])

    def has(self, workload: str, threads: int) -> bool:
        places = [(row["workload"], row["threads"]) for row in self.rows]
        return (workload, threads) in places

    def add(self, row: Row) -> None:
        place = (row["workload"], row["threads"])
        old = [x for x in self.rows if (x["workload"], x["threads"]) != place]
        self.rows[:] = [*old, row]
        if self._part == "rows":
            self.content["summary"] = summary(self.rows)
        self._path.parent.mkdir(exist_ok=True)
        text = json.dumps(self.content, indent=1)
        new = self._path.with_suffix(".new")
        new.write_text(text + "\n")
        new.replace(self._path)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("workloads", nargs="*", help="all of the standard ones without any")
    add("--threads", type=int, nargs="+", default=[1, 2])
    add("--seeds", type=int, nargs="+", default=[0, 1, 2])
    add("--trials", type=int, default=64)
    add("--rounds", type=int, default=15)
    add("--db", type=Path, help="folder for databases; kept, and used again")
    add("--resume", action="store_true", help="keep the rows of the file")
    add("--output", type=Path, help="the file, instead of bench/results/ops-CPU.json")
    add("--passive", action="store_true", help="pools of threads do not spin")
    add("--verbose", action="store_true", help="show what competitors print")
    add("--primes", action="store_true")
    add("--seconds", type=float)
    add("--metaschedule", metavar="PYTHON")
    return parser.parse_args()


Part = tuple[Callable[[str, int], Row], Callable[[Row], None], Sequence[str]]


def parts(
    bench: Bench, args: argparse.Namespace, peaks: dict[int, float]
) -> tuple[str, Part]:
    """What was asked for: its name in the file; what makes a row, what shows one, and
    for which workloads."""
    if args.primes:
        return "primes", (
            lambda n, t: prime(bench, n, t, peaks[t]),
            show_prime,
            [*PRIMES],
        )
    if args.seconds:
        limit = args.seconds
        return "seconds", (
            lambda n, t: in_seconds(bench, n, t, limit),
            show_seconds,
            [*WORKLOADS],
        )
    if args.metaschedule:
        python = args.metaschedule
        return "metaschedule", (
            lambda n, t: metaschedule(bench, python, n, t),
            show_metaschedule,
            OTHERS,
        )
    return "rows", (lambda n, t: operator(bench, n, t, peaks[t]), show, [*WORKLOADS])


def run(bench: Bench, args: argparse.Namespace) -> None:
    """The part that was asked for, of every workload and number of threads."""
    peaks = {
        n: calibrate(Target("cpu", cores=n)).peak_flops_per_core for n in args.threads
    }
    path = args.output or RESULTS / f"ops-{Target('cpu').cpu}.json"
    part, (make, tell, names) = parts(bench, args, peaks)
    facts: Row = {
        "target": Target("cpu").fingerprint,
        "versions": versions(),
        "peak_gflops": {str(n): n * peak / 1e9 for n, peak in peaks.items()},
        f"{part}_settings": bench.settings,
    }
    output = Output(path, part, facts, args.resume or bool(args.workloads))
    for threads in args.threads:
        if part == "rows":
            print(HEAD)
        for name in args.workloads or names:
            if not (args.resume and output.has(name, threads)):
                row = make(name, threads)
                tell(row)
                output.add(row)
    if part == "rows":
        print(json.dumps(output.content.get("summary"), indent=1))
    print(f"written to {path.name}")


def main() -> None:
    args = arguments()
    with ExitStack() as stack:
        folder = args.db
        if folder is None:
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="ansor-"))
            folder = Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(
            folder,
            args.trials,
            tuple(args.seeds),
            args.rounds,
            args.passive,
            args.verbose,
        )
        run(bench, args)


if __name__ == "__main__":
    main()
