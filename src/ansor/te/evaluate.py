"""Evaluate one stage over blocks of its iteration space, as arrays.

Each axis is one dimension; an expression evaluates to an array that has length 1 along
the axes it does not use. Affine loads are views, not copies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from ansor.errors import ArgumentError
from ansor.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Var
from ansor.te import approximate
from ansor.te.analysis import affine
from ansor.te.approximate import Approx, Array, unit
from ansor.te.stage import Axis

Form = tuple[dict[str, int], int]  # coefficients by axis, constant


@dataclass(frozen=True)
class Block:
    """A box of the iteration space: where each axis starts and how far it runs."""

    axes: tuple[str, ...]
    starts: tuple[int, ...]
    lengths: tuple[int, ...]

    def index(self, name: str) -> Array:
        """The values of one axis, along its own dimension."""
        at = self.axes.index(name)
        values = np.arange(self.starts[at], self.starts[at] + self.lengths[at])
        shape = [1] * len(self.axes)
        shape[at] = -1
        return values.reshape(shape)

    def slices(self, count: int) -> tuple[slice, ...]:
        """Where the leading `count` axes lie in a whole array."""
        pairs = list(zip(self.starts, self.lengths, strict=True))[:count]
        return tuple(slice(start, start + length) for start, length in pairs)

    def interval(self, form: Form) -> tuple[int, int]:
        """Least and greatest value of an affine index inside the box."""
        low = high = form[1]
        for name, c in form[0].items():
            at = self.axes.index(name)
            first = c * self.starts[at]
            last = first + c * (self.lengths[at] - 1)
            low, high = low + min(first, last), high + max(first, last)
        return low, high


def blocks(
    spatial: Sequence[Axis],
    reduce: Sequence[Axis],
    groups: Sequence[set[str]],
    limit: int,
    outputs_first: bool = False,
) -> Iterator[Block]:
    """Cut the space so that no group of axes spans more than `limit` points.

    Reduce axes are cut first (`outputs_first`: last), outermost first. The blocks of
    one output element come in row-major order.
    """
    lengths = {axis.name: axis.extent for axis in (*spatial, *reduce)}

    def is_large(name: str) -> bool:
        spans = (prod(lengths[n] for n in g) for g in groups if name in g)
        return max(spans, default=0) > limit

    order = (*spatial, *reduce) if outputs_first else (*reduce, *spatial)
    for axis in order:
        while lengths[axis.name] > 1 and is_large(axis.name):
            lengths[axis.name] = -(-lengths[axis.name] // 2)
    axes = (*spatial, *reduce)
    ranges = [range(0, axis.extent, lengths[axis.name]) for axis in axes]
    for starts in product(*ranges):
        stops = zip(axes, starts, strict=True)
        sizes = tuple(min(lengths[a.name], a.extent - s) for a, s in stops)
        yield Block(tuple(a.name for a in axes), starts, sizes)


@dataclass(frozen=True)
class Evaluator:
    """Values of expressions over one block; `scale` 0 tracks no errors."""

    arrays: Mapping[str, Approx]
    block: Block
    scale: float

    def value(self, e: Expr, guarded: bool = False) -> Approx:
        """`guarded` says that elements outside their buffer will not be used."""
        match e:
            case Var(name):
                return Approx(self.block.index(name))
            case Const(value, dtype):
                return approximate.literal(value, dtype)
            case Binary(op, a, b):
                u = unit(e.dtype, self.scale)
                x, y = self.value(a, guarded), self.value(b, guarded)
                return approximate.binary(op, x, y, u)
            case Call(function, (x,)):
                u = unit(e.dtype, self.scale)
                return approximate.call(function, self.value(x, guarded), u)
            case Select(condition, a, b):
                test = self.value(condition, guarded)
                return approximate.select(
                    test, self.value(a, True), self.value(b, True)
                )
            case Cast(value, dtype):
                x = self.value(value, guarded)
                return approximate.cast(x, value.dtype, dtype, self.scale)
            case Load():
                return self._load(e, guarded)
            case _:
                raise AssertionError(f"{type(e).__name__} cannot occur in a stage")

    def _load(self, load: Load, guarded: bool) -> Approx:
        array = self.arrays[load.buffer.name]
        forms = [form for form in map(affine, load.indices) if form is not None]
        if len(forms) == len(load.indices) and self._is_inside(load, forms):
            error = None if array.error is None else self._view(array.error, forms)
            return Approx(self._view(array.value, forms), error)
        return self._gather(load, array, guarded)

    def _is_inside(self, load: Load, forms: Sequence[Form]) -> bool:
        ends = map(self.block.interval, forms)
        sizes = zip(ends, load.buffer.shape, strict=True)
        return all(low >= 0 and high < extent for (low, high), extent in sizes)

    def _view(self, array: Array, forms: Sequence[Form]) -> Array:
        """The elements of affine indices, along every axis of the block."""
        block = self.block
        strides = [0] * len(block.axes)
        used = [False] * len(block.axes)
        offset = 0
        for (terms, const), stride in zip(forms, array.strides, strict=True):
            offset += const * stride
            for name, c in terms.items():
                at = block.axes.index(name)
                strides[at] += c * stride
                used[at] = True
                offset += c * stride * block.starts[at]
        shape = [n if u else 1 for n, u in zip(block.lengths, used, strict=True)]
        start = array.reshape(-1)[offset // array.itemsize :]
        return np.lib.stride_tricks.as_strided(start, shape, strides, writeable=False)

    def _gather(self, load: Load, array: Approx, guarded: bool) -> Approx:
        indices = [self.value(index, guarded) for index in load.indices]
        doubt = approximate.add_errors(*(index.error for index in indices))
        places = []
        for dim, index in enumerate(indices):
            extent = load.buffer.shape[dim]
            if not guarded:
                _check_range(load, dim, index.value, extent)
            places.append(np.clip(index.value, 0, extent - 1))
        at = tuple(np.broadcast_arrays(*places))
        error = None if array.error is None else array.error[at]
        if doubt is not None:
            unknown = np.where(doubt > 0, np.inf, 0.0)
            error = approximate.add_errors(error, unknown)
        return Approx(array.value[at], error)


def _check_range(load: Load, dim: int, index: Array, extent: int) -> None:
    low, high = int(index.min()), int(index.max())
    if low < 0 or high >= extent:
        raise ArgumentError(
            f"{load}",
            f"index {low if low < 0 else high} of axis {dim} is outside 0 to "
            f"{extent - 1}",
        )
