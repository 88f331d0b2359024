"""Walking and rebuilding expressions and statements."""

from collections.abc import Callable, Iterator, Mapping
from operator import is_
from typing import Any, assert_never

from ansor.ir.expr import (
    Binary,
    Broadcast,
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
from ansor.ir.stmt import Allocate, For, If, Prefetch, Seq, Stmt, Store

# Levels of an expression. What rewrites one calls itself for the operands, and Python
# allows about a thousand calls within one another.
DEEPEST = 150

Rewrite = Callable[[Expr], Expr]


# What the operands of a node are: one row per node. Looked up by type, because every
# pass asks this of every node.
_CHILDREN: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    Var: lambda e: (),
    Const: lambda e: (),
    Binary: lambda e: (e.a, e.b),
    Call: lambda e: e.args,
    Select: lambda e: (e.condition, e.a, e.b),
    Cast: lambda e: (e.value,),
    Load: lambda e: e.indices,
    Ramp: lambda e: (e.base,),
    Broadcast: lambda e: (e.value,),
    Lanes: lambda e: (e.value,),
}


def _binary(e: Binary, f: Rewrite) -> Expr:
    a, b = f(e.a), f(e.b)
    return e if a is e.a and b is e.b else Binary(e.op, a, b)


def _call(e: Call, f: Rewrite) -> Expr:
    args = tuple(map(f, e.args))
    return e if is_same(args, e.args) else Call(e.function, args)


def _select(e: Select, f: Rewrite) -> Expr:
    condition, a, b = f(e.condition), f(e.a), f(e.b)
    same = condition is e.condition and a is e.a and b is e.b
    return e if same else Select(condition, a, b)


def _cast(e: Cast, f: Rewrite) -> Expr:
    value = f(e.value)
    return e if value is e.value else Cast(value, e.dtype)


def _load(e: Load, f: Rewrite) -> Expr:
    indices = tuple(map(f, e.indices))
    return e if is_same(indices, e.indices) else Load(e.buffer, indices, e.active)


# An expression of which no operand changes stays the same object: passes know by its
# id what they found out about it.
_REBUILD: dict[type, Callable[[Any, Rewrite], Expr]] = {
    Var: lambda e, f: e,
    Const: lambda e, f: e,
    Binary: _binary,
    Call: _call,
    Select: _select,
    Cast: _cast,
    Load: _load,
    Ramp: lambda e, f: Ramp(f(e.base), e.stride, e.lanes),
    Broadcast: lambda e, f: Broadcast(f(e.value), e.lanes),
    Lanes: lambda e, f: Lanes(e.op, f(e.value), e.active),
}


def is_same(new: tuple[object, ...], old: tuple[object, ...]) -> bool:
    """True if two tuples of one length hold the same objects."""
    return all(map(is_, new, old))


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct operands of an expression."""
    row = _CHILDREN.get(type(expr)) or _inherited(_CHILDREN, type(expr))
    return row(expr)


def rebuild(expr: Expr, rewrite: Rewrite) -> Expr:
    """The same expression with every direct operand rewritten."""
    row = _REBUILD.get(type(expr)) or _inherited(_REBUILD, type(expr))
    return row(expr, rewrite)


def _inherited(table: dict[type, Any], kind: type) -> Any:
    """The row of the nearest base class, remembered for the next time."""
    base = next(base for base in kind.__mro__ if base in table)
    return table.setdefault(kind, table[base])


def walk(expr: Expr) -> Iterator[Expr]:
    """Every node of an expression, operands after their parent."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(children(node))


def depth(expr: Expr) -> int:
    """How many operands lie below one another; 1 for a variable or a constant."""
    deepest, stack = 0, [(expr, 1)]
    while stack:
        node, level = stack.pop()
        deepest = max(deepest, level)
        stack.extend((child, level + 1) for child in children(node))
    return deepest


def variables(expr: Expr) -> set[str]:
    """Names of the loop variables an expression uses."""
    return {node.name for node in walk(expr) if isinstance(node, Var)}


def loads(expr: Expr) -> Iterator[Load]:
    return (node for node in walk(expr) if isinstance(node, Load))


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Replace variables by expressions."""
    if isinstance(expr, Var):
        return values.get(expr.name, expr)
    if isinstance(expr, Const):
        return expr
    return rebuild(expr, lambda e: substitute(e, values))


def map_loads(expr: Expr, rewrite: Callable[[Load], Expr]) -> Expr:
    """Replace every load, operands first."""

    def visit(e: Expr) -> Expr:
        e = rebuild(e, visit)
        return rewrite(e) if isinstance(e, Load) else e

    return visit(expr)


def map_stmt(
    stmt: Stmt, on_expr: Rewrite, on_stmt: Callable[[Stmt], Stmt] | None = None
) -> Stmt:
    """Rebuild a statement: expressions by `on_expr`, child statements by `on_stmt`."""
    child = on_stmt or (lambda s: map_stmt(s, on_expr))
    match stmt:
        case For(body=old):
            body = child(old)
            return stmt if body is old else with_body(stmt, body)
        case Store(buffer, indices, value, active):
            places, new = tuple(map(on_expr, indices)), on_expr(value)
            same = new is value and is_same(places, indices)
            return stmt if same else Store(buffer, places, new, active)
        case If(condition, then, otherwise):
            rest = None if otherwise is None else child(otherwise)
            test, body = on_expr(condition), child(then)
            same = test is condition and body is then and rest is otherwise
            return stmt if same else If(test, body, rest)
        case Seq(stmts):
            parts = tuple(map(child, stmts))
            return stmt if is_same(parts, stmts) else Seq(parts)
        case Allocate(buffer, old):
            body = child(old)
            return stmt if body is old else Allocate(buffer, body)
        case Prefetch(buffer, indices, write):
            places = tuple(map(on_expr, indices))
            return stmt if is_same(places, indices) else Prefetch(buffer, places, write)
        case _:
            assert_never(stmt)


def with_body(loop: For, body: Stmt) -> For:
    """The same loop around another body."""
    return For(loop.var, loop.extent, body, loop.kind, loop.reduce, loop.thread)


def substitute_stmt(stmt: Stmt, values: Mapping[str, Expr]) -> Stmt:
    """Replace variables in a whole statement."""
    return map_stmt(stmt, lambda e: substitute(e, values))


def substatements(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside one statement."""
    match stmt:
        case For(body=body) | Allocate(body=body):
            return (body,)
        case If(_, then, otherwise):
            return (then,) if otherwise is None else (then, otherwise)
        case Seq(stmts):
            return stmts
        case _:
            return ()


def statements(stmt: Stmt) -> Iterator[Stmt]:
    """Every statement below (and including) `stmt`, in program order."""
    stack = [stmt]
    while stack:
        stmt = stack.pop()
        yield stmt
        stack.extend(reversed(substatements(stmt)))


def expressions(stmt: Stmt) -> Iterator[Expr]:
    """The expressions written directly in one statement."""
    match stmt:
        case Store(_, indices, value):
            yield from indices
            yield value
        case If(condition):
            yield condition
        case Prefetch(_, indices):
            yield from indices


def seq(*stmts: Stmt | None) -> Stmt:
    """Statements one after another, flattened, without the empty ones."""
    flat: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, Seq):
            flat.extend(stmt.stmts)
        elif stmt is not None:
            flat.append(stmt)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def is_empty(stmt: Stmt) -> bool:
    return isinstance(stmt, Seq) and not stmt.stmts
