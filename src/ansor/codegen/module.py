"""What the functions of one LLVM module share: types, values, metadata."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from ansor.ir.dtypes import DTYPES
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


def vector_type(element: str, lanes: int) -> str:
    return element if lanes == 1 else f"<{lanes} x {element}>"


def type_suffix(type_: str) -> str:
    """How intrinsics name a type: v4f32 for <4 x float>."""
    if not type_.startswith("<"):
        return SUFFIX.get(type_, type_)
    lanes, element = type_[1:-1].split(" x ")
    return f"v{lanes}{SUFFIX.get(element, element)}"


def mask_text(lanes: int, active: int) -> str:
    bits = ", ".join("i1 true" if n < active else "i1 false" for n in range(lanes))
    return f"<{bits}>"


def cast_opcode(source: str, target: str) -> str | None:
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
