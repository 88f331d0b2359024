"""Conditions that no unrolled loop decides stay tests, and copy nothing."""

from __future__ import annotations

import pytest

from ansor.codegen.loops import bounds
from ansor.ir.expr import Binary, Buffer, Const, Load, Var
from ansor.ir.stmt import For, If, Stmt, Store
from ansor.ir.visit import statements
from ansor.schedule.lower.settle import settle

A = Buffer("A", (64,), "float32")
C = Buffer("C", (1,), "float32")


def total(steps: int, extent: int) -> Stmt:
    """The sum of the first elements: two loops, and unrolled steps inside."""
    outer, inner, step = Var("c0"), Var("c1"), Var("c2")
    at = Binary("mul", outer, Const(4 * steps))
    at = Binary("add", at, Binary("mul", inner, Const(steps)))
    at = Binary("add", at, step)
    zero = (Const(0),)
    body: Stmt = Store(C, zero, Binary("add", Load(C, zero), Load(A, (at,))))
    body = If(Binary("lt", at, Const(extent)), body)
    body = For(step, steps, body, "unroll", reduce=True)
    body = For(inner, 4, body, reduce=True)
    return For(outer, -(-extent // (4 * steps)), body, reduce=True)


def stores(stmt: Stmt) -> int:
    return sum(isinstance(s, Store) for s in statements(stmt))


@pytest.mark.parametrize(("extent", "copies"), [(64, 1), (60, 1), (61, 2), (45, 2)])
def test_a_reduction_is_copied_only_for_the_steps_that_are_left(extent, copies):
    assert stores(settle(total(4, extent))) == copies


def test_the_bound_of_a_loop_is_found():
    outer, inner = Var("c0"), Var("c1")
    at = Binary("add", Binary("mul", outer, Const(24)), inner)
    body = Store(C, (Const(0),), Const(1.0, "float32"))
    loop = For(inner, 24, If(Binary("lt", at, Const(64)), body))
    inside, (bound,) = bounds(loop)
    assert inside == body
    assert (bound.step, bound.total) == (1, 64)
    assert bounds(For(outer, 3, body)) == (body, [])
