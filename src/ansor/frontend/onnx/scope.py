"""Names of a graph or function while it is converted, and what they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ansor.errors import ModelError, UnsupportedError
from ansor.frontend.graph import Value
from ansor.frontend.onnx.messages import FunctionData, Opset, SparseData, TensorData
from ansor.frontend.onnx.node import Plain
from ansor.reading import brief

NEWEST_OPSET = 28  # of the domain ai.onnx
MOST_DEPTH = 16  # graphs and functions inside each other

FunctionKey = tuple[str, str, str]  # domain, name, overload


@dataclass(frozen=True)
class Items:
    """A sequence whose length is known."""

    values: tuple[Value, ...]


# None is an optional value without element, or an omitted input.
Entry = Value | Items | None
Lazy = TensorData | SparseData  # a constant that nobody has asked for yet
# A name may also stand for the reason why it has no value.
Named = Entry | Lazy | UnsupportedError


@dataclass(eq=False)
class Scope:
    """What one graph sees: its own names, then those around it."""

    opsets: Mapping[str, int]
    functions: Mapping[FunctionKey, FunctionData] = field(default_factory=dict)
    attributes: Mapping[str, Plain] = field(default_factory=dict)  # of the function
    parent: Scope | None = None
    depth: int = 0
    names: dict[str, Named] = field(default_factory=dict)

    def inside(self) -> Scope:
        """The scope of a subgraph."""
        return Scope(self.opsets, self.functions, self.attributes, self, self._deeper())

    def called(self, opsets: Mapping[str, int], given: Mapping[str, Plain]) -> Scope:
        """The scope of a function that is called here: it sees none of our names."""
        return Scope(opsets, self.functions, given, None, self._deeper())

    def define(self, name: str, entry: Named) -> None:
        if name in self.names:
            raise ModelError(f"value {brief(name)}", "it is made twice")
        self.names[name] = entry

    def owner(self, name: str) -> Scope | None:
        """The innermost scope that has this name."""
        scope: Scope | None = self
        while scope is not None and name not in scope.names:
            scope = scope.parent
        return scope

    def opset(self, domain: str, what: str) -> int:
        if domain not in self.opsets:
            raise ModelError(what, f"no version of the domain {brief(domain)} is given")
        return self.opsets[domain]

    def _deeper(self) -> int:
        if self.depth >= MOST_DEPTH:
            raise ModelError(
                "graph", f"graphs and functions nest deeper than {MOST_DEPTH}"
            )
        return self.depth + 1


def domain(name: str) -> str:
    """The standard domain has two names."""
    return "" if name == "ai.onnx" else name


def opsets(given: Iterable[Opset], what: str) -> dict[str, int]:
    """Version by domain; models without any are older than opsets."""
    found = {domain(x.domain): x.version for x in given}
    standard = found.setdefault("", 1) if not found else found.get("", 1)
    if not 1 <= standard <= NEWEST_OPSET:
        raise ModelError(what, f"opset {standard} is unknown; 1 to {NEWEST_OPSET} are")
    return found
