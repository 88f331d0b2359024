"""Our own vector maths: functions as LLVM IR text, the same on every target.

Straight-line code, no branches and no library calls; right at zeros, infinities, NaN
and denormals. float16 and bfloat16 have no rows: callers compute in float32.
"""

from collections.abc import Callable
from typing import NamedTuple

from ansor.codegen.maths.errorfunction import erf
from ansor.codegen.maths.exponential import exp, sigmoid, tanh
from ansor.codegen.maths.logarithm import log, log2
from ansor.codegen.maths.power import pow, rsqrt
from ansor.codegen.maths.trigonometry import LARGEST, cos, sin
from ansor.codegen.text import Body, Type, Vec
from ansor.errors import CodegenError


class Maths(NamedTuple):
    """One row: how a function is built, and what error it promises."""

    build: Callable[..., Vec]
    arity: int
    ulp32: float  # largest error in units in the last place, whole float32 range
    ulp64: float  # the same for float64
    largest: float = float("inf")  # the promise holds for |x| up to here


MATHS: dict[str, Maths] = {
    #                build    arity ulp32 ulp64
    "exp":     Maths(exp,     1,    2.0,  2.0),
    "log":     Maths(log,     1,    2.0,  1.0),
    "log2":    Maths(log2,    1,    2.0,  1.5),
    "tanh":    Maths(tanh,    1,    3.0,  3.0),
    "sigmoid": Maths(sigmoid, 1,    3.0,  3.0),
    "erf":     Maths(erf,     1,    4.0,  2.5),
    "sin":     Maths(sin,     1,    2.0,  3.0, LARGEST),
    "cos":     Maths(cos,     1,    2.0,  3.0, LARGEST),
    "pow":     Maths(pow,     2,    1.0,  2.0),
    "rsqrt":   Maths(rsqrt,   1,    2.0,  2.0),
}  # fmt: skip

FUNCTIONS_WITH_DEFINITIONS = frozenset(MATHS)
ELEMENTS = {"float32": "float", "float64": "double"}
_SHORT = {"float32": "f32", "float64": "f64"}


def symbol(function: str, dtype: str, lanes: int) -> str:
    """The name `definition` defines, without the @."""
    _check(function, dtype, lanes)
    return f"ansor.{function}.{_SHORT[dtype]}.v{lanes}"


def definition(
    function: str, dtype: str, lanes: int, fma: bool = True, tables: bool = False
) -> str:
    """The text of one function on vectors of `lanes` (a scalar if 1).

    `fma` says whether the target multiplies and adds in one rounding. Without it no
    such instruction is asked for, which would become a library call. `tables` puts
    coefficients into memory, for targets whose multiply-add overwrites its summand.
    """
    return _built(function, dtype, lanes, fma, tables)[0]


def declarations(function: str, dtype: str, lanes: int, fma: bool = True) -> list[str]:
    """The `declare` lines that the definition needs; several may share one."""
    return _built(function, dtype, lanes, fma)[1]


def ulp(function: str, dtype: str) -> float:
    """The largest error in units in the last place of the true result."""
    _check(function, dtype, 1)
    row = MATHS[function]
    return row.ulp32 if dtype == "float32" else row.ulp64


def _built(
    function: str, dtype: str, lanes: int, fma: bool, tables: bool = False
) -> tuple[str, list[str]]:
    name = symbol(function, dtype, lanes)
    row, body = MATHS[function], Body(fma, f"{name}.table" if tables else "")
    type_ = Type(ELEMENTS[dtype], lanes)
    arguments = [body.argument(type_, f"%{n}") for n in "xy"[: row.arity]]
    result = row.build(*arguments)
    return body.function(name, arguments, result), sorted(body.declared.values())


def _check(function: str, dtype: str, lanes: int) -> None:
    what = f"vector function {function!r} on {lanes} x {dtype}"
    if function not in MATHS:
        raise CodegenError(what, "no such function", f"use one of {', '.join(MATHS)}")
    if dtype not in ELEMENTS:
        known = " or ".join(ELEMENTS)
        raise CodegenError(what, "it has no code for this type", f"cast to {known}")
    if lanes < 1:
        raise CodegenError(what, "a vector needs at least 1 lane")
