"""The first half of pass 3: conditions that nothing unrolled decides stay conditions.

    for c0: for c1: for x:  # vectorize        for c0: for c1:
        if c0*24 + c1 < 64:             ==>        if c0*24 + c1 < 64:
            body                                       for x:  # vectorize
                                                           body

They are moved out to the loop that decides them, where a test costs little (code
generation makes it the bound of the loop). Cutting the loops instead would copy
everything inside them, once for each dimension. Only what decides unrolled and
vectorised loops is left to be cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd
from typing import TypeGuard

from ansor.ir.affine import Linear, Ranges, linear
from ansor.ir.dtypes import INDEX
from ansor.ir.expr import Binary, Const, Expr, Select, Var
from ansor.ir.simplify import FALSE, simplify_stmt
from ansor.ir.stmt import Allocate, For, If, Seq, Stmt, Store
from ansor.ir.visit import (
    is_empty,
    map_stmt,
    rebuild,
    seq,
    statements,
    substitute_stmt,
    variables,
    walk,
    with_body,
)

COPIED = ("unroll", "vectorize")


def copied_names(stmt: Stmt) -> frozenset[str]:
    """The loops that are written out."""
    return frozenset(
        s.var.name for s in statements(stmt) if isinstance(s, For) and s.kind in COPIED
    )


def stays(condition: Binary, copied: frozenset[str]) -> bool:
    """True if a comparison stays a test: several loops decide it, none written out.

    Where nothing at all is written out, copies are short, and everything is cut.
    """
    names = variables(condition)
    return bool(copied) and len(names) > 1 and names.isdisjoint(copied)


def conjuncts(condition: Expr) -> Iterator[Expr]:
    """The parts of a condition that all have to hold."""
    if isinstance(condition, Binary) and condition.op == "and":
        yield from conjuncts(condition.a)
        yield from conjuncts(condition.b)
    else:
        yield condition


def is_comparison(e: Expr) -> TypeGuard[Binary]:
    return isinstance(e, Binary) and e.op in ("lt", "le") and e.a.dtype == INDEX


def settle(stmt: Stmt) -> Stmt:
    """Move the conditions that stay to where they are decided."""
    loops = [s for s in statements(stmt) if isinstance(s, For)]
    if any(loop.kind == "thread" for loop in loops):
        return stmt
    settler = _Settler(copied_names(stmt))
    guards, body = settler.visit(stmt, {})
    return _wrapped(guards, body)


Guards = tuple[Expr, ...]


def _wrapped(guards: Guards, stmt: Stmt) -> Stmt:
    for condition in reversed(guards):
        stmt = If(condition, stmt)
    return stmt


class _Settler:
    """Visits give the conditions around a whole statement, and what they guard."""

    def __init__(self, copied: frozenset[str]) -> None:
        self.copied = copied

    def visit(self, stmt: Stmt, ranges: Ranges) -> tuple[Guards, Stmt]:
        match stmt:
            case For():
                return self.loop(stmt, ranges)
            case If(condition, then, None) if is_comparison(condition):
                return self.guard(condition, then, ranges)
            case If(condition, then, otherwise):
                return self.branch(condition, then, otherwise, ranges)
            case Seq(stmts):
                return self.sequence([self.visit(s, ranges) for s in stmts])
            case Allocate(buffer, body):
                guards, body = self.visit(body, ranges)
                return guards, Allocate(buffer, body)
            case Store():
                return (), self.store(stmt)
            case _:
                return (), stmt

    def guard(
        self, condition: Binary, then: Stmt, ranges: Ranges
    ) -> tuple[Guards, Stmt]:
        guards, body = self.visit(then, ranges)
        whole = _whole_blocks(condition, self.copied, ranges)
        if stays(whole, self.copied):
            return tuple(dict.fromkeys((whole, *guards))), body
        return guards, self.outwards(body, lambda s: If(condition, s))

    def outwards(
        self, stmt: Stmt, wrap: Callable[[Stmt], Stmt], name: str = ""
    ) -> Stmt:
        """`wrap` around a statement, or around both sides of a test that it cannot
        change (nor can the loop called `name`)."""
        if isinstance(stmt, If) and stmt.otherwise is not None:
            then, otherwise = stmt.then, stmt.otherwise
            if self.is_decided(stmt.condition, name):
                return If(stmt.condition, wrap(then), wrap(otherwise))
        return wrap(stmt)

    def branch(
        self, condition: Expr, then: Stmt, otherwise: Stmt | None, ranges: Ranges
    ) -> tuple[Guards, Stmt]:
        if otherwise is None:
            guards, body = self.visit(then, ranges)
            return (), If(condition, _wrapped(guards, body))
        common, both = self.common([self.visit(s, ranges) for s in (then, otherwise)])
        return common, If(condition, both[0], both[1])

    def sequence(self, parts: list[tuple[Guards, Stmt]]) -> tuple[Guards, Stmt]:
        common, stmts = self.common(parts)
        return common, seq(*stmts)

    def common(self, parts: list[tuple[Guards, Stmt]]) -> tuple[Guards, list[Stmt]]:
        """The conditions around all of some statements, and the others at each."""
        if not parts:
            return (), []
        shared = tuple(
            c for c in parts[0][0] if all(c in guards for guards, _ in parts)
        )
        rest = [
            _wrapped(tuple(c for c in guards if c not in shared), stmt)
            for guards, stmt in parts
        ]
        return shared, rest

    def loop(self, loop: For, ranges: Ranges) -> tuple[Guards, Stmt]:
        name = loop.var.name
        inner = {**ranges, name: (0, loop.extent - 1)}
        guards, body = self.visit(loop.body, inner)
        if loop.kind == "parallel":
            return (), with_body(loop, _wrapped(guards, body))
        own = tuple(c for c in guards if name in variables(c))
        outer = tuple(c for c in guards if c not in own)
        return outer, self.outwards(
            body, lambda s: self.tail(with_body(loop, _wrapped(own, s)), ranges), name
        )

    def is_decided(self, condition: Expr, name: str) -> bool:
        """True for a test that was made here, and does not change in a loop."""
        return name not in variables(condition) and all(
            is_comparison(c) and stays(c, self.copied) for c in conjuncts(condition)
        )

    def store(self, store: Store) -> Stmt:
        """A test instead of a selection, as far as nothing written out decides it."""
        tests: dict[tuple[Expr, ...], None] = {}
        for node in walk(store.value):
            if isinstance(node, Select):
                kept = self.kept(node.condition)
                if kept:
                    tests[kept] = None
        if len(tests) != 1:
            return store
        (kept,) = tests
        condition = kept[0]
        for more in kept[1:]:
            condition = Binary("and", condition, more)
        return If(
            condition,
            self.chosen(store, kept, True),
            self.chosen(store, kept, False),
        )

    def kept(self, condition: Expr) -> tuple[Expr, ...]:
        return tuple(
            c
            for c in conjuncts(condition)
            if is_comparison(c) and stays(c, self.copied)
        )

    def chosen(self, store: Store, kept: tuple[Expr, ...], holds: bool) -> Stmt:
        def visit(e: Expr) -> Expr:
            if isinstance(e, Select) and self.kept(e.condition) == kept:
                if not holds:
                    return visit(e.b)
                rest = [c for c in conjuncts(e.condition) if c not in kept]
                if not rest:
                    return visit(e.a)
                condition = rest[0]
                for more in rest[1:]:
                    condition = Binary("and", condition, more)
                return Select(condition, visit(e.a), visit(e.b))
            return rebuild(e, visit)

        return Store(store.buffer, store.indices, visit(store.value), store.active)

    def tail(self, loop: For, ranges: Ranges) -> Stmt:
        """A reduction whose last unrolled steps are fewer: all full ones in a loop,
        then the rest in the one iteration that has it."""
        if not loop.reduce or loop.kind != "serial":
            return loop
        found = _tails(loop, self.copied, ranges)
        if found is None:
            return loop
        conditions, start, step, total = found
        rest = total % step
        inner = {**ranges, loop.var.name: (0, loop.extent - 1)}
        if not is_empty(simplify_stmt(_assumed(loop.body, conditions, 0), inner)):
            return loop
        where = _position(start, total - rest, loop, ranges)
        if where is None:
            return loop
        full = _assumed(loop.body, conditions, step)
        fits = Binary("lt", start.expr(), Const(total - step + 1))
        part: Stmt = _assumed(loop.body, conditions, rest)
        part = substitute_stmt(part, {loop.var.name: Const(where[loop.var.name])})
        for name, value in where.items():
            if name != loop.var.name:
                part = If(Binary("eq", Var(name), Const(value)), part)
        return seq(with_body(loop, If(fits, full)), part)


def _split(
    condition: Binary, copied: frozenset[str], ranges: Ranges
) -> tuple[Linear, Linear, int, int] | None:
    """(start of a block, position inside, length of blocks, end) of a condition that
    keeps a sum of loops below a number, where written-out loops count inside blocks."""
    if condition.op != "lt":
        return None
    form = linear(condition.a).plus(linear(condition.b), -1)
    start, inside = Linear(0), Linear(0)
    for atom, c in form.terms.items():
        if not isinstance(atom, Var) or c <= 0 or atom.name not in ranges:
            return None
        (inside if atom.name in copied else start).terms[atom] = c
    if not start.terms or not inside.terms or form.const >= 0:
        return None
    step = gcd(*start.terms.values())
    low, high = inside.interval(ranges)
    return (start, inside, step, -form.const) if low == 0 and high < step else None


def _whole_blocks(condition: Binary, copied: frozenset[str], ranges: Ranges) -> Binary:
    """An equal condition on the blocks alone, where they divide."""
    parts = _split(condition, copied, ranges)
    if parts is None or parts[3] % parts[2]:
        return condition
    return Binary("lt", parts[0].expr(), Const(parts[3]))


def _tails(
    loop: For, copied: frozenset[str], ranges: Ranges
) -> tuple[dict[Binary, Expr], Linear, int, int] | None:
    """The conditions that cut the blocks short which the loop, and others around it,
    run through: with the position inside; start, length and end of the blocks."""
    inner = {**ranges, loop.var.name: (0, loop.extent - 1)}
    for child in statements(loop.body):
        if isinstance(child, For):
            inner[child.var.name] = (0, child.extent - 1)
    found: dict[Binary, Expr] = {}
    blocks: tuple[Linear, int, int] | None = None
    for child in statements(loop.body):
        if not isinstance(child, If) or not is_comparison(child.condition):
            continue
        parts = _split(child.condition, copied, inner)
        if parts is None or loop.var not in parts[0].terms or len(parts[0].terms) < 2:
            continue
        start, inside, step, total = parts
        if any(_name(a) not in ranges and a != loop.var for a in start.terms):
            continue  # a loop further in asks
        if blocks is not None and blocks != (start, step, total):
            return None
        blocks = start, step, total
        found[child.condition] = inside.expr()
    return None if blocks is None else (found, *blocks)


def _name(atom: Expr) -> str:
    assert isinstance(atom, Var)
    return atom.name


def _assumed(stmt: Stmt, conditions: dict[Binary, Expr], left: int) -> Stmt:
    """The statement in a block with so many iterations left."""

    def known(e: Expr) -> Expr:
        inside = conditions.get(e) if isinstance(e, Binary) else None
        if inside is None:
            return e
        return FALSE if left == 0 else Binary("lt", inside, Const(left))

    return map_stmt(stmt, known)


def _position(
    start: Linear, at: int, loop: For, ranges: Ranges
) -> dict[str, int] | None:
    """The iterations of all loops of a sum that give `at`; None if not unique."""
    found: dict[str, int] = {}
    inner = {**ranges, loop.var.name: (0, loop.extent - 1)}
    terms = sorted(start.terms.items(), key=lambda term: -term[1])
    below = Linear(0, dict(terms))
    for atom, step in terms:
        del below.terms[atom]
        if below.interval(inner)[1] >= step:
            return None
        found[_name(atom)], at = divmod(at, step)
        if found[_name(atom)] > inner[_name(atom)][1]:
            return None
    return found if at == 0 else None
