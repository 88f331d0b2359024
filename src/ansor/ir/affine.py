"""Index expressions as sums: `4*i + j + 3`, and the interval a sum can take.

A `Linear` is a constant plus integer multiples of atoms; an atom is a variable or any
expression that is not a sum (a division, a load, a minimum). Every index expression
has this form, so comparing, adding and bounding indices is arithmetic on small dicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ansor.ir.dtypes import DTYPES, INDEX, is_float
from ansor.ir.expr import Binary, Call, Cast, Const, Expr, Ramp, Select, Var

Range = tuple[int, int]  # both ends included
Ranges = Mapping[str, Range]
UNBOUNDED: Range = (-(1 << 63), (1 << 63) - 1)  # any int64


@dataclass(slots=True)
class Linear:
    """`const + Σ coefficient·atom`; coefficients are never 0."""

    const: int = 0
    terms: dict[Expr, int] = field(default_factory=dict)

    def plus(self, other: Linear, scale: int = 1) -> Linear:
        """self + scale * other"""
        terms = dict(self.terms)
        for atom, c in other.terms.items():
            total = terms.get(atom, 0) + scale * c
            if total:
                terms[atom] = total
            else:
                terms.pop(atom, None)
        return Linear(self.const + scale * other.const, terms)

    def times(self, scale: int) -> Linear:
        if scale == 0:
            return Linear()
        terms = {atom: c * scale for atom, c in self.terms.items()}
        return Linear(self.const * scale, terms)

    def interval(self, ranges: Ranges) -> Range:
        """Least and greatest value over all atoms' ranges."""
        low = high = self.const
        for atom, c in self.terms.items():
            a, b = interval(atom, ranges)
            low += c * (a if c > 0 else b)
            high += c * (b if c > 0 else a)
        return low, high

    def expr(self) -> Expr:
        """Back to an expression: positive terms first, large steps before small."""
        total: Expr | None = None
        terms = sorted(self.terms.items(), key=lambda t: (t[1] < 0, -abs(t[1])))
        for atom, c in terms:
            size = abs(c)
            part = atom if size == 1 else Binary("mul", atom, Const(size))
            if total is None:
                total = part if c > 0 else Binary("mul", atom, Const(c))
            else:
                total = Binary("add" if c > 0 else "sub", total, part)
        if total is None:
            return Const(self.const)
        if self.const == 0:
            return total
        op = "add" if self.const > 0 else "sub"
        return Binary(op, total, Const(abs(self.const)))


def linear(expr: Expr) -> Linear:
    """The sum form of an index expression; anything else becomes an atom."""
    return weighted(((expr, 1),))


def weighted(parts: Iterable[tuple[Expr, int]]) -> Linear:
    """The sum of some index expressions, each times a weight."""
    terms: dict[Expr, int] = {}
    const = 0
    for expr, weight in parts:
        const += _collect(expr, weight, terms)
    return Linear(const, {atom: c for atom, c in terms.items() if c})


def _collect(expr: Expr, scale: int, terms: dict[Expr, int]) -> int:
    """Add scale*expr to `terms`; the constant part is returned. This is a hot path."""
    if isinstance(expr, Const) and expr.dtype == INDEX:
        return scale * int(expr.value)
    if isinstance(expr, Binary):
        op, a, b = expr.op, expr.a, expr.b
        if op == "add":
            return _collect(a, scale, terms) + _collect(b, scale, terms)
        if op == "sub":
            return _collect(a, scale, terms) + _collect(b, -scale, terms)
        if op == "mul" and isinstance(b, Const):
            return _collect(a, scale * int(b.value), terms)
        if op == "mul" and isinstance(a, Const):
            return _collect(b, scale * int(a.value), terms)
    elif isinstance(expr, Call) and expr.function == "neg":
        return _collect(expr.args[0], -scale, terms)
    terms[expr] = terms.get(expr, 0) + scale
    return 0


def interval(expr: Expr, ranges: Ranges) -> Range:
    """Bounds of an index expression when each variable stays in its range."""
    match expr:
        case Var(name):
            return ranges.get(name, UNBOUNDED)
        case Const(value):
            return int(value), int(value)
        case Binary(op, a, b) if op not in ("add", "sub", "mul"):
            return _binary_interval(op, interval(a, ranges), interval(b, ranges))
        case Ramp(base, stride, lanes):
            low, high = interval(base, ranges)
            last = stride * (lanes - 1)
            return low + min(0, last), high + max(0, last)
        case Select(_, a, b):
            return _hull(interval(a, ranges), interval(b, ranges))
        case Cast(value, dtype) if dtype == INDEX and not is_float(value.dtype):
            return _type_range(value.dtype)
        case Binary("mul", a, b) if not _is_scaled(a, b):
            return _wrapped(_product(interval(a, ranges), interval(b, ranges)))
        case Binary() | Call("neg"):
            return _wrapped(linear(expr).interval(ranges))
        case _:
            return UNBOUNDED


def _is_scaled(a: Expr, b: Expr) -> bool:
    return isinstance(a, Const) or isinstance(b, Const)


def _type_range(dtype: str) -> Range:
    row = DTYPES[dtype]
    if row.kind == "int":
        half = 1 << (row.bits - 1)
        return -half, half - 1
    return 0, 1 if row.kind == "bool" else (1 << row.bits) - 1


def _wrapped(exact: Range) -> Range:
    """The bounds of a result that wraps around where it leaves int64."""
    fits = UNBOUNDED[0] <= exact[0] and exact[1] <= UNBOUNDED[1]
    return exact if fits else UNBOUNDED


def _hull(a: Range, b: Range) -> Range:
    return min(a[0], b[0]), max(a[1], b[1])


def _product(a: Range, b: Range) -> Range:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _binary_interval(op: str, a: Range, b: Range) -> Range:
    if op == "min":
        return min(a[0], b[0]), min(a[1], b[1])
    if op == "max":
        return max(a[0], b[0]), max(a[1], b[1])
    if op == "floordiv" and b[0] == b[1] > 0:
        return a[0] // b[0], a[1] // b[0]
    if op == "mod" and b[0] == b[1] > 0:
        inside = a[0] >= 0 and a[1] < b[0]
        return a if inside else (0, b[0] - 1)
    return UNBOUNDED
