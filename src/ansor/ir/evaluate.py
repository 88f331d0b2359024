"""Values of expressions over grids of loop variables, with whole-array NumPy.

Every array of one evaluation has the same number of axes, `rank`: one per vectorised
loop, of length 1 where the value does not depend on it; a vector has one axis more,
its lanes. A mask says for which points of the grid a value is wanted at all; only
there must a load stay inside its buffer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from ansor.errors import IRError
from ansor.ir.dtypes import DTYPES, is_float
from ansor.ir.expr import (
    Binary,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Lanes,
    Load,
    Ramp,
    Select,
    Var,
)
from ansor.ir.numpy_functions import NUMPY_FUNCTIONS
from ansor.ir.ops import BINARY

Array: TypeAlias = npt.NDArray[Any]
Mask: TypeAlias = npt.NDArray[np.bool_] | None  # None: everywhere


@dataclass(frozen=True, slots=True)
class Block:
    """The elements of a buffer, flat; one copy per point of the `private` axes."""

    flat: Array
    private: tuple[tuple[str, int, int], ...] = ()  # (variable, first value, stride)


def evaluate(
    expr: Expr, env: Mapping[str, Array | int], buffers: Mapping[str, Array]
) -> Array:
    """The value of `expr` at every point of the grid that `env` spans.

    The arrays of `env` broadcast against each other; the result has their common
    shape, plus an axis of lanes for a vector, and the dtype of the expression.
    """
    arrays = {name: np.asarray(value, np.int64) for name, value in env.items()}
    shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
    rank = len(shape)
    aligned = {
        name: array.reshape((1,) * (rank - array.ndim) + array.shape)
        for name, array in arrays.items()
    }
    blocks = {name: Block(np.reshape(array, -1)) for name, array in buffers.items()}
    with np.errstate(all="ignore"):
        value = Evaluator(aligned, rank, blocks).value(expr, None)
    lanes = (expr.lanes,) if expr.lanes > 1 else ()
    return np.broadcast_to(value, shape + lanes).astype(DTYPES[expr.dtype].numpy)


def compute_dtype(name: str) -> np.dtype[Any]:
    """The type values of a dtype are computed in: float32 for the 16-bit floats."""
    row = DTYPES[name]
    small = row.kind == "float" and row.bits == 16
    return np.dtype(np.float32) if small else row.numpy


def combine(op: str, a: Array, b: Array, dtype: str) -> Array:
    """`a op b` for two operands of one dtype, with its wrap-around and rounding."""
    if op == "pow":
        return _power(a, b, dtype)
    if op == "div" and not is_float(dtype):
        op = "floordiv"
    return np.asarray(BINARY[op].numpy(a, b))


def lift(array: Array, rank: int) -> Array:
    """A scalar's array with an axis of lanes; a vector's array as it is."""
    return array[..., None] if array.ndim == rank else array


def both(mask: Mask, other: Mask, rank: int) -> Mask:
    """Where both masks hold, of which either may have lanes."""
    if mask is None or other is None:
        return other if mask is None else mask
    if mask.ndim != other.ndim:
        mask, other = lift(mask, rank), lift(other, rank)
    return np.asarray(mask & other)


@dataclass(frozen=True, slots=True)
class Evaluator:
    """Evaluates expressions at the points of one grid, for callers that let NumPy
    ignore overflow and the like."""

    env: Mapping[str, Array]
    rank: int
    memory: Mapping[str, Block]

    def value(self, e: Expr, mask: Mask) -> Array:
        """The value of `e` in its compute dtype; anything outside the mask."""
        mask = self._fit(mask, e.lanes)
        match e:
            case Var():
                return self._variable(e)
            case Const():
                return self._constant(e)
            case Binary():
                a, b = self.value(e.a, mask), self.value(e.b, mask)
                return combine(e.op, a, b, e.a.dtype)
            case Call():
                return self._call(e, mask)
            case Select():
                return self._select(e, mask)
            case Cast():
                return self._cast(e, mask)
            case Load():
                return self._load(e, mask)
            case Ramp() | Broadcast():
                return self._spread(e, mask)
            case Lanes():
                return self._lanes(e, mask)
            case _:
                assert_never(e)

    def address(
        self, buffer: Buffer, indices: Sequence[Expr], lanes: int, mask: Mask
    ) -> Array:
        """Positions in the flat block; clipped into the buffer outside the mask."""
        block = self.memory.get(buffer.name)
        if block is None:
            raise IRError(
                f"buffer {buffer.name!r}", "neither a parameter nor allocated"
            )
        mask = self._fit(mask, lanes)
        flat = _integer(0, "int64", self.rank)
        for name, first, stride in block.private:
            flat = flat + (self.env[name] - first) * stride
        if lanes > 1:
            flat = lift(flat, self.rank)
        for axis, index in enumerate(indices):
            if isinstance(index, Const) and index.value == 0:
                continue
            value = self.value(index, mask)
            value = lift(value, self.rank) if lanes > 1 else value
            inside = self._inside(buffer, indices, axis, value, mask)
            flat = flat + inside * buffer.strides[axis]
        return np.asarray(flat)

    def lane_mask(self, lanes: int, active: int | None) -> Mask:
        """True for the leading `active` lanes; None where that is all of them."""
        if active is None or lanes == 1 or active >= lanes:
            return None
        return (np.arange(lanes) < active).reshape((1,) * self.rank + (lanes,))

    def _fit(self, mask: Mask, lanes: int) -> Mask:
        if mask is None:
            return None
        if lanes > 1:
            return lift(mask, self.rank)
        return np.asarray(mask.any(axis=-1)) if mask.ndim > self.rank else mask

    def _variable(self, e: Var) -> Array:
        try:
            return self.env[e.name]
        except KeyError:
            raise IRError(f"variable {e.name!r}", "no loop binds it") from None

    def _constant(self, e: Const) -> Array:
        if isinstance(e.value, int):  # not floats: 0.0 and -0.0 are one key
            return _integer(e.value, e.dtype, self.rank)
        return _as_array(e.value, e.dtype, self.rank)

    def _call(self, e: Call, mask: Mask) -> Array:
        value = self.value(e.args[0], mask)
        wide = value.astype(np.float64) if is_float(e.args[0].dtype) else value
        result = np.asarray(NUMPY_FUNCTIONS[e.function](wide))
        return result.astype(compute_dtype(e.dtype), copy=False)

    def _select(self, e: Select, mask: Mask) -> Array:
        chosen = np.asarray(self.value(e.condition, mask), np.bool_)
        if e.lanes > 1:
            chosen = lift(chosen, self.rank)
        if chosen.all():
            return self.value(e.a, mask)
        if not chosen.any():
            return self.value(e.b, mask)
        a = self.value(e.a, both(mask, chosen, self.rank))
        b = self.value(e.b, both(mask, ~chosen, self.rank))
        return np.where(chosen, a, b)

    def _cast(self, e: Cast, mask: Mask) -> Array:
        value = self.value(e.value, mask)
        return value.astype(DTYPES[e.dtype].numpy).astype(compute_dtype(e.dtype))

    def _load(self, e: Load, mask: Mask) -> Array:
        active = self.lane_mask(e.lanes, e.active)
        wanted = both(mask, active, self.rank)
        address = self.address(e.buffer, e.indices, e.lanes, wanted)
        value = self.memory[e.buffer.name].flat[address]
        value = np.asarray(value).astype(compute_dtype(e.dtype), copy=False)
        if active is None:
            return value
        return np.where(active, value, np.zeros((), value.dtype))

    def _spread(self, e: Ramp | Broadcast, mask: Mask) -> Array:
        inner = self.value(e.base if isinstance(e, Ramp) else e.value, mask)
        if e.lanes == 1:
            return inner
        if isinstance(e, Broadcast):
            return lift(inner, self.rank)
        steps = (e.stride * np.arange(e.lanes)).astype(inner.dtype)
        return np.asarray(lift(inner, self.rank) + steps)

    def _lanes(self, e: Lanes, mask: Mask) -> Array:
        lanes = e.value.lanes
        if lanes == 1:
            return self.value(e.value, mask)
        active = self.lane_mask(lanes, e.active)
        value = self.value(e.value, both(mask, active, self.rank))
        full = np.broadcast_to(value, (*value.shape[:-1], lanes))
        return reduce_axes(e.op, full[..., : e.active], (-1,), e.dtype)[..., 0]

    def _inside(
        self,
        buffer: Buffer,
        indices: Sequence[Expr],
        axis: int,
        value: Array,
        mask: Mask,
    ) -> Array:
        extent = buffer.shape[axis]
        if value.min() >= 0 and value.max() < extent:
            return value
        outside = (value < 0) | (value >= extent)
        bad = outside if mask is None else outside & mask
        if bad.any():
            worst = int(np.broadcast_to(value, bad.shape)[bad][0])
            text = ", ".join(map(str, indices))
            raise IRError(
                f"{buffer.name}[{text}]",
                f"index {worst} of axis {axis} is outside 0 … {extent - 1}",
                "guard the access, or clamp the index",
            )
        return np.asarray(value.clip(0, extent - 1))


@cache
def _integer(value: int, dtype: str, rank: int) -> Array:
    return _as_array(value, dtype, rank)


def _as_array(value: object, dtype: str, rank: int) -> Array:
    stored = np.asarray(value).astype(DTYPES[dtype].numpy)
    return stored.astype(compute_dtype(dtype)).reshape((1,) * rank)


def reduce_axes(op: str, value: Array, axes: tuple[int, ...], dtype: str) -> Array:
    """Combine the values along `axes`, which stay with length 1."""
    result = value
    for axis in axes:
        ufunc = BINARY[op].numpy
        if not isinstance(ufunc, np.ufunc):
            raise IRError(f"reduction with {op!r}", "it has no order-free meaning")
        result = ufunc.reduce(result, axis=axis, keepdims=True, dtype=value.dtype)
    return np.asarray(result)


def _power(a: Array, b: Array, dtype: str) -> Array:
    """Floats in float64; integers wrap, and a negative exponent truncates 1/aⁿ."""
    if is_float(dtype):
        wide = np.power(a.astype(np.float64), b.astype(np.float64))
        return np.asarray(wide.astype(compute_dtype(dtype)))
    negative = b < 0
    unit = (a == 1) | (a == -1)
    exponent = np.where(negative, np.where(unit, b & 1, 1), b).astype(a.dtype)
    return np.where(negative & ~unit, 0, np.power(a, exponent)).astype(a.dtype)
