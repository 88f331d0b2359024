"""Faults that schedulers and code generators make, put into loop programs on purpose.

Each kind is a function from a place in a program to a faulty version of it, or None
where it does not apply.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ansor.ir.dtypes import is_float
from ansor.ir.expr import (
    Binary,
    Broadcast,
    Buffer,
    Cast,
    Const,
    Expr,
    Load,
    Ramp,
    Select,
)
from ansor.ir.stmt import Allocate, For, Function, If, Seq, Stmt, Store
from ansor.ir.visit import loads, map_loads, statements, substatements

NOTHING = Seq(())
Path = tuple[int, ...]


@dataclass(frozen=True)
class Mutant:
    kind: str
    place: str
    functions: tuple[Function, ...]


def mutants(functions: tuple[Function, ...], rng: np.random.Generator) -> list[Mutant]:
    """Every mutant of a program, in random order."""
    made = list(_all(functions, rng))
    return [made[at] for at in rng.permutation(len(made))]


def _all(functions: tuple[Function, ...], rng: np.random.Generator) -> Iterator[Mutant]:
    for at, function in enumerate(functions):
        for kind, body in _bodies(function, rng):
            changed = replace(function, body=body[1])
            yield Mutant(
                kind, body[0], (*functions[:at], changed, *functions[at + 1 :])
            )


def _bodies(
    function: Function, rng: np.random.Generator
) -> Iterator[tuple[str, tuple[str, Stmt]]]:
    for path, node in _paths(function.body):
        for kind, change in LOCAL.items():
            changed = change(node, rng)
            if changed is not None and changed != node:
                place = str(node).partition("\n")[0][:100]
                yield kind, (place, _put(function.body, path, changed))
    for kind, whole in WHOLE.items():
        for body in whole(function, rng):
            yield kind, (function.name, body)


def _paths(stmt: Stmt, path: Path = ()) -> Iterator[tuple[Path, Stmt]]:
    yield path, stmt
    for at, child in enumerate(substatements(stmt)):
        yield from _paths(child, (*path, at))


def _put(stmt: Stmt, path: Path, new: Stmt) -> Stmt:
    """`stmt` with another statement at a place below."""
    if not path:
        return new
    child = _put(substatements(stmt)[path[0]], path[1:], new)
    if isinstance(stmt, For | Allocate):
        return replace(stmt, body=child)
    if isinstance(stmt, If):
        return replace(stmt, **{("then", "otherwise")[path[0]]: child})
    assert isinstance(stmt, Seq)
    before, after = stmt.stmts[: path[0]], stmt.stmts[path[0] + 1 :]
    return Seq((*before, child, *after))


# -- faults of one statement -----------------------------------------------------


def _longer(node: Stmt, rng: np.random.Generator) -> Stmt | None:
    return replace(node, extent=node.extent + 1) if isinstance(node, For) else None


def _shorter(node: Stmt, rng: np.random.Generator) -> Stmt | None:
    if not isinstance(node, For):
        return None
    return NOTHING if node.extent == 1 else replace(node, extent=node.extent - 1)


def _dropped(node: Stmt, rng: np.random.Generator) -> Stmt | None:
    return NOTHING if isinstance(node, For | If) else None


def _not_stored(node: Stmt, rng: np.random.Generator) -> Stmt | None:
    return NOTHING if isinstance(node, Store) and not _is_constant(node) else None


def _not_initialised(node: Stmt, rng: np.random.Generator) -> Stmt | None:
    return NOTHING if isinstance(node, Store) and _is_constant(node) else None


def _is_constant(store: Store) -> bool:
    value = store.value.value if isinstance(store.value, Broadcast) else store.value
    return isinstance(value, Const)


def _branch(node: Stmt, rng: np.random.Generator) -> Stmt | None:
    if not isinstance(node, If):
        return None
    if node.otherwise is None or rng.random() < 0.5:
        return node.then
    return replace(node, then=node.otherwise, otherwise=node.then)


def _no_padding(node: Stmt, rng: np.random.Generator) -> Stmt | None:
    """A select that takes its second value in every case."""
    if not isinstance(node, Store) or not isinstance(node.value, Select):
        return None
    return replace(node, value=node.value.b)


def _store_shifted(node: Stmt, rng: np.random.Generator) -> Stmt | None:
    if not isinstance(node, Store):
        return None
    return replace(node, indices=_shifted(node.indices, rng))


def _load_shifted(node: Stmt, rng: np.random.Generator) -> Stmt | None:
    return _with_load(node, rng, lambda i: _shifted(i, rng))


def _store_swapped(node: Stmt, rng: np.random.Generator) -> Stmt | None:
    if not isinstance(node, Store):
        return None
    return replace(node, indices=_swapped(node.indices))


def _load_swapped(node: Stmt, rng: np.random.Generator) -> Stmt | None:
    return _with_load(node, rng, _swapped)


def _load_strided(node: Stmt, rng: np.random.Generator) -> Stmt | None:
    return _with_load(node, rng, _strided)


def _lane_lost(node: Stmt, rng: np.random.Generator) -> Stmt | None:
    if not isinstance(node, Store) or node.value.lanes == 1:
        return None
    return replace(node, active=(node.active or node.value.lanes) - 1)


def _narrow(node: Stmt, rng: np.random.Generator) -> Stmt | None:
    """Sums in fewer digits than they should have."""
    if (
        not isinstance(node, Store)
        or node.buffer.dtype not in ("float32", "float64")
        or not any(load.buffer == node.buffer for load in loads(node.value))
    ):
        return None
    low = ("bfloat16", "float16")[int(rng.integers(2))]
    return replace(node, value=Cast(Cast(node.value, low), node.buffer.dtype))


def _with_load(
    node: Stmt,
    rng: np.random.Generator,
    change: Callable[[tuple[Expr, ...]], tuple[Expr, ...]],
) -> Stmt | None:
    """A store with other indices in one of the loads of its value."""
    if not isinstance(node, Store):
        return None
    found = [x for x in loads(node.value) if change(x.indices) != x.indices]
    if not found:
        return None
    chosen = found[int(rng.integers(len(found)))]
    new = replace(chosen, indices=change(chosen.indices))
    value = map_loads(node.value, lambda x: new if x == chosen else x)
    return replace(node, value=value)


def _shifted(indices: tuple[Expr, ...], rng: np.random.Generator) -> tuple[Expr, ...]:
    if not indices:
        return indices
    at, by = int(rng.integers(len(indices))), int(rng.choice((-1, 1)))
    return (*indices[:at], _plus(indices[at], by), *indices[at + 1 :])


def _plus(index: Expr, by: int) -> Expr:
    if isinstance(index, Ramp):
        return replace(index, base=_plus(index.base, by))
    if index.lanes > 1:
        return Binary("add", index, Broadcast(Const(by), index.lanes))
    return Binary("add", index, Const(by))


def _swapped(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The first two different indices that are no vectors, exchanged."""
    scalar = [at for at, index in enumerate(indices) if index.lanes == 1]
    for a, b in pairwise(scalar):
        if indices[a] != indices[b]:
            changed = list(indices)
            changed[a], changed[b] = indices[b], indices[a]
            return tuple(changed)
    return indices


def _strided(indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    return tuple(
        replace(x, stride=x.stride + 1) if isinstance(x, Ramp) else x for x in indices
    )


# -- faults of a whole function --------------------------------------------------


def _nothing(function: Function, rng: np.random.Generator) -> Iterator[Stmt]:
    yield NOTHING


def _half(function: Function, rng: np.random.Generator) -> Iterator[Stmt]:
    """Only half the iterations of each outer loop run."""

    def shorten(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            return replace(stmt, extent=max(1, stmt.extent // 2))
        if isinstance(stmt, Seq):
            return Seq(tuple(map(shorten, stmt.stmts)))
        return replace(stmt, body=shorten(stmt.body)) if _opens(stmt) else stmt

    yield shorten(function.body)


def _opens(stmt: Stmt) -> bool:
    return isinstance(stmt, Allocate)


def _written_behind(function: Function, rng: np.random.Generator) -> Iterator[Stmt]:
    yield from _written(function, _behind)


def _written_before(function: Function, rng: np.random.Generator) -> Iterator[Stmt]:
    yield from _written(function, _before)


def _written(
    function: Function, where: Callable[[Buffer], tuple[Expr, ...]]
) -> Iterator[Stmt]:
    for buffer in _outputs(function):
        if buffer.shape:
            stray = Store(buffer, where(buffer), _one(buffer))
            yield Seq((function.body, stray))


def _one(buffer: Buffer) -> Const:
    if buffer.dtype == "bool":
        return Const(True, "bool")
    return Const(1.0 if is_float(buffer.dtype) else 1, buffer.dtype)


def _input_written(function: Function, rng: np.random.Generator) -> Iterator[Stmt]:
    """One element of an input gets another value, at the end."""
    for buffer in _inputs(function):
        at = tuple(Const(int(rng.integers(extent))) for extent in buffer.shape)
        yield Seq((function.body, Store(buffer, at, _one(buffer))))


def _read_behind(function: Function, rng: np.random.Generator) -> Iterator[Stmt]:
    yield from _read(function, rng, _behind)


def _read_before(function: Function, rng: np.random.Generator) -> Iterator[Stmt]:
    yield from _read(function, rng, _before)


def _read(
    function: Function,
    rng: np.random.Generator,
    where: Callable[[Buffer], tuple[Expr, ...]],
) -> Iterator[Stmt]:
    """An element outside of an input is read, though no result depends on it."""
    stores = [
        (path, node)
        for path, node in _paths(function.body)
        if isinstance(node, Store) and node.buffer in _outputs(function)
    ]
    for buffer in _inputs(function):
        if stores and buffer.shape and buffer.dtype != "bool":
            path, store = stores[int(rng.integers(len(stores)))]
            stray: Expr = Load(buffer, where(buffer))
            if buffer.dtype != store.buffer.dtype:
                stray = Cast(stray, store.buffer.dtype)
            if store.value.lanes > 1:
                stray = Broadcast(stray, store.value.lanes)
            less = Binary("min", stray, store.value)
            value = Binary("max", less, store.value)  # is store.value
            yield _put(function.body, path, replace(store, value=value))


def _behind(buffer: Buffer) -> tuple[Expr, ...]:
    return (Const(buffer.shape[0]), *(Const(0) for _ in buffer.shape[1:]))


def _before(buffer: Buffer) -> tuple[Expr, ...]:
    return (Const(-1), *(Const(extent - 1) for extent in buffer.shape[1:]))


def _outputs(function: Function) -> tuple[Buffer, ...]:
    return function.parameters[len(function.parameters) - function.outputs :]


def _inputs(function: Function) -> tuple[Buffer, ...]:
    return function.parameters[: len(function.parameters) - function.outputs]


def size(function: Function) -> int:
    """Statements of a function, to leave out what is too long to be mutated."""
    return sum(1 for _ in statements(function.body))


LOCAL: dict[str, Callable[[Stmt, np.random.Generator], Stmt | None]] = {
    "loop too long": _longer,
    "loop too short": _shorter,
    "part dropped": _dropped,
    "not stored": _not_stored,
    "not initialised": _not_initialised,
    "wrong branch": _branch,
    "no padding": _no_padding,
    "store shifted": _store_shifted,
    "load shifted": _load_shifted,
    "store with strides swapped": _store_swapped,
    "load with strides swapped": _load_swapped,
    "load with wrong stride": _load_strided,
    "lane lost": _lane_lost,
    "low precision": _narrow,
}
WHOLE: dict[str, Callable[[Function, np.random.Generator], Iterator[Stmt]]] = {
    "does nothing": _nothing,
    "does half": _half,
    "written behind": _written_behind,
    "written before": _written_before,
    "input written": _input_written,
    "read behind": _read_behind,
    "read before": _read_before,
}
