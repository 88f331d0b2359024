"""What the algorithms need to know of a float type."""

from dataclasses import dataclass

from ansor.codegen.text import Vec


@dataclass(frozen=True, slots=True)
class Format:
    mantissa: int  # stored bits
    bias: int  # of the exponent
    smallest_normal: float

    @property
    def magic(self) -> float:
        """Adding it rounds to an integer, which the low mantissa bits then hold."""
        return 1.5 * 2.0**self.mantissa


FORMATS = {
    "float": Format(23, 127, 2.0**-126),
    "double": Format(52, 1023, 2.0**-1022),
}


def format_of(x: Vec) -> Format:
    return FORMATS[x.type.element]


def round_to_power(x: Vec, factor: float) -> tuple[Vec, Vec]:
    """k = x * factor rounded to an integer, and 2^k; both as floats.

    Two or three instructions, no conversion. Requires 2^k to be a normal number.
    """
    form = format_of(x)
    shifted = x.fma(factor, form.magic + form.bias)
    k = shifted - (form.magic + form.bias)
    return k, (shifted.bits() << form.mantissa).as_float()
