"""Pass 6: unrolled loops become copies of their body.

    for i in 2:  # unroll        A[0] = 1
        A[i] = i + 1      ==>    A[1] = 2

A loop whose copies would exceed the limit on statements stays a loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ansor.ir.affine import Linear, linear
from ansor.ir.dtypes import INDEX
from ansor.ir.expr import Const, Expr, Var
from ansor.ir.simplify import simplify
from ansor.ir.stmt import Allocate, For, If, Seq, Stmt
from ansor.ir.visit import map_stmt, rebuild, seq

MAX_STATEMENTS = 2048  # of one unrolled region


def unroll(stmt: Stmt) -> Stmt:
    """Replace every unrolled loop of a program by copies of its body."""
    return _visit(stmt, {})


def _visit(stmt: Stmt, values: dict[str, int]) -> Stmt:
    match stmt:
        case For(kind="unroll") if _size(stmt) <= MAX_STATEMENTS:
            name = stmt.var.name
            copies = (
                _visit(stmt.body, {**values, name: n}) for n in range(stmt.extent)
            )
            return seq(*copies)
        case For(kind="unroll"):
            return _visit(replace(stmt, kind="serial"), values)
        case For() | If() | Seq() | Allocate():
            return map_stmt(
                stmt, lambda e: _fold(e, values), lambda s: _visit(s, values)
            )
        case _:
            return map_stmt(stmt, lambda e: _fold(e, values))


def _size(stmt: Stmt) -> int:
    """Statements after unrolling."""
    match stmt:
        case For(kind="unroll"):
            return stmt.extent * _size(stmt.body)
        case For(body=body) | Allocate(body=body):
            return _size(body)
        case If(_, then, otherwise):
            return _size(then) + (0 if otherwise is None else _size(otherwise))
        case Seq(stmts):
            return sum(map(_size, stmts))
        case _:
            return 1


def _fold(expr: Expr, values: Mapping[str, int]) -> Expr:
    """Put the values of unrolled variables in; index sums are folded on the way."""
    kind = type(expr)
    if kind is Const or not values:
        return expr
    if kind is Var:
        value = values.get(expr.name)  # type: ignore[union-attr]
        return expr if value is None else Const(value)
    if expr.dtype == INDEX and expr.lanes == 1:
        return _sum(linear(expr), values).expr()
    return rebuild(expr, lambda e: _fold(e, values))


def _sum(form: Linear, values: Mapping[str, int]) -> Linear:
    total = Linear(form.const)
    for atom, c in form.terms.items():
        if isinstance(atom, Var):
            value = values.get(atom.name)
            if value is None:
                total.terms[atom] = total.terms.get(atom, 0) + c
            else:
                total.const += c * value
        else:
            new = rebuild(atom, lambda e: _fold(e, values))
            total = total.plus(linear(simplify(new, {})), c)
    return total
