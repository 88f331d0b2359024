"""Attributes of ONNX nodes as plain data."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ansor.errors import ModelError, UnsupportedError
from ansor.frontend.onnx.messages import AttributeData, GraphData, NodeData, read
from ansor.frontend.onnx.node import Plain
from ansor.frontend.onnx.tensors import array, dense, floats, integers
from ansor.frontend.onnx.wire import Source, Span
from ansor.reading import brief

if TYPE_CHECKING:
    from ansor.frontend.onnx.scope import Scope

MOST_NUMBERS = 1 << 20  # of one attribute
MOST_ATTRIBUTES = 1 << 10  # of one node

# AttributeProto.AttributeType, which is part of the format.
KINDS = {
    1: "float", 2: "int", 3: "string", 4: "tensor", 5: "graph", 6: "floats", 7: "ints",
    8: "strings", 9: "tensors", 10: "graphs", 11: "sparse tensor", 12: "sparse tensors",
    13: "type", 14: "types",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Subgraph:
    """An attribute that is a graph; it may read the names of the scope around it."""

    graph: GraphData
    scope: Scope


def plain_attributes(node: NodeData, scope: Scope) -> dict[str, Plain]:
    """The attributes of a node; references to a function's are resolved.

    A reference to an attribute that the call of the function left out is left out.
    """
    return read_attributes(node.source, node.attributes, scope)


def read_attributes(
    source: Source, spans: tuple[Span, ...], scope: Scope
) -> dict[str, Plain]:
    if len(spans) > MOST_ATTRIBUTES:
        raise source.fault(f"a node has more than {MOST_ATTRIBUTES} attributes")
    found: dict[str, Plain] = {}
    for span in spans:
        data: AttributeData = read("attribute", source, span)
        if data.name in found:
            raise source.fault(f"an attribute {brief(data.name)} stands twice")
        if not data.reference:
            found[data.name] = plain(data, scope)
        elif data.reference in scope.attributes:
            found[data.name] = scope.attributes[data.reference]
    return found


def plain(data: AttributeData, scope: Scope) -> Plain:
    """The value of an attribute."""
    what = f"attribute {brief(data.name)}"
    match KINDS.get(data.kind):
        case "float":
            return _float(data, what)
        case "int":
            return data.integer
        case "string":
            return "" if data.string is None else _text(data.source, data.string)
        case "ints":
            return tuple(_numbers(data, data.ints, what))
        case "floats":
            read_floats = floats(data.source, data.floats, what)
            return tuple(_limited(read_floats.tolist(), what))
        case "strings":
            return tuple(_text(data.source, x) for x in data.strings)
        case _:
            return _large(data, scope, what)


def _large(data: AttributeData, scope: Scope, what: str) -> Plain:
    match KINDS.get(data.kind):
        case "tensor" if data.tensor is not None:
            return array(data.tensor)
        case "tensors":
            return tuple(array(x) for x in data.tensors)
        case "sparse tensor" if data.sparse is not None:
            return dense(data.sparse)
        case "graph" if data.graph is not None:
            return Subgraph(data.graph, scope)
        case "type":
            return TypeAttribute(data)
        case "graphs" | "sparse tensors" | "types" as kind:
            raise UnsupportedError(what, f"an attribute of {kind}")
        case None:
            raise ModelError(what, f"its type {data.kind} is unknown")
        case kind:
            raise ModelError(what, f"it is a {kind}, but has none")


@dataclass(frozen=True, eq=False)
class TypeAttribute:
    """An attribute that is a type; nothing looks inside."""

    data: AttributeData


def _float(data: AttributeData, what: str) -> float:
    if data.real is None:
        return 0.0
    start, stop = data.real
    if stop - start != 4:
        raise ModelError(what, f"a float of {stop - start} bytes")
    return float(struct.unpack("<f", data.source.view[start:stop])[0])


def _numbers(data: AttributeData, spans: tuple[Span, ...], what: str) -> list[int]:
    found: list[int] = integers(data.source, spans, what).tolist()
    return _limited(found, what)


def _limited(numbers: list[Plain], what: str) -> list[Plain]:
    if len(numbers) > MOST_NUMBERS:
        raise ModelError(what, f"{len(numbers):,} numbers, more than {MOST_NUMBERS:,}")
    return numbers


def _text(source: Source, span: Span) -> str:
    return source.text(span)


def subgraphs(node: NodeData, scope: Scope) -> list[Subgraph]:
    """The graphs among the attributes of a node; the others are not looked at."""
    found = []
    for span in node.attributes[:MOST_ATTRIBUTES]:
        data: AttributeData = read("attribute", node.source, span)
        if data.graph is not None:
            found.append(Subgraph(data.graph, scope))
        elif isinstance(given := scope.attributes.get(data.reference), Subgraph):
            found.append(given)
    return found
