"""Scalar functions of the tensor language, applied to elements inside `compute`.

Functions of real numbers take float operands; numbers become float32. They evaluate in
the type of their operand and propagate NaN.
"""

import math

from ansor.errors import ExpressionError
from ansor.ir.dtypes import DTYPES, is_float, is_int
from ansor.ir.expr import Binary, Call
from ansor.ir.ops import highest, lowest
from ansor.te.value import (
    Scalar,
    Value,
    choose,
    constant,
    convert,
    number,
    power,
    unify,
    wrap,
)


def exp(x: Scalar) -> Value:
    """e to the power of x.

    >>> print(exp(2.0))
    exp(2.0)
    """
    return _call("exp", x)


def log(x: Scalar) -> Value:
    """The natural logarithm; minus infinity at 0, NaN below.

    >>> print(log(2.0))
    log(2.0)
    """
    return _call("log", x)


def log2(x: Scalar) -> Value:
    """The logarithm to base 2.

    >>> print(log2(8.0))
    log2(8.0)
    """
    return _call("log2", x)


def sqrt(x: Scalar) -> Value:
    """The square root; NaN below 0.

    >>> print(sqrt(2.0))
    sqrt(2.0)
    """
    return _call("sqrt", x)


def rsqrt(x: Scalar) -> Value:
    """1 / sqrt(x).

    >>> print(rsqrt(2.0))
    rsqrt(2.0)
    """
    return _call("rsqrt", x)


def tanh(x: Scalar) -> Value:
    """The hyperbolic tangent.

    >>> print(tanh(0.5))
    tanh(0.5)
    """
    return _call("tanh", x)


def sigmoid(x: Scalar) -> Value:
    """1 / (1 + exp(-x)), without overflow.

    >>> print(sigmoid(0.5))
    sigmoid(0.5)
    """
    return _call("sigmoid", x)


def erf(x: Scalar) -> Value:
    """The error function.

    >>> print(erf(0.5))
    erf(0.5)
    """
    return _call("erf", x)


def sin(x: Scalar) -> Value:
    """The sine of x radians.

    >>> print(sin(0.5))
    sin(0.5)
    """
    return _call("sin", x)


def cos(x: Scalar) -> Value:
    """The cosine of x radians.

    >>> print(cos(0.5))
    cos(0.5)
    """
    return _call("cos", x)


def floor(x: Scalar) -> Value:
    """The greatest integer not above x, as a float.

    >>> print(floor(0.5))
    floor(0.5)
    """
    return _call("floor", x)


def ceil(x: Scalar) -> Value:
    """The least integer not below x, as a float.

    >>> print(ceil(0.5))
    ceil(0.5)
    """
    return _call("ceil", x)


def round(x: Scalar) -> Value:
    """The nearest integer as a float; halves go to the even one.

    >>> print(round(2.5))
    round(2.5)
    """
    return _call("round", x)


def isnan(x: Scalar) -> Value:
    """True where x is not a number.

    >>> isnan(0.5)
    <isnan(0.5): bool>
    """
    return _call("isnan", x)


def abs(x: Scalar) -> Value:
    """The absolute value; the least integer of a type stays as it is.

    >>> print(abs(-1.5))
    abs(-1.5)
    """
    return wrap(x).__abs__()


def pow(base: Scalar, exponent: Scalar) -> Value:
    """base to the power of exponent; also `base ** exponent`.

    A constant exponent of 1, 2, 3 or 4 becomes multiplications and then works on
    integers, too.

    >>> print(pow(3.0, 2), "or", pow(3.0, 0.5))
    3.0 * 3.0 or pow(3.0, 0.5)
    """
    return power(base, exponent)


def maximum(a: Scalar, b: Scalar) -> Value:
    """The greater of two values, NaN if one is NaN.

    >>> print(maximum(1.5, 0))
    max(1.5, 0.0)
    """
    return _extreme("max", a, b)


def minimum(a: Scalar, b: Scalar) -> Value:
    """The smaller of two values, NaN if one is NaN.

    >>> print(minimum(1.5, 0))
    min(1.5, 0.0)
    """
    return _extreme("min", a, b)


def clip(x: Scalar, low: Scalar, high: Scalar) -> Value:
    """x, but not below `low` nor above `high`.

    >>> print(clip(7.5, 0, 6))
    min(max(7.5, 0.0), 6.0)
    """
    return minimum(maximum(x, low), high)


def select(condition: Scalar, a: Scalar, b: Scalar) -> Value:
    """`a` where the condition holds, else `b`; only the chosen side is evaluated.

    A load on the side not chosen may lie outside its tensor: that is how padding is
    written.

    >>> import ansor
    >>> A = ansor.placeholder((4,), name="A")
    >>> B = ansor.compute((6,), lambda i: select((i >= 1) & (i < 5), A[i - 1], 0))
    """
    return choose(condition, a, b)


def cast(x: Scalar, dtype: str) -> Value:
    """x in another type, as NumPy's astype: float to integer truncates.

    A float that the integer type cannot hold gives any value. A number becomes a
    constant of that type and has to fit it.

    >>> cast(3, "int8")
    <int8(3): int8>
    """
    if dtype not in DTYPES:
        known = ", ".join(DTYPES)
        raise ExpressionError(
            f"cast to {dtype!r}", "unknown dtype", f"use one of {known}"
        )
    plain = number(x)
    if plain is None:
        return convert(wrap(x), dtype)
    if is_int(dtype) and isinstance(plain, float):
        if not math.isfinite(plain):
            raise ExpressionError(f"cast of {plain} to {dtype}", "not a finite number")
        plain = int(plain)
    return Value(constant(plain, dtype))


def min_value(dtype: str) -> Value:
    """The least value of a type, minus infinity for floats.

    >>> print(min_value("int8"))
    int8(-128)
    """
    return Value(constant(lowest(dtype), dtype))


def max_value(dtype: str) -> Value:
    """The greatest value of a type, infinity for floats.

    >>> print(max_value("uint8"))
    uint8(255)
    """
    return Value(constant(highest(dtype), dtype))


def _call(function: str, x: Scalar) -> Value:
    plain = number(x)
    value = wrap(x) if plain is None else Value(constant(plain, "float32"))
    if not is_float(value.dtype):
        raise ExpressionError(
            f"{function}({value})",
            f"the operand is {value.dtype}, but it takes floats",
            'cast it first, for example cast(x, "float32")',
        )
    return Value(Call(function, (value.expr,)))


def _extreme(op: str, a: Scalar, b: Scalar) -> Value:
    x, y = unify(a, b)
    if not (is_float(x.dtype) or is_int(x.dtype)):
        raise ExpressionError(f"{op}imum({x}, {y})", "operands are bool", "use | or &")
    return Value(Binary(op, x.expr, y.expr))
