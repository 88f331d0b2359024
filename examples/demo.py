"""Build a matrix product by explicit steps, verify it, and time it beside NumPy.

    python examples/demo.py [N]

The steps are those of a BLAS library: panels of B and rows of A are copied into loop
order, and a tile of C stays in registers while the reduction runs over it.
"""

import sys
import time
from collections.abc import Callable

import numpy as np

import ansor
from ansor.codegen import runtime
from ansor.schedule import Annotate, Pack, Program, Reorder, Sketch, Split
from ansor.te.reference import agrees, reference, tolerance


def matmul(n: int, target: ansor.Target) -> ansor.Task:
    """C = A @ B, as mathematics."""
    A = ansor.placeholder((n, n), name="A")
    B = ansor.placeholder((n, n), name="B")
    k = ansor.reduce_axis(n, name="k")
    C = ansor.compute(
        (n, n), lambda i, j: ansor.sum(A[i, k] * B[k, j], axis=k), name="C"
    )
    return ansor.Task(C, target)


def blocked(task: ansor.Task) -> Program:
    """C in a tile of registers: 8 rows by 3 vectors, or 6 by 2 with few registers."""
    many = task.target.vector_registers >= 32
    rows, vectors = (8, 3) if many else (6, 2)
    columns = vectors * task.target.lanes("float32")
    n = task.dag.outputs[0].shape[0]
    panels = -(-n // (columns * task.target.cores))
    steps = (
        Split("C", "i", (1, rows)),
        Split("C", "j", (panels, columns)),
        Split("C", "k", (512,)),
        Reorder("C", ("j.0", "k.0", "i.0", "i.1", "j.1", "k.1", "i.2", "j.2")),
        Pack("B", "C", "k.0"),
        Reorder("B.packed", ("d0", "d1.0", "d1.1")),
        Annotate("B.packed", "d1.1", "vectorize"),
        Pack("A", "C", "i.0"),
        Annotate("A.packed", "d0.1", "unroll"),
        Annotate("C", "j.0", "parallel"),
        Annotate("C", "i.2", "unroll"),
        Annotate("C", "j.2", "vectorize"),
    )
    return Program(Sketch(task, steps))


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
    target = ansor.Target("cpu")
    print(f"target: {target}")
    task = matmul(n, target)
    start = time.perf_counter()
    kernel = ansor.build(task, program=blocked(task))
    print(f"built a {n}x{n}x{n} matrix product in {time.perf_counter() - start:.2f} s")

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    c = kernel(a, b)
    (expected,) = reference(task.dag, [a, b])
    (allowed,) = tolerance(task.dag, [a, b], [expected])
    if not np.all(agrees(np.asarray(c), expected, allowed)):
        raise SystemExit("the kernel is WRONG")
    worst = float(np.abs(c - expected).max())
    print(f"verified against the reference: largest error {worst:.1e}")

    runs: dict[str, Callable[[], object]] = {
        "ansor": lambda: kernel(a, b, out=c),
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
    for name, seconds in race(runs).items():
        speed = task.flops / seconds / 1e9
        print(f"  {name:<6} {seconds * 1e3:8.2f} ms {speed:8.1f} GFLOP/s")


if __name__ == "__main__":
    main()
