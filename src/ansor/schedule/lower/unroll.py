"""Pass 9: unrolled loops become copies of their body.

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
from ansor.ir.visit import map_stmt, rebuild, seq, variables

MAX_STATEMENTS = 2048  # of one unrolled region


def unroll(stmt: Stmt) -> Stmt:
    """Replace every unrolled loop of a program by copies of its body."""
    return _Unroll().visit(stmt, {})


class _Unroll:
    """Copies share what they have in common: an expression is folded once for each
    combination of the variables it really uses."""

    def __init__(self) -> None:
        self.names: dict[int, tuple[str, ...]] = {}
        self.folded: dict[tuple[int, tuple[int | None, ...]], Expr] = {}
        self.forms: dict[int, Linear] = {}
        self.alive: list[Expr] = []  # so that ids stay their own

    def visit(self, stmt: Stmt, values: dict[str, int]) -> Stmt:
        match stmt:
            case For(kind="unroll") if _size(stmt) <= MAX_STATEMENTS:
                name = stmt.var.name
                return seq(
                    *(
                        self.visit(stmt.body, {**values, name: n})
                        for n in range(stmt.extent)
                    )
                )
            case For(kind="unroll"):
                return self.visit(replace(stmt, kind="serial"), values)
            case _:
                return map_stmt(
                    stmt,
                    lambda e: self.fold(e, values),
                    lambda s: self.visit(s, values),
                )

    def fold(self, expr: Expr, values: Mapping[str, int]) -> Expr:
        """Put the values of unrolled variables in; index sums are folded too."""
        if isinstance(expr, Const) or not values:
            return expr
        names = self.names.get(id(expr))
        if names is None:
            names = self.names[id(expr)] = tuple(variables(expr))
            self.alive.append(expr)
        key = (id(expr), tuple(map(values.get, names)))
        found = self.folded.get(key)
        if found is None:
            found = self.folded[key] = self._fold(expr, values)
        return found

    def _fold(self, expr: Expr, values: Mapping[str, int]) -> Expr:
        if isinstance(expr, Var):
            value = values.get(expr.name)
            return expr if value is None else Const(value)
        if expr.dtype == INDEX and expr.lanes == 1:
            form = self.forms.get(id(expr))
            if form is None:
                form = self.forms[id(expr)] = linear(expr)
            return self._sum(form, values).expr()
        return rebuild(expr, lambda e: self.fold(e, values))

    def _sum(self, form: Linear, values: Mapping[str, int]) -> Linear:
        total = Linear(form.const)
        for atom, c in form.terms.items():
            if isinstance(atom, Var):
                value = values.get(atom.name)
                if value is None:
                    total.terms[atom] = total.terms.get(atom, 0) + c
                else:
                    total.const += c * value
            else:
                new = rebuild(atom, lambda e: self.fold(e, values))
                total = total.plus(linear(simplify(new, {})), c)
        return total


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
