"""What the package `onnx` knows of operators: their inputs, attributes and bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ansor.errors import ModelError
from ansor.frontend.graph import Value
from ansor.frontend.onnx.attributes import Subgraph
from ansor.frontend.onnx.dtypes import CODES
from ansor.frontend.onnx.messages import FunctionData, read
from ansor.frontend.onnx.node import OnnxNode, Plain
from ansor.frontend.onnx.wire import Source
from ansor.reading import brief

if TYPE_CHECKING:
    from onnx import NodeProto

Definition = Any  # onnx.defs.OpSchema, whose stubs lack most of it
_CODE = {name: code for code, name in CODES.items()}


@dataclass(frozen=True)
class Schema:
    """An operator of one opset."""

    formal: tuple[str, ...]
    least_inputs: int
    most_inputs: int
    most_outputs: int
    attributes: frozenset[str]
    defaults: dict[str, Plain]

    def check(self, node: OnnxNode) -> None:
        count = len(node.inputs)
        if not self.least_inputs <= count <= self.most_inputs:
            raise ModelError(
                str(node),
                f"{count} inputs; it takes {self.least_inputs} to {self.most_inputs}",
            )
        if node.output_count > self.most_outputs:
            raise ModelError(
                str(node), f"{node.output_count} outputs; it has {self.most_outputs}"
            )
        for name in sorted(set(node.attributes) - self.attributes):
            raise ModelError(str(node), f"it has no attribute {brief(name)}")


@lru_cache(maxsize=4096)
def schema(op: str, opset: int, domain: str) -> Schema | None:
    """None for an operator that is not of ONNX, or without the package `onnx`."""
    found = _schema(op, opset, domain)
    if found is None:
        return None
    return Schema(
        tuple(x.name for x in found.inputs),
        found.min_input,
        found.max_input,
        found.max_output,
        frozenset(found.attributes),
        _defaults(found),
    )


def body(node: OnnxNode) -> FunctionData | None:
    """The function that the standard says this node is; None for primitive ones."""
    found = _schema(node.op, node.opset, node.domain)
    if found is None:
        return None
    text = b""
    if found.has_function:
        text = _body(found, node.opset)
    elif found.has_context_dependent_function:
        text = _dependent_body(found, node)
    if not text:
        return None
    source = Source(memoryview(text), f"(the function of {node.op})")
    function: FunctionData = read("function", source, (0, len(text)))
    return function


def hint() -> str:
    """What may help where an operator is unknown."""
    if find_spec("onnx") is not None:
        return ""
    return (
        "operators that are functions need the package onnx: pip install 'ansor[onnx]'"
    )


def _schema(op: str, opset: int, domain: str) -> Definition:
    try:
        from onnx import defs
    except ImportError:
        return None
    try:
        return defs.get_schema(op, opset, domain)
    except defs.SchemaError:
        return None


def _defaults(found: Definition) -> dict[str, Plain]:
    from onnx import helper

    values = {
        name: helper.get_attribute_value(x.default_value)
        for name, x in found.attributes.items()
        if x.default_value.name
    }
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Plain) -> Plain:
    """A default as attributes of nodes are read."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return tuple(map(_plain, value)) if isinstance(value, list) else value


def _body(found: Definition, opset: int) -> bytes:
    fit = [x for x in found.function_opset_versions if x <= opset]
    return bytes(found.get_function_with_opset_version(max(fit))) if fit else b""


def _dependent_body(found: Definition, node: OnnxNode) -> bytes:
    """A body that depends on the types of the inputs."""
    versions = found.context_dependent_function_opset_versions
    fit = [x for x in versions if x <= node.opset]
    types = [_type(x) for x in node.inputs]
    if not fit:
        return b""
    try:
        made = found.get_context_dependent_function_with_opset_version(
            max(fit), _proto(node).SerializeToString(), types
        )
    except RuntimeError:  # the package has no body for these inputs
        return b""
    return bytes(made)


def _type(value: Value | None) -> bytes:
    from onnx import helper

    if value is None:
        return b""
    made = helper.make_tensor_type_proto(_CODE[value.dtype], value.shape)
    return bytes(made.SerializeToString())


def _proto(node: OnnxNode) -> NodeProto:
    """The node for the package `onnx`; inputs are named by their numbers."""
    from onnx import GraphProto, helper, numpy_helper

    named = [f"x{n}" if x is not None else "" for n, x in enumerate(node.inputs)]
    made = helper.make_node(
        node.op, named, list(_named(node.outputs)), domain=node.domain
    )
    for name, value in node.attributes.items():
        if hasattr(value, "dtype"):
            value = numpy_helper.from_array(value)
        elif isinstance(value, Subgraph):
            start, stop = value.graph.span
            value = GraphProto.FromString(bytes(value.graph.source.view[start:stop]))
        made.attribute.append(helper.make_attribute(name, value))
    return made


def _named(outputs: Sequence[str]) -> Sequence[str]:
    return [f"y{n}" if name else "" for n, name in enumerate(outputs)]
