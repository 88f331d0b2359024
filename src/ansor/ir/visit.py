"""Walking and rebuilding expressions and statements."""

from collections.abc import Callable, Iterator, Mapping
from typing import assert_never

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

Rewrite = Callable[[Expr], Expr]


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct operands of an expression."""
    match expr:
        case Var() | Const():
            return ()
        case Binary(_, a, b):
            return (a, b)
        case Call(_, args):
            return args
        case Select(condition, a, b):
            return (condition, a, b)
        case Cast(value) | Broadcast(value) | Lanes(_, value):
            return (value,)
        case Load(_, indices):
            return indices
        case Ramp(base):
            return (base,)
        case _:
            assert_never(expr)


def rebuild(expr: Expr, rewrite: Rewrite) -> Expr:
    """The same expression with every direct operand rewritten."""
    match expr:
        case Var() | Const():
            return expr
        case Binary(op, a, b):
            return Binary(op, rewrite(a), rewrite(b))
        case Call(function, args):
            return Call(function, tuple(map(rewrite, args)))
        case Select(condition, a, b):
            return Select(rewrite(condition), rewrite(a), rewrite(b))
        case Cast(value, dtype):
            return Cast(rewrite(value), dtype)
        case Load(buffer, indices, active):
            return Load(buffer, tuple(map(rewrite, indices)), active)
        case Ramp(base, stride, lanes):
            return Ramp(rewrite(base), stride, lanes)
        case Broadcast(value, lanes):
            return Broadcast(rewrite(value), lanes)
        case Lanes(op, value, active):
            return Lanes(op, rewrite(value), active)
        case _:
            assert_never(expr)


def walk(expr: Expr) -> Iterator[Expr]:
    """Every node of an expression, operands after their parent."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(children(node))


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
        case For():
            return For(stmt.var, stmt.extent, child(stmt.body), stmt.kind,
                       stmt.reduce, stmt.thread)  # fmt: skip
        case Store(buffer, indices, value, active):
            return Store(buffer, tuple(map(on_expr, indices)), on_expr(value), active)
        case If(condition, then, otherwise):
            rest = None if otherwise is None else child(otherwise)
            return If(on_expr(condition), child(then), rest)
        case Seq(stmts):
            return Seq(tuple(map(child, stmts)))
        case Allocate(buffer, body):
            return Allocate(buffer, child(body))
        case Prefetch(buffer, indices, write):
            return Prefetch(buffer, tuple(map(on_expr, indices)), write)
        case _:
            assert_never(stmt)


def substitute_stmt(stmt: Stmt, values: Mapping[str, Expr]) -> Stmt:
    """Replace variables in a whole statement."""
    return map_stmt(stmt, lambda e: substitute(e, values))


def statements(stmt: Stmt) -> Iterator[Stmt]:
    """Every statement below (and including) `stmt`, in program order."""
    yield stmt
    match stmt:
        case For(body=body) | Allocate(body=body):
            yield from statements(body)
        case If(_, then, otherwise):
            yield from statements(then)
            if otherwise is not None:
                yield from statements(otherwise)
        case Seq(stmts):
            for child in stmts:
                yield from statements(child)


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
