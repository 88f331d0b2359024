"""The NumPy reference: what a DAG computes, and how far a kernel may be off.

Independent of schedules and code generation. Floats are evaluated in float64 and
rounded to their type once per stage, integers wrap around as they do in kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from ansor.errors import ArgumentError
from ansor.ir.dtypes import DTYPES, is_float
from ansor.ir.expr import Buffer
from ansor.ir.ops import BINARY
from ansor.te import approximate
from ansor.te.approximate import Approx, Array, unit, working, working_type
from ansor.te.contract import contract, factors, spans
from ansor.te.dag import DAG
from ansor.te.evaluate import Block, Evaluator, blocks
from ansor.te.limits import limits
from ansor.te.magnitudes import magnitudes, product_error
from ansor.te.stage import LOCATING, Stage

SCALE = 16.0  # roundings' worth of error that reordering may cost
_POINTS = 1 << 22  # of one block, which bounds memory
_EXACT_FLOAT = 1 << 53

Arrays = dict[str, Approx]


def reference(dag: DAG, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """The outputs of a DAG for these inputs, computed with NumPy.

    >>> import ansor
    >>> A = ansor.placeholder((3,), name="A")
    >>> k = ansor.reduce_axis(3)
    >>> S = ansor.compute((), lambda: ansor.sum(A[k], axis=k))
    >>> float(reference(DAG.build([S]), [np.array([1, 2, 3], "float32")])[0])
    6.0
    """
    arrays = _run(dag, inputs, scale=0.0)
    return tuple(_store(arrays[b.name].value, b) for b in dag.outputs)


def expected(
    dag: DAG, inputs: Sequence[Array]
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """What `reference` and `tolerance` return, in one pass.

    >>> import ansor
    >>> A = ansor.placeholder((2,), name="A")
    >>> B = ansor.compute((2,), lambda i: A[i] * 3.0)
    >>> values, allowed = expected(DAG.build([B]), [np.array([1, 2], "float32")])
    >>> values[0], bool((allowed[0] < 1e-4).all())
    (array([3., 6.], dtype=float32), True)
    """
    arrays = _run(dag, inputs, SCALE)
    values = tuple(_store(arrays[b.name].value, b) for b in dag.outputs)
    return values, _allowed(dag, arrays, values)


def bound(dag: DAG, inputs: Sequence[Array]) -> tuple[Array, ...]:
    """Magnitudes for tolerances: Σ|a·b| for a sum of products, and so on.

    A kernel that may reorder sums is right if |y - reference| <= 16·eps·bound. Errors
    of earlier stages are carried through; 0 where the result is exact.
    """
    arrays = _run(dag, inputs, SCALE)
    result = []
    for buffer in dag.outputs:
        u = unit(buffer.dtype, SCALE) or 1.0
        result.append(_error(arrays[buffer.name], buffer) / u)
    return tuple(result)


def tolerance(
    dag: DAG, inputs: Sequence[Array], expected: Sequence[Array]
) -> tuple[Array, ...]:
    """The absolute error to allow for each element of the outputs `expected`.

    0 for integers and bools (unless they depend on comparing inexact floats) and for
    floats that are only moved around.
    """
    return _allowed(dag, _run(dag, inputs, SCALE), expected)


def _allowed(dag: DAG, arrays: Arrays, values: Sequence[Array]) -> tuple[Array, ...]:
    result = []
    for buffer, value in zip(dag.outputs, values, strict=True):
        error = _error(arrays[buffer.name], buffer)
        result.append(error + _last_rounding(error, value, buffer))
    return tuple(result)


def agrees(actual: Array, expected: Array, allowed: Array) -> Array:
    """Where `actual` is as near to `expected` as `allowed`; NaN agrees with NaN.

    >>> agrees(np.array([1.0, np.nan]), np.array([1.5, np.nan]), np.array([0.1, 0.1]))
    array([False,  True])
    """
    x, y = (np.asarray(a).astype(np.float64) for a in (actual, expected))
    with np.errstate(all="ignore"):
        near = np.abs(x - y) <= allowed
    same = np.asarray(actual) == np.asarray(expected)  # int64 beyond 2**53, infinities
    result: Array = near | same | (np.isnan(x) & np.isnan(y)) | np.isinf(allowed)
    return result


def _error(array: Approx, buffer: Buffer) -> Array:
    error = np.zeros(()) if array.error is None else array.error
    whole = np.broadcast_to(error, buffer.shape)
    unknown = np.isnan(whole)
    return np.where(unknown, np.inf, whole) if unknown.any() else whole


def _last_rounding(error: Array, value: Array, buffer: Buffer) -> Array | float:
    """The reference itself is rounded, and kernels may flush denormals to 0."""
    if not is_float(buffer.dtype):
        return 0.0
    row = limits(buffer.dtype)
    own = np.abs(np.asarray(value).astype(np.float64))
    own = np.where(np.isfinite(own), own, 0.0)
    own *= row.epsilon
    own += row.smallest
    own *= error > 0
    return own


def _run(dag: DAG, inputs: Sequence[Array], scale: float) -> Arrays:
    arrays: Arrays = {}
    _check_inputs(dag, inputs)
    for buffer, array in zip(dag.inputs, inputs, strict=True):
        arrays[buffer.name] = Approx(working(array, buffer.dtype))
    with np.errstate(all="ignore"):
        for stage in dag.stages:
            results = _evaluate(stage, arrays, scale)
            for buffer, result in zip(stage.buffers, results, strict=True):
                value = working(_store(result.value, buffer), buffer.dtype)
                arrays[buffer.name] = replace(result, value=value)
    return arrays


def _check_inputs(dag: DAG, inputs: Sequence[Array]) -> None:
    if len(inputs) != len(dag.inputs):
        names = ", ".join(buffer.name for buffer in dag.inputs)
        raise ArgumentError(
            f"{len(inputs)} inputs", f"the DAG has {len(dag.inputs)}: {names}"
        )
    for buffer, array in zip(dag.inputs, inputs, strict=True):
        if np.shape(array) != buffer.shape:
            raise ArgumentError(
                f"input {buffer.name!r}",
                f"shape {np.shape(array)}, but {buffer.shape} is declared",
            )


def _store(value: Array, buffer: Buffer) -> Array:
    return value.astype(DTYPES[buffer.dtype].numpy)


def _evaluate(stage: Stage, arrays: Arrays, scale: float) -> tuple[Approx, ...]:
    if stage.reducer is None:
        return (_map(stage, arrays, scale),)
    if stage.reducer in LOCATING:
        return _locate(stage, arrays, scale)
    if stage.reducer == "sum" and len(factors(stage.body[0])) > 1:
        return (_contraction(stage, arrays, scale),)
    return (_reduction(stage, arrays, scale),)


class _Output:
    """An array written block by block; the error exists once there is one."""

    def __init__(self, stage: Stage, dtype: str, fill: object = 0) -> None:
        self.rank = len(stage.axes)
        self.value: Array = np.full(stage.shape, fill, working_type(dtype))
        self.error: Array | None = None

    def read(self, block: Block) -> Approx:
        at = block.slices(self.rank)
        error = None if self.error is None else self.error[at]
        return Approx(self.value[at], error)

    def write(self, block: Block, part: Approx) -> None:
        at = block.slices(self.rank)
        self.value[at] = np.asarray(part.value).astype(self.value.dtype)
        if part.error is not None:
            if self.error is None:
                self.error = np.zeros(self.value.shape)
            self.error[at] = part.error

    def add(self, block: Block, part: Approx) -> None:
        at = block.slices(self.rank)
        self.value[at] += part.value.astype(self.value.dtype, copy=False)
        if part.error is not None:
            if self.error is None:
                self.error = np.zeros(self.value.shape)
            self.error[at] += part.error

    def result(self) -> Approx:
        return Approx(self.value, self.error)


def _whole(stage: Stage) -> list[set[str]]:
    return [{axis.name for axis in (*stage.axes, *stage.reduce_axes)}]


def _map(stage: Stage, arrays: Arrays, scale: float) -> Approx:
    out = _Output(stage, stage.output.dtype)
    for block in blocks(stage.axes, (), _whole(stage), _POINTS):
        out.write(block, Evaluator(arrays, block, scale).value(stage.body[0]))
    return out.result()


def _reduction(stage: Stage, arrays: Arrays, scale: float) -> Approx:
    row, dtype = stage.combiner, stage.output.dtype
    assert row is not None
    out = _Output(stage, dtype, row.identity(dtype))
    for block in blocks(stage.axes, stage.reduce_axes, _whole(stage), _POINTS):
        source = Evaluator(arrays, block, scale).value(stage.body[0])
        part = _reduce(row.op, _spread(source, block), out.rank, unit(dtype, scale))
        out.write(block, _combine(row.op, out.read(block), part))
    return out.result()


def _spread(x: Approx, block: Block) -> Approx:
    """`x` along every axis of the block, those it does not use included."""
    error = None if x.error is None else np.broadcast_to(x.error, block.lengths)
    return Approx(np.broadcast_to(x.value, block.lengths), error)


def _reduce(op: str, x: Approx, rank: int, u: float) -> Approx:
    axes = tuple(range(rank, x.value.ndim))
    ufunc = BINARY[op].numpy
    value = ufunc.reduce(x.value, axis=axes, dtype=x.value.dtype)  # type: ignore[attr-defined]
    error = None
    if op == "add":
        error = None if x.error is None else x.error.sum(axes)
        own = np.abs(x.value).sum(axes) * u if u else None
        error = approximate.add_errors(error, own)
    elif op == "mul":
        error = _product_error(x, value, axes, u)
    elif x.error is not None:
        error = x.error.max(axes)
    return Approx(value, error)


def _product_error(
    x: Approx, value: Array, axes: tuple[int, ...], u: float
) -> Array | None:
    if x.error is None and u == 0:
        return None
    size = np.abs(x.value)
    wide = size if x.error is None else size + x.error
    count = x.value.size // max(1, value.size)
    own = max(1, count / SCALE) * u * np.abs(value)
    error: Array = wide.prod(axes) - size.prod(axes) + own
    return error


def _combine(op: str, a: Approx, b: Approx) -> Approx:
    if op == "add":
        return Approx(a.value + b.value, approximate.add_errors(a.error, b.error))
    return approximate.binary(op, a, b, 0.0)


def _contraction(stage: Stage, arrays: Arrays, scale: float) -> Approx:
    """A sum of products, through matrix products."""
    parts, dtype = factors(stage.body[0]), stage.output.dtype
    out, u = _Output(stage, dtype), unit(dtype, scale)
    sizes = magnitudes(stage, parts, arrays, u)
    pieces = blocks(
        stage.axes, stage.reduce_axes, spans(parts), _POINTS, outputs_first=True
    )
    for block in pieces:
        evaluator = Evaluator(arrays, block, scale)
        values = [evaluator.value(part) for part in parts]
        value = _exact_contract([p.value for p in values], out.rank, block.lengths)
        if sizes is not None:
            error: Array | None = sizes.error(block, out.rank)
        else:
            error = product_error(values, u, out.rank, block.lengths)
        out.add(block, Approx(value, error))
    return out.result()


def _exact_contract(parts: list[Array], rank: int, lengths: Sequence[int]) -> Array:
    """Integers go through floats where these hold every partial sum exactly."""
    if parts[0].dtype.kind == "f":
        return contract(parts, rank, lengths)
    tops = [max(abs(int(p.max())), abs(int(p.min()))) for p in parts]
    if prod(tops) * prod(lengths[rank:]) < _EXACT_FLOAT:
        floats = [p.astype(np.float64) for p in parts]
        return contract(floats, rank, lengths).astype(np.int64)
    return contract([p.astype(np.int64) for p in parts], rank, lengths)


def _locate(stage: Stage, arrays: Arrays, scale: float) -> tuple[Approx, ...]:
    """argmax and argmin: the value and where it is."""
    row = stage.combiner
    assert row is not None
    assert stage.reducer is not None
    types = [buffer.dtype for buffer in stage.buffers]
    best = _Output(stage, types[0], row.identity(types[0]))
    place = _Output(stage, types[1], -1)
    for block in blocks(stage.axes, stage.reduce_axes, _whole(stage), _POINTS):
        evaluator = Evaluator(arrays, block, scale)
        value, index = (_spread(evaluator.value(e), block) for e in stage.body)
        found = _first(stage.reducer, value, index.value, best.rank)
        pair = _better(row.op, (best.read(block), place.read(block)), found)
        best.write(block, pair[0])
        place.write(block, pair[1])
    return best.result(), place.result()


def _first(
    reducer: str, value: Approx, index: Array, rank: int
) -> tuple[Approx, Approx]:
    """The best value of each element and its place within a block."""
    shape = (*value.value.shape[:rank], -1)
    flat, places = value.value.reshape(shape), index.reshape(shape)
    at = np.expand_dims(getattr(np, reducer)(flat, axis=-1), -1)
    top, place = np.take_along_axis(flat, at, -1), np.take_along_axis(places, at, -1)
    if value.error is None:
        return Approx(top[..., 0]), Approx(place[..., 0])
    errors = value.error.reshape(shape)
    near = np.abs(flat - top) <= errors + np.take_along_axis(errors, at, -1)
    doubt = np.where(near, np.abs(places - place), 0).max(-1).astype(np.float64)
    return Approx(top[..., 0], errors.max(-1)), Approx(place[..., 0], doubt)


_Pair = tuple[Approx, Approx]


def _better(op: str, old: _Pair, new: _Pair) -> _Pair:
    """The better of two candidates; the old one on a tie, NaN before everything."""
    a, b = old[0].value, new[0].value
    wins = (b > a) if op == "max" else (b < a)
    if b.dtype.kind == "f":
        wins = (wins & ~np.isnan(a)) | (np.isnan(b) & ~np.isnan(a))
    wins = wins | (old[1].value < 0)  # nothing found so far
    value = approximate.select(Approx(wins), new[0], old[0])
    place = approximate.select(Approx(wins), new[1], old[1])
    total = approximate.add_errors(old[0].error, new[0].error)
    if total is None:
        return value, place
    close = (np.abs(a - b) <= total) & (old[1].value >= 0)
    gap = np.where(close, np.abs(old[1].value - new[1].value), 0.0)
    return value, replace(place, error=approximate.add_errors(place.error, gap))
