"""erf: a quotient of polynomials in float32, 1 - exp(g(x)) in float64.

The polynomial g fits log(1 - erf(x)), which is smooth and nearly a parabola; the
difference is taken by expm1, so small arguments keep all their digits.
"""

from ansor.codegen.maths import coefficients as table
from ansor.codegen.maths.exponential import expm1_within, odd_quotient
from ansor.codegen.text import Vec, paired_polynomial

_ERF_IS_1 = 4.1


def erf(x: Vec) -> Vec:
    if x.type.element == "float":
        return odd_quotient(x, _ERF_IS_1, table.ERF32, table.ERF32_BELOW)
    a = x.abs().at_most(6.0)  # erf rounds to 1
    tail = a * paired_polynomial(a, table.ERF64)
    g = a.fma(-1.125, tail)  # the slope at 0 but for a small, rounded rest
    return expm1_within(g).copysign(x)
