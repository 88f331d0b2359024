"""`from_onnx`: a model of an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ansor.errors import ModelError, UnsupportedError
from ansor.frontend.builder import LARGEST, Builder
from ansor.frontend.graph import Array, Graph, Value
from ansor.frontend.onnx.dtypes import CODES, code_name
from ansor.frontend.onnx.load import load
from ansor.frontend.onnx.messages import GraphData, ModelData, Variable
from ansor.frontend.onnx.scope import Entry, FunctionKey, Scope, domain, opsets
from ansor.frontend.onnx.shapes import Shapes
from ansor.frontend.onnx.walk import Walker, initializers
from ansor.reading import brief
from ansor.target import Target

if TYPE_CHECKING:
    from onnx import ModelProto

    from ansor.frontend.model import Model
    from ansor.frontend.onnx.messages import FunctionData


def from_onnx(
    model: str | os.PathLike[str] | bytes | ModelProto,
    *,
    shapes: Mapping[str, int | Sequence[int]] | None = None,
    constants: Mapping[str, Array] | None = None,
    target: str | Target | None = None,
    alternatives: Iterable[str] | None = None,
) -> Model:
    """The model of an ONNX file: a path, its bytes, or an `onnx.ModelProto`.

    `shapes` gives the lengths that the file leaves open: the whole shape of an input
    by its name, or one length by the name of a symbol: {"x": (1, 3, 224, 224)} or
    {"batch": 1}. `constants` fixes inputs, which the model then no longer takes: those
    that are shapes or axes must be known. For `alternatives` see `ansor.Model`.

    Files are not trusted: data beside the model is read from its own folder only, and
    only if the model was given as a path.

    Raises UnsupportedError, which names node, operator and attribute, for what is not
    implemented, and ModelError for files that contradict themselves. Parts that no
    output needs are not looked at.

    >>> relu = bytes.fromhex(
    ...     "080a420210153a240a0c0a0178120179220452656c755a0f0a0178120a0a0808011204"
    ...     "0a02080262030a0179"
    ... )
    >>> from_onnx(relu).outputs
    (Value(name='y', dtype='float32', shape=(2,)),)
    """
    from ansor.frontend.model import Model

    graph = to_graph(model, shapes=shapes, constants=constants)
    return Model(graph, target, alternatives=alternatives)


def to_graph(
    model: str | os.PathLike[str] | bytes | ModelProto,
    *,
    shapes: Mapping[str, int | Sequence[int]] | None = None,
    constants: Mapping[str, Array] | None = None,
) -> Graph:
    """The graph alone, as the file has it: nothing is optimised."""
    data = load(model)
    try:
        build = Builder(title(data))
        return convert(data, Shapes(shapes or {}), constants or {}, build)
    finally:
        data.source.close()


def convert(
    data: ModelData, shapes: Shapes, constants: Mapping[str, Array], build: Builder
) -> Graph:
    """The graph of a file that is open."""
    graph = data.graph
    assert graph is not None  # checked by `load`
    scope = Scope(opsets(data.opsets, f"model {data.source.name}"), _functions(data))
    given = _inputs(graph, build, shapes, constants)
    shapes.finish()
    found = Walker(build).graph(graph, scope, given)
    outputs = [_output(x, y) for x, y in zip(graph.outputs, found, strict=True)]
    if not outputs:
        raise data.source.fault("its graph has no output")
    return build.finish(outputs, [variable.name for variable in graph.outputs])


def title(data: ModelData) -> str:
    """What a graph is called."""
    return (data.graph.name if data.graph else "") or "graph"


def input_names(data: ModelData) -> list[str]:
    """The inputs that are not constants: older files list those as well."""
    assert data.graph is not None  # checked by `load`
    constants = initializers(data.graph)
    return [x.name for x in data.graph.inputs if x.name not in constants]


def _functions(data: ModelData) -> dict[FunctionKey, FunctionData]:
    found = {}
    for function in data.functions:
        key = (domain(function.domain), function.name, function.overload)
        if key in found:
            raise data.source.fault(f"two functions are {brief(function.name)}")
        found[key] = function
    return found


def _inputs(
    graph: GraphData, build: Builder, shapes: Shapes, fixed: Mapping[str, Array]
) -> dict[str, Entry]:
    own = initializers(graph)
    found: dict[str, Entry] = {}
    for variable in graph.inputs:
        name = variable.name
        if name in found or not name:
            raise ModelError(f"input {brief(name)}", "two have this name")
        if name in fixed:
            found[name] = _fixed(variable, build, fixed[name])
        elif name not in own:
            found[name] = _input(variable, build, shapes)
    for name in fixed:
        if name not in found:
            raise ModelError(f"constants[{brief(name)}]", "the model has no such input")
    return found


def _fixed(variable: Variable, build: Builder, array: Array) -> Value:
    tensor = None if variable.type is None else variable.type.tensor
    array = np.asarray(array)
    if tensor is None or CODES.get(tensor.code) != str(array.dtype):
        wanted = "no tensor" if tensor is None else code_name(tensor.code)
        raise ModelError(
            f"constants[{brief(variable.name)}]",
            f"is {array.dtype}, but the input is {wanted}",
        )
    return build.constant(np.array(array, order="C"), variable.name)


def _input(variable: Variable, build: Builder, shapes: Shapes) -> Value:
    what = f"input {brief(variable.name)}"
    tensor = None if variable.type is None else variable.type.tensor
    if tensor is None:
        raise UnsupportedError(what, "it is not a tensor")
    if tensor.code not in CODES:
        raise UnsupportedError(what, f"its elements are {code_name(tensor.code)}")
    shape = shapes.of(variable.name, tensor.shape)
    value = Value(variable.name, CODES[tensor.code], shape)
    if value.bytes > LARGEST:
        raise ModelError(what, f"{value.bytes:,} bytes, more than {LARGEST:,}")
    return build.input(variable.name, CODES[tensor.code], shape)


def _output(variable: Variable, entry: Entry) -> Value:
    what = f"output {brief(variable.name)}"
    if not isinstance(entry, Value):
        raise UnsupportedError(what, "it is a sequence or an optional value")
    tensor = None if variable.type is None else variable.type.tensor
    declared = CODES.get(tensor.code) if tensor is not None else None
    if declared is not None and declared != entry.dtype:
        raise ModelError(what, f"declared {declared}, but computed as {entry.dtype}")
    return entry
