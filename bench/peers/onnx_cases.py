"""The cases of the suite in the package `onnx`, with what they expect."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.loader import DATA_DIR, load_model_tests

Sets = list[tuple[list[Any], list[Any]]]

PLAIN = {"FLOAT", "DOUBLE", "INT8", "UINT8", "INT16", "INT32", "INT64", "BOOL"}
TRAINING = "ai.onnx.preview.training"
# What core inference leaves out: control flow, recurrent networks, random numbers, and
# results whose shape depends on data.
BESIDE = {
    "If", "Loop", "Scan", "SequenceMap", "LSTM", "GRU", "RNN",
    "Bernoulli", "RandomNormal", "RandomUniform", "RandomNormalLike",
    "RandomUniformLike", "Multinomial", "Dropout",
    "NonZero", "Unique", "Compress", "NonMaxSuppression", "ImageDecoder",
}  # fmt: skip
KINDS = ("simple", "pytorch-operator", "pytorch-converted")


@dataclass(frozen=True, eq=False)
class Case:
    """One case; its arrays are read when it runs."""

    name: str
    kind: str
    op: str
    is_expanded: bool
    is_core: bool
    rtol: float
    atol: float
    made: Any = None  # a case of nodes, as the package made it
    folder: Path | None = None  # of a case in files, or a light model


def all_cases() -> list[Case]:
    """The 1,884 cases of nodes, 140 in files, and 9 light models."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the package's own reference code
        return [*node_cases(), *file_cases(), *light_cases()]


def node_cases() -> Iterator[Case]:
    for made in load_model_tests(kind="node"):
        graph = made.model.graph
        op = graph.node[0].op_type if graph.node else ""
        is_expanded = "_expanded" in made.name
        if is_expanded:
            op = "(expanded) " + made.name.removeprefix("test_").split("_")[0]
        yield Case(
            made.name, "node", op, is_expanded, is_core(made.name, graph), made.rtol,
            made.atol, made,
        )  # fmt: skip


def file_cases() -> Iterator[Case]:
    for kind in KINDS:
        for made in sorted(load_model_tests(kind=kind), key=lambda x: x.name):
            folder = Path(made.model_dir)
            yield Case(
                f"{kind}/{made.name}", kind, kind, False, False, made.rtol, made.atol,
                None, folder,
            )  # fmt: skip


def light_cases() -> Iterator[Case]:
    for path in sorted(Path(DATA_DIR, "light").glob("*.onnx")):
        yield Case(
            f"light/{path.stem}", "light", "light", False, False, 1e-4, 1e-5, None, path
        )


def is_core(name: str, graph: onnx.GraphProto) -> bool:
    """Plain element types, inference, and nothing of BESIDE: 1,058 cases."""
    operators = {(node.domain, node.op_type) for node in nodes(graph)}
    training = any(domain == TRAINING for domain, _ in operators)
    return (
        "_expanded" not in name
        and not training
        and not name.endswith("_training_mode")
        and types(graph) <= PLAIN
        and not any(op in BESIDE for _, op in operators)
    )


def nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from nodes(attribute.g)


def types(graph: onnx.GraphProto) -> set[str]:
    """Names of the element types of a graph, and of the kinds that are no tensor."""
    names = {code: name for name, code in TensorProto.DataType.items()}
    found = set()
    for value in (*graph.input, *graph.output, *graph.value_info):
        kind = value.type.WhichOneof("value")
        is_tensor = kind == "tensor_type"
        found.add(names[value.type.tensor_type.elem_type] if is_tensor else str(kind))
    for node in nodes(graph):
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                found.add(names[attribute.t.data_type])
            if attribute.type == onnx.AttributeProto.GRAPH:
                found |= types(attribute.g)
    return found | {names[x.data_type] for x in graph.initializer}


def load_arrays(case: Case) -> tuple[bytes, Sets]:
    """The model of a case, and inputs with the outputs that are right."""
    if case.made is not None:
        sets = [
            (list(map(array, inputs)), list(map(array, outputs)))
            for inputs, outputs in case.made.data_sets
        ]
        return case.made.model.SerializeToString(), sets
    assert case.folder is not None
    if case.kind == "light":
        return light(case.folder)
    model = onnx.load(case.folder / "model.onnx")
    inputs = list(model.graph.input)
    sets = [
        (
            arrays(folder, "input", inputs),
            arrays(folder, "output", list(model.graph.output)),
        )
        for folder in sorted(case.folder.glob("test_data_set_*"))
    ]
    return model.SerializeToString(), sets


def array(value: Any) -> Any:
    """Some cases have tensors of the format where others have arrays."""
    is_tensor = isinstance(value, onnx.TensorProto)
    return numpy_helper.to_array(value) if is_tensor else value


def arrays(folder: Path, what: str, variables: Sequence[Any]) -> list[Any]:
    found = []
    for number in range(len(list(folder.glob(f"{what}_*.pb")))):
        data = (folder / f"{what}_{number}.pb").read_bytes()
        kind = variables[number].type.WhichOneof("value")
        if kind == "tensor_type":
            found.append(numpy_helper.to_array(onnx.TensorProto.FromString(data)))
        elif kind == "sequence_type":
            found.append(numpy_helper.to_list(onnx.SequenceProto.FromString(data)))
        else:
            found.append(None)
    return found


def light(path: Path) -> tuple[bytes, Sets]:
    """A light model with new weights, and what onnxruntime makes of it."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    rng = np.random.default_rng(sum(path.stem.encode()))
    model = redrawn(onnx.load(path), rng)
    data = model.SerializeToString()
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    inputs = [
        rng.standard_normal([int(n) for n in x.shape]).astype(np.float32)
        for x in session.get_inputs()
    ]
    names = [x.name for x in session.get_inputs()]
    right = session.run(None, dict(zip(names, inputs, strict=True)))
    return data, [(inputs, right)]


def redrawn(model: onnx.ModelProto, rng: np.random.Generator) -> onnx.ModelProto:
    """The model with random weights, of sizes that keep values near one."""
    graph = model.graph
    shapes = {x.name: numpy_helper.to_array(x) for x in graph.initializer}
    users = {
        name: (node, n) for node in graph.node for n, name in enumerate(node.input)
    }
    weights, kept = [], []
    for node in graph.node:
        known = shapes.get(node.input[0]) if node.input else None
        if node.op_type != "ConstantOfShape" or known is None:
            kept.append(node)
            continue
        shape = tuple(int(n) for n in known)
        user, place = users.get(node.output[0], (None, 0))
        weights.append((node.output[0], draw(shape, user, place, rng)))
    for tensor in graph.initializer:
        old = numpy_helper.to_array(tensor)
        if old.dtype == np.float32 and old.size > 1:
            user, place = users.get(tensor.name, (None, 0))
            weights.append((tensor.name, draw(old.shape, user, place, rng)))
    names = {name for name, _ in weights}
    others = [x for x in graph.initializer if x.name not in names]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(kept)
    graph.initializer.extend(others)
    graph.initializer.extend(numpy_helper.from_array(x, name) for name, x in weights)
    read = {name for node in kept for name in node.input}
    inputs = [x for x in graph.input if x.name in read and x.name not in names]
    del graph.input[:]
    graph.input.extend(inputs)
    return helper.make_model(
        graph, opset_imports=model.opset_import, ir_version=max(4, model.ir_version)
    )


def draw(
    shape: tuple[int, ...], user: onnx.NodeProto | None, place: int, rng: Any
) -> np.ndarray:
    """A weight: variances and scales of normalisation are near one, others have the
    size that keeps the variance of what they are applied to."""
    op = user.op_type if user is not None else ""
    if op == "BatchNormalization" and place in (1, 4):
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    inner = int(np.prod(shape[1:])) if len(shape) > 1 else 100
    return (rng.standard_normal(shape) * (2 / inner) ** 0.5).astype(np.float32)
