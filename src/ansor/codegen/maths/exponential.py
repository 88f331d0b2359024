"""exp, sigmoid and tanh.

exp(x) = 4^k * exp(r) with |r| <= ln 2. The power 2^k never leaves the normal range
and is multiplied in twice: the second product rounds into the denormals, or
overflows to infinity, as it should. No case needs a select.
"""

from typing import NamedTuple

from ansor.codegen.maths import coefficients as table
from ansor.codegen.maths.formats import format_of, round_to_power
from ansor.codegen.text import Vec, paired_polynomial


class _Constants(NamedTuple):
    ln4: tuple[float, ...]  # high part times k is exact
    tail: tuple[float, ...]  # exp(r) = 1 + r + r^2 * tail(r)
    highest: float  # exp is infinite from here
    lowest: float  # exp is zero from here


_EXP = {
    "float": _Constants(table.LN4_32, table.EXP32, 89.0, -104.0),
    "double": _Constants(table.LN4_64, table.EXP64, 710.0, -746.0),
}
_HALF_LOG2E = 0.7213475204444817
_LN2 = 0.6931471805599453


def exp(x: Vec) -> Vec:
    limits = _EXP[x.type.element]
    return exp_within(x.at_most(limits.highest).at_least(limits.lowest))


def exp_within(x: Vec) -> Vec:
    """exp of an argument that is within the limits already."""
    fraction, power = _reduced(x)
    return fraction * power * power


def _reduced(x: Vec) -> tuple[Vec, Vec]:
    """exp(r) and 2^k, where exp(x) = 4^k * exp(r)."""
    c = _EXP[x.type.element]
    k, power = round_to_power(x, _HALF_LOG2E)
    r = k.fma(-c.ln4[1], k.fma(-c.ln4[0], x))
    return (r * r).fma(paired_polynomial(r, c.tail), r + 1.0), power


def sigmoid(x: Vec) -> Vec:
    """exp(x) / (1 + exp(x)), cancelled by 2^k so that nothing overflows early."""
    form, limits = format_of(x), _EXP[x.type.element]
    fraction, power = _reduced(x.at_most(-limits.lowest).at_least(limits.lowest))
    top = fraction * power
    inverse = ((2 * form.bias << form.mantissa) - power.bits()).as_float()  # 2^-k
    return top / (top + inverse)


def expm1_within(x: Vec) -> Vec:
    """exp(x) - 1 = (2^k - 1) + 2^k * (exp(r) - 1), accurate near 0.

    Requires 2^k to be a normal number. One product takes k * ln 2 away: callers
    damp the relative error that a large |x| keeps from it.
    """
    tail = table.EXPM1_32 if x.type.element == "float" else table.EXPM1_64
    k, power = round_to_power(x, 2.0 * _HALF_LOG2E)
    r = k.fma(-_LN2, x)
    fraction = (r * r).fma(paired_polynomial(r, tail), r)
    return power.fma(fraction, power - 1.0)


def tanh(x: Vec) -> Vec:
    """e / (e + 2) with e = exp(2 |x|) - 1."""
    largest = 10.0 if x.type.element == "float" else 20.0  # tanh rounds to 1
    a = x.abs().at_most(largest)
    e = expm1_within(a + a)
    return (e / (e + 2.0)).copysign(x)
