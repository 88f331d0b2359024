"""Pass 3: cut loops where a condition changes, so that the interior needs no test.

    for i in 4:                          for i in 3:
        for j in 8:                          for j in 8:
            if i*8 + j < 29:     ==>             body
                body                     for j in 5:
                                             body(i = 3)

A parallel loop is not cut, which would fork twice; its body is specialised instead.
Conditions inside `select` count too: that is how the borders of a padded convolution
are separated from its interior.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from ansor.ir.affine import Ranges, linear
from ansor.ir.dtypes import INDEX
from ansor.ir.expr import Binary, Const, Expr, Select, Var
from ansor.ir.simplify import simplify_stmt
from ansor.ir.stmt import Allocate, For, If, Seq, Stmt
from ansor.ir.visit import (
    expressions,
    map_stmt,
    seq,
    statements,
    substatements,
    substitute_stmt,
    walk,
)

MAX_PIECES = 6  # a loop that would fall into more keeps its conditions


def partition(stmt: Stmt, ranges: Ranges | None = None) -> Stmt:
    """Cut the loops of a program at the points where its conditions change."""
    return _Partition().visit(stmt, dict(ranges or {}))


class _Partition:
    def __init__(self) -> None:
        self.known: dict[int, _Facts] = {}

    def visit(self, stmt: Stmt, ranges: dict[str, tuple[int, int]]) -> Stmt:
        match stmt:
            case For():
                return self.loop(stmt, ranges)
            case If() | Seq() | Allocate():
                return map_stmt(stmt, lambda e: e, lambda s: self.visit(s, ranges))
            case _:
                return stmt

    def loop(self, loop: For, ranges: dict[str, tuple[int, int]]) -> Stmt:
        cuts = self.cuts(loop, loop.body, ranges)
        inner = {**ranges, loop.var.name: (0, loop.extent - 1)}
        if len(cuts) >= MAX_PIECES:
            body = self.visit(loop.body, inner)
        elif cuts and not self.is_branching(loop, ranges):
            pieces = _pieces(loop, cuts)
            return seq(*(self.piece(loop, start, end, ranges) for start, end in pieces))
        else:
            body = self.specialised(loop, loop.body, inner)
        return For(loop.var, loop.extent, body, loop.kind, loop.reduce, loop.thread)

    def is_branching(self, loop: For, ranges: Ranges) -> bool:
        """True if the body should branch, rather than the loop be cut.

        So it is for parallel loops, and where only a part of the body has conditions (a
        stage computed there, say): cutting the loop would copy the rest of it, too.
        """
        if loop.kind in ("parallel", "thread"):
            return True
        body = loop.body
        while isinstance(body, Allocate):
            body = body.body
        if loop.kind != "serial" or not isinstance(body, Seq):
            return False
        return any(_is_nest(s) and not self.cuts(loop, s, ranges) for s in body.stmts)

    def piece(self, loop: For, start: int, end: int, ranges: Ranges) -> Stmt:
        """The iterations from `start` to `end` as a loop of their own."""
        if end - start == 1:
            body = substitute_stmt(loop.body, {loop.var.name: Const(start)})
            return self.visit(simplify_stmt(body, ranges), dict(ranges))
        body = loop.body
        if start > 0:
            moved = Binary("add", loop.var, Const(start))
            body = substitute_stmt(body, {loop.var.name: moved})
        inner = {**ranges, loop.var.name: (0, end - start - 1)}
        body = self.visit(simplify_stmt(body, inner), inner)
        if isinstance(body, Seq) and not body.stmts:
            return body
        return For(loop.var, end - start, body, loop.kind, loop.reduce, loop.thread)

    def specialised(
        self, loop: For, stmt: Stmt, ranges: dict[str, tuple[int, int]]
    ) -> Stmt:
        """A part of the body of a loop, branching on where the loop is."""
        cuts = self.cuts(loop, stmt, ranges)
        if not cuts:
            return self.visit(stmt, ranges)
        if isinstance(stmt, Allocate):
            return Allocate(stmt.buffer, self.specialised(loop, stmt.body, ranges))
        if isinstance(stmt, Seq) and not all(
            self.cuts(loop, s, ranges) for s in stmt.stmts
        ):
            return seq(*(self.specialised(loop, s, ranges) for s in stmt.stmts))
        result: Stmt | None = None
        for start, end in reversed(_pieces(loop, cuts)):
            inner = {**ranges, loop.var.name: (start, end - 1)}
            if end - start == 1:
                case = substitute_stmt(stmt, {loop.var.name: Const(start)})
            else:
                case = stmt
            case = self.visit(simplify_stmt(case, inner), inner)
            here = Binary("lt", loop.var, Const(end))
            result = case if result is None else If(here, case, result)
        assert result is not None
        return result

    def cuts(self, loop: For, stmt: Stmt, ranges: Ranges) -> list[int]:
        """The iterations at which some condition in `stmt` changes its state."""
        facts = _facts(stmt, self.known)
        cuts: set[int] = set()
        for condition in facts.conditions:
            cuts |= _condition_cuts(condition, loop, facts.ranges, ranges)
        return sorted(cut for cut in cuts if 0 < cut < loop.extent)


def _pieces(loop: For, cuts: list[int]) -> list[tuple[int, int]]:
    return list(zip([0, *cuts], [*cuts, loop.extent], strict=True))


def _is_nest(stmt: Stmt) -> bool:
    return any(isinstance(child, For) for child in statements(stmt))


@dataclass(frozen=True, slots=True)
class _Facts:
    """What `cuts` asks of a statement, gathered once from its children."""

    stmt: Stmt  # kept alive, so that its id stays its own
    conditions: dict[Binary, None]
    ranges: dict[str, tuple[int, int]]  # of the loops inside


def _facts(stmt: Stmt, known: dict[int, _Facts]) -> _Facts:
    facts = known.get(id(stmt))
    if facts is None:
        facts = _Facts(stmt, {}, {})
        for child in substatements(stmt):
            inner = _facts(child, known)
            facts.conditions.update(inner.conditions)
            facts.ranges.update(inner.ranges)
        if isinstance(stmt, For):
            facts.ranges[stmt.var.name] = (0, stmt.extent - 1)
        facts.conditions.update(dict.fromkeys(_conditions(stmt)))
        known[id(stmt)] = facts
    return facts


def _conditions(stmt: Stmt) -> Iterator[Binary]:
    """The index comparisons that decide something in one statement."""
    if isinstance(stmt, If):
        yield from _comparisons(stmt.condition)
    for expr in expressions(stmt):
        for node in walk(expr):
            if isinstance(node, Select):
                yield from _comparisons(node.condition)
            elif _is_index(node, ("min", "max")):
                yield Binary("lt", node.a, node.b)


def _comparisons(condition: Expr) -> Iterator[Binary]:
    for node in walk(condition):
        if _is_index(node, ("lt", "le")):
            yield node


def _is_index(node: Expr, ops: tuple[str, ...]) -> TypeGuard[Binary]:
    return isinstance(node, Binary) and node.op in ops and node.a.dtype == INDEX


def _condition_cuts(
    condition: Binary, loop: For, inner: Ranges, outer: Ranges
) -> set[int]:
    """Where `condition` switches between always, sometimes and never.

    A condition on loops around this one counts only if one cut decides it for all
    their iterations: blocks of equal length that the outer loop moves.
    """
    form = linear(condition.a).plus(linear(condition.b), -1)
    step = form.terms.pop(loop.var, 0)
    names = [a.name if isinstance(a, Var) else "" for a in form.terms]
    if step == 0 or not all(name in inner or name in outer for name in names):
        return set()
    low, high = form.interval({**outer, **inner})
    if condition.op == "le":
        low, high = low - 1, high - 1
    if step < 0:  # mirrored: t*v > rest
        t = -step
        cuts = {high // t + 1, low // t + 1}
    else:
        cuts = {-(high // step), -(low // step)}
    return cuts if len(cuts) == 1 or all(name in inner for name in names) else set()
