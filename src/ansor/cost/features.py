"""The feature matrix of many points of a sketch, and their analytic seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansor.cost.analytic import batches, estimates
from ansor.cost.columns import READ, Column
from ansor.cost.estimate import Estimate
from ansor.schedule.program import Sketch
from ansor.space.table import Matrix
from ansor.target import Target

# float32 has its exponent, the logarithm's whole part, above 23 bits of mantissa.
MANTISSA, ONE_BITS = np.float32(1 / (1 << 23)), np.int32(0x3F800000)
ONE = np.float32(1)


@dataclass(frozen=True)
class Features:
    """What models read. Values of one column lie together in memory."""

    values: npt.NDArray[np.float32]  # [statements, points, columns]
    seconds: npt.NDArray[np.float32]  # [statements, points], analytic

    def __len__(self) -> int:
        """Points."""
        return int(self.seconds.shape[1])


def extract(
    sketch: Sketch,
    points: npt.ArrayLike,
    target: Target | None = None,
    columns: Sequence[Column] = READ,
) -> Features:
    """Features of all points of one sketch; `target` instead of the task's own. The
    columns are those that models read, unless others are asked for.

    >>> import ansor
    >>> A, B = ansor.placeholder((64, 64)), ansor.placeholder((64, 64))
    >>> sketch = ansor.sketches(ansor.Task(ansor.ops.matmul(A, B)))[0]
    >>> extract(sketch, sketch.sample(100, seed=0)).seconds.shape[1]
    100
    """
    matrix: Matrix = np.asarray(points, np.int32)
    statements = sum(not nest.ahead for nest in sketch.plan)
    count = len(matrix)
    values = np.empty((statements, len(columns), count + 1), np.float32)
    seconds = np.empty((statements, count + 1), np.float32)
    for part, rows in batches(matrix):
        for at, estimate in enumerate(estimates(sketch, rows, target)):
            seconds[at, part] = estimate.seconds
            _fill(values[at, :, part], estimate, columns)
    return Features(values[:, :, :count].transpose(0, 2, 1), seconds[:, :count])


def _fill(
    values: npt.NDArray[np.float32], estimate: Estimate, columns: Sequence[Column]
) -> None:
    same = np.zeros(len(columns), np.float32)  # of columns with one value for all
    vary = np.zeros(len(columns), np.bool_)
    for at, column in enumerate(columns):
        found = column.compute(estimate)
        if found.size == 1:
            same[at] = found.item()
            continue
        vary[at] = True
        if column.is_log:
            log2(found + ONE, values[at])
        else:
            values[at] = found
    logs = [column.is_log for column in columns]
    same = np.where(logs, log2(same + ONE), same)
    values[~vary] = same[~vary, None]


def log2(
    column: npt.NDArray[np.float32], out: npt.NDArray[np.float32] | None = None
) -> npt.NDArray[np.float32]:
    """The logarithm, linear between powers of two: cheap, and as good for a model.

    >>> log2(np.array([1, 2, 3, 4], np.float32))
    array([0. , 1. , 1.5, 2. ], dtype=float32)
    """
    bits = column.view(np.int32)
    bits -= ONE_BITS
    return np.multiply(bits, MANTISSA, out=out, dtype=np.float32, casting="unsafe")
