"""log and log2: x = 2^k * m, then a polynomial in m - 1."""

import math

from ansor.codegen.maths import coefficients as table
from ansor.codegen.maths.formats import format_of
from ansor.codegen.text import Vec, polynomial

LOG2E = 1.4426950408889634
_LN2 = 0.6931471805599453
_LOWEST_M = {"float": 0x3F2AAAAB, "double": 0x3FE6A09E667F3BCD}  # 2/3, sqrt(1/2)


def log(x: Vec) -> Vec:
    if x.type.element == "float":
        k, f = _split32(x)
        near = k.fma(_LN2 * 2.0**-23, f)  # float32's ln 2 is right to 29 bits
        return _above_zero(x, (f * f).fma(polynomial(f, table.LOG32), near))
    k, m = split(x)
    f = m - 1.0
    high, low = table.LN2_64
    return _with_limits(x, k.fma(high, f + k.fma(low, _below64(f))))


def log2(x: Vec) -> Vec:
    if x.type.element == "float":
        k, f = _split32(x)
        near = k.fma(2.0**-23, f)
        return _above_zero(x, f.fma(polynomial(f, table.LOG2_32), near))
    k, m = split(x)
    f = m - 1.0
    rest = _below64(f).fma(LOG2E, f * (LOG2E - 1.0))
    return _with_limits(x, k + (f + rest))


def _split32(x: Vec) -> tuple[Vec, Vec]:
    """2^23 * k and m - 1 with x = 2^k * m and m from 2/3; k is x at infinity and NaN.

    The exponent is converted where it stands, without a shift.
    """
    form = format_of(x)
    tiny = x.lt(form.smallest_normal)
    bits = tiny.where(x * 2.0**form.mantissa, x).bits()
    shift = (bits - _LOWEST_M["float"]) & ~((1 << form.mantissa) - 1)
    scaling = tiny.where(shift.like(form.mantissa << form.mantissa), 0)
    k = x.lt(math.inf).where((shift - scaling).to_float(), x)
    return k, (bits - shift).as_float() - 1.0


def split(x: Vec) -> tuple[Vec, Vec]:
    """k and m with x = 2^k * m and m about 1 (from 2/3 or sqrt(1/2)), both floats.

    Requires x > 0 and finite; denormals are right. Anything else gives some number.
    """
    form = format_of(x)
    tiny = x.lt(form.smallest_normal)
    scaled = tiny.where(x * 2.0**form.mantissa, x)
    k, m = split_normal(scaled)
    return k + tiny.where(k.like(-form.mantissa), k.like(0)), m


def split_normal(x: Vec) -> tuple[Vec, Vec]:
    """As `split`, for numbers that are not denormal."""
    form, lowest = format_of(x), _LOWEST_M[x.type.element]
    bits = x.bits() + ((form.bias << form.mantissa) - lowest)
    exponent = bits.logical_shift(form.mantissa)
    offset = 2.0**form.mantissa  # its low mantissa bits take the exponent
    k = (exponent | _power_bits(form.mantissa, form.bias)).as_float()
    m = ((bits & ((1 << form.mantissa) - 1)) + lowest).as_float()
    return k - (offset + form.bias), m


def _power_bits(mantissa: int, bias: int) -> int:
    """The bits of 2.0**mantissa."""
    return (bias + mantissa) << mantissa


def _below64(f: Vec) -> Vec:
    """log(1 + f) - f, through s = f / (2 + f) and log(1 + f) = 2 atanh(s)."""
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    rest = z.fma(polynomial(z, table.ATANH64), half_square)
    return s.fma(rest, -half_square)


def _with_limits(x: Vec, result: Vec) -> Vec:
    """-inf at zero, NaN below, x itself at infinity."""
    return _above_zero(x, x.eq(math.inf).where(x, result))


def _above_zero(x: Vec, result: Vec) -> Vec:
    """`result` above zero, -inf at zero, else NaN (of ones, so that one `or` does)."""
    bits = x.like(-math.inf).bits()
    other = x.ne(0.0).where(bits.like(-1), bits).as_float()
    return x.gt(0.0).where(result, other)
