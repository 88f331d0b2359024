"""What a well-formed loop program is; run between the passes of lowering.

Nodes check themselves on construction; here is what needs the whole program: names
are bound, buffers exist where they are used, lanes fit, and no index is surely wrong.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from ansor.errors import IRError
from ansor.ir.expr import (
    Binary,
    Broadcast,
    Buffer,
    Call,
    Const,
    Expr,
    Lanes,
    Load,
    Ramp,
    Select,
    Var,
)
from ansor.ir.ops import REDUCERS
from ansor.ir.printer import lines
from ansor.ir.stmt import Allocate, For, Function, If, Prefetch, Seq, Stmt, Store
from ansor.ir.visit import children

STAGES = {
    "lowered": (),
    "final": ("vectorize", "unroll"),  # kinds of loops that may not remain
}
_REDUCTIONS = frozenset(row.op for row in REDUCERS.values())


def verify(function: Function, stage: str = "lowered") -> None:
    """Raise IRError naming the first statement that is not well-formed.

    Stage "final" also refuses the loops that lowering must have removed by then.
    """
    if stage not in STAGES:
        known = ", ".join(map(repr, STAGES))
        raise IRError(f"stage {stage!r}", "unknown", f"use one of {known}")
    _parameters(function)
    buffers = {buffer.name: buffer for buffer in function.parameters}
    _statement(function.body, _Scope(function.name, STAGES[stage], buffers))


@dataclass(frozen=True, slots=True)
class _Scope:
    """What encloses a statement."""

    function: str
    refused: tuple[str, ...]  # kinds of loops
    buffers: Mapping[str, Buffer]
    loops: Mapping[str, For] = field(default_factory=dict)
    guarded: bool = False  # by a condition that may keep indices inside


def _parameters(function: Function) -> None:
    what = f"function {function.name!r}"
    seen: set[str] = set()
    for parameter in function.parameters:
        if parameter.scope != "global":
            raise IRError(
                what,
                f"parameter {parameter.name!r} has scope {parameter.scope!r}",
                'parameters have scope "global"; allocate the others',
            )
        if parameter.name in seen:
            raise IRError(
                what, f"two parameters are called {parameter.name!r}", "rename one"
            )
        seen.add(parameter.name)
    if not 0 <= function.outputs <= len(function.parameters):
        raise IRError(
            what,
            f"{function.outputs} outputs, but {len(function.parameters)} parameters",
        )


def _statement(stmt: Stmt, scope: _Scope) -> None:
    match stmt:
        case For():
            _loop(stmt, scope)
            inner = {**scope.loops, stmt.var.name: stmt}
            _statement(stmt.body, replace(scope, loops=inner))
        case Store():
            _store(stmt, scope)
        case If():
            _condition(stmt, scope)
            guarded = replace(scope, guarded=True)
            _statement(stmt.then, guarded)
            if stmt.otherwise is not None:
                _statement(stmt.otherwise, guarded)
        case Seq():
            for child in stmt.stmts:
                _statement(child, scope)
        case Allocate():
            _allocate(stmt, scope)
            inside = {**scope.buffers, stmt.buffer.name: stmt.buffer}
            _statement(stmt.body, replace(scope, buffers=inside))
        case Prefetch():
            _visible(stmt, stmt.buffer, scope)
            for index in stmt.indices:
                _expression(stmt, index, scope)
        case _:
            assert_never(stmt)


def _loop(loop: For, scope: _Scope) -> None:
    name = loop.var.name
    if name in scope.loops:
        _refuse(loop, scope, f"an outer loop binds {name!r} too", "rename one of them")
    if loop.kind in scope.refused:
        _refuse(
            loop,
            scope,
            f"a loop of kind {loop.kind!r} is left at the final stage",
            "run the pass that replaces it first",
        )
    parents = list(scope.loops.values())
    if loop.kind == "vectorize" and parents and parents[-1].kind == "vectorize":
        _refuse(
            loop,
            scope,
            f"it is directly inside vectorized {parents[-1].var.name!r}",
            "fuse the two, or vectorize one of them",
        )
    outer = next((p.var.name for p in parents if p.kind == "parallel"), None)
    if loop.kind == "parallel" and outer is not None:
        direct = parents[-1].kind == "parallel" and parents[-1].body is loop
        if "vectorize" in scope.refused or not direct:
            _refuse(
                loop,
                scope,
                f"it is inside parallel {outer!r}",
                "fuse the two, or make one of them serial",
            )


def _store(store: Store, scope: _Scope) -> None:
    _access(store, store, scope)
    for e in (*store.indices, store.value):
        _expression(store, e, scope)
    lanes = _index_lanes(store)
    if store.value.lanes != lanes:
        _refuse(
            store,
            scope,
            f"the value has {store.value.lanes} lanes, the indices {lanes}",
            "broadcast the value, or make the index a ramp",
        )


def _condition(stmt: If, scope: _Scope) -> None:
    _expression(stmt, stmt.condition, scope)
    if stmt.condition.dtype != "bool" or stmt.condition.lanes != 1:
        _refuse(
            stmt,
            scope,
            f"the condition is {_type(stmt.condition)}, not a scalar bool",
            "select between values, or mask lanes with active",
        )


def _allocate(stmt: Allocate, scope: _Scope) -> None:
    name = stmt.buffer.name
    if stmt.buffer.scope == "global":
        _refuse(
            stmt,
            scope,
            f"{name!r} has scope 'global'",
            'allocate it as "packed", "local", "register" or "shared"',
        )
    if name in scope.buffers:
        _refuse(stmt, scope, f"{name!r} exists already", "rename one of them")


def _expression(stmt: Stmt, e: Expr, scope: _Scope) -> None:
    match e:
        case Var(name):
            if name not in scope.loops:
                hint = f"put it inside a loop over {name!r}"
                _refuse(stmt, scope, f"no loop around it binds {name!r}", hint)
        case Load():
            _access(stmt, e, scope)
        case Ramp() | Broadcast() | Lanes():
            _vector(stmt, e, scope)
        case Binary() | Call() | Select():
            _same_lanes(stmt, e, scope)
    if isinstance(e, Select):
        _expression(stmt, e.condition, scope)
        scope = replace(scope, guarded=True)
    for child in children(e)[1 if isinstance(e, Select) else 0 :]:
        _expression(stmt, child, scope)


def _vector(stmt: Stmt, e: Ramp | Broadcast | Lanes, scope: _Scope) -> None:
    if isinstance(e, Lanes):
        if e.op not in _REDUCTIONS:
            _refuse(stmt, scope, f"{e} combines with {e.op!r}, which has no identity")
        _active(stmt, scope, str(e), e.active, e.value.lanes)
        return
    inner = e.base if isinstance(e, Ramp) else e.value
    if inner.lanes != 1:
        _refuse(stmt, scope, f"{e} makes a vector of a vector", "flatten the lanes")
    if e.lanes < 2:
        _refuse(stmt, scope, f"{e} has {e.lanes} lanes", "a vector has at least 2")


def _same_lanes(stmt: Stmt, e: Binary | Call | Select, scope: _Scope) -> None:
    operands = children(e)[1:] if isinstance(e, Select) else children(e)
    if len({operand.lanes for operand in operands}) > 1:
        _refuse(stmt, scope, f"the operands of {e} differ in lanes", "broadcast one")


def _access(stmt: Stmt, access: Load | Store, scope: _Scope) -> None:
    _visible(stmt, access.buffer, scope)
    lanes = _index_lanes(access)
    for index in access.indices:
        if index.lanes not in (1, lanes):
            _refuse(stmt, scope, f"indices have {index.lanes} and {lanes} lanes")
    if access.active is not None:
        _active(stmt, scope, access.buffer.name, access.active, lanes)
    _inside(stmt, access, scope)


def _visible(stmt: Stmt, buffer: Buffer, scope: _Scope) -> None:
    known = scope.buffers.get(buffer.name)
    if known is None:
        _refuse(
            stmt,
            scope,
            f"{buffer.name!r} is neither a parameter nor allocated around it",
            "allocate it, or pass it as a parameter",
        )
    if known != buffer:
        _refuse(stmt, scope, f"it uses {buffer}, but {known} is meant by that name")


def _active(stmt: Stmt, scope: _Scope, what: str, active: int, lanes: int) -> None:
    if lanes == 1:
        _refuse(stmt, scope, f"active lanes given for {what}, a scalar", "leave it out")
    if not 1 <= active <= lanes:
        reason = f"{active} active lanes of {what}, which has {lanes}"
        _refuse(stmt, scope, reason, f"use 1 to {lanes}")


def _inside(stmt: Stmt, access: Load | Store, scope: _Scope) -> None:
    """Refuse an index that is outside for every value of the loop variables."""
    if scope.guarded:
        return
    for axis, index in enumerate(access.indices):
        low, high = _interval(index, scope)
        extent = access.buffer.shape[axis]
        if low >= extent or high < 0:
            text = str(index) if low == high else f"{index}, in {low} … {high},"
            _refuse(
                stmt,
                scope,
                f"index {text} of {access.buffer.name!r} is outside axis {axis}, "
                f"0 … {extent - 1}",
            )


_ANYTHING = (-(1 << 62), 1 << 62)


def _interval(e: Expr, scope: _Scope) -> tuple[int, int]:
    """Least and greatest value of an affine index; everything, for all others."""
    match e:
        case Const(value):
            return int(value), int(value)
        case Var(name):
            return 0, scope.loops[name].extent - 1 if name in scope.loops else 0
        case Binary("add", a, b):
            (a0, a1), (b0, b1) = _interval(a, scope), _interval(b, scope)
            return a0 + b0, a1 + b1
        case Binary("sub", a, b):
            (a0, a1), (b0, b1) = _interval(a, scope), _interval(b, scope)
            return a0 - b1, a1 - b0
        case Binary("mul", a, b):
            (a0, a1), (b0, b1) = _interval(a, scope), _interval(b, scope)
            products = (a0 * b0, a0 * b1, a1 * b0, a1 * b1)
            return min(products), max(products)
        case Ramp(base, stride, lanes):
            low, high = _interval(base, scope)
            last = stride * (lanes - 1)
            return low + min(0, last), high + max(0, last)
        case Broadcast(value):
            return _interval(value, scope)
    return _ANYTHING


def _index_lanes(access: Load | Store) -> int:
    return max((index.lanes for index in access.indices), default=1)


def _type(e: Expr) -> str:
    return e.dtype if e.lanes == 1 else f"{e.dtype} x{e.lanes}"


def _refuse(stmt: Stmt, scope: _Scope, reason: str, hint: str = "") -> None:
    raise IRError(f"{_first_line(stmt)!r} in {scope.function!r}", reason, hint)


def _first_line(stmt: Stmt) -> str:
    head: Iterator[str] = lines(stmt)
    return next(head, "pass").strip().removesuffix(":")
