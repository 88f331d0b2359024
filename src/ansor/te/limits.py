"""Limits of the float types."""

from functools import cache
from typing import NamedTuple

import ml_dtypes

from ansor.ir.dtypes import DTYPES


class Limits(NamedTuple):
    """What a float type can represent."""

    epsilon: float  # from 1 to the next greater number
    smallest: float  # positive, with full precision
    largest: float  # finite


@cache
def limits(dtype: str) -> Limits:
    """The limits of a float type.

    >>> limits("float16").largest
    65504.0
    """
    info = ml_dtypes.finfo(DTYPES[dtype].numpy)  # type: ignore[no-untyped-call]
    return Limits(float(info.eps), float(info.tiny), float(info.max))
