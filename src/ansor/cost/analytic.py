"""Seconds of a program from its loops and the machine, without running it.

Per statement: the slowest of arithmetic, loads and instructions, beside the traffic
from the second cache level; plus what memory further away adds, and fixed costs of
loops; divided by the cores that really share the work.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ansor.cost.access import Real
from ansor.cost.estimate import Estimate
from ansor.cost.machine import Machine
from ansor.cost.nests import Statement, statements, total
from ansor.cost.sharing import found_before
from ansor.schedule.program import Program, Sketch
from ansor.space.table import Matrix
from ansor.target import Target

CHUNK = 16384  # points at once: their columns stay in the caches


def estimates(
    sketch: Sketch, points: Matrix, target: Target | None = None
) -> tuple[Estimate, ...]:
    """One estimate per statement of a sketch, for all points."""
    found = statements(sketch, points, target)
    machine = Machine.of(target or sketch.task.target)
    data = footprint(found)
    return tuple(
        Estimate(statement, machine, data, found_before(found, at))
        for at, statement in enumerate(found)
    )


def footprint(found: tuple[Statement, ...]) -> Real:
    """Cache lines of all buffers that a program touches."""
    sizes: dict[str, Real] = {}
    for statement in found:
        for access in statement.accesses:
            size = access.lines(0)
            known = sizes.get(access.buffer)
            sizes[access.buffer] = size if known is None else np.maximum(known, size)
    return total(list(sizes.values()))


def seconds(
    sketch: Sketch, points: npt.ArrayLike, target: Target | None = None
) -> npt.NDArray[np.float64]:
    """Seconds of each point of a sketch.

    >>> import ansor
    >>> A, B = ansor.placeholder((64, 64)), ansor.placeholder((64, 64))
    >>> sketch = ansor.sketches(ansor.Task(ansor.ops.matmul(A, B)))[0]
    >>> bool((seconds(sketch, sketch.sample(10, seed=0)) > 0).all())
    True
    """
    matrix: Matrix = np.asarray(points, np.int32)
    found = np.zeros(len(matrix) + 1)
    for part, rows in batches(matrix):
        for estimate in estimates(sketch, rows, target):
            found[part] += estimate.seconds
    return found[:-1]


def batches(points: Matrix, count: int | None = None) -> Iterator[tuple[slice, Matrix]]:
    """The rows in parts, with their places. A row that is left over comes twice, so
    its place ends one after the last: a column of one entry would stand for all."""
    count = count or CHUNK
    for start in range(0, len(points), count):
        rows = points[start : start + count]
        if len(rows) == 1:
            rows = np.repeat(rows, 2, axis=0)
        yield slice(start, start + len(rows)), rows


ROWS = ("arithmetic", "loading", "issuing", "fixed")  # cycles of an estimate


def explain(program: Program, target: Target | None = None) -> str:
    """Where the time of one program goes, as a table of microseconds."""
    point = np.array([program.point] * 2, np.int32).reshape(2, -1)
    found = estimates(program.sketch, point, target)
    head = ("statement", "seconds", *ROWS, "l2", "far", "cores")
    lines = [f"{head[0]:<24}" + "".join(f"{name:>11}" for name in head[1:])]
    lines += [_row(estimate) for estimate in found]
    whole = sum(float(estimate.seconds[0]) for estimate in found)
    return "\n".join((*lines, f"{'total':<24}{whole * 1e6:>11.2f}"))


def _row(estimate: Estimate) -> str:
    m = estimate.machine
    cycles = (float(getattr(estimate, name)[0]) / m.hertz for name in ROWS)
    fetching = float(estimate.far[0][0]) * m.line / m.bandwidths[0]
    times = (
        float(estimate.seconds[0]), *cycles, fetching, float(estimate.memory[0])
    )  # fmt: skip
    cells = "".join(f"{1e6 * x:>11.2f}" for x in times)
    cores = float(estimate.speedup[0])
    return f"{estimate.statement.name:<24}{cells}{cores:>11.1f}"
