"""The speed of code from explicit programs, beside torch, in interleaved rounds.

    python bench/kernels.py            all of it; writes bench/results/
    python bench/kernels.py conv       only kernels whose name contains "conv"

One-thread kernels run in a process that is confined to one CPU from its start, since
some of torch's libraries ignore its thread limit; two-thread kernels in another one.
Every kernel is first compared with the NumPy reference of its task.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

import numpy as np
import programs
from programs import Program, Target, Task

from ansor import build
from ansor.codegen import asm, runtime
from ansor.codegen.calibrate import calibrate
from ansor.te.reference import agrees, reference, tolerance

RESULTS = Path(__file__).parent / "results"
SECONDS = 2.0  # of interleaved rounds per kernel
PAUSE = 0.003  # between competitors with several threads: pools stop spinning


@dataclass(frozen=True)
class Case:
    """One kernel: what it computes, by which program, and how torch does it."""

    name: str
    goal: float  # least ratio to torch
    task: Task
    program: Program
    peers: Callable[[dict[str, np.ndarray]], list[Callable[[], object]]]


@dataclass
class Row:
    name: str
    goal: float
    threads: int
    ours_us: float = 0.0  # best
    torch_us: float = 0.0
    ratio: float = 0.0  # median of the ratios of the rounds
    best_ratio: float = 0.0
    gflops: float = 0.0
    peak: float = 0.0  # share of the calibrated peak
    compile_ms: float = 0.0
    spills: int = 0
    rounds: int = 0
    correct: bool = False
    notes: dict[str, float] = field(default_factory=dict)


def matmul_peers(x: dict[str, np.ndarray]) -> list[Callable[[], object]]:
    import torch

    a, b = torch.from_numpy(x["A"]), torch.from_numpy(x["B"])
    out = torch.empty(a.shape[0], b.shape[1])
    return [lambda: torch.mm(a, b, out=out)]


def conv_peers(
    padding: int, groups: int = 1
) -> Callable[[dict[str, np.ndarray]], list[Callable[[], object]]]:
    def make(x: dict[str, np.ndarray]) -> list[Callable[[], object]]:
        import torch
        from torch.nn.functional import conv2d

        image = torch.from_numpy(x["X"]).permute(0, 3, 1, 2)
        weight = torch.from_numpy(x["W"]).permute(3, 2, 0, 1)
        last = torch.channels_last
        rows = image.contiguous(), weight.contiguous()
        pixels = (
            image.contiguous(memory_format=last),
            weight.contiguous(memory_format=last),
        )
        return [
            lambda: conv2d(*rows, padding=padding, groups=groups),
            lambda: conv2d(*pixels, padding=padding, groups=groups),
        ]

    return make


def softmax_peers(x: dict[str, np.ndarray]) -> list[Callable[[], object]]:
    import torch

    a = torch.from_numpy(x["X"])
    return [lambda: torch.softmax(a, -1)]


def norm_gelu_peers(x: dict[str, np.ndarray]) -> list[Callable[[], object]]:
    import torch
    from torch.nn.functional import gelu, layer_norm

    a, g, b = (torch.from_numpy(x[name]) for name in ("X", "G", "B"))
    return [lambda: gelu(layer_norm(a, a.shape[1:], g, b))]


def one_thread(target: Target) -> Iterator[Case]:
    for m, n, k in ((1024,) * 3, (1009,) * 3, (512, 512, 4096), (31, 1000, 768)):
        for constant in (False, True):
            task = programs.matmul_task(m, n, k, target, constant)
            goal = 0.95 if m > 31 and not constant else 1.0
            name = f"matmul {m}x{n}x{k}" + (" constant B" if constant else "")
            yield Case(name, goal, task, programs.matmul(task), matmul_peers)
    task = programs.matmul_task(1, 4096, 4096, target)
    program = programs.vector_matrix(task)
    yield Case("matmul 1x4096x4096", 1.0, task, program, matmul_peers)
    layers = (
        ("R50a", 56, 64, 64, 3),
        ("R50b", 14, 256, 256, 3),
        ("R50c", 14, 1024, 256, 1),
    )
    for name, size, inputs, outputs, kernel in layers:
        padding = kernel // 2
        task = programs.conv2d_task(size, inputs, outputs, kernel, padding, target)
        program = programs.conv2d(task)
        yield Case(f"conv {name}", 1.0, task, program, conv_peers(padding))
    task = programs.depthwise_task(112, 32, target)
    yield Case("conv DEP", 1.0, task, programs.depthwise(task), conv_peers(1, 32))
    task = programs.softmax_task(256, 256, target)
    yield Case("softmax SFM", 1.5, task, programs.softmax(task), softmax_peers)
    task = programs.norm_gelu_task(512, 768, target)
    yield Case("norm+gelu LNG", 1.5, task, programs.norm_gelu(task), norm_gelu_peers)


def two_threads(target: Target) -> Iterator[Case]:
    for n in (1024, 2039):
        task = programs.matmul_task(n, n, n, target)
        yield Case(
            f"matmul {n}x{n}x{n}", 0.95, task, programs.matmul(task), matmul_peers
        )


def measure(case: Case, peak: float) -> Row:
    """Check one kernel against the reference, then race it."""
    threads = case.task.target.cores
    row = Row(case.name, case.goal, threads)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        kernel = build(case.task, program=case.program)
        times.append(time.perf_counter() - start)
    row.compile_ms = 1e3 * min(times)
    name = case.task.dag.outputs[0].name
    row.spills = asm.spills(kernel.source("asm"), name)
    rng = np.random.default_rng(0)
    dag = case.task.dag
    values = {b.name: rng.standard_normal(b.shape, np.float32) for b in dag.inputs}
    constants = {name: values[name] for name in dag.constants}
    inputs = [values[b.name] for b in dag.inputs if b.name not in constants]
    bound = kernel.bind(**constants) if constants else kernel
    (expected,) = reference(dag, list(values.values()))
    (allowed,) = tolerance(dag, list(values.values()), [expected])
    out = np.full(expected.shape, np.nan, np.float32)
    bound(*inputs, out=out)
    row.correct = bool(np.all(agrees(out, expected, allowed)))
    race(row, [lambda: bound(*inputs, out=out), *case.peers(values)])
    row.gflops = case.task.flops / row.ours_us / 1e3
    row.peak = row.gflops * 1e9 / (peak * threads)
    return row


def race(row: Row, competitors: Sequence[Callable[[], object]]) -> None:
    """Interleaved rounds; the best of torch's ways counts, by round."""
    for run in competitors:
        run(), run()
    seconds: list[list[float]] = []
    deadline = time.perf_counter() + SECONDS
    while time.perf_counter() < deadline or len(seconds) < 10:
        seconds.append([timed(run, row.threads) for run in competitors])
    best = [min(column) for column in zip(*seconds, strict=True)]
    fastest = 1 + best[1:].index(min(best[1:]))
    row.rounds = len(seconds)
    row.ours_us, row.torch_us = 1e6 * best[0], 1e6 * best[fastest]
    row.ratio = median(times[fastest] / times[0] for times in seconds)
    row.best_ratio = best[fastest] / best[0]


def timed(run: Callable[[], object], threads: int) -> float:
    if threads > 1:
        time.sleep(PAUSE)
        run()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def overheads(target: Target) -> dict[str, float]:
    """Costs of a call and of an empty parallel region, in microseconds."""
    from ansor import compute, placeholder

    a = placeholder((16,), name="A")
    task = Task(compute((16,), lambda i: a[i] + 1.0, name="B"), target)
    kernel = build(task)
    x = np.zeros(16, np.float32)
    out = np.zeros(16, np.float32)
    calls = []
    for _ in range(200):
        start = time.perf_counter()
        for _ in range(20):
            kernel(x, out=out)
        calls.append((time.perf_counter() - start) / 20)
    runtime.set_threads(2)
    region = calibrate(target).fork_join_seconds
    return {"call_us": 1e6 * median(calls), "region_us": 1e6 * region}


def run_group(threads: int, only: str) -> None:
    """Measure one group in this process; one JSON object a line."""
    import torch

    torch.set_num_threads(threads)
    runtime.set_threads(threads)
    target = Target("cpu", cores=threads)
    peak = calibrate(target, refresh=True).peak_flops_per_core
    cases = one_thread(target) if threads == 1 else two_threads(target)
    with torch.no_grad():
        for case in cases:
            if only in case.name:
                print(json.dumps(asdict(measure(case, peak))), flush=True)
    if threads == 2 and not only:
        row = Row("overheads", 0.0, 2, notes=overheads(target), correct=True)
        print(json.dumps(asdict(row)), flush=True)


def start_group(threads: int, only: str) -> Iterator[Row]:
    """Run a group in a process of its own, on as many CPUs as it has threads."""
    cpus = sorted(os.sched_getaffinity(0))[:threads]
    command = [sys.executable, __file__, only, "--group", str(threads)]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cpus),
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            yield Row(**json.loads(line))
    if process.returncode:
        raise SystemExit(f"the group of {threads} threads failed")


def show(row: Row) -> None:
    if row.notes:
        print(", ".join(f"{name} {value:.2f}" for name, value in row.notes.items()))
        return
    verdict = "ok" if row.correct and row.ratio >= row.goal and not row.spills else "!!"
    print(
        f"{row.name:<31}{row.threads:>2}{row.ours_us:>10.0f}{row.torch_us:>10.0f}"
        f"{row.ratio:>8.3f}{row.best_ratio:>8.3f}{row.goal:>6.2f} {verdict}"
        f"{row.gflops:>8.1f}{row.peak:>6.0%}{row.compile_ms:>8.0f}{row.spills:>7}"
        f"  {'' if row.correct else 'WRONG'}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("only", nargs="?", default="", help="part of a kernel's name")
    parser.add_argument("--group", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.group:
        run_group(args.group, args.only)
        return
    print(
        f"{'kernel':<31}{'th':>2}{'ours us':>10}{'torch us':>10}{'ratio':>8}{'best':>8}"
        f"{'goal':>6}   {'GFLOP/s':>8}{'peak':>6}{'comp ms':>8}{'spills':>7}"
    )
    rows = []
    groups = (1, 2) if len(os.sched_getaffinity(0)) > 1 else (1,)
    for threads in groups:
        for row in start_group(threads, args.only):
            rows.append(row)
            show(row)
    compiled = [row.compile_ms for row in rows if row.compile_ms]
    print(f"median compile time {median(compiled):.0f} ms")
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"kernels-{Target('cpu').cpu}.json"
    if not args.only:
        path.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
