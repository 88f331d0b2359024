"""Which loops may run all their iterations at once: the proofs the interpreter needs.

An index is read as a sum of digits: `atom = (variable // step) % modulus`, times a
coefficient. Digits whose coefficient exceeds the span of everything below them can be
read back from the sum, as in a mixed-radix number; a loop whose variable can be read
back from the indices of every access touches elements that no other iteration does.
Everything else counts as not proven.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ansor.ir.expr import Binary, Broadcast, Buffer, Const, Expr, Load, Ramp, Var
from ansor.ir.ops import REDUCERS
from ansor.ir.stmt import Allocate, For, If, Prefetch, Seq, Stmt, Store
from ansor.ir.visit import expressions, loads, statements, variables

REDUCTIONS = {row.op: row for row in REDUCERS.values()}


class Digit(NamedTuple):
    """`(variable // step) % modulus`; modulus 0 stands for none."""

    variable: str
    step: int
    modulus: int


@dataclass(frozen=True, slots=True)
class Sum:
    """Σ coefficient·digit + something between low and high."""

    terms: dict[Digit, int]
    low: int
    high: int

    def plus(self, other: "Sum", scale: int) -> "Sum":
        terms = dict(self.terms)
        for digit, coefficient in other.terms.items():
            terms[digit] = terms.get(digit, 0) + scale * coefficient
        ends = (scale * other.low, scale * other.high)
        kept = {digit: c for digit, c in terms.items() if c}
        return Sum(kept, self.low + min(ends), self.high + max(ends))


@dataclass(frozen=True, slots=True)
class Access:
    buffer: Buffer
    indices: tuple[Expr, ...]
    writes: bool


class Accumulation(NamedTuple):
    """`buffer[indices] = op(buffer[indices], value)`."""

    op: str
    value: Expr


def independent(loop: For) -> bool:
    """No iteration writes an element that another one reads or writes."""
    extents = _extents(loop)
    private = {s.buffer.name for s in statements(loop) if isinstance(s, Allocate)}
    touched: dict[str, list[Access]] = {}
    for access in _accesses(loop):
        touched.setdefault(access.buffer.name, []).append(access)
    return all(
        _owns(loop, group, extents)
        for name, group in touched.items()
        if name not in private and any(access.writes for access in group)
    )


def reduction_over(loop: For) -> Accumulation | None:
    """How the loop accumulates into elements that do not depend on its variable."""
    store = single_store(loop)
    found = None if store is None else accumulation(store)
    if store is None or found is None:
        return None
    if any(loop.var.name in variables(index) for index in store.indices):
        return None
    once = sum(a.buffer.name == store.buffer.name for a in _accesses(loop)) == 2
    return found if once else None


def only_writes(loop: For) -> bool:
    """The loop nest is one store into a buffer that it never reads."""
    store = single_store(loop)
    if store is None:
        return False
    return sum(a.buffer.name == store.buffer.name for a in _accesses(loop)) == 1


def accumulation(store: Store) -> Accumulation | None:
    """The operator and the new operand, if the store combines old and new."""
    match store.value:
        case Binary(op, a, b) if op in REDUCTIONS:
            old = Load(store.buffer, store.indices, store.active)
            if a == old:
                return Accumulation(op, b)
            if b == old:
                return Accumulation(op, a)
    return None


def single_store(stmt: Stmt) -> Store | None:
    """The only store of a nest of loops and one-sided conditions."""
    match stmt:
        case Store():
            return stmt
        case For(body=body) | If(then=body, otherwise=None):
            return single_store(body)
        case Seq(stmts):
            real = [s for s in stmts if not isinstance(s, Prefetch)]
            return single_store(real[0]) if len(real) == 1 else None
    return None


def distribute(loop: For) -> tuple[For, ...]:
    """`for v: a; b` ⇒ `for v: a` `for v: b`, where a and b touch nothing in common.

    Gives back the loop alone where that is not proven.
    """
    parts = [For(loop.var, loop.extent, part) for part in _parts(loop.body)]
    if len(parts) < 2:
        return (loop,)
    extents = _extents(loop)
    rows = [[_bounds(a, extents) for a in _accesses(part)] for part in parts]
    for i, first in enumerate(rows):
        for second in rows[i + 1 :]:
            if any(_may_meet(a, b) for a in first for b in second):
                return (loop,)
    return tuple(parts)


def _parts(stmt: Stmt) -> list[Stmt]:
    """Statements that, one after the other, mean the same as `stmt`."""
    match stmt:
        case Seq(stmts):
            return [part for s in stmts for part in _parts(s)]
        case If(condition, then, None) if not _writes_any(then, loads(condition)):
            return [If(condition, part) for part in _parts(then)]
        case For(body=body):
            return [For(stmt.var, stmt.extent, part) for part in _parts(body)]
        case Prefetch():
            return []
    return [stmt]


def _writes_any(stmt: Stmt, read: Iterable[Load]) -> bool:
    names = {load.buffer.name for load in read}
    return any(a.writes and a.buffer.name in names for a in _accesses(stmt))


def _accesses(stmt: Stmt) -> Iterator[Access]:
    for s in statements(stmt):
        if isinstance(s, Prefetch):
            continue
        if isinstance(s, Store):
            yield Access(s.buffer, s.indices, True)
        for e in expressions(s):
            for load in loads(e):
                yield Access(load.buffer, load.indices, False)


def _extents(stmt: Stmt) -> dict[str, int]:
    """The greatest extent of every loop variable at or below `stmt`."""
    extents: dict[str, int] = {}
    for s in statements(stmt):
        if isinstance(s, For):
            extents[s.var.name] = max(s.extent, extents.get(s.var.name, 1))
    return extents


def _owns(loop: For, group: list[Access], extents: dict[str, int]) -> bool:
    """The loop variable can be read back from the indices of every access."""
    distinct = {access.indices for access in group}
    known: set[Digit] = set()
    for axis in range(len(group[0].buffer.shape)):
        sums = [_sum(indices[axis]) for indices in distinct]
        real = [s for s in sums if s is not None]
        if len(real) == len(sums):
            known |= _readable(real, extents)
    return _covers(loop, known)


def _readable(sums: list[Sum], extents: dict[str, int]) -> set[Digit]:
    """Digits that are equal whenever two of the sums are equal."""
    common = dict(set.intersection(*(set(s.terms.items()) for s in sums)))
    low = high = None
    for s in sums:
        rest = Sum({d: c for d, c in s.terms.items() if d not in common}, s.low, s.high)
        ends = _interval(rest, extents)
        if ends is None:
            return set()
        low = ends[0] if low is None else min(low, ends[0])
        high = ends[1] if high is None else max(high, ends[1])
    inner = [(abs(c), d) for d, c in common.items() if d.variable in extents]
    below = (high or 0) - (low or 0)
    known: set[Digit] = set()
    for coefficient, digit in sorted(inner):
        if coefficient <= below:
            known.clear()
        else:
            known.add(digit)
        below += coefficient * _greatest(digit, extents)
    return known


def _covers(loop: For, known: set[Digit]) -> bool:
    """The digits known of the loop variable make up all of it."""
    reached = 1  # the variable is known modulo this
    digits = sorted(d for d in known if d.variable == loop.var.name)
    while reached < loop.extent:
        fitting = [d for d in digits if reached % d.step == 0]
        ends = [loop.extent if not d.modulus else d.step * d.modulus for d in fitting]
        further = [end for end in ends if end > reached]
        if not further:
            return False
        reached = max(further)
    return True


def _sum(e: Expr) -> Sum | None:
    """An index as a sum of digits, or None."""
    match e:
        case Var(name):
            return Sum({Digit(name, 1, 0): 1}, 0, 0)
        case Const(value):
            return Sum({}, int(value), int(value))
        case Binary("add" | "sub", a, b):
            left, right = _sum(a), _sum(b)
            if left is None or right is None:
                return None
            return left.plus(right, 1 if e.op == "add" else -1)
        case Binary("mul", a, Const(value)) | Binary("mul", Const(value), a):
            inner = _sum(a)
            return None if inner is None else Sum({}, 0, 0).plus(inner, int(value))
        case Binary("floordiv" | "mod", a, Const(value)) if value > 0:
            digit = _digit(a)
            return None if digit is None else _divided(digit, e.op, int(value))
        case Ramp(base, stride, lanes):
            inner, last = _sum(base), stride * (lanes - 1)
            wide = Sum({}, min(0, last), max(0, last))
            return None if inner is None else inner.plus(wide, 1)
        case Broadcast(value):
            return _sum(value)
    return None


def _digit(e: Expr) -> Digit | None:
    """An expression that is exactly one digit."""
    s = _sum(e)
    if s is None or s.low or s.high or list(s.terms.values()) != [1]:
        return None
    return next(iter(s.terms))


def _divided(digit: Digit, op: str, by: int) -> Sum | None:
    variable, step, modulus = digit
    if modulus and modulus % by:
        return None
    if op == "mod":
        return Sum({Digit(variable, step, by): 1}, 0, 0)
    if modulus == by:
        return Sum({}, 0, 0)
    return Sum({Digit(variable, step * by, modulus // by): 1}, 0, 0)


def _greatest(digit: Digit, extents: dict[str, int]) -> int:
    last = (extents[digit.variable] - 1) // digit.step
    return min(last, digit.modulus - 1) if digit.modulus else last


def _interval(s: Sum, extents: dict[str, int]) -> tuple[int, int] | None:
    """Least and greatest value; None if a variable from outside is left."""
    low, high = s.low, s.high
    for digit, coefficient in s.terms.items():
        if digit.variable not in extents:
            return None
        reach = coefficient * _greatest(digit, extents)
        low, high = low + min(0, reach), high + max(0, reach)
    return low, high


class _Bounds(NamedTuple):
    """An access with, per axis, the outer terms and the interval of the rest."""

    name: str
    writes: bool
    axes: tuple[tuple[dict[Digit, int], int, int] | None, ...]


def _bounds(access: Access, extents: dict[str, int]) -> _Bounds:
    axes: list[tuple[dict[Digit, int], int, int] | None] = []
    for index in access.indices:
        s = _sum(index)
        if s is None:
            axes.append(None)
            continue
        outer = {d: c for d, c in s.terms.items() if d.variable not in extents}
        inner = {d: c for d, c in s.terms.items() if d.variable in extents}
        ends = _interval(Sum(inner, s.low, s.high), extents)
        axes.append(None if ends is None else (outer, *ends))
    return _Bounds(access.buffer.name, access.writes, tuple(axes))


def _may_meet(a: _Bounds, b: _Bounds) -> bool:
    """The two may touch one element, and one of them writes it."""
    if a.name != b.name or not (a.writes or b.writes):
        return False
    for first, second in zip(a.axes, b.axes, strict=True):
        if first is None or second is None or first[0] != second[0]:
            continue
        if first[2] < second[1] or second[2] < first[1]:
            return False
    return True
