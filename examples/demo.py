"""Tune a matrix product, verify the result, and time it beside NumPy and torch.

    python examples/demo.py [N] [SECONDS]

Nothing is said about how to compute it: rules derive the programs, and the search
measures them, each checked against the reference before its time counts.
"""

import sys
import time
from collections.abc import Callable

import numpy as np

import ansor
from ansor.codegen import runtime
from ansor.te.reference import agrees, expected


def matmul(n: int) -> ansor.Task:
    """C = A @ B, as mathematics."""
    A = ansor.placeholder((n, n), name="A")
    B = ansor.placeholder((n, n), name="B")
    k = ansor.reduce_axis(n, name="k")
    C = ansor.compute(
        (n, n), lambda i, j: ansor.sum(A[i, k] * B[k, j], axis=k), name="C"
    )
    return ansor.Task(C)


def race(runs: dict[str, Callable[[], object]], rounds: int = 15) -> dict[str, float]:
    """The best time of each, in interleaved rounds, with a pause for idle threads."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            time.sleep(0.005)
            run()
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 768
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 20.0
    task = matmul(n)
    print(f"target: {task.target}")
    print(f"tuning a {n}x{n}x{n} matrix product for {seconds:g} s")
    result = ansor.tune(task, seconds=seconds, progress=True)
    failed = sum(result.failures.values())
    print(f"{result.trials} programs measured, {failed} of them failed")

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    c = result.kernel(a, b)
    (right,), (allowed,) = expected(task.dag, [a, b])
    if not np.all(agrees(np.asarray(c), right, allowed)):
        raise SystemExit("the kernel is WRONG")
    worst = float(np.abs(np.asarray(c) - right).max())
    print(f"verified against the reference: largest error {worst:.1e}")

    runs: dict[str, Callable[[], object]] = {
        "ansor": lambda: result.kernel(a, b, out=c),
        "numpy": lambda: np.matmul(a, b),
    }
    try:
        import torch
    except ImportError:
        pass
    else:
        ta, tb = torch.from_numpy(a), torch.from_numpy(b)
        runs["torch"] = lambda: ta @ tb
    print(f"{runtime.threads()} threads, best of interleaved rounds:")
    for name, best in race(runs).items():
        speed = task.flops / best / 1e9
        print(f"  {name:<6} {best * 1e3:8.2f} ms {speed:8.1f} GFLOP/s")


if __name__ == "__main__":
    main()
