"""A workload: a named computation with its sizes, and a small one of its structure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ansor.errors import ExpressionError
from ansor.ir.dtypes import DTYPES, is_float
from ansor.ir.expr import Expr, Load
from ansor.ir.visit import walk
from ansor.te.dag import DAG
from ansor.te.tensor import Tensor

Outputs: TypeAlias = Tensor | tuple[Tensor, ...]
Size: TypeAlias = int | tuple[int, ...]
Sizes: TypeAlias = Mapping[str, Size]

# Sizes that make the structure, and stay as they are at any scale.
FIXED = frozenset(("kernel", "stride", "padding", "dilation", "groups", "tile"))


@dataclass(frozen=True, eq=False)
class Workload:
    """A computation with its sizes; `expression` makes it from `batch` and the sizes.

    >>> from ansor.te.workloads import WORKLOADS
    >>> WORKLOADS["GMM512"].make()
    <tensor matmul: float32[512, 512]>
    >>> WORKLOADS["GMM512"].make(batch=16, scale=4)
    <tensor batch_matmul: float32[16, 128, 128]>
    >>> WORKLOADS["GMM512"].small()
    <tensor matmul: float32[5, 6]>
    """

    name: str
    description: str
    expression: Callable[..., Outputs]
    sizes: Sizes
    tiny: Sizes  # those of `sizes` that differ in the small version
    small_batch: int = 1
    positive: tuple[str, ...] = ()  # inputs without negative elements: variances

    def make(self, batch: int = 1, scale: int = 1) -> Outputs:
        """The outputs at full size, or with extents divided by `scale`, rounded up.

        Kernels, strides, padding and the number of groups do not scale.
        """
        for name, value in (("batch", batch), ("scale", scale)):
            if value < 1:
                raise ExpressionError(
                    f"workload {self.name}", f"{name} {value} is below 1"
                )
        sizes = {n: _scaled(n, size, scale) for n, size in self.sizes.items()}
        return self.expression(batch=batch, **sizes)

    def small(self) -> Outputs:
        """The same structure with extents so small that every loop can be interpreted.

        Many are odd or prime, so that tiles do not divide them.
        """
        return self.expression(batch=self.small_batch, **{**self.sizes, **self.tiny})

    def inputs(
        self, dag: DAG, generator: np.random.Generator
    ) -> list[npt.NDArray[np.generic]]:
        """Random inputs of a DAG of this workload, on which it is well defined.

        Floats lie between -1 and 1, those of `positive` between 0.5 and 1.5; integers
        used as indices lie inside the tensors they index, others take every value of
        8 bits.
        """
        limits = _index_limits(dag)
        result = []
        for buffer in dag.inputs:
            if is_float(buffer.dtype):
                low = 0.5 if buffer.name in self.positive else -1.0
                high = low + 1.0 if buffer.name in self.positive else 1.0
                array = generator.uniform(low, high, buffer.shape)
            else:
                top = limits.get(buffer.name)
                start, stop = (-128, 128) if top is None else (0, top)
                array = np.asarray(generator.integers(start, stop, buffer.shape))
            result.append(np.asarray(array).astype(DTYPES[buffer.dtype].numpy))
        return result


def outputs(made: Outputs) -> tuple[Tensor, ...]:
    """What a workload made, as a tuple."""
    return (made,) if isinstance(made, Tensor) else made


def table(workloads: Iterable[Workload]) -> dict[str, Workload]:
    """Workloads by name, in their order."""
    rows = list(workloads)
    result = {row.name: row for row in rows}
    assert len(result) == len(rows), "two workloads have one name"
    return result


def _scaled(name: str, size: Size, scale: int) -> Size:
    if name in FIXED:
        return size
    if isinstance(size, tuple):
        return tuple(-(-extent // scale) for extent in size)
    return -(-size // scale)


def _index_limits(dag: DAG) -> dict[str, int]:
    """By the name of an input whose elements are indices: the least extent indexed."""
    limits: dict[str, int] = {}
    for stage in dag.stages:
        for load in (x for expr in stage.body for x in _loads(expr)):
            for extent, index in zip(load.buffer.shape, load.indices, strict=True):
                for inner in _loads(index):
                    name = inner.buffer.name
                    limits[name] = min(extent, limits.get(name, extent))
    return limits


def _loads(expr: Expr) -> list[Load]:
    return [node for node in walk(expr) if isinstance(node, Load)]
