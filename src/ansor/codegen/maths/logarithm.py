"""log and log2: x = 2^k * m, then a polynomial in m - 1."""

import math

from ansor.codegen.maths import coefficients as table
from ansor.codegen.maths.formats import format_of
from ansor.codegen.text import Vec, polynomial, short_polynomial

LOG2E = 1.4426950408889634
_LOWEST_M = {"float": 0x3F2AAAAB, "double": 0x3FE6A09E667F3BCD}  # 2/3, sqrt(1/2)


def log(x: Vec) -> Vec:
    if x.type.element == "float":
        return _log32(x)
    k, m = split(x)
    f = m - 1.0
    high, low = table.LN2_64
    return _with_limits(x, k.fma(high, f + k.fma(low, _below64(f))))


def _log32(x: Vec) -> Vec:
    tiny = x.lt(2.0**-126)
    bits = tiny.where(x * 2.0**23, x).bits()
    shift = (bits - 0x3F2AAAAB) & ~0x7FFFFF
    f = (bits - shift).as_float() - 1.0
    k = (shift - tiny.where(shift.like(23 << 23), 0)).to_float()
    k = x.lt(math.inf).where(k, x)
    r = k.fma(0.6931471805599453 * 2.0**-23, (f * f).fma(short_polynomial(f, table.LOG32[:8]), f))
    return x.gt(0.0).where(r, x.eq(0.0).where(x.like(-math.inf), x.like(math.nan)))


def log2(x: Vec) -> Vec:
    k, m = split(x)
    f = m - 1.0
    if x.type.element == "float":
        rest = f * short_polynomial(f, table.LOG2_32)
    else:
        rest = _below64(f).fma(LOG2E, f * (LOG2E - 1.0))
    return _with_limits(x, k + (f + rest))


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


def _below32(f: Vec) -> Vec:
    """log(1 + f) - f"""
    return f * f * short_polynomial(f, table.LOG32)


def _below64(f: Vec) -> Vec:
    """log(1 + f) - f, through s = f / (2 + f) and log(1 + f) = 2 atanh(s)."""
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    rest = z.fma(polynomial(z, table.ATANH64), half_square)
    return s.fma(rest, -half_square)


def _with_limits(x: Vec, result: Vec) -> Vec:
    """-inf at zero, NaN below, x itself at infinity."""
    outside = x.eq(0.0).where(x.like(-math.inf), x.like(math.nan))
    finite = x.eq(math.inf).where(x, result)
    return x.gt(0.0).where(finite, outside)
