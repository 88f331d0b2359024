"""Loops whose body is guarded by an upper bound of their variable."""

from __future__ import annotations

from dataclasses import dataclass

from ansor.ir.affine import Linear, linear
from ansor.ir.dtypes import INDEX
from ansor.ir.expr import Binary, Expr
from ansor.ir.stmt import For, If, Stmt
from ansor.ir.visit import loads, variables


@dataclass(frozen=True)
class Bound:
    """`form + step * variable < total`, where the form does not use the variable."""

    form: Linear
    step: int
    total: int


def bounds(loop: For) -> tuple[Stmt, list[Bound]]:
    """The body of a loop without the conditions that are bounds, and these."""
    body = loop.body
    found: list[Bound] = []
    while isinstance(body, If) and body.otherwise is None:
        bound = _bound(loop, body.condition)
        if bound is None:
            break
        found.append(bound)
        body = body.then
    return body, found


def _bound(loop: For, condition: Expr) -> Bound | None:
    if not isinstance(condition, Binary) or condition.op != "lt":
        return None
    if condition.a.dtype != INDEX or any(True for _ in loads(condition)):
        return None
    form = linear(condition.a).plus(linear(condition.b), -1)
    step = form.terms.pop(loop.var, 0)
    if step <= 0 or any(loop.var.name in variables(atom) for atom in form.terms):
        return None
    return Bound(Linear(0, form.terms), step, -form.const)
