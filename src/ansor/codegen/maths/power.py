"""pow and rsqrt. pow(x, y) = 2^(y * log2 |x|), with the sign and limits of C's pow.

float32 computes in float64 lanes. float64 carries log2 |x| as a sum of two numbers,
because an error in it is multiplied by up to 1024 in the result.
"""

import math
from typing import NamedTuple

from ansor.codegen.maths import coefficients as table
from ansor.codegen.maths.formats import FORMATS, round_to_power
from ansor.codegen.maths.logarithm import split, split_normal
from ansor.codegen.text import Vec, polynomial

_LARGEST_EXPONENT = 2.0**66  # beyond, any |x| but 1 over- or underflows


class Pair(NamedTuple):
    """The unevaluated sum of two floats, `low` below the rounding of `high`."""

    high: Vec
    low: Vec


def rsqrt(x: Vec) -> Vec:
    return 1.0 / x.sqrt()


def pow(x: Vec, y: Vec) -> Vec:
    base = x.abs()
    exponent = y.at_most(_LARGEST_EXPONENT).at_least(-_LARGEST_EXPONENT)
    single = x.type.element == "float"
    size = _pow32(base, exponent) if single else _pow64(base, exponent)
    return _with_limits(x, y, size)


def _with_limits(x: Vec, y: Vec, size: Vec) -> Vec:
    """The cases of C's pow around `size`, which is right for finite |x| > 0."""
    base = x.abs()
    grows = base.gt(1.0) ^ y.lt(0.0)
    limit = grows.where(x.like(math.inf), x.like(0.0))
    size = (base.eq(0.0) | base.eq(math.inf)).where(limit, size)
    size = (x.ne(x) | y.ne(y)).where(x + y, size)
    whole = y.rint().eq(y)
    half = y * 0.5
    odd = whole & half.rint().ne(half)
    signed = odd.where(size.copysign(x), size)
    undefined = x.lt(0.0) & x.ne(-math.inf) & ~whole
    defined = undefined.where(math.nan, signed)
    return (x.eq(1.0) | y.eq(0.0)).where(1.0, defined)


def _pow32(base: Vec, y: Vec) -> Vec:
    k, m = split_normal(base.extend())
    f = m - 1.0
    s = f / (f + 2.0)
    log2 = s.fma(polynomial(s * s, table.POW32_LOG2), k)
    product = (log2 * y.extend()).at_most(300.0).at_least(-300.0)
    n, power = round_to_power(product, 1.0)
    return (polynomial(product - n, table.POW32_EXP2) * power).truncate()


def _pow64(base: Vec, y: Vec) -> Vec:
    log2 = _log2_pair(base)
    product = _product(log2, y)
    high = product.high.at_most(1100.0).at_least(-1100.0)
    return _exp2(high, product.low.at_most(0.01).at_least(-0.01))  # if high was cut


def _log2_pair(x: Vec) -> Pair:
    """log2(x) to about 2**-65: s = (m - 1) / (m + 1), log(m) = 2 atanh(s)."""
    k, m = split(x)
    s = _centred_quotient(m)
    z = _product(s, s.high)
    z = Pair(z.high, s.high.fma(s.low, z.low))
    third = _product(z, z.high.like(table.THIRD[0]))
    rest = z.high * z.high * polynomial(z.high, table.POW64_LOG)
    low = third.low + z.high.fma(table.THIRD[1], rest)
    series = _fast_sum(x.like(1.0), third.high, low)
    product = _product(s, series.high)
    atanh = Pair(product.high, s.high.fma(series.low, product.low))
    log2 = _product(atanh, x.like(table.TWO_LOG2E[0]))
    return _fast_sum(k, log2.high, atanh.high.fma(table.TWO_LOG2E[1], log2.low))


def _centred_quotient(m: Vec) -> Pair:
    """(m - 1) / (m + 1)"""
    f, d = m - 1.0, m + 1.0
    lost = m - (d - 1.0)
    quotient = f / d
    back = _product(Pair(d, lost), quotient)
    return Pair(quotient, ((f - back.high) - back.low) / d)


def _exp2(x: Vec, low: Vec) -> Vec:
    """2^(x + low), |x| <= 1100, in two factors so that it underflows gradually."""
    form = FORMATS["double"]
    offset = form.magic + 2 * form.bias
    shifted = x + offset
    r = (x - (shifted - offset)) + low
    fraction = r.fma(polynomial(r, table.POW64_EXP2), 1.0)
    bits = shifted.bits()
    first = bits.logical_shift(1)
    for part in (first, bits - first):
        fraction = fraction * (part << form.mantissa).as_float()
    return fraction


def _fast_sum(a: Vec, b: Vec, low: Vec) -> Pair:
    """a + b + low, where |a| >= |b| >= |low|, or a = 0."""
    near = a + b
    low = (b - (near - a)) + low
    high = near + low
    return Pair(high, low - (high - near))


def _product(a: Pair, b: Vec) -> Pair:
    high = a.high * b
    return Pair(high, a.low.fma(b, _lost(a.high, b, high)))


def _lost(a: Vec, b: Vec, product: Vec) -> Vec:
    """a * b - product, exactly."""
    if a.body.fma:
        return a.fused(b, -product)
    (a1, a0), (b1, b0) = _halves(a), _halves(b)
    return ((a1 * b1 - product) + a1 * b0 + a0 * b1) + a0 * b0


def _halves(x: Vec) -> Pair:
    """x as two floats whose products with such halves are exact."""
    high = (x.bits() & ~((1 << 27) - 1)).as_float()
    return Pair(high, x - high)
