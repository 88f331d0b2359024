"""Simplify index arithmetic and conditions with the ranges of the loop variables.

    (i*8 + j) // 8   ==>  i          where 0 <= j < 8
    i*8 + j < 64     ==>  True       where 0 <= i < 8, 0 <= j < 8
    min(i*4, 28)     ==>  i*4        where 0 <= i < 8

Float arithmetic is left as written, so a program's rounding never changes here.
"""

from ansor.ir.affine import Linear, Ranges, linear
from ansor.ir.dtypes import INDEX
from ansor.ir.expr import Binary, Call, Cast, Const, Expr, Select, Var
from ansor.ir.stmt import For, If, Seq, Stmt
from ansor.ir.visit import is_empty, is_same, map_stmt, rebuild, seq, with_body

TRUE = Const(True, "bool")
FALSE = Const(False, "bool")
COMPARISONS = ("lt", "le", "eq", "ne")
LARGEST_INDEX = 1 << 60  # differences of smaller numbers cannot overflow


def simplify(expr: Expr, ranges: Ranges) -> Expr:
    """An equal expression, at most as complicated, given the ranges of variables."""
    return _Simplifier(ranges).visit(expr)


def simplify_stmt(stmt: Stmt, ranges: Ranges | None = None) -> Stmt:
    """Simplify a whole statement; decided conditions and empty loops disappear."""
    return _visit_stmt(stmt, dict(ranges or {}))


class _Simplifier:
    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges

    def visit(self, e: Expr) -> Expr:
        if isinstance(e, Var | Const):
            return e
        if isinstance(e, Binary):
            return self.binary(e)
        e = rebuild(e, self.visit)
        match e:
            case Select(Const(value), a, b):
                return a if value else b
            case Call("not", (Const(value, "bool"),)):
                return Const(not value, "bool")
            case Cast(Const(value), dtype) if dtype == INDEX:
                return Const(int(value))
            case Cast(value, dtype) if value.dtype == dtype:
                return value
            case Call("neg", (value,)) if value.dtype == INDEX and value.lanes == 1:
                return linear(e).expr()
            case _:
                return e

    def binary(self, e: Binary) -> Expr:
        if e.a.dtype == INDEX and e.a.lanes == 1:
            if e.op in COMPARISONS:
                new = self.compare(e.op, self.sum(e.a), self.sum(e.b))
            else:
                new = self.sum(e).expr()
            return e if new == e else new  # the same object, if nothing changes
        a, b = self.visit(e.a), self.visit(e.b)
        if e.op in ("and", "or") and e.dtype == "bool":
            return _logic(e.op, a, b)
        return e if a is e.a and b is e.b else Binary(e.op, a, b)

    def sum(self, e: Expr) -> Linear:
        """The simplified sum form of an index expression."""
        match e:
            case Var():
                return Linear(0, {e: 1})
            case Const(value):
                return Linear(int(value))
            case Binary("add", a, b):
                return self.sum(a).plus(self.sum(b))
            case Binary("sub", a, b):
                return self.sum(a).plus(self.sum(b), -1)
            case Binary("mul", a, b):
                return self.product(self.sum(a), self.sum(b))
            case Binary("floordiv", a, b):
                return self.divide(self.sum(a), self.sum(b))
            case Binary("mod", a, b):
                return self.modulo(self.sum(a), self.sum(b))
            case Binary("min" | "max" as op, a, b):
                return self.extreme(op, self.sum(a), self.sum(b))
            case Binary(op, a, b):
                return Linear(0, {Binary(op, self.visit(a), self.visit(b)): 1})
            case _:
                return linear(self.visit(e))

    def product(self, a: Linear, b: Linear) -> Linear:
        if not b.terms:
            return a.times(b.const)
        if not a.terms:
            return b.times(a.const)
        return Linear(0, {Binary("mul", a.expr(), b.expr()): 1})

    def divide(self, a: Linear, b: Linear) -> Linear:
        if b.terms or b.const <= 0 or self.may_wrap(a):
            return Linear(0, {Binary("floordiv", a.expr(), b.expr()): 1})
        c = b.const
        quotient, rest = _divisible(a, c)
        low, high = rest.interval(self.ranges)
        if low // c == high // c:
            return quotient.plus(Linear(low // c))
        rest, c = self.reduce(rest, c)
        return quotient.plus(Linear(0, {Binary("floordiv", rest.expr(), Const(c)): 1}))

    def reduce(self, rest: Linear, c: int) -> tuple[Linear, int]:
        """Divide both by a common factor: (4*i + j) // 16 ==> i // 4 if 0 <= j < 4."""
        for factor in sorted({abs(x) for x in rest.terms.values()}, reverse=True):
            if factor > 1 and c % factor == 0:
                whole, part = _divisible(rest, factor)
                low, high = part.interval(self.ranges)
                if whole.terms and low >= 0 and high < factor:
                    return whole, c // factor
        return rest, c

    def modulo(self, a: Linear, b: Linear) -> Linear:
        if b.terms or b.const <= 0 or self.may_wrap(a):
            return Linear(0, {Binary("mod", a.expr(), b.expr()): 1})
        c = b.const
        _, rest = _divisible(a, c)
        low, high = rest.interval(self.ranges)
        if low // c == high // c:
            return rest.plus(Linear(-(low // c) * c))
        return Linear(0, {Binary("mod", rest.expr(), Const(c)): 1})

    def may_wrap(self, a: Linear) -> bool:
        """True for data: an int64 of any size, on which only + - * may be moved."""
        low, high = a.interval(self.ranges)
        return low < -LARGEST_INDEX or high > LARGEST_INDEX

    def extreme(self, op: str, a: Linear, b: Linear) -> Linear:
        if self.may_wrap(a) or self.may_wrap(b):
            return Linear(0, {Binary(op, a.expr(), b.expr()): 1})
        low, high = a.plus(b, -1).interval(self.ranges)
        smaller, larger = (a, b) if op == "min" else (b, a)
        if high <= 0:
            return smaller
        if low >= 0:
            return larger
        return Linear(0, {Binary(op, a.expr(), b.expr()): 1})

    def compare(self, op: str, a: Linear, b: Linear) -> Expr:
        if self.may_wrap(a) or self.may_wrap(b):
            return Binary(op, a.expr(), b.expr())
        low, high = a.plus(b, -1).interval(self.ranges)
        decided = _decide(op, low, high)
        if decided is not None:
            return TRUE if decided else FALSE
        left = Linear(0, dict(a.terms)).plus(Linear(0, b.terms), -1)
        return Binary(op, left.expr(), Const(b.const - a.const))


def _divisible(a: Linear, c: int) -> tuple[Linear, Linear]:
    """a = c*quotient + rest, with every divisible term in the quotient."""
    quotient, rest = Linear(a.const // c), Linear(a.const % c)
    for atom, coefficient in a.terms.items():
        if coefficient % c == 0:
            quotient.terms[atom] = coefficient // c
        else:
            rest.terms[atom] = coefficient
    return quotient, rest


def _decide(op: str, low: int, high: int) -> bool | None:
    """The truth of `difference op 0` where low <= difference <= high."""
    match op:
        case "lt":
            return True if high < 0 else False if low >= 0 else None
        case "le":
            return True if high <= 0 else False if low > 0 else None
        case "eq" | "ne":
            if low > 0 or high < 0:
                return op == "ne"
            return op == "eq" if low == high == 0 else None
        case _:
            raise AssertionError(op)


def _logic(op: str, a: Expr, b: Expr) -> Expr:
    for x, y in ((a, b), (b, a)):
        if isinstance(x, Const):
            decides = bool(x.value) == (op == "or")
            return x if decides else y
    return a if a == b else Binary(op, a, b)


def _visit_stmt(stmt: Stmt, ranges: dict[str, tuple[int, int]]) -> Stmt:
    match stmt:
        case For(var=var, extent=extent, body=body):
            inner = {**ranges, var.name: (0, extent - 1)}
            new = _visit_stmt(body, inner)
            if is_empty(new) or new is body:
                return stmt if new is body else new
            return with_body(stmt, new)
        case If(condition, then, otherwise):
            new = _visit_if(simplify(condition, ranges), then, otherwise, ranges)
            return stmt if _is_unchanged(stmt, new) else new
        case Seq(stmts):
            parts = tuple(_visit_stmt(child, ranges) for child in stmts)
            flat = len(parts) > 1 and not any(isinstance(s, Seq) for s in parts)
            return stmt if flat and is_same(parts, stmts) else seq(*parts)
        case _:
            simplifier = _Simplifier(ranges)
            return map_stmt(stmt, simplifier.visit, lambda s: _visit_stmt(s, ranges))


def _is_unchanged(old: If, new: Stmt) -> bool:
    return (
        isinstance(new, If)
        and new.condition is old.condition
        and new.then is old.then
        and new.otherwise is old.otherwise
    )


def _visit_if(
    condition: Expr,
    then: Stmt,
    otherwise: Stmt | None,
    ranges: dict[str, tuple[int, int]],
) -> Stmt:
    if isinstance(condition, Const):
        chosen = then if condition.value else otherwise
        return Seq(()) if chosen is None else _visit_stmt(chosen, ranges)
    rest = None if otherwise is None else _visit_stmt(otherwise, ranges)
    body = _visit_stmt(then, ranges)
    if is_empty(body) and (rest is None or is_empty(rest)):
        return Seq(())
    return If(condition, body, rest)
