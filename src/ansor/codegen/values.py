"""Expressions to LLVM text: one method per node, one table per operator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from ansor.codegen.maths import FUNCTIONS_WITH_DEFINITIONS, symbol
from ansor.codegen.text import constant
from ansor.errors import CodegenError
from ansor.ir.affine import Linear
from ansor.ir.dtypes import DTYPES, is_float
from ansor.ir.expr import (
    Binary,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Lanes,
    Load,
    Ramp,
    Select,
    Var,
)
from ansor.ir.stmt import Store
from ansor.ir.visit import loads
from ansor.target.target import Target

# dtype -> (type of a value, type in memory)
TYPES: dict[str, tuple[str, str]] = {
    "float64": ("double", "double"),
    "float32": ("float", "float"),
    "float16": ("half", "half"),
    "bfloat16": ("i16", "i16"),  # converted by hand: not every target can
    "int64": ("i64", "i64"),
    "int32": ("i32", "i32"),
    "int16": ("i16", "i16"),
    "int8": ("i8", "i8"),
    "uint8": ("i8", "i8"),
    "bool": ("i1", "i8"),
}
SUFFIX = {"double": "f64", "float": "f32", "half": "f16"}


Place: TypeAlias = tuple[int, int]  # of a fixed access: first element, lanes


def element_bytes(dtype: str) -> int:
    return DTYPES[dtype].bytes


@dataclass(frozen=True, slots=True)
class Value:
    """One SSA value (or constant) of a dtype and a number of lanes."""

    name: str
    dtype: str
    lanes: int


@dataclass
class Module:
    """What the functions of one module share."""

    target: Target
    functions: list[str] = field(default_factory=list)
    declared: set[str] = field(default_factory=set)
    metadata: list[str] = field(default_factory=list)
    maths: set[tuple[str, str, int]] = field(default_factory=set)
    _tags: dict[str, str] = field(default_factory=dict)
    _scopes: dict[str, str] = field(default_factory=dict)

    def declare(self, signature: str) -> None:
        self.declared.add(f"declare {signature}")

    def node(self, text: str) -> str:
        name = f"!{len(self.metadata)}"
        self.metadata.append(f"{name} = {text}")
        return name

    def loop_tag(self, option: str) -> str:
        """A fresh loop id with one option."""
        if option not in self._tags:
            self._tags[option] = self.node(option)
        name = f"!{len(self.metadata)}"
        return self.node(f"distinct !{{{name}, {self._tags[option]}}}")


    def alias(self, buffer: str) -> str:
        """The alias facts of an access: in its own scope, in no other.

        All scopes must be known first: `reserve` them.
        """
        return self._scopes.get(buffer, "")

    def reserve(self, buffers: list[str]) -> None:
        """Give each buffer of a function an alias scope."""
        domain = self.node(f"distinct !{{!{len(self.metadata)}}}")
        scopes = []
        for _ in buffers:
            name = f"!{len(self.metadata)}"
            scopes.append(self.node(f"distinct !{{{name}, {domain}}}"))
        for at, buffer in enumerate(buffers):
            own = self.node(f"!{{{scopes[at]}}}")
            others = self.node(f"!{{{', '.join(scopes[:at] + scopes[at + 1 :])}}}")
            self._scopes[buffer] = f", !alias.scope {own}, !noalias {others}"


class Values:
    """Emits expressions into `lines`; addresses come from the subclass."""

    def __init__(self, module: Module, target: Target) -> None:
        self.module = module
        self.target = target
        self.lines: list[object] = []
        self.block = "entry"
        self.count = 0
        self.variables: dict[str, str] = {}
        self.ranges: dict[str, tuple[int, int]] = {}
        self.bases: dict[str, str] = {}
        self.loaded: dict[object, object] = {}  # what this block has computed already
        self.slots: dict[str, Slots] = {}

    # -- text --------------------------------------------------------------------

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
        return _vector(TYPES[dtype][0], lanes)

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

    # -- expressions -------------------------------------------------------------

    def expr(self, e: Expr) -> Value:
        match e:
            case Var(name, dtype):
                return Value(self.variables[name], dtype, 1)
            case Const(value, dtype):
                return self.const(value, dtype)
            case Binary():
                return self.binary(e)
            case Call():
                return self.call(e)
            case Select():
                return self.select(e)
            case Cast(value, dtype):
                return self.cast(self.expr(value), dtype)
            case Load():
                return self.load(e)
            case Ramp(base, stride, lanes):
                return self.ramp(self.expr(base), stride, lanes)
            case Broadcast(value, lanes):
                if isinstance(value, Load) and self.reads_quads(value, lanes):
                    return self.splat_from_quad(value, lanes)
                return self.splat(self.expr(value), lanes)
            case Lanes(op, value, active):
                return self.across(op, self.expr(value), active)
            case _:
                assert_never(e)

    def binary(self, e: Binary) -> Value:
        if is_float(e.dtype) and e.op in ("add", "sub"):
            fused = self.fused(e)
            if fused is not None:
                return fused
        return self.combine(e.op, self.expr(e.a), self.expr(e.b))

    def combine(self, op: str, a: Value, b: Value) -> Value:
        """`a op b` on values of one type."""
        return BINARY[op](self, a, b)

    def fused(self, e: Binary) -> Value | None:
        """x*y + z as one operation, where one operand is a product."""
        a, b = e.a, e.b
        if isinstance(b, Binary) and b.op == "mul":
            product, rest = b, a
        elif isinstance(a, Binary) and a.op == "mul":
            product, rest = a, b
        else:
            return None
        other, x, y = self.expr(rest), self.expr(product.a), self.expr(product.b)
        if e.op == "sub":
            if product is b:
                x = self.negate(x)
            else:
                other = self.negate(other)
        return self.intrinsic("fmuladd", e.dtype, x, y, other)

    def negate(self, a: Value) -> Value:
        type_ = self.type(a.dtype, a.lanes)
        if is_float(a.dtype):
            return self.op(f"fneg {type_} {a.name}", a.dtype, a.lanes)
        zero = self.const(0, a.dtype, a.lanes)
        return self.op(f"sub {type_} {zero.name}, {a.name}", a.dtype, a.lanes)

    def plain(self, opcode: str, a: Value, b: Value, dtype: str = "") -> Value:
        type_ = self.type(a.dtype, a.lanes)
        return self.op(f"{opcode} {type_} {a.name}, {b.name}", dtype or a.dtype, a.lanes)

    def choose(self, condition: Value, a: Value, b: Value) -> Value:
        test = self.type("bool", condition.lanes)
        type_ = self.type(a.dtype, a.lanes)
        text = f"select {test} {condition.name}, {type_} {a.name}, {type_} {b.name}"
        return self.op(text, a.dtype, a.lanes)

    def call(self, e: Call) -> Value:
        arguments = [self.expr(argument) for argument in e.args]
        if e.function in FUNCTIONS_WITH_DEFINITIONS:
            return self.maths(e.function, *arguments)
        return CALLS[e.function](self, arguments[0])

    def maths(self, function: str, *arguments: Value) -> Value:
        dtype, lanes = arguments[0].dtype, arguments[0].lanes
        self.module.maths.add((function, dtype, lanes))
        type_ = self.type(dtype, lanes)
        passed = ", ".join(f"{type_} {a.name}" for a in arguments)
        name = symbol(function, dtype, lanes)
        return self.op(f"call {type_} @{name}({passed})", dtype, lanes)

    def select(self, e: Select) -> Value:
        condition = self.expr(e.condition)
        lazy = condition.lanes == 1 and any(True for x in (e.a, e.b) for _ in loads(x))
        if not lazy:
            return self.choose(condition, self.expr(e.a), self.expr(e.b))
        then, otherwise, done = (self.label(n) for n in ("then", "else", "end"))
        self.line(f"br i1 {condition.name}, label %{then}, label %{otherwise}")
        cached = dict(self.loaded)
        self.begin_block(then)
        a = self.expr(e.a)
        from_a = self.block
        self.line(f"br label %{done}")
        self.loaded = dict(cached)
        self.begin_block(otherwise)
        b = self.expr(e.b)
        from_b = self.block
        self.start_block(done)
        self.loaded = cached
        type_ = self.type(a.dtype, a.lanes)
        text = f"phi {type_} [ {a.name}, %{from_a} ], [ {b.name}, %{from_b} ]"
        return self.op(text, a.dtype, a.lanes)

    # -- vectors -----------------------------------------------------------------

    def splat(self, a: Value, lanes: int) -> Value:
        if not a.name.startswith("%"):
            element = TYPES[a.dtype][0]
            return Value(f"splat ({element} {a.name})", a.dtype, lanes)
        key = ("splat", a.name, lanes)
        if key not in self.loaded:
            type_ = self.type(a.dtype, lanes)
            one = self.op(
                f"insertelement {type_} poison, {self.type(a.dtype, 1)} {a.name}, i64 0",
                a.dtype, lanes,
            )  # fmt: skip
            zero = f"<{lanes} x i32> zeroinitializer"
            text = f"shufflevector {type_} {one.name}, {type_} poison, {zero}"
            self.loaded[key] = self.op(text, a.dtype, lanes)
        found = self.loaded[key]
        assert isinstance(found, Value)
        return found

    def reads_quads(self, e: Load, lanes: int) -> bool:
        """True where a scalar operand is better read as a part of a whole vector.

        AArch64 multiplies by one lane of a register, so neighbouring scalars need one
        load together. x86 broadcasts from memory at no cost instead.
        """
        whole = 128 // DTYPES[e.dtype].bits
        fits = e.lanes == 1 and lanes == whole and e.dtype in ("float32", "float64")
        if self.target.arch != "aarch64" or not fits or e.buffer.name in self.slots:
            return False
        form, _ = self.flat(e.buffer, e.indices)
        if any(step % lanes for step in form.terms.values()):
            return False  # it would move by single elements, across cache lines
        if e.buffer.scope in ("packed", "local"):
            return True  # our own buffers have room at their end
        first = form.plus(Linear(-(form.const % lanes)))
        low, high = first.interval(self.ranges)
        return low >= 0 and high + lanes <= e.buffer.size

    def splat_from_quad(self, e: Load, lanes: int) -> Value:
        form, _ = self.flat(e.buffer, e.indices)
        lane = form.const % lanes
        pointer = self.pointer(e.buffer, form.plus(Linear(-lane)))
        key = ("load", e.buffer.name, pointer, lanes, None)
        if key not in self.loaded:
            self.loaded[key] = self.read(e.buffer, pointer, lanes, None)
        vector = self.loaded[key]
        assert isinstance(vector, Value)
        type_ = self.type(e.dtype, lanes)
        picks = ", ".join([f"i32 {lane}"] * lanes)
        text = (f"shufflevector {type_} {vector.name}, {type_} poison, "
                f"<{lanes} x i32> <{picks}>")  # fmt: skip
        return self.op(text, e.dtype, lanes)

    def ramp(self, base: Value, stride: int, lanes: int) -> Value:
        element = TYPES[base.dtype][0]
        steps = ", ".join(f"{element} {n * stride}" for n in range(lanes))
        start = self.splat(base, lanes)
        return self.plain("add", start, Value(f"<{steps}>", base.dtype, lanes))

    def extract(self, vector: Value, lane: int) -> Value:
        type_ = self.type(vector.dtype, vector.lanes)
        text = f"extractelement {type_} {vector.name}, i64 {lane}"
        return self.op(text, vector.dtype, 1)

    def across(self, op: str, vector: Value, active: int) -> Value:
        """Combine lanes pairwise; a power of two by halving the vector."""
        if active == vector.lanes and active & (active - 1) == 0:
            width = active
            type_ = self.type(vector.dtype, vector.lanes)
            while width > 1:
                width //= 2
                lanes = ", ".join(
                    f"i32 {n + width}" if n < width else "i32 poison"
                    for n in range(vector.lanes)
                )
                text = (f"shufflevector {type_} {vector.name}, {type_} poison, "
                        f"<{vector.lanes} x i32> <{lanes}>")  # fmt: skip
                upper = self.op(text, vector.dtype, vector.lanes)
                vector = self.combine(op, vector, upper)
            return self.extract(vector, 0)
        total = self.extract(vector, 0)
        for lane in range(1, active):
            total = self.combine(op, total, self.extract(vector, lane))
        return total

    # -- memory ------------------------------------------------------------------

    def flat(self, buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Linear, int]:
        raise NotImplementedError

    def pointer(self, buffer: Buffer, form: Linear) -> str:
        raise NotImplementedError

    def slot(self, buffer: Buffer, form: Linear, lanes: int) -> str | None:
        """The stack slot of an access, for buffers that live in slots."""
        slots = self.slots.get(buffer.name)
        return None if slots is None else slots.names[form.const, lanes]

    def load(self, e: Load) -> Value:
        if any(i.lanes > 1 and not isinstance(i, Ramp) for i in e.indices):
            return self.gather(e)
        form, apart = self.flat(e.buffer, e.indices)
        slot = self.slot(e.buffer, form, e.lanes)
        if slot is not None:
            type_ = self.type(e.dtype, e.lanes)
            return self.op(f"load {type_}, ptr {slot}", e.dtype, e.lanes)
        if e.lanes > 1 and apart != 1:
            return self.strided(e, form, apart)
        pointer = self.pointer(e.buffer, form)
        key = ("load", e.buffer.name, pointer, e.lanes, e.active)
        if key not in self.loaded:
            self.loaded[key] = self.read(e.buffer, pointer, e.lanes, e.active)
        found = self.loaded[key]
        assert isinstance(found, Value)
        return found

    def read(self, buffer: Buffer, pointer: str, lanes: int, active: int | None) -> Value:
        type_ = _vector(self.memory_type(buffer.dtype), lanes)
        tag = self.tag(buffer)
        align = element_bytes(buffer.dtype)
        if active is None:
            text = f"load {type_}, ptr {pointer}, align {align}{tag}"
        else:
            text = self.masked_load(type_, pointer, align, lanes, active) + tag
        value = self.op(text, buffer.dtype, lanes)
        if buffer.dtype != "bool":
            return value
        zero = "0" if lanes == 1 else "zeroinitializer"
        return self.op(f"icmp ne {type_} {value.name}, {zero}", "bool", lanes)

    def masked_load(
        self, type_: str, pointer: str, align: int, lanes: int, active: int
    ) -> str:
        name = f"@llvm.masked.load.{_suffix(type_)}.p0"
        mask = f"<{lanes} x i1>"
        self.module.declare(f"{type_} {name}(ptr, {mask}, {type_})")
        return (
            f"call {type_} {name}(ptr align {align} {pointer}, "
            f"{mask} {_mask(lanes, active)}, {type_} zeroinitializer)"
        )

    def strided(self, e: Load, form: Linear, apart: int) -> Value:
        """Lanes that lie apart are read one by one (or once, if they coincide)."""
        if apart == 0:
            pointer = self.pointer(e.buffer, form)
            return self.splat(self.read(e.buffer, pointer, 1, None), e.lanes)
        parts = [
            self.read(e.buffer, self.pointer(e.buffer, form.plus(Linear(apart * n))), 1, None)
            for n in range(e.active or e.lanes)
        ]
        return self.pack(parts, e.dtype, e.lanes)

    def pack(self, parts: list[Value], dtype: str, lanes: int) -> Value:
        type_, element = self.type(dtype, lanes), self.type(dtype, 1)
        start = "poison" if len(parts) == lanes else "zeroinitializer"
        vector = Value(start, dtype, lanes)
        for lane, part in enumerate(parts):
            text = (f"insertelement {type_} {vector.name}, {element} {part.name}, "
                    f"i64 {lane}")  # fmt: skip
            vector = self.op(text, dtype, lanes)
        return vector

    def gather(self, e: Load) -> Value:
        """Lanes whose indices were computed as vectors."""
        pointers = self.scattered(e.buffer, e.indices, e.active or e.lanes)
        parts = [self.read(e.buffer, pointer, 1, None) for pointer in pointers]
        return self.pack(parts, e.dtype, e.lanes)

    def scattered(
        self, buffer: Buffer, indices: tuple[Expr, ...], count: int
    ) -> list[str]:
        """One address per lane."""
        vectors = [self.expr(index) for index in indices]
        element = self.memory_type(buffer.dtype)
        pointers = []
        for lane in range(count):
            total: Value | None = None
            for vector, stride in zip(vectors, buffer.strides, strict=True):
                part = self.extract(vector, lane) if vector.lanes > 1 else vector
                part = self.plain("mul nsw", part, self.const(stride, "int64"))
                total = part if total is None else self.plain("add nsw", total, part)
            assert total is not None
            name = self.fresh("a")
            base = self.bases[buffer.name]
            self.line(
                f"{name} = getelementptr inbounds {element}, ptr {base}, i64 {total.name}"
            )
            pointers.append(name)
        return pointers

    def store(self, stmt: Store) -> None:
        buffer, lanes = stmt.buffer, stmt.value.lanes
        value = self.expr(stmt.value)
        if any(i.lanes > 1 and not isinstance(i, Ramp) for i in stmt.indices):
            count = stmt.active or lanes
            for lane, p in enumerate(self.scattered(buffer, stmt.indices, count)):
                self.write(buffer, p, self.extract(value, lane), None)
            return
        form, apart = self.flat(buffer, stmt.indices)
        slot = self.slot(buffer, form, lanes)
        if slot is not None:
            value = self.blend(stmt, (form.const, lanes), slot, value)
            self.line(f"store {self.type(value.dtype, lanes)} {value.name}, ptr {slot}")
        elif lanes > 1 and apart != 1:
            for lane in range(stmt.active or lanes):
                place = self.pointer(buffer, form.plus(Linear(apart * lane)))
                self.write(buffer, place, self.extract(value, lane), None)
        else:
            self.write(buffer, self.pointer(buffer, form), value, stmt.active)

    def blend(self, stmt: Store, place: Place, slot: str, value: Value) -> Value:
        """The value to put into a slot: what is there already in inactive lanes."""
        if stmt.active is None or place not in self.slots[stmt.buffer.name].blended:
            return value
        type_ = self.type(value.dtype, value.lanes)
        old = self.op(f"load {type_}, ptr {slot}", value.dtype, value.lanes)
        mask = Value(_mask(value.lanes, stmt.active), "bool", value.lanes)
        return self.choose(mask, value, old)

    def write(
        self, buffer: Buffer, pointer: str, value: Value, active: int | None
    ) -> None:
        lanes = value.lanes
        type_ = _vector(self.memory_type(buffer.dtype), lanes)
        if buffer.dtype == "bool":
            source = self.type("bool", lanes)
            value = self.op(f"zext {source} {value.name} to {type_}", "uint8", lanes)
        align, tag = element_bytes(buffer.dtype), self.tag(buffer)
        if active is None:
            self.line(f"store {type_} {value.name}, ptr {pointer}, align {align}{tag}")
        else:
            name = f"@llvm.masked.store.{_suffix(type_)}.p0"
            mask = f"<{lanes} x i1>"
            self.module.declare(f"void {name}({type_}, ptr, {mask})")
            self.line(
                f"call void {name}({type_} {value.name}, ptr align {align} {pointer}, "
                f"{mask} {_mask(lanes, active)}){tag}"
            )
        stale = [k for k in self.loaded if isinstance(k, tuple) and k[:2] == ("load", buffer.name)]
        for key in stale:
            del self.loaded[key]

    def tag(self, buffer: Buffer) -> str:
        """Alias facts: accesses of different buffers never overlap."""
        return self.module.alias(buffer.name)

    def cast(self, a: Value, dtype: str) -> Value:
        if a.dtype == dtype:
            return a
        if a.dtype == "bfloat16":
            return self.cast(self.from_bfloat16(a), dtype)
        if dtype == "bfloat16":
            return self.to_bfloat16(self.cast(a, "float32"))
        if dtype == "bool":
            zero = self.const(0, a.dtype, a.lanes)
            opcode = "fcmp une" if is_float(a.dtype) else "icmp ne"
            return self.plain(opcode, a, zero, "bool")
        opcode = _cast_opcode(a.dtype, dtype)
        if opcode is None:
            return Value(a.name, dtype, a.lanes)
        if opcode.endswith(".sat"):
            return self.saturated(opcode, a, dtype)
        source, target = self.type(a.dtype, a.lanes), self.type(dtype, a.lanes)
        return self.op(f"{opcode} {source} {a.name} to {target}", dtype, a.lanes)

    def saturated(self, opcode: str, a: Value, dtype: str) -> Value:
        source, target = self.type(a.dtype, a.lanes), self.type(dtype, a.lanes)
        name = f"@llvm.{opcode}.{_suffix(target)}.{_suffix(source)}"
        self.module.declare(f"{target} {name}({source})")
        return self.op(f"call {target} {name}({source} {a.name})", dtype, a.lanes)

    def from_bfloat16(self, a: Value) -> Value:
        wide = _vector("i32", a.lanes)
        half = _vector("i16", a.lanes)
        bits = self.op(f"zext {half} {a.name} to {wide}", "int32", a.lanes)
        bits = self.plain("shl", bits, self.const(16, "int32", a.lanes))
        target = self.type("float32", a.lanes)
        return self.op(f"bitcast {wide} {bits.name} to {target}", "float32", a.lanes)

    def to_bfloat16(self, a: Value) -> Value:
        """Round to nearest even; a NaN stays a quiet NaN."""
        n = a.lanes
        wide = _vector("i32", n)
        source = self.type("float32", n)
        bits = self.op(f"bitcast {source} {a.name} to {wide}", "int32", n)
        last = self.plain("lshr", bits, self.const(16, "int32", n))
        odd = self.plain("and", last, self.const(1, "int32", n))
        up = self.plain("add", odd, self.const(0x7FFF, "int32", n))
        rounded = self.plain("add", bits, up)
        quiet = self.plain("or", bits, self.const(0x400000, "int32", n))
        chosen = self.choose(CALLS["isnan"](self, a), quiet, rounded)
        top = self.plain("lshr", chosen, self.const(16, "int32", n))
        target = _vector("i16", n)
        return self.op(f"trunc {wide} {top.name} to {target}", "bfloat16", n)


@dataclass
class Slots:
    """A buffer whose every access is at a fixed place: one stack slot per place.

    The `blended` ones are written with different numbers of active lanes: the other
    lanes must keep their values.
    """

    names: dict[Place, str]
    blended: set[Place]


def _vector(element: str, lanes: int) -> str:
    return element if lanes == 1 else f"<{lanes} x {element}>"


def _suffix(type_: str) -> str:
    """How intrinsics name a type: v4f32 for <4 x float>."""
    if not type_.startswith("<"):
        return SUFFIX.get(type_, type_)
    lanes, element = type_[1:-1].split(" x ")
    return f"v{lanes}{SUFFIX.get(element, element)}"


def _mask(lanes: int, active: int) -> str:
    bits = ", ".join("i1 true" if n < active else "i1 false" for n in range(lanes))
    return f"<{bits}>"


def _cast_opcode(source: str, target: str) -> str | None:
    """The instruction of a conversion; None where the bits stay as they are."""
    a, b = DTYPES[source], DTYPES[target]
    if a.kind == "float" and b.kind == "float":
        return "fpext" if b.bits > a.bits else "fptrunc"
    if a.kind == "float":
        return "fptoui.sat" if b.kind == "uint" else "fptosi.sat"
    if b.kind == "float":
        return "sitofp" if a.kind == "int" else "uitofp"
    if a.kind == "bool":
        return "zext"
    if b.bits > a.bits:
        return "sext" if a.kind == "int" else "zext"
    return "trunc" if b.bits < a.bits else None


Emit2 = Callable[[Values, Value, Value], Value]
Emit1 = Callable[[Values, Value], Value]


def _typed(floats: str, ints: str) -> Emit2:
    def emit(v: Values, a: Value, b: Value) -> Value:
        return v.plain(floats if is_float(a.dtype) else ints, a, b)

    return emit


def _compare(floats: str, ints: str, unsigned: str) -> Emit2:
    def emit(v: Values, a: Value, b: Value) -> Value:
        kind = DTYPES[a.dtype].kind
        if kind == "float":
            return v.plain(f"fcmp {floats}", a, b, "bool")
        return v.plain(f"icmp {ints if kind == 'int' else unsigned}", a, b, "bool")

    return emit


def _extreme(name: str) -> Emit2:
    """min or max; a NaN in either operand gives NaN."""

    def emit(v: Values, a: Value, b: Value) -> Value:
        kind = DTYPES[a.dtype].kind
        if kind != "float":
            prefix = "s" if kind == "int" else "u"
            return v.intrinsic(f"{prefix}{name}", a.dtype, a, b)
        if v.target.arch == "aarch64":
            return v.intrinsic(f"{name}imum", a.dtype, a, b)
        order = "olt" if name == "max" else "ogt"
        first = v.choose(v.plain(f"fcmp {order}", a, b, "bool"), b, a)
        if not b.name.startswith("%"):
            return first  # a constant is no NaN, and a NaN in a was kept
        return v.choose(v.plain("fcmp uno", b, b, "bool"), b, first)

    return emit


def _floordiv(v: Values, a: Value, b: Value) -> Value:
    if is_float(a.dtype):
        return CALLS["floor"](v, v.plain("fdiv", a, b))
    if DTYPES[a.dtype].kind == "uint":
        return _unsigned(v, "udiv", a, b)
    return _signed_divide(v, a, b)[0]


def _mod(v: Values, a: Value, b: Value) -> Value:
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


def _unsigned(v: Values, opcode: str, a: Value, b: Value) -> Value:
    zero, one = v.const(0, a.dtype, a.lanes), v.const(1, a.dtype, a.lanes)
    empty = v.plain("icmp eq", b, zero, "bool")
    return v.choose(empty, zero, v.plain(opcode, a, v.choose(empty, one, b)))


def _signed_divide(v: Values, a: Value, b: Value) -> tuple[Value, Value]:
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


def _divide(v: Values, a: Value, b: Value) -> Value:
    if not is_float(a.dtype):
        raise CodegenError(f"/ on {a.dtype}", "true division is for floats", "use //")
    return v.plain("fdiv", a, b)


def _shift(opcode: str) -> Emit2:
    """Shifts by the width or more give 0, or the sign of a negative number."""

    def emit(v: Values, a: Value, b: Value) -> Value:
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


def _power(v: Values, a: Value, b: Value) -> Value:
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


def _abs(v: Values, a: Value) -> Value:
    if is_float(a.dtype):
        return v.intrinsic("fabs", a.dtype, a)
    if DTYPES[a.dtype].kind == "uint":
        return a
    zero = v.const(0, a.dtype, a.lanes)
    return v.choose(v.plain("icmp slt", a, zero, "bool"), v.negate(a), a)


def _not(v: Values, a: Value) -> Value:
    return v.plain("xor", a, v.const(True if a.dtype == "bool" else -1, a.dtype, a.lanes))


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
