"""LLVM IR as text, written by operators: `v * w + c` appends two instructions.

A `Body` collects the instructions of one straight-line function; a `Vec` is one of
its values, a vector or (with one lane) a scalar. A Python number beside a `Vec`
becomes a constant of its type in every lane.
"""

import struct
from dataclasses import dataclass, field, replace

import numpy as np

BITS = {"float": 32, "double": 64, "i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
FLOATS = {"float": "f32", "double": "f64"}
NAN = "0x7FF8000000000000"


@dataclass(frozen=True, slots=True)
class Type:
    """`lanes` elements of one LLVM type; a scalar if there is one lane."""

    element: str
    lanes: int

    def __str__(self) -> str:
        if self.lanes == 1:
            return self.element
        return f"<{self.lanes} x {self.element}>"

    @property
    def is_float(self) -> bool:
        return self.element in FLOATS

    @property
    def suffix(self) -> str:
        """How intrinsics name this type: f32, v4f32, v4i32."""
        name = FLOATS.get(self.element, self.element)
        return name if self.lanes == 1 else f"v{self.lanes}{name}"

    def constant(self, number: float | int) -> str:
        """`number` in every lane, without the leading type."""
        text = constant(self.element, number)
        return text if self.lanes == 1 else f"splat ({self.element} {text})"


def constant(element: str, number: float | int) -> str:
    """One scalar constant, exactly: a float is written as the bits of a double, after
    rounding to its own width; an integer wraps to the signed range of its type."""
    if element in FLOATS:
        if number != number:
            return NAN
        return f"0x{struct.pack('>d', _rounded(element, number)).hex().upper()}"
    if element == "i1":
        return "true" if number else "false"
    bits = BITS[element]
    wrapped = int(number) & ((1 << bits) - 1)
    return str(wrapped - (1 << bits) if wrapped >> (bits - 1) else wrapped)


def _rounded(element: str, number: float | int) -> float:
    if element == "double":
        return float(number)
    with np.errstate(over="ignore"):
        return float(np.float32(number))


@dataclass
class Body:
    """The instructions of one function so far, and the intrinsics they call.

    With `fma`, `Vec.fma` may fuse (`llvm.fmuladd`) and `Vec.fused` may be used;
    without, the product is rounded before the sum on every target. With the name of a
    `table`, vector constants that are added to a product are loaded from it: where a
    multiply-add overwrites its summand, a load is free and a copy is not.
    """

    fma: bool = True
    table: str = ""
    tabled: dict[str, int] = field(default_factory=dict)  # row -> where, in bytes
    table_bytes: int = 0
    lines: list[str] = field(default_factory=list)
    declared: dict[str, str] = field(default_factory=dict)  # name -> declare line

    def emit(self, type_: Type, text: str) -> "Vec":
        name = f"%t{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return Vec(self, type_, name)

    def argument(self, type_: Type, name: str) -> "Vec":
        return Vec(self, type_, name)

    def constant(self, type_: Type, number: float | int) -> "Vec":
        return Vec(self, type_, type_.constant(number))

    def summand(self, type_: Type, number: float | int) -> "Vec":
        """A constant to add to a product."""
        if not self.table or type_.lanes == 1:
            return self.constant(type_, number)
        row = f"{type_} {type_.constant(number)}"
        if row not in self.tabled:
            self.tabled[row] = self.table_bytes
            self.table_bytes += type_.lanes * BITS[type_.element] // 8
        place = (
            f"getelementptr inbounds (i8, ptr @{self.table}, i64 {self.tabled[row]})"
        )
        align = BITS[type_.element] // 8
        return self.emit(type_, f"load {type_}, ptr {place}, align {align}")

    def call(self, intrinsic: str, *arguments: "Vec") -> "Vec":
        """An intrinsic overloaded on the type of its first argument, its result."""
        type_ = arguments[0].type
        name = f"@llvm.{intrinsic}.{type_.suffix}"
        types = ", ".join(str(a.type) for a in arguments)
        self.declared[name] = f"declare {type_} {name}({types})"
        passed = ", ".join(f"{a.type} {a.name}" for a in arguments)
        return self.emit(type_, f"call {type_} {name}({passed})")

    def function(self, symbol: str, arguments: "list[Vec]", result: "Vec") -> str:
        """The text of an internal function that is always inlined."""
        header = ", ".join(f"{a.type} {a.name}" for a in arguments)
        memory = "read" if self.tabled else "none"
        return "\n".join(
            [
                *self._table(),
                f"define internal {result.type} @{symbol}({header}) "
                f"alwaysinline nounwind willreturn memory({memory}) {{",
                *self.lines,
                f"  ret {result.type} {result.name}",
                "}\n",
            ]
        )

    def _table(self) -> list[str]:
        """The table as a variable: LLVM would put constants back into registers."""
        if not self.tabled:
            return []
        types = ", ".join(row.partition(">")[0] + ">" for row in self.tabled)
        rows = ", ".join(self.tabled)
        text = f"internal global <{{ {types} }}> <{{ {rows} }}>, align 64"
        return [f"@{self.table} = {text}"]


@dataclass(frozen=True, slots=True, eq=False)
class Vec:
    """One value of a body. Comparisons are methods and give vectors of i1."""

    body: Body
    type: Type
    name: str

    def like(self, other: "Vec | float | int") -> "Vec":
        """`other` as a value of this type."""
        if not isinstance(other, Vec):
            return self.body.constant(self.type, other)
        assert other.type == self.type, f"{self.type} meets {other.type}"
        return other

    def _binary(self, float_op: str, int_op: str, other: "Vec | float | int") -> "Vec":
        right = self.like(other)
        op = float_op if self.type.is_float else int_op
        assert op, f"{int_op or float_op} of {self.type}"
        return self.body.emit(self.type, f"{op} {self.type} {self.name}, {right.name}")

    def __add__(self, other: "Vec | float | int") -> "Vec":
        return self._binary("fadd", "add", other)

    def __sub__(self, other: "Vec | float | int") -> "Vec":
        return self._binary("fsub", "sub", other)

    def __mul__(self, other: "Vec | float | int") -> "Vec":
        return self._binary("fmul", "mul", other)

    def __truediv__(self, other: "Vec | float | int") -> "Vec":
        return self._binary("fdiv", "", other)

    def __radd__(self, other: float | int) -> "Vec":
        return self.like(other) + self

    def __rsub__(self, other: float | int) -> "Vec":
        return self.like(other) - self

    def __rmul__(self, other: float | int) -> "Vec":
        return self.like(other) * self

    def __rtruediv__(self, other: float | int) -> "Vec":
        return self.like(other) / self

    def __and__(self, other: "Vec | float | int") -> "Vec":
        return self._binary("", "and", other)

    def __or__(self, other: "Vec | float | int") -> "Vec":
        return self._binary("", "or", other)

    def __xor__(self, other: "Vec | float | int") -> "Vec":
        return self._binary("", "xor", other)

    def __lshift__(self, other: "Vec | float | int") -> "Vec":
        return self._binary("", "shl", other)

    def __rshift__(self, other: "Vec | float | int") -> "Vec":
        """Arithmetic: copies of the sign bit come in. See `logical_shift`."""
        return self._binary("", "ashr", other)

    def logical_shift(self, other: "Vec | float | int") -> "Vec":
        """Shift right, zeros come in. Of 64-bit lanes AVX2 has only this one."""
        return self._binary("", "lshr", other)

    def __neg__(self) -> "Vec":
        if self.type.is_float:
            return self.body.emit(self.type, f"fneg {self.type} {self.name}")
        return self.like(0) - self

    def __invert__(self) -> "Vec":
        return self ^ (1 if self.type.element == "i1" else -1)

    def fma(self, factor: "Vec | float | int", summand: "Vec | float | int") -> "Vec":
        """self * factor + summand, in one rounding where the target does it free."""
        if not self.body.fma:
            return self * factor + summand
        if not isinstance(summand, Vec):
            summand = self.body.summand(self.type, summand)
        if not isinstance(factor, Vec):
            factor = self.body.summand(self.type, factor)
        return self.body.call("fmuladd", self, factor, summand)

    def fused(self, factor: "Vec | float | int", summand: "Vec | float | int") -> "Vec":
        """self * factor + summand in exactly one rounding; needs an FMA target."""
        assert self.body.fma, "a fused multiply-add would become a library call"
        return self.body.call("fma", self, self.like(factor), self.like(summand))

    def rint(self) -> "Vec":
        """Nearest integer, ties to even, as a float."""
        return self.body.call("rint", self)

    def sqrt(self) -> "Vec":
        return self.body.call("sqrt", self)

    def abs(self) -> "Vec":
        return self.body.call("fabs", self)

    def copysign(self, sign: "Vec") -> "Vec":
        return self.body.call("copysign", self, sign)

    def _compare(self, condition: str, other: "Vec | float | int") -> "Vec":
        right = self.like(other)
        op = "fcmp" if self.type.is_float else "icmp"
        type_ = replace(self.type, element="i1")
        text = f"{op} {condition} {self.type} {self.name}, {right.name}"
        return self.body.emit(type_, text)

    def lt(self, other: "Vec | float | int") -> "Vec":
        """False on NaN, as are all comparisons but `ne`."""
        return self._compare("olt" if self.type.is_float else "slt", other)

    def gt(self, other: "Vec | float | int") -> "Vec":
        return self._compare("ogt" if self.type.is_float else "sgt", other)

    def le(self, other: "Vec | float | int") -> "Vec":
        return self._compare("ole" if self.type.is_float else "sle", other)

    def ge(self, other: "Vec | float | int") -> "Vec":
        return self._compare("oge" if self.type.is_float else "sge", other)

    def eq(self, other: "Vec | float | int") -> "Vec":
        return self._compare("oeq" if self.type.is_float else "eq", other)

    def ne(self, other: "Vec | float | int") -> "Vec":
        return self._compare("une" if self.type.is_float else "ne", other)

    def where(self, yes: "Vec | float | int", no: "Vec | float | int") -> "Vec":
        """Per lane `yes` if this i1 is set, else `no`; one of them is a Vec."""
        known = yes if isinstance(yes, Vec) else no
        assert isinstance(known, Vec), "select between two constants has no type"
        a, b = known.like(yes), known.like(no)
        text = f"select {self.type} {self.name}, {a.type} {a.name}, {b.type} {b.name}"
        return self.body.emit(a.type, text)

    def at_most(self, limit: float) -> "Vec":
        """The smaller of the two; NaN stays NaN. One instruction if limit is not 0."""
        return self.body.call("minimum", self, self.like(limit))

    def at_least(self, limit: float) -> "Vec":
        """The larger of the two; NaN stays NaN. One instruction if limit is not 0."""
        return self.body.call("maximum", self, self.like(limit))

    def _convert(self, op: str, element: str) -> "Vec":
        type_ = replace(self.type, element=element)
        return self.body.emit(type_, f"{op} {self.type} {self.name} to {type_}")

    def bits(self) -> "Vec":
        """The same bits as integers of that width."""
        return self._convert("bitcast", f"i{BITS[self.type.element]}")

    def as_float(self) -> "Vec":
        """The same bits as floats of that width."""
        return self._convert("bitcast", {32: "float", 64: "double"}[self._width])

    def to_float(self) -> "Vec":
        """The nearest float of the width of this signed integer."""
        return self._convert("sitofp", {32: "float", 64: "double"}[self._width])

    def extend(self) -> "Vec":
        """float -> double, exact."""
        return self._convert("fpext", "double")

    def truncate(self) -> "Vec":
        """double -> float, rounded."""
        return self._convert("fptrunc", "float")

    def narrow(self) -> "Vec":
        """i64 -> i32, the low bits."""
        return self._convert("trunc", "i32")

    @property
    def _width(self) -> int:
        return BITS[self.type.element]


def polynomial(x: Vec, coefficients: tuple[float, ...]) -> Vec:
    """Horner's rule; the constant coefficient comes first. The most accurate way."""
    *lower, second, top = coefficients
    result = x.fma(x.like(top), second)
    for c in reversed(lower):
        result = result.fma(x, c)
    return result


def paired_polynomial(x: Vec, coefficients: tuple[float, ...]) -> Vec:
    """Horner's rule in x^2 on pairs: half the steps for one more product."""
    square = x * x
    terms: list[Vec | float] = [
        x.fma(high, low)
        for low, high in zip(coefficients[::2], coefficients[1::2], strict=False)
    ]
    terms += coefficients[len(terms) * 2 :]
    *lower, top = terms
    result = x.like(top)
    for term in reversed(lower):
        result = square.fma(result, term)
    return result
