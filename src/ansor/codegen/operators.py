"""The tables of operators: one row, one way to write it in LLVM."""

from __future__ import annotations

from collections.abc import Callable

from ansor.codegen.instructions import Instructions
from ansor.codegen.module import Value
from ansor.codegen.text import NAN
from ansor.errors import CodegenError
from ansor.ir.dtypes import DTYPES, is_float

Emit2 = Callable[[Instructions, Value, Value], Value]
Emit1 = Callable[[Instructions, Value], Value]


def _typed(floats: str, ints: str) -> Emit2:
    def emit(v: Instructions, a: Value, b: Value) -> Value:
        return v.plain(floats if is_float(a.dtype) else ints, a, b)

    return emit


def _compare(floats: str, ints: str, unsigned: str) -> Emit2:
    def emit(v: Instructions, a: Value, b: Value) -> Value:
        kind = DTYPES[a.dtype].kind
        if kind == "float":
            return v.plain(f"fcmp {floats}", a, b, "bool")
        return v.plain(f"icmp {ints if kind == 'int' else unsigned}", a, b, "bool")

    return emit


def _extreme(name: str) -> Emit2:
    """min or max; a NaN in either operand gives NaN."""

    def emit(v: Instructions, a: Value, b: Value) -> Value:
        kind = DTYPES[a.dtype].kind
        if kind != "float":
            prefix = "s" if kind == "int" else "u"
            return v.intrinsic(f"{prefix}{name}", a.dtype, a, b)
        if v.target.arch == "aarch64":
            return v.intrinsic(f"{name}imum", a.dtype, a, b)
        order = "olt" if name == "max" else "ogt"
        first = v.choose(v.plain(f"fcmp {order}", a, b, "bool"), b, a)
        if not b.name.startswith("%") and NAN not in b.name:
            return first  # b is a constant, and a NaN in a was kept
        return v.choose(v.plain("fcmp uno", b, b, "bool"), b, first)

    return emit


def _floordiv(v: Instructions, a: Value, b: Value) -> Value:
    if is_float(a.dtype):
        return CALLS["floor"](v, v.plain("fdiv", a, b))
    if DTYPES[a.dtype].kind == "uint":
        return _unsigned(v, "udiv", a, b)
    return _signed_divide(v, a, b)[0]


def _mod(v: Instructions, a: Value, b: Value) -> Value:
    if is_float(a.dtype):
        # as NumPy: the remainder has the sign of the divisor
        rest = v.plain("frem", a, b)
        zero = v.const(0, a.dtype, a.lanes)
        moved = v.plain("fadd", rest, b)
        nonzero = v.plain("fcmp une", rest, zero, "bool")
        differ = v.plain("xor", v.plain("fcmp olt", rest, zero, "bool"),
                         v.plain("fcmp olt", b, zero, "bool"))  # fmt: skip
        return v.choose(v.plain("and", nonzero, differ), moved, rest)
    if DTYPES[a.dtype].kind == "uint":
        return _unsigned(v, "urem", a, b)
    return _signed_divide(v, a, b)[1]


def _unsigned(v: Instructions, opcode: str, a: Value, b: Value) -> Value:
    zero, one = v.const(0, a.dtype, a.lanes), v.const(1, a.dtype, a.lanes)
    empty = v.plain("icmp eq", b, zero, "bool")
    return v.choose(empty, zero, v.plain(opcode, a, v.choose(empty, one, b)))


def _signed_divide(v: Instructions, a: Value, b: Value) -> tuple[Value, Value]:
    """Quotient rounded down and remainder; 0 and 0 for a zero divisor."""
    zero, one = v.const(0, a.dtype, a.lanes), v.const(1, a.dtype, a.lanes)
    constant_divisor = b.name.isdigit() and int(b.name) > 0
    divisor = b
    if not constant_divisor:
        empty = v.plain("icmp eq", b, zero, "bool")
        flip = v.plain("icmp eq", b, v.const(-1, a.dtype, a.lanes), "bool")
        divisor = v.choose(v.plain("or", empty, flip), one, b)
    quotient = v.plain("sdiv", a, divisor)
    rest = v.plain("sub", a, v.plain("mul", quotient, divisor))
    wrong = v.plain("icmp slt", v.plain("xor", rest, divisor), zero, "bool")
    wrong = v.plain("and", wrong, v.plain("icmp ne", rest, zero, "bool"))
    quotient = v.choose(wrong, v.plain("sub", quotient, one), quotient)
    rest = v.choose(wrong, v.plain("add", rest, divisor), rest)
    if not constant_divisor:
        quotient = v.choose(flip, v.negate(a), v.choose(empty, zero, quotient))
        rest = v.choose(v.plain("or", empty, flip), zero, rest)
    return quotient, rest


def _divide(v: Instructions, a: Value, b: Value) -> Value:
    if not is_float(a.dtype):
        raise CodegenError(f"/ on {a.dtype}", "true division is for floats", "use //")
    return v.plain("fdiv", a, b)


def _shift(opcode: str) -> Emit2:
    """Shifts by the width or more give 0, or the sign of a negative number."""

    def emit(v: Instructions, a: Value, b: Value) -> Value:
        bits = DTYPES[a.dtype].bits
        last = v.const(bits - 1, a.dtype, a.lanes)
        zero = v.const(0, a.dtype, a.lanes)
        inside = v.plain("icmp ule", b, last, "bool")
        amount = v.choose(inside, b, last)
        if opcode == "shr" and DTYPES[a.dtype].kind == "int":
            return v.plain("ashr", a, amount)
        name = "shl" if opcode == "shl" else "lshr"
        return v.choose(inside, v.plain(name, a, amount), zero)

    return emit


def _power(v: Instructions, a: Value, b: Value) -> Value:
    if is_float(a.dtype):
        return v.maths("pow", a, b)
    zero, one = v.const(0, a.dtype, a.lanes), v.const(1, a.dtype, a.lanes)
    result, base = one, a
    signed = DTYPES[a.dtype].kind == "int"
    for bit in range(DTYPES[a.dtype].bits - signed):
        place = v.const(1 << bit, a.dtype, a.lanes)
        used = v.plain("icmp ne", v.plain("and", b, place), zero, "bool")
        result = v.choose(used, v.plain("mul", result, base), result)
        base = v.plain("mul", base, base)
    return result


BINARY: dict[str, Emit2] = {
    "add": _typed("fadd", "add"),
    "sub": _typed("fsub", "sub"),
    "mul": _typed("fmul", "mul"),
    "div": _divide,
    "floordiv": _floordiv,
    "mod": _mod,
    "min": _extreme("min"),
    "max": _extreme("max"),
    "pow": _power,
    "and": _typed("and", "and"),
    "or": _typed("or", "or"),
    "xor": _typed("xor", "xor"),
    "shl": _shift("shl"),
    "shr": _shift("shr"),
    "lt": _compare("olt", "slt", "ult"),
    "le": _compare("ole", "sle", "ule"),
    "eq": _compare("oeq", "eq", "eq"),
    "ne": _compare("une", "ne", "ne"),
}


def _abs(v: Instructions, a: Value) -> Value:
    if is_float(a.dtype):
        return v.intrinsic("fabs", a.dtype, a)
    if DTYPES[a.dtype].kind == "uint":
        return a
    zero = v.const(0, a.dtype, a.lanes)
    return v.choose(v.plain("icmp slt", a, zero, "bool"), v.negate(a), a)


def _not(v: Instructions, a: Value) -> Value:
    return v.plain(
        "xor", a, v.const(True if a.dtype == "bool" else -1, a.dtype, a.lanes)
    )


CALLS: dict[str, Emit1] = {
    "neg": lambda v, a: v.negate(a),
    "not": _not,
    "abs": _abs,
    "sqrt": lambda v, a: v.intrinsic("sqrt", a.dtype, a),
    "floor": lambda v, a: v.intrinsic("floor", a.dtype, a),
    "ceil": lambda v, a: v.intrinsic("ceil", a.dtype, a),
    "round": lambda v, a: v.intrinsic("roundeven", a.dtype, a),
    "isnan": lambda v, a: v.plain("fcmp uno", a, a, "bool"),
}
