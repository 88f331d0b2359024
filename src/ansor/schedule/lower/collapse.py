"""Pass 8: parallel loops directly inside each other become one, which forks once.

    for i in 3:  # parallel              for i@j in 12:  # parallel
        for j in 4:  # parallel   ==>        body(i@j // 4, i@j % 4)
            body(i, j)

They were several until here so that tails could be cut by the conditions on each.
"""

from __future__ import annotations

from ansor.ir.expr import Binary, Const, Expr, Var
from ansor.ir.stmt import For, Stmt
from ansor.ir.visit import map_stmt, substitute_stmt


def collapse(stmt: Stmt) -> Stmt:
    """Make one loop of every nest of parallel loops."""
    if isinstance(stmt, For) and stmt.kind == "parallel":
        return _collapsed(stmt)
    return map_stmt(stmt, lambda e: e, collapse)


def _collapsed(loop: For) -> For:
    loops = [loop]
    body = loop.body
    while isinstance(body, For) and body.kind == "parallel":
        loops.append(body)
        body = body.body
    if len(loops) == 1:
        return loop
    fused = Var("@".join(x.var.name for x in loops))
    values: dict[str, Expr] = {}
    below = 1
    for inner in reversed(loops):
        value: Expr = Binary("floordiv", fused, Const(below)) if below > 1 else fused
        if inner is not loop:
            value = Binary("mod", value, Const(inner.extent))
        values[inner.var.name] = value
        below *= inner.extent
    return For(fused, below, substitute_stmt(body, values), "parallel")
