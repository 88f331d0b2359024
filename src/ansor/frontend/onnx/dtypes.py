"""ONNX's codes of element types, and ours."""

from __future__ import annotations

from collections.abc import Mapping

# TensorProto.DataType, which is part of the format and does not change.
NAMES: Mapping[int, str] = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8e4m3fn",
    18: "float8e4m3fnuz",
    19: "float8e5m2",
    20: "float8e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4e2m1",
    24: "float8e8m0",
    25: "uint2",
    26: "int2",
}
_OURS = (1, 2, 3, 5, 6, 7, 9, 10, 11, 16)

# The types that graphs have.
CODES: Mapping[int, str] = {code: NAMES[code] for code in _OURS}


def code_name(code: object) -> str:
    """A code in a message.

    >>> code_name(13)
    'uint64'
    """
    known = isinstance(code, int) and code in NAMES
    return NAMES[code] if known and isinstance(code, int) else f"element type {code!r}"
