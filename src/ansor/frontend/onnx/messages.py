"""The messages of the ONNX format that matter, and how they are read.

Attributes of nodes and the data of tensors are spans: they are decoded when a node
that needs them is converted, so that what nobody needs costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansor.errors import ModelError
from ansor.frontend.onnx.wire import Source, Span, signed

MOST_NODES = 50_000  # of one graph
MOST_ITEMS = 1 << 19  # of any other repeated field
MOST_DEPTH = 32  # messages of subgraphs and types inside each other


@dataclass(frozen=True, slots=True)
class Dimension:
    value: int | None = None
    symbol: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    dimensions: tuple[Dimension, ...] = ()


@dataclass(frozen=True, slots=True)
class TensorType:
    code: int = 0
    shape: Shape | None = None


@dataclass(frozen=True, slots=True)
class Type:
    tensor: TensorType | None = None
    # Present where the value is no tensor.
    sequence: Span | None = None
    map: Span | None = None
    sparse: Span | None = None
    optional: Span | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """ValueInfoProto: an input or output of a graph."""

    name: str = ""
    type: Type | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    key: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class TensorData:
    """TensorProto. Numbers are spans of their encodings, joined to one packed field."""

    source: Source
    name: str = ""
    code: int = 0
    dimensions: tuple[Span, ...] = ()
    raw: Span | None = None
    floats: tuple[Span, ...] = ()
    int32s: tuple[Span, ...] = ()
    int64s: tuple[Span, ...] = ()
    doubles: tuple[Span, ...] = ()
    uint64s: tuple[Span, ...] = ()
    segment: Span | None = None
    external: tuple[Pair, ...] = ()
    location: int = 0  # 1: external


@dataclass(frozen=True, slots=True)
class SparseData:
    source: Source
    values: TensorData | None = None
    indices: TensorData | None = None
    dimensions: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class AttributeData:
    source: Source
    name: str = ""
    reference: str = ""  # the attribute of the function around that is meant
    kind: int = 0
    real: Span | None = None
    integer: int = 0
    string: Span | None = None
    tensor: TensorData | None = None
    graph: GraphData | None = None
    floats: tuple[Span, ...] = ()
    ints: tuple[Span, ...] = ()
    strings: tuple[Span, ...] = ()
    tensors: tuple[TensorData, ...] = ()
    graphs: tuple[Span, ...] = ()
    sparse: SparseData | None = None
    type: Span | None = None


@dataclass(frozen=True, slots=True)
class NodeData:
    source: Source
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    name: str = ""
    op: str = ""
    domain: str = ""
    overload: str = ""
    attributes: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphData:
    source: Source
    span: Span = (0, 0)
    nodes: tuple[NodeData, ...] = ()
    name: str = ""
    initializers: tuple[TensorData, ...] = ()
    sparse: tuple[SparseData, ...] = ()
    inputs: tuple[Variable, ...] = ()
    outputs: tuple[Variable, ...] = ()


@dataclass(frozen=True, slots=True)
class Opset:
    domain: str = ""
    version: int = 0


@dataclass(frozen=True, slots=True)
class FunctionData:
    source: Source
    name: str = ""
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()  # without a default
    defaults: tuple[Span, ...] = ()
    nodes: tuple[NodeData, ...] = ()
    opsets: tuple[Opset, ...] = ()
    domain: str = ""
    overload: str = ""


@dataclass(frozen=True, slots=True)
class ModelData:
    source: Source
    ir: int = 0
    opsets: tuple[Opset, ...] = ()
    graph: GraphData | None = None
    functions: tuple[FunctionData, ...] = ()


@dataclass(frozen=True, slots=True)
class Field:
    """A row of a message's table."""

    name: str
    kind: str  # "int" | "text" | "span" | "numbers" | the name of a message
    many: bool = False
    most: int = MOST_ITEMS


@dataclass(frozen=True, slots=True)
class Message:
    make: type
    own: frozenset[str]  # "source" and "span", where the message keeps them
    fields: Mapping[int, Field] = field(default_factory=dict)


def _message(make: type, **fields: Field) -> Message:
    rows = {int(key[1:]): row for key, row in fields.items()}
    slots: tuple[str, ...] = make.__slots__  # type: ignore[attr-defined]
    return Message(make, frozenset(slots) & {"source", "span"}, rows)


def _one(name: str, kind: str) -> Field:
    return Field(name, kind)


def _many(name: str, kind: str, most: int = MOST_ITEMS) -> Field:
    return Field(name, kind, True, most)


# By the numbers of onnx.proto, which never change. Other fields are skipped.
MESSAGES: Mapping[str, Message] = {
    "dimension": _message(
        Dimension, _1=_one("value", "int"), _2=_one("symbol", "text")
    ),
    "shape": _message(Shape, _1=_many("dimensions", "dimension")),
    "tensor type": _message(
        TensorType, _1=_one("code", "int"), _2=_one("shape", "shape")
    ),
    "type": _message(
        Type,
        _1=_one("tensor", "tensor type"),
        _4=_one("sequence", "span"),
        _5=_one("map", "span"),
        _8=_one("sparse", "span"),
        _9=_one("optional", "span"),
    ),
    "variable": _message(Variable, _1=_one("name", "text"), _2=_one("type", "type")),
    "pair": _message(Pair, _1=_one("key", "text"), _2=_one("value", "text")),
    "tensor": _message(
        TensorData,
        _1=_many("dimensions", "numbers"),
        _2=_one("code", "int"),
        _3=_one("segment", "span"),
        _4=_many("floats", "numbers"),
        _5=_many("int32s", "numbers"),
        _7=_many("int64s", "numbers"),
        _8=_one("name", "text"),
        _9=_one("raw", "span"),
        _10=_many("doubles", "numbers"),
        _11=_many("uint64s", "numbers"),
        _13=_many("external", "pair"),
        _14=_one("location", "int"),
    ),
    "sparse": _message(
        SparseData,
        _1=_one("values", "tensor"),
        _2=_one("indices", "tensor"),
        _3=_many("dimensions", "numbers"),
    ),
    "attribute": _message(
        AttributeData,
        _1=_one("name", "text"),
        _2=_one("real", "span"),
        _3=_one("integer", "int"),
        _4=_one("string", "span"),
        _5=_one("tensor", "tensor"),
        _6=_one("graph", "graph"),
        _7=_many("floats", "numbers"),
        _8=_many("ints", "numbers"),
        _9=_many("strings", "span"),
        _10=_many("tensors", "tensor"),
        _11=_many("graphs", "span"),
        _14=_one("type", "span"),
        _20=_one("kind", "int"),
        _21=_one("reference", "text"),
        _22=_one("sparse", "sparse"),
    ),
    "node": _message(
        NodeData,
        _1=_many("inputs", "text"),
        _2=_many("outputs", "text"),
        _3=_one("name", "text"),
        _4=_one("op", "text"),
        _5=_many("attributes", "span"),
        _7=_one("domain", "text"),
        _8=_one("overload", "text"),
    ),
    "graph": _message(
        GraphData,
        _1=_many("nodes", "node", MOST_NODES),
        _2=_one("name", "text"),
        _5=_many("initializers", "tensor"),
        _11=_many("inputs", "variable"),
        _12=_many("outputs", "variable"),
        _15=_many("sparse", "sparse"),
    ),
    "opset": _message(Opset, _1=_one("domain", "text"), _2=_one("version", "int")),
    "function": _message(
        FunctionData,
        _1=_one("name", "text"),
        _4=_many("inputs", "text"),
        _5=_many("outputs", "text"),
        _6=_many("attributes", "text"),
        _7=_many("nodes", "node", MOST_NODES),
        _9=_many("opsets", "opset"),
        _10=_one("domain", "text"),
        _11=_many("defaults", "span"),
        _13=_one("overload", "text"),
    ),
    "model": _message(
        ModelData,
        _1=_one("ir", "int"),
        _7=_one("graph", "graph"),
        _8=_many("opsets", "opset"),
        _25=_many("functions", "function"),
    ),
}

_LENGTHS = 2  # the wire type of what has a length


def read(kind: str, source: Source, span: Span, depth: int = 0) -> Any:
    """The message of a kind of MESSAGES that lies at `span`."""
    if depth > MOST_DEPTH:
        raise source.fault(f"messages nest deeper than {MOST_DEPTH}")
    message = MESSAGES[kind]
    place: dict[str, Any] = {"source": source, "span": span}
    one = {name: place[name] for name in message.own}
    many: dict[str, list[Any]] = {}
    for number, wire, where in source.messages(span):
        row = message.fields.get(number)
        if row is None:
            continue
        value = _value(row, kind, source, wire, where, depth)
        if not row.many:
            _once(source, one, kind, row, value)
            continue
        found = many.setdefault(row.name, [])
        found.append(value)
        if len(found) > row.most:
            raise source.fault(f"a {kind} has more than {row.most:,} {row.name}")
    return message.make(**one, **{name: tuple(x) for name, x in many.items()})


def _once(
    source: Source, found: dict[str, Any], kind: str, row: Field, value: Any
) -> None:
    if row.name in found and row.kind in MESSAGES:
        raise source.fault(f"a {kind} has two of {row.name!r}")
    found[row.name] = value  # of scalars the last counts, as the format says


def _value(
    row: Field, kind: str, source: Source, wire: int, where: Span, depth: int
) -> Any:
    """The value of one field."""
    if row.kind == "numbers":
        return where
    if row.kind == "int":
        _expect(source, kind, row, wire == 0)
        return signed(source.varint(*where)[0])
    if row.kind == "span":
        _expect(source, kind, row, wire in (_LENGTHS, 5))
        return where
    _expect(source, kind, row, wire == _LENGTHS)
    if row.kind == "text":
        return source.text(where)
    return read(row.kind, source, where, depth + 1)


def _expect(source: Source, kind: str, row: Field, holds: bool) -> None:
    if not holds:
        raise source.fault(f"{row.name!r} of a {kind} has the wrong wire type")


def read_attribute(source: Source, span: Span) -> AttributeData:
    """An attribute of a node."""
    found = read("attribute", source, span)
    if not isinstance(found, AttributeData):
        raise ModelError(f"model {source.name}", "an attribute cannot be read")
    return found
