"""erf: a quotient of polynomials in float32, 1 - exp(g(x)) in float64."""

from ansor.codegen.maths import coefficients as table
from ansor.codegen.maths.exponential import expm1_within
from ansor.codegen.text import Vec, paired_polynomial, polynomial

_LARGEST_SQUARE = 16.8  # the quotient is above 1 from here


_SHARE = 2.0625  # of the numerator in the denominator; as tools/fit_maths.py has it


def erf(x: Vec) -> Vec:
    if x.type.element == "double":
        return _erf64(x)
    if not x.body.fma:  # the quotient would be 4.5 units off
        return _erf64(x.extend()).truncate()
    return _erf32(x)


def _erf32(x: Vec) -> Vec:
    """x * top(x^2) / (share * top(x^2) + rest(x^2)), cut to [-1, 1].

    Where erf nears 1, half of an error of top is in the denominator as well and
    cancels. A cut of the square is enough: from there on the quotient grows with x.
    """
    z = (x * x).at_most(_LARGEST_SQUARE)
    top = polynomial(z, table.ERF32)
    below = top.fma(_SHARE, polynomial(z, table.ERF32_REST))
    return (x * top / below).at_most(1.0).at_least(-1.0)


def _erf64(x: Vec) -> Vec:
    """g fits log(1 - erf(x)), which is smooth and nearly a parabola; the difference
    is taken by expm1, so small arguments keep all their digits."""
    a = x.abs().at_most(6.0)  # erf rounds to 1
    tail = a * paired_polynomial(a, table.ERF64)
    g = a.fma(-1.125, tail)  # the slope at 0 but for a small, rounded rest
    return expm1_within(g).copysign(x)
