"""Scalar values of the tensor language: an expression with Python's operators.

Types of mixed operands, first rule that applies:

    number, value        the number adopts the value's type; a Python float beside an
                         integer value makes both float32, an int beside a bool int64
    float, float         the wider one; float16 with bfloat16 gives float32
    integer, float       the float
    integer, integer     as NumPy: the smallest type that holds both
    bool, anything       the other one
    integer / integer    float32
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ansor.errors import ExpressionError
from ansor.ir.dtypes import DTYPES, INDEX, is_float, is_int
from ansor.ir.expr import Binary, Buffer, Call, Cast, Const, Expr, Select, Var
from ansor.ir.ops import BINARY
from ansor.te.limits import limits

Number: TypeAlias = "int | float | bool | np.generic"
Scalar: TypeAlias = "Value | Number"


@dataclass(frozen=True, slots=True, eq=False)
class IndexVar(Var):
    """A loop variable with an identity: two of the same name stay apart.

    `named` says whether the user chose the name; other names may be changed.
    """

    extent: int = 1
    reduce: bool = False
    named: bool = True

    __eq__ = object.__eq__
    __hash__ = object.__hash__


class Value:
    """One scalar inside `compute`: a tensor element, an index, or a formula of those.

    >>> import ansor
    >>> A = ansor.placeholder((4,), name="A")
    >>> print(2 * A[3] + 1)
    2.0 * A[3] + 1.0
    """

    __slots__ = ("_expr",)
    __array_ufunc__ = None  # numpy.float32(2) * value is ours to compute

    def __init__(self, expr: Expr) -> None:
        self._expr = expr

    @property
    def expr(self) -> Expr:
        return self._expr

    @property
    def dtype(self) -> str:
        return self.expr.dtype

    def __repr__(self) -> str:
        return f"<{self.expr}: {self.dtype}>"

    def __str__(self) -> str:
        return str(self.expr)

    def __float__(self) -> float:
        raise ExpressionError(
            f"float({self})",
            "its value is not known while the computation is described",
            "use the functions of ansor: ansor.exp(x), not math.exp(x)",
        )

    def __bool__(self) -> bool:
        raise ExpressionError(
            f"truth of {self}",
            "known only when the kernel runs",
            "use ansor.select(condition, a, b)",
        )

    def __iter__(self) -> None:
        raise ExpressionError(f"iteration over {self}", "it is one scalar")

    def __add__(self, other: Scalar) -> Value:
        return binary("add", self, other)

    def __radd__(self, other: Scalar) -> Value:
        return binary("add", other, self)

    def __sub__(self, other: Scalar) -> Value:
        return binary("sub", self, other)

    def __rsub__(self, other: Scalar) -> Value:
        return binary("sub", other, self)

    def __mul__(self, other: Scalar) -> Value:
        return binary("mul", self, other)

    def __rmul__(self, other: Scalar) -> Value:
        return binary("mul", other, self)

    def __truediv__(self, other: Scalar) -> Value:
        return binary("div", self, other)

    def __rtruediv__(self, other: Scalar) -> Value:
        return binary("div", other, self)

    def __floordiv__(self, other: Scalar) -> Value:
        return binary("floordiv", self, other)

    def __rfloordiv__(self, other: Scalar) -> Value:
        return binary("floordiv", other, self)

    def __mod__(self, other: Scalar) -> Value:
        return binary("mod", self, other)

    def __rmod__(self, other: Scalar) -> Value:
        return binary("mod", other, self)

    def __pow__(self, other: Scalar) -> Value:
        return power(self, other)

    def __rpow__(self, other: Scalar) -> Value:
        return power(other, self)

    def __and__(self, other: Scalar) -> Value:
        return binary("and", self, other)

    def __rand__(self, other: Scalar) -> Value:
        return binary("and", other, self)

    def __or__(self, other: Scalar) -> Value:
        return binary("or", self, other)

    def __ror__(self, other: Scalar) -> Value:
        return binary("or", other, self)

    def __xor__(self, other: Scalar) -> Value:
        return binary("xor", self, other)

    def __rxor__(self, other: Scalar) -> Value:
        return binary("xor", other, self)

    def __lshift__(self, other: Scalar) -> Value:
        return binary("shl", self, other)

    def __rlshift__(self, other: Scalar) -> Value:
        return binary("shl", other, self)

    def __rshift__(self, other: Scalar) -> Value:
        return binary("shr", self, other)

    def __rrshift__(self, other: Scalar) -> Value:
        return binary("shr", other, self)

    def __lt__(self, other: Scalar) -> Value:
        return binary("lt", self, other)

    def __le__(self, other: Scalar) -> Value:
        return binary("le", self, other)

    def __gt__(self, other: Scalar) -> Value:
        return binary("lt", other, self)

    def __ge__(self, other: Scalar) -> Value:
        return binary("le", other, self)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return binary("eq", self, other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return binary("ne", self, other)

    __hash__ = object.__hash__

    def __neg__(self) -> Value:
        _refuse_bool("-", self)
        return Value(Call("neg", (self.expr,)))

    def __pos__(self) -> Value:
        return self

    def __invert__(self) -> Value:
        if is_float(self.dtype):
            raise ExpressionError(f"~({self})", _needs_bits(self.dtype), _BITS_HINT)
        return Value(Call("not", (self.expr,)))

    def __abs__(self) -> Value:
        _refuse_bool("abs", self)
        return Value(Call("abs", (self.expr,)))


_BITS_HINT = 'compare first (x != 0), or cast to an integer (cast(x, "int32"))'


def _needs_bits(dtype: str) -> str:
    return f"the operand is {dtype}, but bitwise operators take integers and bool"


def _refuse_bool(operator: str, value: Value) -> None:
    if value.dtype == "bool":
        raise ExpressionError(
            f"{operator}({value})",
            "the operand is bool",
            'use ~x for "not", or cast it: cast(x, "int32")',
        )


def number(x: object) -> int | float | bool | None:
    """`x` as a Python number; None if it is not one (0-d arrays count as numbers)."""
    if isinstance(x, np.generic) or (isinstance(x, np.ndarray) and x.ndim == 0):
        x = x.item()
    return x if isinstance(x, (int, float)) else None


def default_dtype(x: int | float | bool) -> str:
    """The type of a number that stands beside nothing typed."""
    if isinstance(x, bool):
        return "bool"
    return INDEX if isinstance(x, int) else "float32"


def beside(x: int | float | bool, dtype: str) -> str:
    """The type of an operation between the number `x` and a value of `dtype`."""
    if isinstance(x, float):
        return dtype if is_float(dtype) else "float32"
    if dtype == "bool" and not isinstance(x, bool):
        return INDEX
    return dtype


def constant(x: int | float | bool, dtype: str) -> Const:
    """A literal of `dtype`; raises ExpressionError if it does not hold `x`."""
    if is_float(dtype):
        top = limits(dtype).largest
        if abs(x) > top and x not in (math.inf, -math.inf):
            raise ExpressionError(
                f"constant {x}", f"does not fit {dtype}, which ends at {top:g}"
            )
        return Const(float(x), dtype)
    if dtype == "bool":
        return Const(bool(x), dtype)
    info = np.iinfo(DTYPES[dtype].numpy)
    if not info.min <= x <= info.max:
        raise ExpressionError(
            f"constant {x}",
            f"does not fit {dtype}, which holds {info.min} to {info.max}",
            "cast the other operand to a wider type",
        )
    return Const(int(x), dtype)


def wrap(x: object, what: str = "operand") -> Value:
    """`x` as a value; a number gets its default type."""
    if isinstance(x, Value):
        return x
    plain = number(x)
    if plain is not None:
        return Value(constant(plain, default_dtype(plain)))
    if isinstance(x, Buffer):
        indices = ", ".join(
            "ijkl"[d] if d < 4 else f"i{d}" for d in range(len(x.shape))
        )
        raise ExpressionError(
            f"{what} {x.name!r}",
            "is a whole tensor, not one element",
            f"index it: {x.name}[{indices or '()'}]",
        )
    raise ExpressionError(
        f"{what} {x!r}",
        f"is of type {type(x).__name__}, not a tensor element, index or number",
    )


def convert(x: Value, dtype: str) -> Value:
    """`x` in another type; unchanged if it already has it."""
    if x.dtype == dtype:
        return x
    if isinstance(x.expr, Const) and is_float(dtype):
        return Value(constant(x.expr.value, dtype))
    return Value(Cast(x.expr, dtype))


def promote(a: str, b: str) -> str:
    """The common type of two typed operands."""
    if a == b or b == "bool":
        return a
    if a == "bool":
        return b
    if is_float(a) and is_float(b):
        return "float64" if "float64" in (a, b) else "float32"
    if is_float(a) or is_float(b):
        return a if is_float(a) else b
    return str(np.promote_types(DTYPES[a].numpy, DTYPES[b].numpy))


def unify(a: object, b: object) -> tuple[Value, Value]:
    """Both operands in their common type."""
    x, y = number(a), number(b)
    if x is not None and y is not None:
        dtype = promote(default_dtype(x), default_dtype(y))
        return Value(constant(x, dtype)), Value(constant(y, dtype))
    if x is not None:
        v = wrap(b)
        dtype = beside(x, v.dtype)
        return Value(constant(x, dtype)), convert(v, dtype)
    if y is not None:
        right, left = unify(b, a)
        return left, right
    va, vb = wrap(a), wrap(b)
    dtype = promote(va.dtype, vb.dtype)
    return convert(va, dtype), convert(vb, dtype)


_BITWISE = ("and", "or", "xor", "shl", "shr")
_COMPARE = ("lt", "le", "eq", "ne")


def binary(op: str, left: object, right: object) -> Value:
    """`left op right` in their common type."""
    a, b = unify(left, right)
    _check_operands(op, a, b)
    if op == "div" and not is_float(a.dtype):
        a, b = convert(a, "float32"), convert(b, "float32")
    if op == "floordiv" and is_float(a.dtype):
        return Value(Call("floor", (Binary("div", a.expr, b.expr),)))
    folded = _fold(op, a.expr, b.expr) if a.dtype == INDEX else None
    return Value(folded or Binary(op, a.expr, b.expr))


def _check_operands(op: str, a: Value, b: Value) -> None:
    if op in _BITWISE and is_float(a.dtype):
        raise ExpressionError(_written(op, a, b), _needs_bits(a.dtype), _BITS_HINT)
    if a.dtype == "bool" and op not in (*_COMPARE, "and", "or", "xor"):
        raise ExpressionError(
            _written(op, a, b),
            "both operands are bool",
            'use & | ^ ~, or cast them: cast(x, "int32")',
        )


def _written(op: str, a: Value, b: Value) -> str:
    return f"{a} {BINARY[op].symbol} {b}"


def _fold(op: str, a: Expr, b: Expr) -> Expr | None:
    """Index arithmetic with a constant, where the result is shorter."""
    if isinstance(b, Const):
        if isinstance(a, Const) and op in ("add", "sub", "mul"):
            return constant(int(BINARY[op].numpy(int(a.value), int(b.value))), INDEX)
        if (op in ("add", "sub") and b.value == 0) or (
            op in ("mul", "floordiv") and b.value == 1
        ):
            return a
    if isinstance(a, Const) and ((op, a.value) in (("add", 0), ("mul", 1))):
        return b
    return None


def power(base: object, exponent: object) -> Value:
    """base ** exponent; a constant integer exponent up to 4 becomes products."""
    n = number(exponent)
    if n is not None and n in (1, 2, 3, 4):
        x = wrap(base)
        _refuse_bool("pow", x)
        square = x if n == 1 else x * x
        return square if n < 3 else (square * x if n == 3 else square * square)
    a, b = unify(base, exponent)
    if not is_float(a.dtype):
        raise ExpressionError(
            f"pow({a}, {b})",
            f"operands are {a.dtype}, but it takes floats unless the exponent is a "
            "constant from 1 to 4",
            'cast the base first, for example cast(x, "float32")',
        )
    return Value(Binary("pow", a.expr, b.expr))


def choose(condition: object, a: object, b: object) -> Value:
    """`a` where the condition holds, else `b`, in their common type."""
    test = wrap(condition, "condition")
    if test.dtype != "bool":
        raise ExpressionError(
            f"select({test}, …)",
            f"the condition is {test.dtype}, not bool",
            "compare it: x != 0",
        )
    x, y = unify(a, b)
    return Value(Select(test.expr, x.expr, y.expr))


def as_index(x: object, what: str) -> Expr:
    """`x` as an int64 index expression."""
    value = wrap(x, what)
    if not is_int(value.dtype):
        raise ExpressionError(
            f"{what} {value}",
            f"is {value.dtype}, but an index is an integer",
            'round it and cast it: cast(floor(x), "int64")',
        )
    return convert(value, INDEX).expr
