"""Instructions on values: constants, arithmetic, vectors, conversions."""

from __future__ import annotations

from collections.abc import Callable

from ansor.codegen.maths import symbol
from ansor.codegen.module import (
    SUFFIX,
    TYPES,
    Module,
    Value,
    cast_opcode,
    type_suffix,
    vector_type,
)
from ansor.codegen.text import constant
from ansor.ir.dtypes import is_float
from ansor.target.target import Target


class Instructions:
    """Appends LLVM instructions to `lines`."""

    def __init__(self, module: Module, target: Target) -> None:
        self.module = module
        self.target = target
        self.lines: list[object] = []
        self.block = "entry"
        self.count = 0
        self.loaded: dict[object, object] = {}  # what this block has computed already

    def fresh(self, stem: str) -> str:
        self.count += 1
        return f"%{stem}{self.count}"

    def label(self, stem: str) -> str:
        return self.fresh(stem)[1:]

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def start_block(self, label: str) -> None:
        """Fall through into a new block."""
        self.line(f"br label %{label}")
        self.begin_block(label)

    def begin_block(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    def type(self, dtype: str, lanes: int) -> str:
        return vector_type(TYPES[dtype][0], lanes)

    def memory_type(self, dtype: str) -> str:
        return TYPES[dtype][1]

    def op(self, text: str, dtype: str, lanes: int) -> Value:
        name = self.fresh("t")
        self.lines.append(f"  {name} = {text}")
        return Value(name, dtype, lanes)

    def const(self, number: float | int | bool, dtype: str, lanes: int = 1) -> Value:
        element = TYPES[dtype][0]
        if element == "half":
            raise AssertionError("halves are widened before code generation")
        text = constant(element, number)
        return Value(text if lanes == 1 else f"splat ({element} {text})", dtype, lanes)

    def intrinsic(self, name: str, dtype: str, *arguments: Value) -> Value:
        """An LLVM intrinsic overloaded on the type of its arguments."""
        lanes = arguments[0].lanes
        type_ = self.type(dtype, lanes)
        element = TYPES[dtype][0]
        suffix = SUFFIX.get(element, element)
        full = f"@llvm.{name}.{suffix if lanes == 1 else f'v{lanes}{suffix}'}"
        self.module.declare(f"{type_} {full}({', '.join([type_] * len(arguments))})")
        passed = ", ".join(f"{type_} {a.name}" for a in arguments)
        return self.op(f"call {type_} {full}({passed})", dtype, lanes)

    def negate(self, a: Value) -> Value:
        type_ = self.type(a.dtype, a.lanes)
        if is_float(a.dtype):
            return self.op(f"fneg {type_} {a.name}", a.dtype, a.lanes)
        zero = self.const(0, a.dtype, a.lanes)
        return self.op(f"sub {type_} {zero.name}, {a.name}", a.dtype, a.lanes)

    def plain(self, opcode: str, a: Value, b: Value, dtype: str = "") -> Value:
        type_ = self.type(a.dtype, a.lanes)
        return self.op(
            f"{opcode} {type_} {a.name}, {b.name}", dtype or a.dtype, a.lanes
        )

    def choose(self, condition: Value, a: Value, b: Value) -> Value:
        test = self.type("bool", condition.lanes)
        type_ = self.type(a.dtype, a.lanes)
        text = f"select {test} {condition.name}, {type_} {a.name}, {type_} {b.name}"
        return self.op(text, a.dtype, a.lanes)

    def maths(self, function: str, *arguments: Value) -> Value:
        dtype, lanes = arguments[0].dtype, arguments[0].lanes
        self.module.maths.add((function, dtype, lanes))
        type_ = self.type(dtype, lanes)
        passed = ", ".join(f"{type_} {a.name}" for a in arguments)
        name = symbol(function, dtype, lanes)
        return self.op(f"call {type_} @{name}({passed})", dtype, lanes)

    def splat(self, a: Value, lanes: int) -> Value:
        if not a.name.startswith("%"):
            element = TYPES[a.dtype][0]
            return Value(f"splat ({element} {a.name})", a.dtype, lanes)
        key = ("splat", a.name)  # the widest so far; narrower ones are a part of it
        widest = self.loaded.get(key)
        if not isinstance(widest, Value) or widest.lanes < lanes:
            type_ = self.type(a.dtype, lanes)
            scalar = f"{self.type(a.dtype, 1)} {a.name}"
            one = self.op(
                f"insertelement {type_} poison, {scalar}, i64 0", a.dtype, lanes
            )
            zero = f"<{lanes} x i32> zeroinitializer"
            text = f"shufflevector {type_} {one.name}, {type_} poison, {zero}"
            widest = self.loaded[key] = self.op(text, a.dtype, lanes)
        return widest if widest.lanes == lanes else self.leading(widest, lanes)

    def leading(self, vector: Value, lanes: int) -> Value:
        """The first lanes of a wider vector: a part of its register."""
        type_ = self.type(vector.dtype, vector.lanes)
        picks = ", ".join(f"i32 {n}" for n in range(lanes))
        text = (f"shufflevector {type_} {vector.name}, {type_} poison, "
                f"<{lanes} x i32> <{picks}>")  # fmt: skip
        return self.op(text, vector.dtype, lanes)

    def ramp(self, base: Value, stride: int, lanes: int) -> Value:
        element = TYPES[base.dtype][0]
        steps = ", ".join(f"{element} {n * stride}" for n in range(lanes))
        start = self.splat(base, lanes)
        return self.plain("add", start, Value(f"<{steps}>", base.dtype, lanes))

    def extract(self, vector: Value, lane: int) -> Value:
        type_ = self.type(vector.dtype, vector.lanes)
        text = f"extractelement {type_} {vector.name}, i64 {lane}"
        return self.op(text, vector.dtype, 1)

    def pack(self, parts: list[Value], dtype: str, lanes: int) -> Value:
        type_, element = self.type(dtype, lanes), self.type(dtype, 1)
        start = "poison" if len(parts) == lanes else "zeroinitializer"
        vector = Value(start, dtype, lanes)
        for lane, part in enumerate(parts):
            text = (f"insertelement {type_} {vector.name}, {element} {part.name}, "
                    f"i64 {lane}")  # fmt: skip
            vector = self.op(text, dtype, lanes)
        return vector

    def cast(self, a: Value, dtype: str) -> Value:
        if a.dtype == dtype:
            return a
        if a.dtype == "float64" and dtype == "float16" and self.halves_from_floats:
            a = _sticky_float(self, a)
        if a.dtype in self.by_hand:
            return self.cast(FROM_HALF[a.dtype](self, a), dtype)
        if dtype in self.by_hand:
            return TO_HALF[dtype](self, self.cast(a, "float32"))
        if dtype == "bool":
            zero = self.const(0, a.dtype, a.lanes)
            test = "fcmp une" if is_float(a.dtype) else "icmp ne"
            return self.plain(test, a, zero, "bool")
        opcode = cast_opcode(a.dtype, dtype)
        if opcode is None:
            return Value(a.name, dtype, a.lanes)
        if opcode.endswith(".sat"):
            return self.saturated(opcode, a, dtype)
        source, target = self.type(a.dtype, a.lanes), self.type(dtype, a.lanes)
        return self.op(f"{opcode} {source} {a.name} to {target}", dtype, a.lanes)

    @property
    def by_hand(self) -> tuple[str, ...]:
        """Types that the target cannot convert: LLVM would call a library."""
        has_halves = self.target.arch != "x86_64" or "+f16c" in self.target.features
        return ("bfloat16",) if has_halves else ("bfloat16", "float16")

    @property
    def halves_from_floats(self) -> bool:
        """Only a float32 becomes a float16 without a library."""
        return self.target.arch == "x86_64"

    def bits(self, a: Value) -> Value:
        """The bits of a float32 as an int32."""
        source, target = self.type("float32", a.lanes), self.type("int32", a.lanes)
        return self.op(f"bitcast {source} {a.name} to {target}", "int32", a.lanes)

    def floats(self, a: Value) -> Value:
        """The float32 of which an int32 has the bits."""
        source, target = self.type("int32", a.lanes), self.type("float32", a.lanes)
        return self.op(f"bitcast {source} {a.name} to {target}", "float32", a.lanes)

    def with_constant(self, opcode: str, a: Value, number: int | float) -> Value:
        return self.plain(opcode, a, self.const(number, a.dtype, a.lanes))

    def saturated(self, opcode: str, a: Value, dtype: str) -> Value:
        source, target = self.type(a.dtype, a.lanes), self.type(dtype, a.lanes)
        name = f"@llvm.{opcode}.{type_suffix(target)}.{type_suffix(source)}"
        self.module.declare(f"{target} {name}({source})")
        return self.op(f"call {target} {name}({source} {a.name})", dtype, a.lanes)


def _sticky_float(v: Instructions, a: Value) -> Value:
    """A float64 as the float32 next to it towards 0, its last bit set if they differ:
    rounding that to fewer bits gives what rounding the float64 would."""
    n = a.lanes
    double, single = v.type("float64", n), v.type("float32", n)
    near = v.op(f"fptrunc {double} {a.name} to {single}", "float32", n)
    back = v.op(f"fpext {single} {near.name} to {double}", "float64", n)
    size, limit = (v.intrinsic("fabs", "float64", x) for x in (back, a))
    is_above = v.plain("fcmp ogt", size, limit, "bool")
    bits = v.bits(near)
    bits = v.choose(is_above, v.with_constant("sub", bits, 1), bits)
    differs = v.plain("fcmp one", back, a, "bool")
    return v.floats(v.choose(differs, v.with_constant("or", bits, 1), bits))


def _from_bfloat16(v: Instructions, a: Value) -> Value:
    half, wide = vector_type("i16", a.lanes), v.type("int32", a.lanes)
    bits = v.op(f"zext {half} {a.name} to {wide}", "int32", a.lanes)
    return v.floats(v.with_constant("shl", bits, 16))


def _to_bfloat16(v: Instructions, a: Value) -> Value:
    """Round to nearest even; a NaN stays a quiet NaN."""
    bits = v.bits(a)
    odd = v.with_constant("and", v.with_constant("lshr", bits, 16), 1)
    rounded = v.plain("add", bits, v.with_constant("add", odd, 0x7FFF))
    quiet = v.with_constant("or", bits, 0x400000)
    chosen = v.choose(v.plain("fcmp uno", a, a, "bool"), quiet, rounded)
    top = v.with_constant("lshr", chosen, 16)
    wide, half = v.type("int32", a.lanes), vector_type("i16", a.lanes)
    return v.op(f"trunc {wide} {top.name} to {half}", "bfloat16", a.lanes)


def _from_float16(v: Instructions, a: Value) -> Value:
    """Shift the fields into place; a product by 2^112 corrects the exponent, and makes
    normal numbers of denormal ones. Infinity and NaN get the largest exponent."""
    n = a.lanes
    half, short = v.type("float16", n), vector_type("i16", n)
    raw = v.op(f"bitcast {half} {a.name} to {short}", "int16", n)
    wide = v.type("int32", n)
    bits = v.op(f"zext {short} {raw.name} to {wide}", "int32", n)
    size = v.with_constant("and", bits, 0x7FFF)
    moved = v.floats(v.with_constant("shl", size, 13))
    scaled = v.bits(v.with_constant("fmul", moved, 2.0**112))
    special = v.plain("icmp uge", size, v.const(0x7C00, "int32", n), "bool")
    chosen = v.choose(special, v.with_constant("or", scaled, 0x7F800000), scaled)
    sign = v.with_constant("shl", v.with_constant("and", bits, 0x8000), 16)
    return v.floats(v.plain("or", chosen, sign))


def _to_float16(v: Instructions, a: Value) -> Value:
    """Round to nearest even. Small numbers are rounded by adding 0.5, whose last bit is
    the last of a denormal half; others by adding to the bits that fall away."""
    n = a.lanes
    bits = v.bits(a)
    size = v.with_constant("and", bits, 0x7FFFFFFF)
    odd = v.with_constant("and", v.with_constant("lshr", size, 13), 1)
    shifted = v.with_constant("add", size, 0xFFF - (112 << 23))
    normal = v.with_constant("lshr", v.plain("add", shifted, odd), 13)
    near = v.bits(v.with_constant("fadd", v.floats(size), 0.5))
    small = v.with_constant("sub", near, 126 << 23)
    is_small = v.plain("icmp ult", size, v.const(113 << 23, "int32", n), "bool")
    finite = v.choose(is_small, small, normal)
    is_nan = v.plain("icmp ugt", size, v.const(0x7F800000, "int32", n), "bool")
    special = v.choose(is_nan, v.const(0x7E00, "int32", n), v.const(0x7C00, "int32", n))
    is_large = v.plain("icmp uge", size, v.const(143 << 23, "int32", n), "bool")
    chosen = v.choose(is_large, special, finite)
    sign = v.with_constant("and", v.with_constant("lshr", bits, 16), 0x8000)
    whole = v.plain("or", chosen, sign)
    wide, short = v.type("int32", n), vector_type("i16", n)
    raw = v.op(f"trunc {wide} {whole.name} to {short}", "int16", n)
    return v.op(f"bitcast {short} {raw.name} to {v.type('float16', n)}", "float16", n)


FROM_HALF: dict[str, Callable[[Instructions, Value], Value]] = {
    "bfloat16": _from_bfloat16,
    "float16": _from_float16,
}
TO_HALF: dict[str, Callable[[Instructions, Value], Value]] = {
    "bfloat16": _to_bfloat16,
    "float16": _to_float16,
}
