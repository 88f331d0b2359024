"""Instructions on values: constants, arithmetic, vectors, conversions."""

from __future__ import annotations

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
        if a.dtype == "bfloat16":
            return self.cast(self.from_bfloat16(a), dtype)
        if dtype == "bfloat16":
            return self.to_bfloat16(self.cast(a, "float32"))
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

    def saturated(self, opcode: str, a: Value, dtype: str) -> Value:
        source, target = self.type(a.dtype, a.lanes), self.type(dtype, a.lanes)
        name = f"@llvm.{opcode}.{type_suffix(target)}.{type_suffix(source)}"
        self.module.declare(f"{target} {name}({source})")
        return self.op(f"call {target} {name}({source} {a.name})", dtype, a.lanes)

    def from_bfloat16(self, a: Value) -> Value:
        wide = vector_type("i32", a.lanes)
        half = vector_type("i16", a.lanes)
        bits = self.op(f"zext {half} {a.name} to {wide}", "int32", a.lanes)
        bits = self.plain("shl", bits, self.const(16, "int32", a.lanes))
        target = self.type("float32", a.lanes)
        return self.op(f"bitcast {wide} {bits.name} to {target}", "float32", a.lanes)

    def to_bfloat16(self, a: Value) -> Value:
        """Round to nearest even; a NaN stays a quiet NaN."""
        n = a.lanes
        wide = vector_type("i32", n)
        source = self.type("float32", n)
        bits = self.op(f"bitcast {source} {a.name} to {wide}", "int32", n)
        last = self.plain("lshr", bits, self.const(16, "int32", n))
        odd = self.plain("and", last, self.const(1, "int32", n))
        up = self.plain("add", odd, self.const(0x7FFF, "int32", n))
        rounded = self.plain("add", bits, up)
        quiet = self.plain("or", bits, self.const(0x400000, "int32", n))
        chosen = self.choose(self.plain("fcmp uno", a, a, "bool"), quiet, rounded)
        top = self.plain("lshr", chosen, self.const(16, "int32", n))
        target = vector_type("i16", n)
        return self.op(f"trunc {wide} {top.name} to {target}", "bfloat16", n)
