"""The element types of tensors: one table, from name to size, kind and NumPy type."""

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from ansor.errors import IRError


@dataclass(frozen=True, slots=True)
class DType:
    """One row of the table."""

    name: str
    kind: str  # "float" | "int" | "uint" | "bool"
    bits: int  # as stored in memory
    numpy: np.dtype

    @property
    def bytes(self) -> int:
        return self.bits // 8


DTYPES: dict[str, DType] = {
    row.name: row
    for row in (
        DType("float64", "float", 64, np.dtype(np.float64)),
        DType("float32", "float", 32, np.dtype(np.float32)),
        DType("float16", "float", 16, np.dtype(np.float16)),
        DType("bfloat16", "float", 16, np.dtype(ml_dtypes.bfloat16)),
        DType("int64", "int", 64, np.dtype(np.int64)),
        DType("int32", "int", 32, np.dtype(np.int32)),
        DType("int16", "int", 16, np.dtype(np.int16)),
        DType("int8", "int", 8, np.dtype(np.int8)),
        DType("uint8", "uint", 8, np.dtype(np.uint8)),
        DType("bool", "bool", 8, np.dtype(np.bool_)),
    )
}

INDEX = "int64"  # the type of loop variables and indices


def dtype(name: str) -> DType:
    """The row of `name`; raises IRError for a type that is not in the table."""
    try:
        return DTYPES[name]
    except (KeyError, TypeError):
        known = ", ".join(DTYPES)
        raise IRError(f"dtype {name!r}", "unknown", f"use one of {known}") from None


def is_float(name: str) -> bool:
    return DTYPES[name].kind == "float"


def is_int(name: str) -> bool:
    """True for signed and unsigned integers, false for bool."""
    return DTYPES[name].kind in ("int", "uint")
