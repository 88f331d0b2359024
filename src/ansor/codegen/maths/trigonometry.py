"""sin and cos: subtract quarter turns, then one of two polynomials.

The turns are subtracted in float64, in three parts of pi/2 whose products with the
number of turns are exact: accurate for |x| <= 2**20. Larger arguments stay within
[-1, 1] but lose their digits.
"""

from ansor.codegen.maths import coefficients as table
from ansor.codegen.maths.formats import FORMATS
from ansor.codegen.text import BITS, Vec, polynomial

LARGEST = 2.0**20  # arguments up to here meet the stated error
_TWO_BY_PI = 0.6366197723675814
_EIGHTH_TURN = 0.7854


def sin(x: Vec) -> Vec:
    turns, r = _reduced(x.abs())
    return _flipped(_wave(turns, r), _sign(turns) ^ (x.bits() & _sign_bit(x)))


def cos(x: Vec) -> Vec:
    turns, r = _reduced(x.abs())
    turns = turns + 1
    return _flipped(_wave(turns, r), _sign(turns))


def _reduced(x: Vec) -> tuple[Vec, Vec]:
    """Quarter turns (integers, the low bits count) and the angle that is left."""
    wide = x.extend() if x.type.element == "float" else x
    magic = FORMATS["double"].magic
    shifted = wide.fma(_TWO_BY_PI, magic)
    turns, r = shifted - magic, wide
    for part in table.HALF_PI:
        r = turns.fma(-part, r)
    r = r.at_most(_EIGHTH_TURN).at_least(-_EIGHTH_TURN)
    if x.type.element == "float":
        return shifted.bits().narrow(), r.truncate()
    return shifted.bits(), r


def _wave(turns: Vec, r: Vec) -> Vec:
    """sin(r) after an even number of quarter turns, else cos(r)."""
    single = r.type.element == "float"
    z = r * r
    sin_tail = polynomial(z, table.SIN32 if single else table.SIN64)
    cos_tail = polynomial(z, table.COS32 if single else table.COS64)
    sin_r = (r * z).fma(sin_tail, r)
    cos_r = (z * z).fma(cos_tail, z.fma(-0.5, 1.0)) if single else _cos64(z, cos_tail)
    return (turns & 1).eq(0).where(sin_r, cos_r)


def _cos64(z: Vec, tail: Vec) -> Vec:
    """1 - z/2 + z^2 * tail; what the first difference lost is added back."""
    half = z * 0.5
    near = 1.0 - half
    return near + (z * z).fma(tail, (1.0 - near) - half)


def _sign_bit(x: Vec) -> int:
    return 1 << (BITS[x.type.element] - 1)


def _sign(turns: Vec) -> Vec:
    """The sign bit, set after two or three quarter turns."""
    return (turns & 2) << (BITS[turns.type.element] - 2)


def _flipped(x: Vec, sign: Vec) -> Vec:
    return (x.bits() ^ sign).as_float()
