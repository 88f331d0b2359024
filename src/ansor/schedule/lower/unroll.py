"""Pass 5: unrolled loops become copies of their body; registers get fixed places.

    for i in 2:  # unroll        A[0] = 1
        A[i] = i + 1      ==>    A[1] = 2

A loop whose copies would exceed the limit on statements stays a loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ansor.ir.affine import Linear, linear
from ansor.ir.dtypes import INDEX
from ansor.ir.expr import Const, Expr, Load, Ramp, Var
from ansor.ir.stmt import Allocate, For, If, Seq, Stmt, Store
from ansor.ir.visit import (
    expressions,
    map_loads,
    map_stmt,
    rebuild,
    seq,
    statements,
    walk,
)

MAX_STATEMENTS = 2048  # of one unrolled region


def unroll(stmt: Stmt) -> Stmt:
    """Replace every unrolled loop of a program by copies of its body."""
    return _demote(_visit(stmt, {}))


def _visit(stmt: Stmt, values: dict[str, int]) -> Stmt:
    match stmt:
        case For(kind="unroll") if _size(stmt) <= MAX_STATEMENTS:
            name = stmt.var.name
            copies = (_visit(stmt.body, {**values, name: n}) for n in range(stmt.extent))
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
    if not values:
        return expr
    if expr.dtype == INDEX and expr.lanes == 1:
        return _sum(linear(expr), values).expr()
    return rebuild(expr, lambda e: _fold(e, values))


def _sum(form: Linear, values: Mapping[str, int]) -> Linear:
    total = Linear(form.const)
    for atom, c in form.terms.items():
        if isinstance(atom, Var):
            value = values.get(atom.name)
            term = Linear(0, {atom: 1}) if value is None else Linear(value)
        elif isinstance(atom, Const):
            term = Linear(int(atom.value))
        else:
            term = linear(rebuild(atom, lambda e: _fold(e, values)))
        total = total.plus(term, c)
    return total


def _demote(stmt: Stmt) -> Stmt:
    """Register buffers that are still indexed by a variable become local memory."""
    moving: set[str] = set()
    for child in statements(stmt):
        if isinstance(child, Store) and child.buffer.scope == "register":
            if not _is_fixed(child.indices):
                moving.add(child.buffer.name)
        for expr in expressions(child):
            for node in walk(expr):
                if isinstance(node, Load) and node.buffer.scope == "register":
                    if not _is_fixed(node.indices):
                        moving.add(node.buffer.name)
    return _localised(stmt, moving) if moving else stmt


def _is_fixed(indices: tuple[Expr, ...]) -> bool:
    bases = (index.base if isinstance(index, Ramp) else index for index in indices)
    return all(isinstance(base, Const) for base in bases)


def _localised(stmt: Stmt, names: set[str]) -> Stmt:
    def read(load: Load) -> Expr:
        if load.buffer.name not in names:
            return load
        return replace(load, buffer=replace(load.buffer, scope="local"))

    def visit(child: Stmt) -> Stmt:
        child = map_stmt(child, lambda e: map_loads(e, read), visit)
        if isinstance(child, Store | Allocate) and child.buffer.name in names:
            return replace(child, buffer=replace(child.buffer, scope="local"))
        return child

    return visit(stmt)


