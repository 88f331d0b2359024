"""The feature matrix of many points of a sketch, and their analytic seconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansor.cost.analytic import batches, estimates
from ansor.cost.columns import COLUMNS
from ansor.cost.estimate import Estimate
from ansor.schedule.program import Sketch
from ansor.space.table import Matrix
from ansor.target import Target

# float32 has its exponent, the logarithm's whole part, above 23 bits of mantissa.
MANTISSA, ONE_BITS = 1 / (1 << 23), 0x3F800000


@dataclass(frozen=True)
class Features:
    """What models read. Values of one column lie together in memory."""

    values: npt.NDArray[np.float32]  # [statements, points, columns]
    seconds: npt.NDArray[np.float32]  # [statements, points], analytic

    def __len__(self) -> int:
        """Points."""
        return int(self.seconds.shape[1])


def extract(
    sketch: Sketch, points: npt.ArrayLike, target: Target | None = None
) -> Features:
    """Features of all points of one sketch; `target` instead of the task's own.

    >>> import ansor
    >>> A, B = ansor.placeholder((64, 64)), ansor.placeholder((64, 64))
    >>> sketch = ansor.sketches(ansor.Task(ansor.ops.matmul(A, B)))[0]
    >>> extract(sketch, sketch.sample(100, seed=0)).seconds.shape[1]
    100
    """
    matrix: Matrix = np.asarray(points, np.int32)
    statements = sum(not nest.ahead for nest in sketch.plan)
    count = len(matrix)
    values = np.empty((statements, len(COLUMNS), count + 1), np.float32)
    seconds = np.empty((statements, count + 1), np.float32)
    for part, rows in batches(matrix):
        for at, estimate in enumerate(estimates(sketch, rows, target)):
            seconds[at, part] = estimate.seconds
            _fill(values[at, :, part], estimate)
    return Features(values[:, :, :count].transpose(0, 2, 1), seconds[:, :count])


def _fill(values: npt.NDArray[np.float32], estimate: Estimate) -> None:
    for row, column in zip(values, COLUMNS, strict=True):
        found = column.compute(estimate)
        if not column.is_log:
            row[:] = found
        elif found.size == 1:
            row[:] = log2(found + 1)
        else:
            log2(found + 1, row)


def log2(
    column: npt.NDArray[np.float32], out: npt.NDArray[np.float32] | None = None
) -> npt.NDArray[np.float32]:
    """The logarithm, linear between powers of two: cheap, and as good for a model.

    >>> log2(np.array([1, 2, 3, 4], np.float32))
    array([0. , 1. , 1.5, 2. ], dtype=float32)
    """
    bits = column.view(np.int32)
    bits -= np.int32(ONE_BITS)
    return np.multiply(
        bits, np.float32(MANTISSA), out=out, dtype=np.float32, casting="unsafe"
    )
