"""erf: 1 - exp(g(x)), where g is a polynomial without constant term.

The polynomial fits log(1 - erf(x)), which is smooth and nearly a parabola; the
difference is taken by expm1, so small arguments keep all their digits.
"""

from ansor.codegen.maths import coefficients as table
from ansor.codegen.maths.exponential import expm1_within
from ansor.codegen.text import Vec, short_polynomial


def erf(x: Vec) -> Vec:
    single = x.type.element == "float"
    a = x.abs().at_most(4.0 if single else 6.0)  # erf rounds to 1
    tail = a * short_polynomial(a, table.ERF32 if single else table.ERF64)
    g = a.fma(-1.125, tail)  # the slope at 0 but for a small, rounded rest
    return expm1_within(g).copysign(x)
