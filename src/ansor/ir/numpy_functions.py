"""The value of every row of `ops.FUNCTIONS` on NumPy arrays, in the array's dtype."""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]

_SERIES_END = 2.0  # |x| up to here: a series of erf; beyond: a fraction of erfc
_SERIES_TERMS = 36
_FRACTION_TERMS = 40
_ONE_FROM = 6.0  # erf rounds to 1 from here on


def erf(x: Array) -> Array:
    """The error function, to about 1e-15 relative in float64."""
    values = np.atleast_1d(np.asarray(x, np.float64))
    size = np.abs(values)
    result = np.where(np.isnan(values), values, 1.0)
    near = size <= _SERIES_END
    far = (size > _SERIES_END) & (size < _ONE_FROM)
    result[near] = _erf_series(size[near])
    result[far] = 1.0 - _erfc_fraction(size[far])
    return np.copysign(result, values).reshape(np.shape(x)).astype(np.asarray(x).dtype)


def _erf_series(x: Array) -> Array:
    """exp(-x²) · 2/√π · Σ 2ⁿ x²ⁿ⁺¹ / (2n+1)!!, whose terms are all positive."""
    twice = 2.0 * x * x
    total = np.ones_like(x)
    for n in range(_SERIES_TERMS, 0, -1):
        total = 1.0 + total * twice / (2 * n + 1)
    return np.asarray(2.0 / np.sqrt(np.pi) * x * _exp_minus_square(x) * total)


def _erfc_fraction(x: Array) -> Array:
    """exp(-x²)/√π · 1/(x + (1/2)/(x + (2/2)/(x + (3/2)/(x + …))))."""
    tail = x
    for n in range(_FRACTION_TERMS, 0, -1):
        tail = x + n / 2 / tail
    return np.asarray(_exp_minus_square(x) / (tail * np.sqrt(np.pi)))


def _exp_minus_square(x: Array) -> Array:
    """exp(-x²) without the rounding error of x², which exp would magnify."""
    high = x.astype(np.float32).astype(np.float64)  # its square is exact
    return np.asarray(np.exp(-high * high) * np.exp(-(x - high) * (x + high)))


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _rsqrt(x: Array) -> Array:
    return np.asarray(1 / np.sqrt(x))


NUMPY_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "not": np.invert,  # logical on bool, bitwise on integers
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "erf": erf,
    "sin": np.sin,
    "cos": np.cos,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,  # half to even
    "isnan": np.isnan,
}
