"""One node of an ONNX model, as converters see it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansor.errors import ModelError, UnsupportedError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Array, Value
from ansor.frontend.onnx.dtypes import CODES, code_name
from ansor.reading import brief

# Plain data: int, float, str, tuples of them, an array, a tuple of arrays.
Plain = Any
_REQUIRED = object()


@dataclass(frozen=True)
class OnnxNode:
    """An application of an ONNX operator whose inputs are converted already.

    Attributes that a converter never asks for are refused by the walker, not ignored.
    """

    op: str
    name: str
    domain: str
    opset: int
    inputs: tuple[Value | None, ...]  # None: an optional input that was omitted
    outputs: tuple[str, ...]  # "": an output that nobody wants
    attributes: Mapping[str, Plain] = field(default_factory=dict)
    formal: tuple[str, ...] = ()  # what the operator calls its inputs, for messages
    asked: set[str] = field(default_factory=set, compare=False)

    def __str__(self) -> str:
        op = f"{self.domain}.{self.op}" if self.domain else self.op
        name = self.name or next(filter(None, self.outputs), "")
        return f"node {brief(name)} ({brief(op)[1:-1]})"

    @property
    def output_count(self) -> int:
        return len(self.outputs)

    def wants(self, index: int) -> bool:
        """Whether output `index` is there and has a name."""
        return index < len(self.outputs) and self.outputs[index] != ""

    def input(self, index: int) -> Value:
        found = self.maybe(index)
        if found is None:
            raise ModelError(str(self), f"input {self._formal(index)} is missing")
        return found

    def maybe(self, index: int) -> Value | None:
        """Input `index`, or None where it was left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def known(self, index: int, build: Builder) -> Array:
        """The elements of input `index`, which must be a constant."""
        found = build.known(self.input(index))
        if found is None:
            raise self.unsupported(f"input {self._formal(index)} is not constant")
        return found

    def maybe_known(self, index: int, build: Builder) -> Array | None:
        """The same of an optional input; None where it was left out."""
        return None if self.maybe(index) is None else self.known(index, build)

    def attribute(self, name: str, default: Plain = _REQUIRED) -> Plain:
        """The value of an attribute, in the type of its default.

        An int becomes a bool where the default is one. Without a default the
        attribute is required.
        """
        self.asked.add(name)
        if name not in self.attributes:
            if default is _REQUIRED:
                raise ModelError(str(self), f"attribute {name!r} is missing")
            return default
        return self._typed(name, self.attributes[name], default)

    def dtype(self, name: str, default: str | None = None) -> str:
        """The element type that attribute `name` asks for ("to", "dtype")."""
        code = self.attribute(name) if default is None else self.attribute(name, None)
        if code is None and default is not None:
            return default
        if code not in CODES:
            raise self.unsupported(f"attribute {name!r} is {code_name(code)}")
        return CODES[code]

    def unsupported(self, reason: str, hint: str = "") -> UnsupportedError:
        """The error to raise; `reason` names the attribute or input."""
        return UnsupportedError(str(self), f"{reason} (opset {self.opset})", hint)

    def unasked(self) -> list[str]:
        """Attributes that the node has, but its converter never looked at."""
        return sorted(set(self.attributes) - self.asked)

    def _formal(self, index: int) -> str:
        known = index < len(self.formal)
        return repr(self.formal[index]) if known else str(index)

    def _typed(self, name: str, value: Plain, default: Plain) -> Plain:
        if default is None or default is _REQUIRED:
            return value
        if isinstance(default, bool | float) and isinstance(value, int):
            return type(default)(value)
        if not isinstance(value, type(default)):
            raise ModelError(
                str(self),
                f"attribute {name!r} is {brief(value)}, not of type "
                f"{type(default).__name__}",
            )
        return value


Converter = Callable[[OnnxNode, Builder], Value | tuple[Value, ...]]
