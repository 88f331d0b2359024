"""ONNX's interface of backends (`onnx.backend.base`), as a module.

>>> supports_device("CPU"), supports_device("CUDA")
(True, False)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ansor.errors import ArgumentError, ModelError, UnsupportedError
from ansor.frontend.executor import Executable
from ansor.frontend.graph import Array
from ansor.frontend.model import Model
from ansor.frontend.onnx.load import load
from ansor.frontend.onnx.model import input_names, to_graph
from ansor.frontend.onnx.specialise import specialised
from ansor.target import Target

if TYPE_CHECKING:
    import onnx

__all__ = ["Prepared", "is_compatible", "prepare", "run_model", "run_node",
           "supports_device"]  # fmt: skip


class Prepared:
    """A model that is compiled when it first sees inputs of a shape.

    Inputs that the graph needs as constants, such as the shape of a Reshape, are fixed
    to their values; other values of them are compiled anew.
    """

    def __init__(
        self,
        model: onnx.ModelProto | bytes,
        target: Target,
        workers: int | None = None,
    ) -> None:
        self._data = load(model)
        self._target = target
        self._workers = workers
        self._made: dict[object, tuple[Executable, list[int]]] = {}
        self._fixed: set[str] = set()
        self.names = input_names(self._data)

    @property
    def fixed(self) -> set[str]:
        """Names of the inputs that had to be constants so far."""
        return self._fixed

    def run(self, inputs: Any, **options: Any) -> tuple[Array, ...]:
        """The outputs for these inputs: arrays in the model's order, or by name."""
        arrays = self._arrays(inputs)
        made = self._made.get(self._key(arrays))
        if made is None:
            made = self._compile(arrays)
            self._made[self._key(arrays)] = made
        executable, places = made
        results = executable(*[arrays[n] for n in places])
        return tuple(np.asarray(x) for x in results)

    def _key(self, arrays: Sequence[Array]) -> object:
        """What a compiled model depends on."""
        return tuple(
            (x.shape, str(x.dtype), x.tobytes() if name in self._fixed else b"")
            for name, x in zip(self.names, arrays, strict=True)
        )

    def _compile(self, arrays: Sequence[Array]) -> tuple[Executable, list[int]]:
        graph, fixed = specialised(self._data, arrays)
        self._fixed |= fixed
        executable = Model(graph, self._target).compile(workers=self._workers)
        places = [n for n, name in enumerate(self.names) if name not in fixed]
        return executable, places

    def _arrays(self, inputs: Any) -> list[Array]:
        if isinstance(inputs, dict):
            inputs = [inputs[name] for name in self.names if name in inputs]
        elif not isinstance(inputs, list | tuple):
            inputs = [inputs]
        if len(inputs) != len(self.names):
            raise ArgumentError(
                f"{len(inputs)} inputs", f"the model takes {', '.join(self.names)}"
            )
        return [np.asarray(x) for x in inputs]


def supports_device(device: str) -> bool:
    return device.split(":")[0].upper() == "CPU"


def is_compatible(model: onnx.ModelProto, device: str = "CPU", **options: Any) -> bool:
    """Whether everything in the model is supported, with the shapes in the file."""
    try:
        to_graph(model)
    except ModelError:
        return False
    return supports_device(device)


def prepare(
    model: onnx.ModelProto | bytes, device: str = "CPU", **options: Any
) -> Prepared:
    """A model to run, compiled without tuning, by `workers` processes (an option).

    What is not supported is refused at the first run, when all shapes are known.
    """
    if not supports_device(device):
        raise UnsupportedError(f"device {device!r}", "is not supported", "use 'CPU'")
    return Prepared(model, Target("cpu"), options.get("workers"))


def run_model(
    model: onnx.ModelProto, inputs: Any, device: str = "CPU", **options: Any
) -> tuple[Array, ...]:
    return prepare(model, device, **options).run(inputs)


def run_node(
    node: onnx.NodeProto,
    inputs: Any,
    device: str = "CPU",
    outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
    **options: Any,
) -> tuple[Array, ...]:
    """One node; `opset_version` says of which opset, else it is the newest."""
    import onnx

    arrays = [np.asarray(x) for x in inputs]
    names = [x for x in node.input if x]
    if len(names) != len(arrays):
        raise ArgumentError(f"{len(arrays)} inputs", f"the node has {len(names)}")
    code = onnx.helper.np_dtype_to_tensor_dtype
    made = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node],
        node.op_type,
        [made(n, code(x.dtype), x.shape) for n, x in zip(names, arrays, strict=True)],
        [onnx.helper.make_empty_tensor_value_info(x) for x in node.output if x],
    )
    opset = options.get("opset_version", onnx.defs.onnx_opset_version())
    versions = [onnx.helper.make_opsetid(x, opset if not x else 1)
                for x in {"", node.domain}]  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=versions)
    return run_model(model, arrays, device)
