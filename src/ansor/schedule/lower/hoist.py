"""Pass 4: what a loop computes again and again is computed once, before it.

    for j in 768:                             t = rsqrt(S[i] + 1e-5)
        Y[j] = X[j] * rsqrt(S[i] + 1e-5)  ==> for j in 768:
                                                  Y[j] = X[j] * t

Only work that is worth a register is moved (function calls, divisions, and loads of
one element), out of loops long enough to pay, and never past a condition that might
protect it.
"""

from __future__ import annotations

from ansor.ir.dtypes import INDEX
from ansor.ir.expr import Binary, Buffer, Call, Expr, Load, Select
from ansor.ir.stmt import Allocate, For, If, Prefetch, Seq, Stmt, Store
from ansor.ir.visit import map_stmt, rebuild, seq, statements, variables, walk

# Iterations from which a loop is worth it; short vectorised loops become straight
# code, in which a repeated load costs nothing.
SHORTEST = {"serial": 9, "vectorize": 129}
CHEAP = ("neg", "not", "abs")


def hoist(stmt: Stmt) -> Stmt:
    """Move invariant work out of the loops of a program, outermost loops first."""
    return _Hoist().visit(stmt)


class _Hoist:
    def __init__(self) -> None:
        self.count = 0

    def visit(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, For):
            return self.loop(stmt)
        return map_stmt(stmt, lambda e: e, self.visit)

    def loop(self, loop: For) -> Stmt:
        moved: dict[Expr, Buffer] = {}
        if loop.extent >= SHORTEST.get(loop.kind, loop.extent + 1):
            for expr in dict.fromkeys(_invariants(loop)):
                name = f"{loop.var.name}.t{self.count}"
                moved[expr] = Buffer(name, (), expr.dtype, "register")
                self.count += 1
        body = self.visit(_replaced(loop.body, moved) if moved else loop.body)
        result: Stmt = For(
            loop.var, loop.extent, body, loop.kind, loop.reduce, loop.thread
        )
        for expr, buffer in moved.items():
            result = seq(Store(buffer, (), expr), result)
        for buffer in moved.values():
            result = Allocate(buffer, result)
        return result


def _replaced(stmt: Stmt, moved: dict[Expr, Buffer]) -> Stmt:
    def visit(e: Expr) -> Expr:
        if e in moved:
            return Load(moved[e], ())
        return rebuild(e, visit)

    return map_stmt(stmt, visit, lambda s: _replaced(s, moved))


def _invariants(loop: For) -> list[Expr]:
    """The largest expressions below a loop that are the same in every iteration."""
    children = list(statements(loop.body))
    bound = {loop.var.name} | {s.var.name for s in children if isinstance(s, For)}
    written = {s.buffer.name for s in children if isinstance(s, Store)}
    found: list[Expr] = []
    for value in _certain(loop.body):
        found += _largest(value, bound, written)
    return found


def _certain(stmt: Stmt) -> list[Expr]:
    """Values that are stored in every iteration, whatever the conditions."""
    match stmt:
        case Store(value=value):
            return [value]
        case For(body=body) | Allocate(body=body):
            return _certain(body)
        case Seq(stmts):
            return [value for child in stmts for value in _certain(child)]
        case If() | Prefetch():
            return []


def _largest(e: Expr, bound: set[str], written: set[str]) -> list[Expr]:
    if e.dtype == INDEX or isinstance(e, Select):
        return []
    if _is_costly(e) and _is_invariant(e, bound, written):
        return [e]
    if isinstance(e, Binary):
        return _largest(e.a, bound, written) + _largest(e.b, bound, written)
    if isinstance(e, Call):
        return [x for a in e.args for x in _largest(a, bound, written)]
    return []


def _is_costly(e: Expr) -> bool:
    return any(
        isinstance(n, Load)
        or (isinstance(n, Call) and n.function not in CHEAP)
        or (isinstance(n, Binary) and n.op in ("div", "pow"))
        for n in walk(e)
    )


def _is_invariant(e: Expr, bound: set[str], written: set[str]) -> bool:
    if variables(e) & bound:
        return False
    return not any(
        isinstance(n, Select) or (isinstance(n, Load) and n.buffer.name in written)
        for n in walk(e)
    )
