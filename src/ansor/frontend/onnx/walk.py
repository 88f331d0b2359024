"""From the nodes of an ONNX graph to nodes of ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ansor.errors import AnsorError, ModelError, UnsupportedError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.onnx import schemas
from ansor.frontend.onnx.attributes import Subgraph, plain_attributes, read_attributes
from ansor.frontend.onnx.convert import CONVERTERS
from ansor.frontend.onnx.messages import (
    FunctionData,
    GraphData,
    NodeData,
    SparseData,
    TensorData,
)
from ansor.frontend.onnx.needs import Need, needs
from ansor.frontend.onnx.node import OnnxNode, Plain
from ansor.frontend.onnx.scope import Entry, Items, Lazy, Scope, domain, opsets
from ansor.frontend.onnx.sequences import SEQUENCES
from ansor.frontend.onnx.structure import STRUCTURES, Call, Structure
from ansor.frontend.onnx.tensors import array, dense
from ansor.reading import brief

MOST_NODES = 50_000  # after functions and loops are written out

# Operators that are no functions of arrays, and need the walker.
_STRUCTURES: Mapping[str, Structure] = {**STRUCTURES, **SEQUENCES}


class Walker:
    """Converts graphs, and the graphs and functions inside them."""

    def __init__(self, build: Builder) -> None:
        self.build = build
        self.visited = 0

    def graph(
        self, graph: GraphData, scope: Scope, given: Mapping[str, Entry]
    ) -> tuple[Entry, ...]:
        """The outputs of a graph whose inputs are `given`; `scope` is its own."""
        for name, entry in given.items():
            scope.define(name, entry)
        for name, tensor in initializers(graph).items():
            if name not in given:
                scope.define(name, tensor)
        outputs = [x.name for x in graph.outputs]
        self._nodes(graph.nodes, outputs, scope)
        return tuple(self.read(name, scope, "the graph's outputs") for name in outputs)

    def subgraph(self, sub: Subgraph, given: Sequence[Entry]) -> tuple[Entry, ...]:
        """The outputs of a subgraph, whose inputs are given in order."""
        names = [x.name for x in sub.graph.inputs]
        if len(names) != len(given):
            raise ModelError(
                f"graph {brief(sub.graph.name)}",
                f"it takes {len(names)} inputs, but is given {len(given)}",
            )
        inputs = dict(zip(names, given, strict=True))
        return self.graph(sub.graph, sub.scope.inside(), inputs)

    def function(
        self,
        function: FunctionData,
        call: OnnxNode | Call,
        scope: Scope,
        standard: Mapping[str, Plain] | None = None,
    ) -> tuple[Entry, ...]:
        """The outputs of a function that a node calls.

        For one of the standard, `standard` are its operator's defaults.
        """
        what = f"function {brief(function.name)}"
        if len(call.inputs) > len(function.inputs):
            raise ModelError(what, f"it is given {len(call.inputs)} inputs")
        own = read_attributes(function.source, function.defaults, scope)
        versions = opsets(function.opsets, what)
        if standard is not None:  # its body may leave out what every model has
            own, versions = {**standard, **own}, {**scope.opsets, **versions}
        elif extra := set(call.attributes) - set(own) - set(function.attributes):
            raise ModelError(what, f"it has no attribute {brief(min(extra))}")
        inner = scope.called(versions, {**own, **call.attributes})
        given: list[Entry] = [*call.inputs]
        given += [None] * (len(function.inputs) - len(given))
        for name, entry in zip(function.inputs, given, strict=True):
            inner.define(name, entry)
        self._nodes(function.nodes, function.outputs, inner)
        return tuple(self.read(x, inner, what) for x in function.outputs)

    def read(self, name: str, scope: Scope, where: str) -> Entry:
        """What a name stands for; constants are made when they are first read."""
        if not name:
            return None
        owner = scope.owner(name)
        if owner is None:
            raise ModelError(
                where,
                f"value {brief(name)} is read before it is made",
                "nodes must stand in an order without cycles",
            )
        entry = owner.names[name]
        if isinstance(entry, UnsupportedError):
            raise entry
        if isinstance(entry, TensorData | SparseData):
            entry = self._constant(name, entry)
            owner.names[name] = entry
        return entry

    def _constant(self, name: str, data: Lazy) -> Value:
        elements = array(data) if isinstance(data, TensorData) else dense(data)
        return self.build.constant(elements, name)

    def _nodes(
        self, nodes: Sequence[NodeData], outputs: Iterable[str], scope: Scope
    ) -> None:
        """Convert the nodes that the outputs need."""
        for need in needs(nodes, outputs, scope):
            self.visited += 1
            if self.visited > MOST_NODES:
                raise ModelError(
                    "model",
                    f"more than {MOST_NODES:,} nodes, its loops and functions "
                    "written out",
                )
            try:
                self._node(need, scope)
            except UnsupportedError as error:
                # A branch that is not taken may be all that needs it.
                for name in filter(None, need.wanted):
                    scope.define(name, error)

    def _node(self, need: Need, scope: Scope) -> None:
        data = need.node
        what = f"node {brief(data.name)} ({brief(data.op)[1:-1]})"
        inputs = [self.read(name, scope, what) for name in data.inputs]
        try:
            attributes = plain_attributes(data, scope)
        except ModelError as error:
            raise named(error, what) from error
        where = domain(data.domain)
        version = scope.opset(where, what)
        call = Call(
            data.op, data.name, where, version, tuple(inputs), need.wanted,
            attributes, what,
        )  # fmt: skip
        with self.build.at(what):
            results = self._convert(call, data.overload, scope)
        if any(need.wanted[len(results) :]):
            raise UnsupportedError(what, f"output {len(results)} is not supported")
        for name, result in zip(need.wanted, results, strict=False):
            if name:
                scope.define(name, result)

    def _convert(self, call: Call, overload: str, scope: Scope) -> tuple[Entry, ...]:
        own = scope.functions.get((call.domain, call.op, overload))
        if own is not None:
            return self.function(own, call, scope)
        structure = _STRUCTURES.get(call.op) if not call.domain else None
        if structure is not None:
            return structure(self, call)
        return self._operator(self._onnx_node(call), scope)

    def _operator(self, node: OnnxNode, scope: Scope) -> tuple[Entry, ...]:
        """By its converter, or else by what the standard says that it is made of."""
        known = schemas.schema(node.op, node.opset, node.domain)
        if known is not None:
            known.check(node)
        key = f"{node.domain}::{node.op}" if node.domain else node.op
        refusal: UnsupportedError | None = None
        if key in CONVERTERS:
            try:
                return self._converted(key, node, known)
            except UnsupportedError as error:
                refusal = error
        function = schemas.body(node)
        if function is None or known is None:
            raise refusal or unknown(node)
        try:
            return self.function(function, node, scope, known.defaults)
        except UnsupportedError as error:
            raise refusal or error from error

    def _converted(
        self, key: str, node: OnnxNode, known: schemas.Schema | None
    ) -> tuple[Entry, ...]:
        try:
            found = CONVERTERS[key](node, self.build)
        except AnsorError as error:
            raise named(error, str(node)) from error
        except Exception as error:
            # Converters trust sizes of attributes and inputs to agree.
            raise ModelError(
                str(node), f"its inputs or attributes do not fit: {error!r}"
            ) from error
        defaults = {} if known is None else known.defaults
        for name in node.unasked():
            if not same(node.attributes[name], defaults.get(name)):
                raise node.unsupported(f"attribute {name!r} is not supported")
        return found if isinstance(found, tuple) else (found,)

    def _onnx_node(self, call: Call) -> OnnxNode:
        known = schemas.schema(call.op, call.opset, call.domain)
        values: list[Value | None] = []
        for entry in call.inputs:
            if isinstance(entry, Items):
                raise UnsupportedError(call.what, "an input is a sequence")
            values.append(entry)
        return OnnxNode(
            call.op, call.name, call.domain, call.opset, tuple(values), call.outputs,
            call.attributes, known.formal if known is not None else (),
        )  # fmt: skip


def initializers(graph: GraphData) -> dict[str, Lazy]:
    """The constants of a graph by name."""
    found: dict[str, Lazy] = {}
    for tensor in graph.initializers:
        _add(found, tensor.name, tensor)
    for sparse in graph.sparse:
        _add(found, sparse.values.name if sparse.values else "", sparse)
    return found


def _add(found: dict[str, Lazy], name: str, data: Lazy) -> None:
    if name in found:
        raise ModelError(f"value {brief(name)}", "two initializers have this name")
    found[name] = data


def unknown(node: OnnxNode) -> UnsupportedError:
    space = f"domain {node.domain!r}" if node.domain else "the standard domain"
    return UnsupportedError(
        str(node),
        f"operator {brief(node.op)} of {space} (opset {node.opset}) is not supported",
        schemas.hint(),
    )


def named(error: AnsorError, node: str) -> ModelError:
    """The error, if it names the node; else one that does."""
    what, reason, hint = error.args
    if isinstance(error, ModelError) and node in what:
        return error
    kind = type(error) if isinstance(error, ModelError) else ModelError
    return kind(node, f"{what}: {reason}", hint)


def same(value: Plain, default: Plain) -> bool:
    """Whether an attribute says what is meant without it."""
    return type(value) is type(default) and bool(value == default)
