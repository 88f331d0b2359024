"""The tables of scalar operators. A backend that misses a row fails a test."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class BinaryOp(NamedTuple):
    symbol: str  # how the printer writes it
    numpy: Callable[..., Any]  # value on scalars and arrays
    infix: bool  # a + b, or max(a, b)
    commutes: bool  # a op b == b op a
    flops: int  # per element
    result: str  # "same" as the operands, or "bool"


class Function(NamedTuple):
    arity: int
    flops: int
    floats: bool  # needs float operands


class Reducer(NamedTuple):
    op: str  # the binary operator that combines two values
    identity: Callable[[str], int | float | bool]  # its neutral element, by dtype


def _divide(a: Any, b: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.true_divide(a, b)


def _floor_divide(a: Any, b: Any) -> Any:
    # Of floats the rounded quotient, rounded down; NumPy's // corrects that rounding.
    with np.errstate(all="ignore"):
        if np.asarray(a).dtype.kind in "biu":
            return np.floor_divide(a, b)
        return np.floor(np.true_divide(a, b))


def _mod(a: Any, b: Any) -> Any:
    with np.errstate(all="ignore"):
        return np.mod(a, b)


BINARY: dict[str, BinaryOp] = {
    #                     symbol  numpy                infix  commutes flops result
    "add":      BinaryOp("+",    np.add,              True,  True,    1, "same"),
    "sub":      BinaryOp("-",    np.subtract,         True,  False,   1, "same"),
    "mul":      BinaryOp("*",    np.multiply,         True,  True,    1, "same"),
    "div":      BinaryOp("/",    _divide,             True,  False,   1, "same"),
    "floordiv": BinaryOp("//",   _floor_divide,       True,  False,   1, "same"),
    "mod":      BinaryOp("%",    _mod,                True,  False,   1, "same"),
    "min":      BinaryOp("min",  np.minimum,          False, True,    1, "same"),
    "max":      BinaryOp("max",  np.maximum,          False, True,    1, "same"),
    "pow":      BinaryOp("pow",  np.power,            False, False,   1, "same"),
    "and":      BinaryOp("&",    np.bitwise_and,      True,  True,    1, "same"),
    "or":       BinaryOp("|",    np.bitwise_or,       True,  True,    1, "same"),
    "xor":      BinaryOp("^",    np.bitwise_xor,      True,  True,    1, "same"),
    "shl":      BinaryOp("<<",   np.left_shift,       True,  False,   1, "same"),
    "shr":      BinaryOp(">>",   np.right_shift,      True,  False,   1, "same"),
    "lt":       BinaryOp("<",    np.less,             True,  False,   1, "bool"),
    "le":       BinaryOp("<=",   np.less_equal,       True,  False,   1, "bool"),
    "eq":       BinaryOp("==",   np.equal,            True,  True,    1, "bool"),
    "ne":       BinaryOp("!=",   np.not_equal,        True,  True,    1, "bool"),
}  # fmt: skip

FUNCTIONS: dict[str, Function] = {
    #                   arity flops floats
    "neg":     Function(1, 1, False),
    "not":     Function(1, 1, False),
    "abs":     Function(1, 1, False),
    "exp":     Function(1, 1, True),
    "log":     Function(1, 1, True),
    "log2":    Function(1, 1, True),
    "sqrt":    Function(1, 1, True),
    "rsqrt":   Function(1, 1, True),
    "tanh":    Function(1, 1, True),
    "sigmoid": Function(1, 1, True),
    "erf":     Function(1, 1, True),
    "sin":     Function(1, 1, True),
    "cos":     Function(1, 1, True),
    "floor":   Function(1, 1, True),
    "ceil":    Function(1, 1, True),
    "round":   Function(1, 1, True),
    "isnan":   Function(1, 1, True),
}  # fmt: skip


def lowest(dtype: str) -> int | float | bool:
    """The smallest value of a type, minus infinity for floats."""
    from ansor.ir.dtypes import DTYPES, is_float

    if is_float(dtype):
        return float("-inf")
    return False if dtype == "bool" else int(np.iinfo(DTYPES[dtype].numpy).min)


def highest(dtype: str) -> int | float | bool:
    """The largest value of a type, infinity for floats."""
    from ansor.ir.dtypes import DTYPES, is_float

    if is_float(dtype):
        return float("inf")
    return True if dtype == "bool" else int(np.iinfo(DTYPES[dtype].numpy).max)


REDUCERS: dict[str, Reducer] = {
    "sum": Reducer("add", lambda dtype: 0),
    "prod": Reducer("mul", lambda dtype: 1),
    "max": Reducer("max", lowest),
    "min": Reducer("min", highest),
    "any": Reducer("or", lambda dtype: False),
    "all": Reducer("and", lambda dtype: True),
}
