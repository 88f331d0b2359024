"""Pass 3: cut loops where a condition changes, so that the interior needs no test.

    for i in 4:                          for i in 3:
        for j in 8:                          for j in 8:
            if i*8 + j < 29:     ==>             body
                body                     for j in 5:
                                             body(i = 3)

A parallel loop is not cut, which would fork twice; its body is specialised instead.
Conditions inside `select` count too: that is how the borders of a padded convolution
are separated from its interior.

Where several levels of blocks lie around a tile, cutting each of them would copy the
tile many times. The tail of a tile is the same whichever blocks lead to it, so only
the innermost loop around the tile asks, each time: full, the tail, or nothing left.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd
from typing import TypeGuard

from ansor.ir.affine import Linear, Ranges, linear
from ansor.ir.dtypes import INDEX
from ansor.ir.expr import Binary, Const, Expr, Select, Var
from ansor.ir.simplify import FALSE, simplify_stmt
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
from ansor.schedule.lower.settle import conjuncts, copied_names, settle, stays

MAX_PIECES = 6  # a loop that would fall into more keeps its conditions


def partition(stmt: Stmt, ranges: Ranges | None = None) -> Stmt:
    """Cut the loops of a program at the points where its conditions change."""
    stmt = settle(stmt)
    return _Partition(copied_names(stmt)).visit(stmt, dict(ranges or {}))


class _Partition:
    def __init__(self, copied: frozenset[str]) -> None:
        self.copied = copied  # loops that are written out
        self.known: dict[int, _Facts] = {}
        self.staying: dict[int, bool] = {}  # by id of a condition, which `known` keeps

    def visit(self, stmt: Stmt, ranges: dict[str, tuple[int, int]]) -> Stmt:
        match stmt:
            case For():
                return self.loop(stmt, ranges)
            case If(Binary("lt", Var(name), Const(value)), then, otherwise) if (
                name in ranges and isinstance(value, int)
            ):
                low, high = ranges[name]
                below = {**ranges, name: (low, min(high, value - 1))}
                above = {**ranges, name: (max(low, value), high)}
                rest = None if otherwise is None else self.visit(otherwise, above)
                return If(stmt.condition, self.visit(then, below), rest)
            case If() | Seq() | Allocate():
                return map_stmt(stmt, lambda e: e, lambda s: self.visit(s, ranges))
            case _:
                return stmt

    def loop(self, loop: For, ranges: dict[str, tuple[int, int]]) -> Stmt:
        inside = loop.body
        if loop.kind == "parallel" and _is_parallel(inside):
            return self.nest((loop,), inside, ranges)
        cuts = self.cuts(loop, loop.body, ranges)
        inner = {**ranges, loop.var.name: (0, loop.extent - 1)}
        tails = self.tails(loop, ranges)
        if tails:
            body = loop.body
            for tail in tails:
                body = tail.branches(body, inner)
            body = self.visit(body, inner)
        elif len(cuts) >= MAX_PIECES:
            body = self.visit(loop.body, inner)
        elif cuts and not self.is_branching(loop, ranges):
            pieces = _pieces(loop, cuts)
            return seq(*(self.piece(loop, start, end, ranges) for start, end in pieces))
        else:
            body = self.visit(self.specialised(loop, loop.body, inner), inner)
        return For(loop.var, loop.extent, body, loop.kind, loop.reduce, loop.thread)

    def nest(
        self, outer: tuple[For, ...], loop: For, ranges: dict[str, tuple[int, int]]
    ) -> Stmt:
        """Parallel loops directly inside each other stay so; their body branches."""
        loops = (*outer, loop)
        if _is_parallel(loop.body):
            return self.nest(loops, loop.body, ranges)
        inner = {**ranges, **{x.var.name: (0, x.extent - 1) for x in loops}}
        body = loop.body
        for x in reversed(loops):
            body = self.specialised(x, body, inner)
        body = self.visit(body, inner)
        for x in reversed(loops):
            body = For(x.var, x.extent, body, "parallel")
        return body

    def tails(self, loop: For, ranges: Ranges) -> list[_Tail]:
        """The tails that the body of a loop has to ask for."""
        if loop.kind != "serial" or loop.reduce:
            return []
        facts = _facts(loop.body, self.known)
        found: dict[tuple[Expr, int, int], dict[Binary, Expr]] = {}
        for condition in facts.guards:
            names = _names(condition)
            if loop.var.name not in names or not names.isdisjoint(facts.blocks):
                continue
            block = _block(condition, facts.ranges, ranges, loop)
            if block is not None and _is_deep(names, facts):
                found.setdefault(block[:3], {})[condition] = block[3]
        return [
            _Tail(conditions, start, step, total)
            for (start, step, total), conditions in found.items()
        ]

    def is_left(self, condition: Binary, facts: _Facts) -> bool:
        """True if a block further in asks about the condition."""
        if condition not in facts.guards:
            return False
        names = _names(condition)
        return not names.isdisjoint(facts.blocks) and _is_deep(names, facts)

    def is_branching(self, loop: For, ranges: Ranges) -> bool:
        """True if the body should branch, rather than the loop be cut.

        So it is for parallel loops, and where only a part of the body has conditions (a
        stage computed there, say): cutting the loop would copy the rest of it, too.
        """
        if loop.kind in ("parallel", "thread"):
            return True
        return loop.kind == "serial" and self.is_shared(loop, loop.body, ranges)

    def is_shared(self, loop: For, stmt: Stmt, ranges: Ranges) -> bool:
        """True if of several nests in a statement some care where the loop is.

        What fills, updates and stores one tile of registers is one nest.
        """
        while isinstance(stmt, Allocate | For) and not _is_tile(stmt):
            if isinstance(stmt, For):
                ranges = {**ranges, stmt.var.name: (0, stmt.extent - 1)}
            stmt = stmt.body
        if not isinstance(stmt, Seq):
            return False
        care = [bool(self.cuts(loop, s, ranges)) for s in stmt.stmts if _is_nest(s)]
        return any(care) and len(care) > 1

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

    def specialised(self, loop: For, stmt: Stmt, ranges: Ranges) -> Stmt:
        """A part of the body of a loop, branching on where the loop is, as far in as
        it takes to copy nothing else."""
        cuts = self.cuts(loop, stmt, ranges)
        if not cuts:
            return stmt
        if isinstance(stmt, Allocate) and not _is_tile(stmt):
            return Allocate(stmt.buffer, self.specialised(loop, stmt.body, ranges))
        if isinstance(stmt, For) and self.is_shared(loop, stmt, ranges):
            inner = {**ranges, stmt.var.name: (0, stmt.extent - 1)}
            return replace(stmt, body=self.specialised(loop, stmt.body, inner))
        if isinstance(stmt, Seq) and self.is_shared(loop, stmt, ranges):
            return seq(*(self.specialised(loop, s, ranges) for s in stmt.stmts))
        result: Stmt | None = None
        for start, end in reversed(_pieces(loop, cuts)):
            inner = {**ranges, loop.var.name: (start, end - 1)}
            if end - start == 1:
                case = substitute_stmt(stmt, {loop.var.name: Const(start)})
            else:
                case = stmt
            case = simplify_stmt(case, inner)
            here = Binary("lt", loop.var, Const(end))
            result = case if result is None else If(here, case, result)
        assert result is not None
        return result

    def stays(self, condition: Binary) -> bool:
        found = self.staying.get(id(condition))
        if found is None:
            found = self.staying[id(condition)] = stays(condition, self.copied)
        return found

    def cuts(self, loop: For, stmt: Stmt, ranges: Ranges) -> list[int]:
        """The iterations at which some condition in `stmt` changes its state."""
        facts = _facts(stmt, self.known)
        cuts: set[int] = set()
        for condition, may_stay in facts.conditions.items():
            if may_stay and self.stays(condition):
                continue
            if not loop.reduce and self.is_left(condition, facts):
                continue
            cuts |= _condition_cuts(condition, loop, facts.ranges, ranges)
        return sorted(cut for cut in cuts if 0 < cut < loop.extent)


def _pieces(loop: For, cuts: list[int]) -> list[tuple[int, int]]:
    return list(zip([0, *cuts], [*cuts, loop.extent], strict=True))


def _is_parallel(stmt: Stmt) -> TypeGuard[For]:
    return isinstance(stmt, For) and stmt.kind == "parallel"


def _is_tile(stmt: Stmt) -> bool:
    return isinstance(stmt, Allocate) and stmt.buffer.scope == "register"


def _is_nest(stmt: Stmt) -> bool:
    return any(isinstance(child, For) for child in statements(stmt))


@dataclass(frozen=True, slots=True)
class _Facts:
    """What `cuts` asks of a statement, gathered once from its children."""

    stmt: Stmt  # kept alive, so that its id stays its own
    conditions: dict[Binary, bool]  # True: a test that may stay
    guards: dict[Binary, None]  # those that protect statements, of upper bounds
    ranges: dict[str, tuple[int, int]]  # of the loops inside
    blocks: set[str]  # loops inside that are spatial and serial
    copied: set[str]  # loops inside that are unrolled or vectorised


def _facts(stmt: Stmt, known: dict[int, _Facts]) -> _Facts:
    facts = known.get(id(stmt))
    if facts is None:
        facts = _Facts(stmt, {}, {}, {}, set(), set())
        for child in substatements(stmt):
            inner = _facts(child, known)
            facts.conditions.update(inner.conditions)
            facts.guards.update(inner.guards)
            facts.ranges.update(inner.ranges)
            facts.blocks.update(inner.blocks)
            facts.copied.update(inner.copied)
        if isinstance(stmt, For):
            facts.ranges[stmt.var.name] = (0, stmt.extent - 1)
            if stmt.kind in ("unroll", "vectorize"):
                facts.copied.add(stmt.var.name)
            elif stmt.kind == "serial" and not stmt.reduce:
                facts.blocks.add(stmt.var.name)
        if isinstance(stmt, If) and stmt.otherwise is None:
            facts.guards.update(dict.fromkeys(_upper_bounds(stmt.condition)))
        facts.conditions.update(_conditions(stmt))
        known[id(stmt)] = facts
    return facts


def _upper_bounds(condition: Expr) -> Iterator[Binary]:
    """The condition, if it keeps a sum of loops below a number."""
    if _is_index(condition, ("lt",)):
        form = linear(condition.a).plus(linear(condition.b), -1)
        if form.const < 0 and all(
            isinstance(atom, Var) and c > 0 for atom, c in form.terms.items()
        ):
            yield condition


@dataclass(frozen=True, slots=True)
class _Tail:
    """Blocks that start at multiples of `step` and end at `total`.

    `start` is where the block at hand starts; each condition compares a position
    inside the block, given with it, and all hold in a full block.
    """

    conditions: dict[Binary, Expr]
    start: Expr
    step: int
    total: int

    def branches(self, body: Stmt, ranges: Ranges) -> Stmt:
        """`body` in a full block, else in the last one, else where none is left."""
        rest = self.total % self.step
        full = simplify_stmt(self.assumed(body, self.step), ranges)
        none = simplify_stmt(self.assumed(body, 0), ranges)
        result = None if isinstance(none, Seq) and not none.stmts else none
        if rest:
            part = simplify_stmt(self.assumed(body, rest), ranges)
            result = If(Binary("lt", self.start, Const(self.total)), part, result)
        fits = Binary("lt", self.start, Const(self.total - self.step + 1))
        return If(fits, full, result)

    def assumed(self, stmt: Stmt, left: int) -> Stmt:
        """The statement in a block with so many iterations left."""

        def known(e: Expr) -> Expr:
            inner = self.conditions.get(e) if isinstance(e, Binary) else None
            if inner is None:
                return e
            return FALSE if left == 0 else Binary("lt", inner, Const(left))

        return map_stmt(stmt, known)


def _names(condition: Binary) -> set[str]:
    """The loops that decide a condition."""
    form = linear(condition.a).plus(linear(condition.b), -1)
    return {atom.name for atom in form.terms if isinstance(atom, Var)}


def _is_deep(names: set[str], facts: _Facts) -> bool:
    """True if cutting every block that a condition speaks of makes many copies."""
    copied = names & facts.copied
    return len(names) - len(copied) >= (2 if copied else 3)


def _block(
    condition: Binary, inner: Ranges, outer: Ranges, loop: For
) -> tuple[Expr, int, int, Expr] | None:
    """(start, step, end of the last block, position inside) of the blocks that a
    condition cuts short; None if they overlap, or no loop further out matters."""
    form = linear(condition.a).plus(linear(condition.b), -1)
    start, inside = Linear(0), Linear(0)
    for atom, c in form.terms.items():
        assert isinstance(atom, Var), "see _upper_bounds"
        if atom.name not in inner and atom != loop.var and atom.name not in outer:
            return None
        (inside if atom.name in inner else start).terms[atom] = c
    if all(atom == loop.var for atom in start.terms):
        return None
    low, high = inside.interval(inner)
    step = gcd(*start.terms.values())
    if low != 0 or high >= step:
        return None
    return start.expr(), step, -form.const, inside.expr()


def _conditions(stmt: Stmt) -> Iterator[tuple[Binary, bool]]:
    """The index comparisons that decide something in one statement, and if they may
    stay tests."""
    if isinstance(stmt, If):
        yield from _comparisons(stmt.condition)
    for expr in expressions(stmt):
        if isinstance(expr, Var | Const):
            continue
        for node in walk(expr):
            if isinstance(node, Select):
                yield from _comparisons(node.condition)
            elif _is_index(node, ("min", "max")):
                yield Binary("lt", node.a, node.b), False


def _comparisons(condition: Expr) -> Iterator[tuple[Binary, bool]]:
    for part in conjuncts(condition):
        for node in walk(part):
            if _is_index(node, ("lt", "le")):
                yield node, node is part


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
