"""docs/benchmarks.md from the files in bench/results/.

    python bench/summary.py            writes it
    python bench/summary.py --check    fails if it is not what the files say

Nothing in that page is written by hand: change a figure by running its benchmark again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
LINKS = "../bench/results"

Row = dict[str, Any]

HEAD = """# Benchmarks

Written by `python bench/summary.py` from the files in `bench/results/`, which the
benchmarks write; figures are of the machine that a file is named after.

| what | how to run it |
|---|---|
| operators beside torch | `make bench-ops`, or `python bench/ops.py [WORKLOAD …]` |
| prime sizes | `python bench/ops.py --primes` |
| `tune(seconds=10)` | `python bench/ops.py --seconds 10` |
| MetaSchedule | `python bench/ops.py --metaschedule PYTHON`, a Python that has TVM: `bench/peers/metaschedule.py` says how to make one |
| networks beside torch, onnxruntime, OpenVINO | `python bench/models.py [NETWORK …]` |
| ONNX's own suite | `python bench/onnx_suite.py` |
| memory of networks | `python bench/memory.py [NETWORK …]` |
| cost models | `python bench/model.py DATABASE …` |
| policies, transfer, points per second | `make bench-search`, or `python bench/search.py [PART]` |

`--db FOLDER` keeps what was tuned; with it and `--resume` a run that was interrupted
goes on. Competitors are processes of their own on as many CPUs as they have threads;
they take turns in rounds, each round in a new random order. "ratio" is the peer's time
over ours, the median of the rounds: above 1 we are faster. Weights are constant for
everyone, and what is laid out ahead of time is not timed. torch is eager, or compiled
by `torch.compile(mode="max-autotune")` with freezing; of several ways to write an
operator the fastest one competes. All results were compared with the NumPy reference.
"""  # noqa: E501 - a table's row is a line


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The first column is text, the others are figures."""
    line = "|---" + "|--:" * (len(heads) - 1) + "|"
    body = ["| " + " | ".join(row) + " |" for row in rows]
    return ["| " + " | ".join(heads) + " |", line, *body, ""]


def number(value: float | None, form: str = ".3g") -> str:
    """A figure as people write it: no exponents, no digits without meaning."""
    if value is None:
        return "–"  # noqa: RUF001 - a dash for what there is not
    if form == ".3g" and abs(value) >= 100:
        return f"{value:.0f}"
    return format(value, form)


def one_line(text: str, most: int = 160) -> str:
    return " ".join(text.split()).replace("|", "\\|")[:most]


# -- operators -------------------------------------------------------------------------


def operators(found: Row) -> Iterator[str]:
    settings = found["rows_settings"]
    yield from ("### Beside torch", "")
    yield (
        f"{settings['trials']} trials, {settings['rounds']} rounds; measured peak "
        + ", ".join(
            f"{n} thread(s) {number(v)} GFLOP/s"
            for n, v in found["peak_gflops"].items()
        )
        + f"; {versions(found)}."
    )
    yield ""
    yield from totals(found.get("summary", {}))
    for threads in sorted({row["threads"] for row in found["rows"]}):
        yield from (f"#### {threads} thread(s)", "")
        rows = [row for row in found["rows"] if row["threads"] == threads]
        yield from table(OPERATOR, [operator(row) for row in rows])
    yield from peer_notes(found["rows"])


OPERATOR = (
    "workload", "µs", "GFLOP/s", "of peak", "eager µs", "compiled µs", "ratio",
    "worst seed", "tuning s", "trials", "failed", "seeds", "spread of seeds",
)  # fmt: skip


def operator(row: Row) -> list[str]:
    if "us" not in row:
        return [row["workload"], one_line(row["error"]), *[""] * (len(OPERATOR) - 2)]
    seeds = row["seeds"]
    failed = sum(sum((seed["failures"] or {}).values()) for seed in seeds)
    peers = [row["peers"][kind] for kind in ("eager", "compiled")]
    return [
        row["workload"] + ("" if row["correct"] else " **wrong or missing**"),
        number(row["us"]),
        number(row["gflops"]),
        number(row["peak_share"], ".0%"),
        *("failed" if peer["error"] else number(peer["median_us"]) for peer in peers),
        number(row["ratio"], ".2f"),
        number(row["worst_ratio"], ".2f"),
        number(row["wall_s"], ".1f"),
        number(median(seed["trials"] or 0 for seed in seeds), ".0f"),
        str(failed),
        str(len(seeds)),
        number(row["spread"], ".1%") if len(seeds) > 1 else number(None),
    ]


def versions(found: Row) -> str:
    return ", ".join(f"{name} {text}" for name, text in found["versions"].items())


def totals(summary: Row) -> list[str]:
    rows = [
        [
            threads,
            str(some["operators"]),
            number(some["geomean"], ".2f"),
            number(some["least"], ".2f"),
            number(some["least_of_seeds"], ".2f"),
            f"{len(some['below'])} {one_line(', '.join(some['below']), 400)}".strip(),
            number(some["spread"], ".1%"),
            number(some["wall_s"], ".1f"),
        ]
        for threads, some in summary.items()
    ]
    heads = (
        "threads", "operators", "geomean of ratios", "least", "least of any seed",
        "below 0.92", "median spread of seeds", "median tuning s",
    )  # fmt: skip
    return table(heads, rows)


def peer_notes(rows: Sequence[Row]) -> Iterator[str]:
    """What failed, and by which form torch competed where it had a choice."""
    for row in rows:
        for kind, peer in row["peers"].items():
            where = f"{row['workload']}, {row['threads']} thread(s), {kind}"
            if peer["error"]:
                yield f"- {where}: failed: {one_line(peer['error'], 300)}"
            for form, why in peer.get("failed", {}).items():
                yield f"- {where}: form `{form}` failed: {one_line(why, 200)}"
    yield ""


def primes(found: Row) -> Iterator[str]:
    yield from ("### Prime sizes", "")
    rows = [
        [
            f"{row['workload']} and {row['power']}",
            str(row["threads"]),
            *(number(speed) for speed in row.get("gflops", [None, None])),
            number(row.get("share"), ".3f"),
        ]
        for row in found["primes"]
    ]
    heads = ("sizes", "threads", "GFLOP/s, prime", "GFLOP/s, power of two", "ratio")
    yield from table(heads, rows)


def in_seconds(found: Row) -> Iterator[str]:
    rows = found["seconds"]
    limit = rows[0]["limit"]
    yield from (f"### tune(seconds={limit:g})", "")
    late = [row for row in rows if (row["wall_s"] or 1e9) > limit + 2]
    wrong = [row for row in rows if not row.get("correct")]
    worst = max((row["wall_s"] or 0.0) for row in rows)
    yield (
        f"{len(rows)} runs: the longest returned after {worst:.1f} s, {len(late)} "
        f"after more than {limit + 2:g} s; {len(rows) - len(wrong)} kernels were right."
    )
    yield ""
    heads = ("workload", "threads", "returned after s", "trials", "right")
    yield from table(
        heads,
        [
            [
                row["workload"],
                str(row["threads"]),
                number(row["wall_s"], ".1f"),
                str(row["trials"] or 0),
                "yes" if row.get("correct") else f"no {one_line(row['error'] or '')}",
            ]
            for row in rows
        ],
    )


def metaschedule(found: Row) -> Iterator[str]:
    yield from ("### MetaSchedule", "")
    rows = []
    for row in found["metaschedule"]:
        start = [row["workload"], str(row["threads"])]
        if row.get("error"):
            rows.append([*start, one_line(row["error"]), *[""] * 5])
            continue
        walls = (row.get("ours_wall_s"), row.get("wall_s"))
        times = None if None in walls else walls[1] / walls[0]
        rows.append(
            [
                *start,
                number(row.get("ours_us")),
                number(row.get("metaschedule_us")),
                number(row.get("ratio"), ".2f"),
                *(number(wall, ".1f") for wall in walls),
                number(times, ".1f"),
            ]
        )
    heads = (
        "workload", "threads", "µs", "MetaSchedule µs", "ratio", "tuning s",
        "MetaSchedule s", "times longer",
    )  # fmt: skip
    yield from table(heads, rows)


# -- the search ------------------------------------------------------------------------


def points(found: Row) -> Iterator[str]:
    yield from ("### Points scored per second", "")
    yield "Features, analytic and learned model together, on one core."
    yield ""
    rows = [
        [row["workload"], str(row["sketch"]), number(row["rate"] / 1e3)]
        for row in found["points"]["rows"]
    ]
    yield from table(("workload", "sketch", "thousand points per second"), rows)


def ablation(found: Row, stem: str) -> Iterator[str]:
    part = found["ablation"]
    settings, rows = part["settings"], part["rows"]
    yield from ("### Policies", "")
    yield (
        f"{settings['trials']} trials on {settings['threads']} thread(s), seeds "
        f"{', '.join(map(str, settings['seeds']))}. The winners of all searches of a "
        "workload were timed side by side; the speed of the best is 1. Figures are the "
        "median of the seeds, in parentheses the least, then the seconds it took."
    )
    yield ""
    names = list(dict.fromkeys(name for row in rows for name in row["policies"]))
    yield from table(
        ("workload", *names),
        [[row["workload"], *(policy(row, name) for name in names)] for row in rows],
    )
    for row in rows:
        for axis in ("trials", "seconds"):
            picture = f"{LINKS}/{stem}-{row['workload']}-{axis}.svg"
            yield f"![{row['workload']}: best found against {axis}]({picture})"
        for name, why in row["failed"].items():
            yield f"- {row['workload']}, {name}: failed: {one_line(why)}"
        yield ""


def policy(row: Row, name: str) -> str:
    if name not in row["policies"]:
        return number(None)
    one = row["policies"][name]
    first = one["speed"] == max(x["speed"] for x in row["policies"].values())
    speed = number(one["speed"], ".3f")
    strong = f"**{speed}**" if first else speed
    return f"{strong} ({number(one['least'], '.3f')}) {number(one['wall_s'], '.0f')} s"


def transfer(found: Row) -> Iterator[str]:
    part = found["transfer"]
    some = part["summary"]
    yield from ("### Transfer", "")
    yield (
        "A search from nothing beside one that has the records of the others of these "
        f"{some['tasks']} tasks: trials until 95 % of the cold search's final speed, "
        f"as a share of its trials, median {number(some['share'], '.2f')}. "
        "The final speed is at least "
        f"{number(some['least_final_ratio'], '.2f')} of the cold one's."
    )
    yield ""
    heads = (
        "workload", "cold µs", "cold trials", "cold until 95 %", "with records µs",
        "until 95 % of cold", "share", "final speed to cold",
    )  # fmt: skip
    yield from table(heads, [transferred(row, len(heads)) for row in part["rows"]])


def transferred(row: Row, width: int) -> list[str]:
    if "error" in row:
        return [row["workload"], one_line(row["error"]), *[""] * (width - 2)]
    return [
        row["workload"],
        number(row["cold_us"]),
        str(row["cold_trials"]),
        number(row["cold_until"], "d"),
        number(row["warm_us"]),
        number(row["warm_until"], "d"),
        number(row["share"], ".2f"),
        number(row["final_ratio"], ".2f"),
    ]


# -- networks --------------------------------------------------------------------------

PEERS = ("eager", "inductor", "onnxruntime", "openvino")


def networks(found: Row) -> Iterator[str]:
    settings = found["settings"]
    yield (
        f"Batch 1, float32, {settings['seconds']:.0f} s of tuning; {versions(found)}. "
        "Milliseconds are medians; the ratio is to the fastest peer."
    )
    yield ""
    heads = (
        "network", "threads", *(f"{name} ms" for name in PEERS), "untuned ms",
        "tuned ms", "untuned ratio", "tuned ratio", "compiled in s", "trials",
    )  # fmt: skip
    yield from table(heads, [network(row) for row in found["rows"]])
    for what, some in found["summary"].items():
        yield (
            f"- {what}: geomean {number(some['geomean'], '.2f')}, least "
            f"{number(some['least'], '.2f')}"
        )
    yield ""


def network(row: Row) -> list[str]:
    who = row["competitors"]
    ours = ("untuned", "tuned")
    ratios = [row["ratios"].get(name, {}).get(row["fastest"]) for name in ours]
    return [
        row["network"],
        str(row["threads"]),
        *(milliseconds(who.get(name, {})) for name in (*PEERS, *ours)),
        *(number(ratio, ".2f") for ratio in ratios),
        number(who.get("untuned", {}).get("ready_s"), ".1f"),
        number(row.get("tuning", {}).get("trials"), "d"),
    ]


def milliseconds(one: Row) -> str:
    found = one.get("median_us")
    return number(None if found is None else found / 1e3)


def suite(found: Row) -> Iterator[str]:
    """ONNX's cases."""
    yield from (f"Untuned kernels; {versions(found)}.", "")
    kinds = ("cases", "passed", "refused", "failed", "wrong", "crashed")
    rows = [
        [name, *(str(some[kind]) for kind in kinds)]
        for name, some in found["counts"].items()
    ]
    yield from table(("what", *kinds), rows)


def memory(found: Row) -> Iterator[str]:
    """Bytes of processes."""
    heads = ("network", "who", "peak MB", "steady MB", "peak to onnxruntime", "steady")
    rows = []
    for row in found["rows"]:
        for who, facts in row["contenders"].items():
            ratios = row["ratios"].get(who, {})
            sizes = (facts[kind] / 1e6 for kind in ("peak", "steady"))
            shares = (number(ratios.get(kind), ".2f") for kind in ("peak", "steady"))
            rows.append([row["network"], who, *map(number, sizes), *shares])
    yield from table(heads, rows)


# -- cost models -----------------------------------------------------------------------

MODEL = """Programs that the learned model has not seen, ranked by it. *By task*: no
program of the task was known, as in a search of a new task. *By program*: others of the
same task were known, as in most published figures. *Ceiling*: what a model that knows
every measured time exactly would reach, were everything measured again; of the tasks
some of whose programs were measured twice. Pairs: programs of a task in the right
order. Recall: the fastest 30 of a task among the 30 best predicted. R²: of normalised
throughput, over all programs together and the median over tasks."""


def cost_model(found: Row) -> Iterator[str]:
    if "splits" not in found:
        return  # of an earlier release: run it again
    yield from (MODEL, "")
    heads = ("", "programs", "pairs", "spread", "recall", "R²", "median R²")
    rows = [cost_row(name, part) for name, part in found["splits"].items()]
    analytic = found["analytic"]
    figures = (analytic["pairwise"], None, analytic["recall"], None, None)
    rows.append(["analytic", str(analytic["programs"]), *map(share, figures)])
    rows += [cost_row(name, part) for name, part in found["ceiling"].items()]
    goals = found["goals"]
    wanted = (goals["pairwise"], None, goals["recall"], goals["r2"], None)
    rows.append(["goal", "", *map(share, wanted)])
    yield from table(heads, rows)
    tasks = found["tasks"]
    yield (
        f"{len(tasks)} tasks; by chance recall would be "
        f"{share(found['chance_recall'])}. The best 2,000 points of the analytic model "
        f"contain a program within 5 % of the best known on "
        f"{number(100 * found['top_share'])} % of the tasks."
    )
    yield ""


def cost_row(name: str, part: Row) -> list[str]:
    groups = part.get("pairwise_of_groups")
    spread = max(groups) - min(groups) if groups else None
    figures = (
        *(part["pairwise"], spread, part["recall"], part["pooled_r2"]),
        part.get("median_r2"),
    )
    count = part.get("programs")
    return [name, "" if count is None else str(count), *map(share, figures)]


def share(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


# -- the page --------------------------------------------------------------------------

OPS: dict[str, Callable[[Row], Iterator[str]]] = {
    "rows": operators,
    "primes": primes,
    "seconds": in_seconds,
    "metaschedule": metaschedule,
}
SEARCH: dict[str, Callable[[Row], Iterator[str]]] = {
    "points": points,
    "transfer": transfer,
}

WHOLE: dict[str, tuple[str, Callable[[Row], Iterator[str]]]] = {
    "models": ("Networks", networks),
    "memory": ("Memory of networks", memory),
    "onnx-suite": ("ONNX's own suite", suite),
    "model": ("Cost models", cost_model),
}


def page(folder: Path) -> str:
    lines = [HEAD]
    for path in sorted(folder.glob("ops-*.json")):
        found = json.loads(path.read_text())
        lines += [f"## Operators on {path.stem.removeprefix('ops-')}", ""]
        for part, write in OPS.items():
            if found.get(part):
                lines += write(found)
    lines += whole(folder)
    for path in sorted(folder.glob("search-*.json")):
        found = json.loads(path.read_text())
        lines += [f"## The search on {path.stem.removeprefix('search-')}", ""]
        if "ablation" in found:
            lines += ablation(found, path.stem)
        for part, write in SEARCH.items():
            if part in found:
                lines += write(found)
    return "\n".join(lines).rstrip() + "\n"


def whole(folder: Path) -> Iterator[str]:
    """Files that are one section each; without anything to say, none."""
    for stem, (title, write) in WHOLE.items():
        for path in sorted(folder.glob(f"{stem}-*.json")):
            text = list(write(json.loads(path.read_text())))
            if text:
                yield f"## {title} on {path.stem.removeprefix(f'{stem}-')}"
                yield from ("", *text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--page", type=Path, default=PAGE)
    args = parser.parse_args()
    text = page(args.results)
    if not args.check:
        args.page.write_text(text)
    elif not args.page.exists() or args.page.read_text() != text:
        sys.exit(f"{args.page.name} is old: run python bench/summary.py")


if __name__ == "__main__":
    main()
