"""Networks: tuned by this project, beside torch, onnxruntime and OpenVINO.

    python bench/models.py                          the five; writes models-CPU.json
    python bench/models.py bert gpt2 --threads 2    these, with two threads
    python bench/models.py --untuned                without tuning
    python bench/models.py --seconds 300 --db FOLDER    tuning goes on where it was

Every competitor is a process of its own, on as many CPUs as it has threads, and they
take turns in a new random order each round. Ratios are medians of those of the rounds.
Results are first compared with what torch gives. Libraries that are missing, and
networks that one of them cannot run, are reported and left out.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata, util
from math import exp, log
from pathlib import Path
from statistics import mean

from peers.arena import Bench, Row, answer, once, versions
from peers.protocol import figures, race, ratio
from zoo import FIVE, NETWORKS

from ansor import Target

HERE = Path(__file__).parent
RESULTS = HERE / "results"
SCRIPT = str(HERE / "peers" / "network.py")
PEERS = {  # and the packages they need
    "eager": ("torch",),
    "inductor": ("torch",),
    "onnxruntime": ("onnxruntime", "onnx", "onnxscript"),
    "openvino": ("openvino", "onnx", "onnxscript"),
}
LEAST = 0.9  # ratio to the fastest peer that no network may be below
UNTUNED = 0.5  # ratio to onnxruntime that no network may be below, untuned


def available(names: Sequence[str]) -> list[str]:
    """The peers that can be run; says which cannot, and why."""
    found = []
    for name in names:
        missing = [x for x in PEERS[name] if util.find_spec(x) is None]
        if missing:
            print(f"{name} is left out: {', '.join(missing)} is not installed")
        else:
            found.append(name)
    return found


# -- one network -----------------------------------------------------------------------


def exported(bench: Bench, network: str, batch: int) -> str:
    """Make sure that there is an ONNX file; why not, if there is none."""
    path = bench.folder / f"{network}-b{batch}.onnx"
    if path.exists():
        return ""
    command = [sys.executable, SCRIPT, "export", network, str(batch), str(bench.folder)]
    return str(answer(command).get("error", ""))


def tuned(
    bench: Bench, network: str, threads: int, args: argparse.Namespace
) -> tuple[Path, Row]:
    """A database, and what tuning took; found if it was done before."""
    database = bench.folder / f"{network}-b{args.batch}-t{threads}.db"
    rest = [network, threads, args.batch, database, args.seconds, args.seed]
    command = [sys.executable, SCRIPT, "tune", *map(str, rest)]
    facts = database.with_name(f"{database.name}-{args.seconds:g}s")
    return database, once(facts, lambda: answer(command))


def commands(
    bench: Bench,
    network: str,
    threads: int,
    args: argparse.Namespace,
    database: Path | None,
) -> dict[str, list[str]]:
    """How to start every competitor."""
    place = [network, str(threads), str(args.batch), str(bench.folder)]
    start = [sys.executable, SCRIPT, "race"]
    found = {kind: [*start, kind, *place] for kind in args.peers}
    found["untuned"] = [*start, "ours", *place]
    if database is not None:
        found["tuned"] = [*start, "ours", *place, str(database)]
    if args.backend:
        more = [] if database is None else [str(database)]
        found["backend"] = [*start, "backend", *place, *more]
    return found


def measure(bench: Bench, network: str, threads: int, args: argparse.Namespace) -> Row:
    """Tune, then race everybody."""
    row: Row = {"network": network, "threads": threads, "batch": args.batch}
    if {"onnxruntime", "openvino"} & set(args.peers):
        row["onnx_error"] = exported(bench, network, args.batch)
    database = None
    if not args.untuned:
        database, row["tuning"] = tuned(bench, network, threads, args)
        if "error" in row["tuning"]:
            database = None
    with bench.competitors(
        commands(bench, network, threads, args, database), threads
    ) as all_:
        times = race(all_, bench.rounds)
        hello = {one.name: one.hello for one in all_}
    row["competitors"] = {
        name: {
            "error": said.error,
            "correct": said.correct,
            **{f"{key}": value for key, value in said.notes.items()},
            **(figures(times[name]) if name in times else {}),
        }
        for name, said in hello.items()
    }
    row |= compared(times, args.peers)
    row["rounds_s"] = times
    return row


def compared(times: dict[str, list[float]], peers: Sequence[str]) -> Row:
    """Ratios to the peers: above one, ours is faster."""
    ready = [name for name in peers if name in times]
    fastest = min(ready, key=lambda name: sorted(times[name])[len(times[name]) // 2],
                  default="")  # fmt: skip
    mine = [name for name in ("untuned", "tuned", "backend") if name in times]
    return {
        "fastest": fastest,
        "ratios": {
            name: {peer: ratio(times[peer], times[name]) for peer in ready}
            for name in mine
        },
    }


# -- showing ---------------------------------------------------------------------------

HEAD = (
    f"{'network':<16}{'th':>2}  {'who':<12}{'median ms':>10}{'best ms':>9}"
    f"{'to fastest':>11}{'to ORT':>8}{'compile s':>10}{'error':>9}"
)


def show(row: Row) -> None:
    start = f"{row['network']:<16}{row['threads']:>2}"
    for name, facts in row["competitors"].items():
        if facts["error"] and "median_us" not in facts:
            print(f"{start}  {name:<12}left out: {str(facts['error'])[:90]}")
            continue
        ratios = row["ratios"].get(name, {})
        mark = "*" if name == row["fastest"] else " "
        print(
            f"{start}  {name + mark:<12}{facts['median_us'] / 1e3:>10.2f}"
            f"{facts['best_us'] / 1e3:>9.2f}{number(ratios.get(row['fastest'])):>11}"
            f"{number(ratios.get('onnxruntime')):>8}{facts['ready_s']:>10.1f}"
            f"{facts['missed']:>9.1e}{'' if facts['correct'] else '  WRONG'}"
        )
    tuning = row.get("tuning")
    if tuning:
        said = tuning.get("error") or (
            f"{tuning['wall_s']:.0f} s, {tuning['trials']} trials, "
            f"{tuning['tasks']} tasks"
        )
        print(f"{start}  tuning: {said}")
    sys.stdout.flush()


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def summary(rows: Sequence[Row]) -> Row:
    """The figures that the goals are about."""
    found: Row = {}
    for name, peer in (("tuned", None), ("untuned", None), ("untuned", "onnxruntime")):
        ratios = {
            f"{row['network']}-t{row['threads']}": value
            for row in rows
            if (value := row["ratios"].get(name, {}).get(peer or row["fastest"]))
        }
        if ratios:
            found[f"{name} to {peer or 'the fastest peer'}"] = {
                "geomean": exp(mean(map(log, ratios.values()))),
                "least": min(ratios.values()),
                "networks": ratios,
            }
    return found


class Output:
    """The file of results, written after every row; a new row replaces an old one."""

    def __init__(self, path: Path, facts: Row) -> None:
        self._path = path
        self.content: Row = json.loads(path.read_text()) if path.exists() else {}
        self.content |= facts
        self.rows: list[Row] = self.content.setdefault("rows", [])

    def add(self, row: Row) -> None:
        keys = ("network", "threads", "batch")
        old = [x for x in self.rows if any(x[key] != row[key] for key in keys)]
        self.rows[:] = [*old, row]
        self.content["summary"] = summary(self.rows)
        self._path.parent.mkdir(exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(self.content, indent=1) + "\n")
        new.replace(self._path)


# -- running ---------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("networks", nargs="*", help=f"of {', '.join(NETWORKS)}; the five without any")
    add("--threads", type=int, nargs="+", default=[1, 2])
    add("--batch", type=int, default=1)
    add("--seconds", type=float, default=300.0, help="of tuning, per network")
    add("--seed", type=int, default=0)
    add("--rounds", type=int, default=15)
    add("--db", type=Path, help="folder for databases and ONNX files; kept")
    add("--untuned", action="store_true", help="without tuning")
    add("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    add("--backend", action="store_true", help="ours through torch.compile, too")
    add("--output", type=Path, help="the file, instead of results/models-CPU.json")
    add("--passive", action="store_true", help="pools of threads do not spin")
    add("--verbose", action="store_true", help="show what competitors print")
    found = parser.parse_args()
    unknown = [name for name in found.networks if name not in NETWORKS]
    if unknown:
        parser.error(f"unknown network {unknown[0]!r}: use {', '.join(NETWORKS)}")
    return found


@contextmanager
def folder(given: Path | None) -> Iterator[Path]:
    """A folder that is kept, if one was given."""
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="ansor-") as made:
        yield Path(made)


def package_versions() -> Row:
    found = versions()
    for name in ("onnxruntime", "openvino", "torchvision", "transformers"):
        if util.find_spec(name) is not None:
            found[name] = metadata.version(name)
    return found


def main() -> None:
    args = arguments()
    args.peers = available(args.peers)
    path = args.output or RESULTS / f"models-{Target('cpu').cpu}.json"
    settings = {
        key: getattr(args, key) for key in ("seconds", "seed", "rounds", "passive")
    }
    facts: Row = {
        "target": Target("cpu").fingerprint,
        "versions": package_versions(),
        "settings": settings,
    }
    with folder(args.db) as place:
        bench = Bench(place, 0, (args.seed,), args.rounds, args.passive, args.verbose)
        output = Output(path, facts)
        print(HEAD)
        for threads in args.threads:
            for network in args.networks or FIVE:
                row = measure(bench, network, threads, args)
                show(row)
                output.add(row)
    print(json.dumps(output.content["summary"], indent=1))
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
