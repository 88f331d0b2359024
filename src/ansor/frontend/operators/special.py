"""Functions of numbers that the tensor language lacks, in terms of those it has.

Formulas are trees: what a formula uses twice is in it twice. So those that use parts
of themselves often are several stages, tensors in and a tensor out. Each is off by a
few units in the last place of the type it works in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from ansor.ir.dtypes import is_float
from ansor.te import functions as f
from ansor.te.ops.elementwise import broadcast_shape, element
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Scalar, Value


def over(name: str, formula: Callable[..., Scalar], *tensors: Tensor) -> Tensor:
    """`formula` of corresponding elements of tensors that broadcast."""
    shape = broadcast_shape(name, *(x.shape for x in tensors))
    return compute(
        shape, lambda *i: formula(*(element(x, shape, i) for x in tensors)), name=name
    )


def trunc(x: Value) -> Value:
    """Rounded towards 0."""
    return f.select(x < 0, f.ceil(x), f.floor(x))


def _sign(x: Value) -> Value:
    """-1 below 0, else 1."""
    return f.select(x < 0, f.cast(-1.0, x.dtype), 1.0)


def expm1(x: Value) -> Value:
    """exp(x) - 1, also where that is small."""
    small = f.tanh(f.clip(x, -1, 1) * 0.5)
    near = 2.0 * small / (1.0 - small)
    return f.select(abs(x) < 1, near, f.exp(x) - 1.0)


def expm1_below(x: Value) -> Value:
    """exp(x) - 1 of x up to 0, and 0 from there on."""
    t = f.tanh(f.minimum(x, 0) * 0.5)
    return 2.0 * t / (1.0 - t)


def log1p(x: Value) -> Value:
    """log(1 + x), also where x is small: the rounding error of u = 1 + x cancels in
    log(u) / (u - 1)."""
    u = x + 1.0
    near = f.select(u == 1.0, x, f.log(u) * (x / (u - 1.0)))
    return f.select(abs(x) < 0.5, near, f.log(u))


def sinh(x: Value) -> Value:
    """The hyperbolic sine."""
    t = f.tanh(f.clip(x, -1, 1) * 0.5)
    near = 2.0 * t / (1.0 - t * t)
    half = f.exp(abs(x) * 0.5)  # whose square overflows later than exp(x) does
    far = 0.5 * half * half - 0.5 / half / half
    return f.select(abs(x) < 1, near, far * _sign(x))


def cosh(x: Value) -> Value:
    """The hyperbolic cosine."""
    half = f.exp(abs(x) * 0.5)
    return 0.5 * half * half + 0.5 / half / half


def asinh(x: Tensor) -> Tensor:
    """The inverse of sinh."""

    def small(v: Value) -> Value:
        a = f.minimum(abs(v), 1)
        return a + a * a / (f.sqrt(a * a + 1.0) + 1.0)

    def whole(v: Value, s: Value) -> Value:
        inverse = 1.0 / f.maximum(abs(v), 1)
        large = f.log(abs(v)) + f.log(f.sqrt(inverse * inverse + 1.0) + 1.0)
        value = f.select(abs(v) < 1, log1p(s), large)
        return value * _sign(v)

    return over("asinh", whole, x, over("asinh_small", small, x))


def acosh(x: Tensor) -> Tensor:
    """The inverse of cosh for x from 1 up; NaN below."""

    def small(v: Value) -> Value:
        above = f.minimum(v, 2) - 1.0
        return above + f.sqrt(above) * f.sqrt(above + 2.0)

    def whole(v: Value, s: Value) -> Value:
        inverse = 1.0 / f.maximum(v, 2)
        large = f.log(v) + f.log(f.sqrt(1.0 - inverse * inverse) + 1.0)
        return f.select(v > 2, large, log1p(s))

    return over("acosh", whole, x, over("acosh_small", small, x))


def atanh(x: Tensor) -> Tensor:
    """The inverse of tanh for x from -1 to 1; NaN outside."""
    odds = over("atanh_odds", lambda v: 2.0 * abs(v) / (1.0 - abs(v)), x)

    return over("atanh", lambda v, s: log1p(s) * (0.5 * _sign(v)), x, odds)


def tan(x: Value) -> Value:
    """The tangent of x radians."""
    return f.sin(x) / f.cos(x)


def atan(x: Tensor) -> Tensor:
    """The inverse of tan, from -π/2 to π/2."""

    def folded(v: Value) -> Value:
        return f.select(abs(v) > 1, 1.0 / abs(v), abs(v))

    def whole(v: Value, angle: Value) -> Value:
        value = f.select(abs(v) > 1, math.pi / 2 - angle, angle)
        return value * _sign(v)

    return over("atan", whole, x, _unit_angle(over("atan_folded", folded, x)))


def asin(x: Tensor) -> Tensor:
    """The inverse of sin for x from -1 to 1; NaN outside."""
    return atan(over("slope", lambda v: v / f.sqrt((1.0 - v) * (v + 1.0)), x))


def acos(x: Tensor) -> Tensor:
    """The inverse of cos for x from -1 to 1, from 0 to π; NaN outside."""
    half = atan(over("slope", lambda v: f.sqrt((1.0 - v) / (v + 1.0)), x))
    return over("acos", lambda v: 2.0 * v, half)


def atan2(y: Tensor, x: Tensor) -> Tensor:
    """The angle of the point (x, y), from -π to π, as in C."""

    def ratio(b: Value, a: Value) -> Value:
        small, large = f.minimum(abs(a), abs(b)), f.maximum(abs(a), abs(b))
        equal = f.select(large == 0, 0.0, f.cast(1.0, a.dtype))
        return f.select(small == large, equal, small / large)

    def whole(b: Value, a: Value, angle: Value) -> Value:
        value = f.select(abs(b) > abs(a), math.pi / 2 - angle, angle)
        value = f.select(_below(a), math.pi - value, value)
        return value * f.select(_below(b), -1.0, f.cast(1.0, b.dtype))

    return over("atan2", whole, y, x, _unit_angle(over("atan2_ratio", ratio, y, x)))


def _below(x: Value) -> Value:
    """Whether the sign is minus, of zeros too."""
    return (x < 0) | (1.0 / x < 0)


_TURN = math.sqrt(2) - 1  # tan(π/8)


def _unit_angle(x: Tensor) -> Tensor:
    """atan of 0 to 1: beyond tan(π/8) it is π/4 + atan((x - 1) / (x + 1))."""
    reduced = over(
        "atan_reduced",
        lambda v: f.select(v > _TURN, (v - 1.0) / (v + 1.0), v),
        x,
    )
    terms = _atan_terms(10 if x.dtype == "float64" else 5)

    def series(v: Value) -> Value:
        total = f.cast(terms[-1], v.dtype)
        for term in reversed(terms[:-1]):
            total = total * (v * v) + term
        return v + v * (v * v) * total

    def whole(v: Value, s: Value) -> Value:
        return s + f.select(v > _TURN, math.pi / 4, f.cast(0.0, v.dtype))

    return over("atan_unit", whole, x, over("atan_series", series, reduced))


@cache
def _atan_terms(count: int) -> tuple[float, ...]:
    """Coefficients of (atan(x) / x - 1) / x² in x², for x up to tan(π/8).

    Interpolation at Chebyshev points; atan is off by less than 2⁻²⁷ of itself with 5
    terms and 2⁻⁵³ with 10.
    """
    end = _TURN**2 * 1.001

    def tail(z: np.ndarray) -> np.ndarray:
        terms = [(-1) ** (n + 1) / (2 * n + 3) for n in range(40)]
        return np.asarray(np.polynomial.polynomial.polyval(z, terms))

    fitted = np.polynomial.Chebyshev.interpolate(tail, count - 1, domain=[0, end])
    power = fitted.convert(kind=np.polynomial.Polynomial, domain=[-1, 1])
    return tuple(power.coef.tolist())


def softplus(x: Tensor) -> Tensor:
    """log(1 + exp(x)), without overflow."""
    small = over("softplus_small", lambda v: f.exp(-abs(v)), x)
    return over("softplus", lambda v, s: f.maximum(v, 0) + log1p(s), x, small)


def log_sigmoid(x: Tensor) -> Tensor:
    """log(sigmoid(x)), without overflow."""
    small = over("softplus_small", lambda v: f.exp(-abs(v)), x)
    return over("log_sigmoid", lambda v, s: f.minimum(v, 0) - log1p(s), x, small)


def mish(x: Value) -> Value:
    """x tanh(softplus(x)): with e = exp(x), x (e² + 2e) / (e² + 2e + 2)."""
    e = f.exp(f.minimum(x, 20))  # from there on the quotient is 1
    n = e * (e + 2.0)
    return x * (n / (n + 2.0))


def fmod(a: Value, b: Value) -> Value:
    """The remainder with the sign of the dividend, of floats and integers."""
    if a.dtype == "uint8":
        return a % b
    rest = a % b
    wrong = (rest != 0) & ((a < 0) != (b < 0))
    if not is_float(a.dtype):
        return f.select(wrong, rest - b, rest)
    size = abs(a) % abs(b)  # exact, which adding b to a remainder is not
    return f.select(a < 0, -size, size)


def truncated_divide(a: Value, b: Value) -> Value:
    """Integers divided as in C: rounded towards 0; 0 for a zero divisor."""
    quotient = a // b
    if a.dtype == "uint8":
        return quotient
    wrong = (quotient * b != a) & ((a < 0) != (b < 0)) & (b != 0)
    return f.select(wrong, quotient + 1, quotient)


_EXPONENT_BITS = 6  # of exponents: 64 factors other than 1 and -1 fill any type


def integer_power(base: Value, exponent: Value) -> Value:
    """base ** exponent that wraps around; negative exponents truncate the quotient."""
    last = (1 << _EXPONENT_BITS) - 1
    capped = f.select(exponent > last, (exponent & 1) + (last - 1), exponent)
    factor, result = base, f.cast(1, base.dtype)
    for bit in range(_EXPONENT_BITS):
        taken = (capped >> bit) & 1 != 0
        result = f.select(taken, result * factor, result)
        factor = factor * factor
    if exponent.dtype == "uint8":
        return result
    unit = (base == 1) | ((base * base == 1) & (exponent & 1 == 0))
    minus = f.select(base * base == 1, base, f.cast(0, base.dtype))
    inverse = f.select(unit, f.cast(1, base.dtype), minus)
    return f.select(exponent < 0, inverse, result)
