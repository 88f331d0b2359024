"""Runs loop programs on NumPy arrays: the oracle for every stage of lowering.

A loop becomes an axis of a grid, and its body runs for all iterations at once, when
`dependence` proves that this gives what running them in order gives:

    independent   no iteration touches an element that another one writes
    reduce        one store accumulates into elements the loop does not choose
    overwrite     one store into a buffer that is not read; the last iteration wins

Otherwise the loop is distributed over its statements, and where even that is not
proven, its iterations run one after another. A load or store outside its buffer that
no guard prevents raises an error. Fresh memory holds NaN, or an absurd integer.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

import numpy as np

from ansor.errors import ArgumentError
from ansor.ir.dependence import (
    REDUCTIONS,
    accumulation,
    distribute,
    independent,
    only_writes,
    reduction_over,
)
from ansor.ir.dtypes import DTYPES, is_float
from ansor.ir.evaluate import (
    Array,
    Block,
    Evaluator,
    Mask,
    both,
    combine,
    compute_dtype,
    evaluate,
    lift,
    reduce_axes,
)
from ansor.ir.expr import Buffer
from ansor.ir.stmt import Allocate, For, Function, If, Prefetch, Seq, Stmt, Store
from ansor.ir.visit import expressions, statements, walk

__all__ = ["evaluate", "run"]

LARGEST = 1 << 21  # elements of a temporary
REACH = 256  # iterations of inner loops that an outer loop leaves room for


def run(function: Function, arguments: Sequence[Array]) -> None:
    """Execute a program; the arguments, in parameter order, are written in place."""
    _check(function, arguments)
    memory = {
        parameter.name: Block(np.ascontiguousarray(array).reshape(-1))
        for parameter, array in zip(function.parameters, arguments, strict=True)
    }
    with np.errstate(all="ignore"):
        _Machine(memory).execute(function.body, _Frame())
    written = {s.buffer.name for s in statements(function.body) if isinstance(s, Store)}
    for parameter, array in zip(function.parameters, arguments, strict=True):
        block = memory[parameter.name].flat
        if parameter.name in written and not np.shares_memory(block, array):
            array[...] = block.reshape(array.shape)


@dataclass(frozen=True, slots=True)
class _Axis:
    name: str
    first: int
    extent: int
    reduced: bool


@dataclass(frozen=True, slots=True)
class _Frame:
    """The iterations that run at once: a grid with one axis per loop, and a mask."""

    axes: tuple[_Axis, ...] = ()
    env: dict[str, Array] = field(default_factory=dict)
    mask: Mask = None

    @property
    def rank(self) -> int:
        return len(self.axes)

    @property
    def size(self) -> int:
        size = 1
        for axis in self.axes:
            size *= axis.extent
        return size

    @property
    def reduced(self) -> tuple[int, ...]:
        return tuple(i for i, axis in enumerate(self.axes) if axis.reduced)

    def fixed(self, name: str, value: int) -> "_Frame":
        """The same grid, at one iteration of a further loop."""
        array = np.full((1,) * self.rank, value, np.int64)
        return replace(self, env={**self.env, name: array})

    def widened(self, axis: _Axis) -> "_Frame":
        """The grid with one more axis, the innermost."""
        env = {name: array[..., None] for name, array in self.env.items()}
        values = np.arange(axis.first, axis.first + axis.extent)
        env[axis.name] = values.reshape((1,) * self.rank + (-1,))
        mask = None if self.mask is None else self.mask[..., None]
        return _Frame((*self.axes, axis), env, mask)

    def where(self, condition: Array) -> "_Frame | None":
        """The part of the grid where the condition holds; None if that is empty."""
        if condition.all():
            return self
        mask = both(self.mask, condition, self.rank)
        return None if mask is None or not mask.any() else replace(self, mask=mask)


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a loop runs: "grid", "reduce", "serial", or as the loops of `parts`."""

    mode: str
    room: int = 1  # elements per iteration to leave room for
    parts: tuple[For, ...] = ()


@dataclass(slots=True)
class _Machine:
    memory: dict[str, Block]
    plans: dict[int, tuple[For, _Plan]] = field(default_factory=dict)

    def execute(self, stmt: Stmt, frame: _Frame) -> None:
        match stmt:
            case For():
                self._loop(stmt, frame)
            case Store():
                self._store(stmt, frame)
            case If():
                self._branch(stmt, frame)
            case Seq():
                for child in stmt.stmts:
                    self.execute(child, frame)
            case Allocate():
                self._allocate(stmt, frame)
            case Prefetch():
                pass
            case _:
                assert_never(stmt)

    def _loop(self, loop: For, frame: _Frame) -> None:
        plan = self._plan(loop)
        if plan.parts:
            for part in plan.parts:
                self._loop(part, frame)
            return
        step = 1
        if plan.mode != "serial":
            step = max(1, LARGEST // (frame.size * plan.room))
        for first in range(0, loop.extent, step):
            extent = min(step, loop.extent - first)
            if extent == 1:
                inner = frame.fixed(loop.var.name, first)
            else:
                axis = _Axis(loop.var.name, first, extent, plan.mode == "reduce")
                inner = frame.widened(axis)
            self.execute(loop.body, inner)

    def _plan(self, loop: For) -> _Plan:
        """The plan of a loop, made once; the loop is kept so that its id stays its."""
        known = self.plans.get(id(loop))
        if known is None:
            known = self.plans[id(loop)] = (loop, _plan(loop))
        return known[1]

    def _branch(self, stmt: If, frame: _Frame) -> None:
        evaluator = Evaluator(frame.env, frame.rank, self.memory)
        condition = evaluator.value(stmt.condition, frame.mask)
        then = frame.where(condition)
        if then is not None:
            self.execute(stmt.then, then)
        if stmt.otherwise is not None:
            otherwise = frame.where(~condition)
            if otherwise is not None:
                self.execute(stmt.otherwise, otherwise)

    def _allocate(self, stmt: Allocate, frame: _Frame) -> None:
        """Every point of the grid gets its own copy of the buffer."""
        stride = stmt.buffer.size
        private = []
        for axis in reversed(frame.axes):
            private.append((axis.name, axis.first, stride))
            stride *= axis.extent
        outer = self.memory.get(stmt.buffer.name)
        block = Block(_poison(stmt.buffer, stride), tuple(private))
        self.memory[stmt.buffer.name] = block
        self.execute(stmt.body, frame)
        if outer is None:
            del self.memory[stmt.buffer.name]
        else:
            self.memory[stmt.buffer.name] = outer

    def _store(self, store: Store, frame: _Frame) -> None:
        evaluator = Evaluator(frame.env, frame.rank, self.memory)
        lanes = _lanes(store)
        active = evaluator.lane_mask(lanes, store.active)
        mask = both(frame.mask, active, frame.rank)
        if frame.reduced:
            self._accumulate(store, frame, evaluator, mask)
            return
        address = evaluator.address(store.buffer, store.indices, lanes, mask)
        value = evaluator.value(store.value, mask)
        shape = [axis.extent for axis in frame.axes]
        self._scatter(store, address, value, mask, shape)

    def _accumulate(
        self, store: Store, frame: _Frame, evaluator: Evaluator, mask: Mask
    ) -> None:
        """Reduce over the grid first, then combine once with what is stored."""
        found = accumulation(store)
        assert found is not None, store
        op, dtype, lanes = found.op, store.buffer.dtype, _lanes(store)
        value = evaluator.value(found.value, mask)
        if mask is not None:
            if mask.ndim != value.ndim:
                mask, value = lift(mask, frame.rank), lift(value, frame.rank)
            identity = REDUCTIONS[op].identity(dtype)
            value = np.where(mask, value, np.asarray(identity, value.dtype))
        value = _along(value, frame)
        total = reduce_axes(op, value, frame.reduced, dtype)
        if mask is not None:
            mask = np.asarray(mask.any(axis=frame.reduced, keepdims=True))
        address = evaluator.address(store.buffer, store.indices, lanes, mask)
        old = self.memory[store.buffer.name].flat[address]
        old = old.astype(compute_dtype(dtype), copy=False)
        shape = [1 if axis.reduced else axis.extent for axis in frame.axes]
        self._scatter(store, address, combine(op, old, total, dtype), mask, shape)

    def _scatter(
        self, store: Store, address: Array, value: Array, mask: Mask, shape: list[int]
    ) -> None:
        """Assign in grid order: of several values for one element the last stays."""
        rank, lanes = len(shape), _lanes(store)
        if lanes > 1:
            shape = [*shape, lanes]
            address, value = lift(address, rank), lift(value, rank)
            mask = None if mask is None else lift(mask, rank)
        value = value.astype(DTYPES[store.buffer.dtype].numpy, copy=False)
        to = np.broadcast_to(address, shape).reshape(-1)
        what = np.broadcast_to(value, shape).reshape(-1)
        if mask is not None:
            kept = np.broadcast_to(mask, shape).reshape(-1)
            to, what = to[kept], what[kept]
        self.memory[store.buffer.name].flat[to] = what


def _plan(loop: For) -> _Plan:
    if independent(loop):
        return _Plan("grid", _room(loop.body, REACH))
    if reduction_over(loop) is not None:
        return _Plan("reduce", _room(loop.body, REACH))
    if only_writes(loop):
        # Room for all inner iterations: a split inner loop would change the order.
        return _Plan("grid", _room(loop.body, None))
    parts = distribute(loop)
    return _Plan("serial", parts=parts if len(parts) > 1 else ())


def _room(body: Stmt, reach: int | None) -> int:
    """Elements for one iteration of a loop, with up to `reach` of the inner ones."""
    inner = _iterations(body)
    below = list(statements(body))
    lanes = [n.lanes for s in below for e in expressions(s) for n in walk(e)]
    sizes = [s.buffer.size for s in below if isinstance(s, Allocate)]
    points = inner if reach is None else min(inner, reach)
    return max(points * max(lanes, default=1), *sizes, 1)


def _iterations(stmt: Stmt) -> int:
    """How often the busiest statement runs."""
    match stmt:
        case For():
            return stmt.extent * _iterations(stmt.body)
        case Allocate():
            return _iterations(stmt.body)
        case If():
            rest = 1 if stmt.otherwise is None else _iterations(stmt.otherwise)
            return max(_iterations(stmt.then), rest)
        case Seq():
            return max(map(_iterations, stmt.stmts), default=1)
    return 1


def _lanes(store: Store) -> int:
    return max(store.value.lanes, *(index.lanes for index in store.indices), 1)


def _along(value: Array, frame: _Frame) -> Array:
    """The value with the reduced axes at full length."""
    shape = list(value.shape)
    for i in frame.reduced:
        shape[i] = frame.axes[i].extent
    return np.broadcast_to(value, shape)


def _poison(buffer: Buffer, size: int) -> Array:
    dtype = DTYPES[buffer.dtype].numpy
    if is_float(buffer.dtype):
        return np.full(size, np.nan, dtype)
    if buffer.dtype == "bool":
        return np.ones(size, dtype)
    return np.frombuffer(b"\xa5" * (size * dtype.itemsize), np.uint8).copy().view(dtype)


def _check(function: Function, arguments: Sequence[Array]) -> None:
    if len(arguments) != len(function.parameters):
        raise ArgumentError(
            f"call of {function.name!r}",
            f"{len(arguments)} arguments, but it takes {len(function.parameters)}",
        )
    for parameter, array in zip(function.parameters, arguments, strict=True):
        wanted = DTYPES[parameter.dtype].numpy
        if array.shape != parameter.shape or array.dtype != wanted:
            raise ArgumentError(
                f"argument {parameter.name!r} of {function.name!r}",
                f"{array.dtype}{list(array.shape)} given, but it is "
                f"{parameter.dtype}{list(parameter.shape)}",
            )
