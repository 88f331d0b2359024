"""Expressions to LLVM text: one method per node; loads and stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from ansor.codegen.instructions import Instructions
from ansor.codegen.maths import FUNCTIONS_WITH_DEFINITIONS
from ansor.codegen.module import (
    Module,
    Place,
    Value,
    element_bytes,
    mask_text,
    type_suffix,
    vector_type,
)
from ansor.codegen.operators import BINARY, CALLS
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


@dataclass
class Slots:
    """A buffer whose every access is at a fixed place: one stack slot per place.

    The `blended` ones are written with different numbers of active lanes: the other
    lanes must keep their values.
    """

    names: dict[Place, str]
    blended: set[Place]


class Values(Instructions):
    """Emits expressions; addresses come from the subclass."""

    def __init__(self, module: Module, target: Target) -> None:
        super().__init__(module, target)
        self.variables: dict[str, str] = {}  # loop variables
        self.ranges: dict[str, tuple[int, int]] = {}
        self.bases: dict[str, str] = {}  # buffers in memory
        self.slots: dict[str, Slots] = {}  # buffers in registers

    def expr(self, e: Expr) -> Value:  # noqa: C901  (one case per node)
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

    def call(self, e: Call) -> Value:
        arguments = [self.expr(argument) for argument in e.args]
        if e.function in FUNCTIONS_WITH_DEFINITIONS:
            return self.maths(e.function, *arguments)
        return CALLS[e.function](self, arguments[0])

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

    def read(
        self, buffer: Buffer, pointer: str, lanes: int, active: int | None
    ) -> Value:
        type_ = vector_type(self.memory_type(buffer.dtype), lanes)
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
        name = f"@llvm.masked.load.{type_suffix(type_)}.p0"
        mask = f"<{lanes} x i1>"
        self.module.declare(f"{type_} {name}(ptr, {mask}, {type_})")
        return (
            f"call {type_} {name}(ptr align {align} {pointer}, "
            f"{mask} {mask_text(lanes, active)}, {type_} zeroinitializer)"
        )

    def strided(self, e: Load, form: Linear, apart: int) -> Value:
        """Lanes that lie apart are read one by one (or once, if they coincide)."""
        if apart == 0:
            pointer = self.pointer(e.buffer, form)
            return self.splat(self.read(e.buffer, pointer, 1, None), e.lanes)
        parts = [
            self.read(
                e.buffer, self.pointer(e.buffer, form.plus(Linear(apart * n))), 1, None
            )
            for n in range(e.active or e.lanes)
        ]
        return self.pack(parts, e.dtype, e.lanes)

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
            place = f"ptr {self.bases[buffer.name]}, i64 {total.name}"
            self.line(f"{name} = getelementptr inbounds {element}, {place}")
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
        mask = Value(mask_text(value.lanes, stmt.active), "bool", value.lanes)
        return self.choose(mask, value, old)

    def write(
        self, buffer: Buffer, pointer: str, value: Value, active: int | None
    ) -> None:
        lanes = value.lanes
        type_ = vector_type(self.memory_type(buffer.dtype), lanes)
        if buffer.dtype == "bool":
            source = self.type("bool", lanes)
            value = self.op(f"zext {source} {value.name} to {type_}", "uint8", lanes)
        align, tag = element_bytes(buffer.dtype), self.tag(buffer)
        if active is None:
            self.line(f"store {type_} {value.name}, ptr {pointer}, align {align}{tag}")
        else:
            name = f"@llvm.masked.store.{type_suffix(type_)}.p0"
            mask = f"<{lanes} x i1>"
            self.module.declare(f"void {name}({type_}, ptr, {mask})")
            self.line(
                f"call void {name}({type_} {value.name}, ptr align {align} {pointer}, "
                f"{mask} {mask_text(lanes, active)}){tag}"
            )
        stale = [
            k
            for k in self.loaded
            if isinstance(k, tuple) and k[:2] == ("load", buffer.name)
        ]
        for key in stale:
            del self.loaded[key]

    def tag(self, buffer: Buffer) -> str:
        """Alias facts: accesses of different buffers never overlap."""
        return self.module.alias(buffer.name)
