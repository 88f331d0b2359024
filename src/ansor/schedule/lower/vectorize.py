"""Pass 7: vectorised loops become vector statements, with a masked rest.

    for j in 10:  # vectorize          C[0 +: 8] = A[0 +: 8]
        C[j] = A[j]            ==>     C[8 +: 2]:2 = A[8 +: 2]:2     (8 lanes)

The number of lanes is the widest the machine has for the types in the loop. A buffer
that exists inside the loop gets one more axis, so that each lane has its own. A loop
that cannot be vectorised (a condition or an access that differs between lanes in a way
vectors cannot express) runs element by element, with the same result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ansor.ir.affine import Linear, Range, interval, linear
from ansor.ir.dtypes import DTYPES, INDEX
from ansor.ir.expr import (
    Binary,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Lanes,
    Load,
    Ramp,
    Select,
    Var,
)
from ansor.ir.stmt import Allocate, For, If, Prefetch, Seq, Stmt, Store
from ansor.ir.visit import (
    children,
    expressions,
    map_stmt,
    rebuild,
    seq,
    statements,
    substitute,
    substitute_stmt,
    walk,
)

MOST_EXPANDED = 1 << 13  # elements of a buffer, of all lanes: it stays near the core
MAX_COPIES = 8  # more registers full of vectors than this are run by a loop
SHALLOW = ("neg", "not", "abs", "sqrt", "floor", "ceil", "round", "isnan")
COMBINES = ("add", "mul", "min", "max", "and", "or")


class _CannotVectorize(Exception):
    """This loop has to run element by element."""


def vectorize(stmt: Stmt, vector_bits: int, registers: int = 32) -> Stmt:
    """Replace every vectorised loop of a program, for a machine's vector registers."""
    return _visit(stmt, _Machine(vector_bits, registers), {})


class _Machine(NamedTuple):
    bits: int
    registers: int

    @property
    def interleaved(self) -> int:
        """Registers side by side in one vector, where that pays."""
        return self.registers // 8


def _visit(stmt: Stmt, machine: _Machine, ranges: dict[str, Range]) -> Stmt:
    match stmt:
        case For():
            inner = {**ranges, stmt.var.name: (0, stmt.extent - 1)}
            body = _visit(stmt.body, machine, inner)
            loop = For(stmt.var, stmt.extent, body, stmt.kind, stmt.reduce, stmt.thread)
            return _expand(loop, machine, ranges) if stmt.kind == "vectorize" else loop
        case If() | Seq() | Allocate():
            return map_stmt(stmt, lambda e: e, lambda s: _visit(s, machine, ranges))
        case _:
            return stmt


def _expand(loop: For, machine: _Machine, ranges: Mapping[str, Range]) -> Stmt:
    lanes, registers = _lanes(loop, machine)
    try:
        return _vectors(loop, lanes, MAX_COPIES // registers, ranges)
    except _CannotVectorize:
        kind = "unroll" if loop.extent <= 2 * MAX_COPIES else "serial"
        return For(loop.var, loop.extent, loop.body, kind, loop.reduce)


def _lanes(loop: For, machine: _Machine) -> tuple[int, int]:
    """Lanes of a whole vector, as many as fit of the widest type that varies, and the
    registers it takes.

    A long loop around a function gets vectors of several registers: the steps of one
    function value wait for each other, those of several values do not.
    """
    widest, deep = 8, False
    for child in statements(loop.body):
        if isinstance(child, Store):
            widest = max(widest, DTYPES[child.buffer.dtype].bits)
        for expr in expressions(child):
            for node in walk(expr):
                if isinstance(node, Load) or (
                    isinstance(node, Cast) and node.dtype != INDEX
                ):
                    widest = max(widest, DTYPES[node.dtype].bits)
                deep |= isinstance(node, Call) and node.function not in SHALLOW
    lanes = max(machine.bits // widest, 1)
    wide = lanes * machine.interleaved
    return (wide, machine.interleaved) if deep and loop.extent >= wide else (lanes, 1)


def _vectors(loop: For, lanes: int, copies: int, ranges: Mapping[str, Range]) -> Stmt:
    """Whole vectors, up to `copies` of them as copies, else in a loop; and a rest."""
    if lanes == 1 or loop.extent == 1:
        raise _CannotVectorize
    whole, rest = divmod(loop.extent, lanes)
    parts: list[Stmt | None] = []
    if whole == 1:
        parts.append(_Vector(loop.var, Const(0), lanes, lanes, ranges).stmt(loop.body))
    elif whole > 1 and (total := _total(loop, lanes, whole, ranges)) is not None:
        parts.append(total)
    elif whole > 1:
        chunk = Var(f"{loop.var.name}.v")
        inside = {**ranges, chunk.name: (0, whole - 1)}
        base = Binary("mul", chunk, Const(lanes))
        body = _Vector(loop.var, base, lanes, lanes, inside).stmt(loop.body)
        kind = "unroll" if whole <= copies else "serial"
        parts.append(For(chunk, whole, body, kind, loop.reduce))
    if rest == 1:
        last = {loop.var.name: Const(whole * lanes)}
        parts.append(substitute_stmt(loop.body, last))
    elif rest:
        width = 1 << (rest - 1).bit_length()
        start = Const(whole * lanes)
        parts.append(_Vector(loop.var, start, width, rest, ranges).stmt(loop.body))
    return seq(*parts)


def _total(
    loop: For, lanes: int, whole: int, ranges: Mapping[str, Range]
) -> Stmt | None:
    """A reduction of several vectors into one element: combine them lane by lane
    first, then the lanes of what is left."""
    if not isinstance(loop.body, Store) or whole > MAX_COPIES:
        return None
    vectors: list[Expr] = []
    for at in range(whole):
        vector = _Vector(loop.var, Const(at * lanes), lanes, lanes, ranges)
        match vector.stmt(loop.body):
            case Store(value=Binary(op, old, Lanes(_, value))):
                vectors.append(value)
            case _:
                return None
    while len(vectors) > 1:
        pairs = zip(vectors[0::2], vectors[1::2], strict=False)
        rest = vectors[len(vectors) & ~1 :]
        vectors = [Binary(op, a, b) for a, b in pairs] + rest
    total = Binary(op, old, Lanes(op, vectors[0], lanes))
    return Store(loop.body.buffer, loop.body.indices, total)


class _Vector:
    """Rewrites one body for the lanes var = base, base+1, …; `active` of them real."""

    def __init__(
        self, var: Var, base: Expr, lanes: int, active: int, ranges: Mapping[str, Range]
    ) -> None:
        self.var, self.base, self.lanes, self.active = var, base, lanes, active
        low, high = interval(base, ranges)
        self.ranges = {**ranges, var.name: (low, high + active - 1)}
        # By id, with the expression, so that the id stays its own.
        self.varying: dict[int, tuple[Expr, bool]] = {}
        self.private: dict[str, Buffer] = {}  # of each lane its own, by the old name

    @property
    def mask(self) -> int | None:
        return None if self.active == self.lanes else self.active

    def varies(self, expr: Expr) -> bool:
        if isinstance(expr, Var):
            return expr.name == self.var.name
        if isinstance(expr, Load) and expr.buffer.name in self.private:
            return True
        found = self.varying.get(id(expr))
        if found is None:
            varies = any(map(self.varies, children(expr)))
            found = self.varying[id(expr)] = expr, varies
        return found[1]

    def stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case Store():
                return self.store(stmt)
            case For():
                if self.var.name == stmt.var.name or stmt.kind == "parallel":
                    raise _CannotVectorize
                self.ranges[stmt.var.name] = (0, stmt.extent - 1)
                return map_stmt(stmt, lambda e: e, self.stmt)
            case If(condition):
                if self.varies(condition):
                    raise _CannotVectorize
                return map_stmt(stmt, lambda e: e, self.stmt)
            case Seq(stmts):
                return seq(*map(self.stmt, stmts))
            case Prefetch(buffer, indices, write):
                first = tuple(map(self.first, indices))
                if buffer.name in self.private:
                    buffer, first = self.private[buffer.name], (*first, Const(0))
                return Prefetch(buffer, first, write)
            case Allocate(buffer, body):
                return Allocate(self.expanded(buffer), self.stmt(body))
            case _:
                return stmt

    def expanded(self, buffer: Buffer) -> Buffer:
        """The buffer with one more axis: as many elements as there are lanes."""
        if buffer.size * self.lanes > MOST_EXPANDED:
            raise _CannotVectorize
        name, shape = f"{buffer.name}.v{self.lanes}", (*buffer.shape, self.lanes)
        wide = Buffer(name, shape, buffer.dtype, scope=buffer.scope)
        self.private[buffer.name] = wide
        return wide

    def own(self, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Where all lanes have theirs, of a buffer that is expanded."""
        if any(self.varies(index) or index.lanes > 1 for index in indices):
            raise _CannotVectorize
        return (*indices, Ramp(Const(0), 1, self.lanes))

    def first(self, index: Expr) -> Expr:
        return linear(substitute(index, {self.var.name: self.base})).expr()

    def store(self, store: Store) -> Stmt:
        if store.buffer.name in self.private:
            value = self.wide(self.expr(store.value))
            return Store(
                self.private[store.buffer.name], self.own(store.indices), value
            )
        if not any(map(self.varies, store.indices)):
            return self.combine(store)
        if self.overlaps(store):
            raise _CannotVectorize
        indices = tuple(map(self.index, store.indices))
        value = self.wide(self.expr(store.value))
        return Store(store.buffer, indices, value, self.mask)

    def overlaps(self, store: Store) -> bool:
        """True if lanes may write the same element, or read what another wrote."""
        if not any(self.affine(index)[0] for index in store.indices):
            return True
        return any(
            isinstance(node, Load)
            and node.buffer == store.buffer
            and node.indices != store.indices
            for node in walk(store.value)
        )

    def combine(self, store: Store) -> Stmt:
        """A store to one element: a reduction over the lanes, or the same value."""
        own = any(
            isinstance(n, Load) and n.buffer == store.buffer for n in walk(store.value)
        )
        if not own and not self.varies(store.value):
            return store
        match store.value:
            case Binary(op, Load(buffer, indices) as old, value) if (
                op in COMBINES
                and buffer == store.buffer
                and indices == store.indices
                and not any(
                    isinstance(n, Load) and n.buffer == buffer for n in walk(value)
                )
            ):
                vector = self.wide(self.expr(value))
                new = Binary(op, old, Lanes(op, vector, self.active))
                return Store(store.buffer, store.indices, new)
            case _:
                raise _CannotVectorize

    def wide(self, e: Expr) -> Expr:
        return e if e.lanes == self.lanes else Broadcast(e, self.lanes)

    def affine(self, index: Expr) -> tuple[int, Linear]:
        """An index as step * variable + rest; the step is 0 if the rest varies too."""
        rest = linear(index)
        step = rest.terms.pop(self.var, 0)
        return (0 if any(map(self.varies, rest.terms)) else step), rest

    def index(self, e: Expr) -> Expr:
        """An index: a ramp where it is affine in the variable."""
        if not self.varies(e):
            return e
        step, rest = self.affine(e)
        if step == 0:
            return self.expr(e)
        return Ramp(rest.plus(linear(self.base), step).expr(), step, self.lanes)

    def expr(self, e: Expr) -> Expr:
        if not self.varies(e):
            return e
        match e:
            case Var():
                return Ramp(self.base, 1, self.lanes)
            case Load(buffer, indices) if buffer.name in self.private:
                return Load(self.private[buffer.name], self.own(indices))
            case Load(buffer, indices):
                new = tuple(map(self.index, indices))
                return Load(buffer, new, self.mask)
            case Binary(op, a, b):
                return Binary(op, self.wide(self.expr(a)), self.wide(self.expr(b)))
            case Call(function, args):
                return Call(function, tuple(self.wide(self.expr(a)) for a in args))
            case Select(condition, a, b):
                return self.select(condition, a, b)
            case Cast():
                return rebuild(e, lambda x: self.wide(self.expr(x)))
            case _:
                raise _CannotVectorize

    def select(self, condition: Expr, a: Expr, b: Expr) -> Expr:
        test = self.expr(condition)
        if test.lanes > 1 and not (self.is_safe(a) and self.is_safe(b)):
            raise _CannotVectorize  # a lane would read where it must not
        return Select(test, self.wide(self.expr(a)), self.wide(self.expr(b)))

    def is_safe(self, e: Expr) -> bool:
        """True if every load in it stays inside its buffer whatever the condition."""
        for node in walk(e):
            if isinstance(node, Load):
                for index, extent in zip(node.indices, node.buffer.shape, strict=True):
                    low, high = interval(index, self.ranges)
                    if low < 0 or high >= extent:
                        return False
        return True
