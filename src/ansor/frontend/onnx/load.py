"""Opening ONNX models that nobody has checked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ansor.errors import ModelError
from ansor.frontend.onnx.external import open_regular
from ansor.frontend.onnx.messages import ModelData, read
from ansor.frontend.onnx.wire import Source
from ansor.frontend.pages import MappedFile
from ansor.reading import brief

if TYPE_CHECKING:
    from onnx import ModelProto

LARGEST = (1 << 31) - 1  # bytes: the format has no larger file
NEWEST_IR = 14


def load(model: str | os.PathLike[str] | bytes | ModelProto) -> ModelData:
    """The model's structure. The data of its tensors is read later, on use: close
    its source after that."""
    if isinstance(model, str | os.PathLike):
        source = open_file(Path(model))
    elif isinstance(model, bytes | bytearray | memoryview):
        source = Source(memoryview(model).cast("B"), "(bytes)")
    elif hasattr(model, "SerializeToString"):
        source = Source(memoryview(serialised(model)), "(ModelProto)")
    else:
        raise ModelError(
            f"model {brief(model)}",
            "is no model",
            "give a path, the bytes of a file, or an onnx.ModelProto",
        )
    try:
        if len(source.view) > LARGEST:
            raise source.fault(f"{len(source.view):,} bytes, more than {LARGEST:,}")
        return checked(read("model", source, (0, len(source.view))))
    except BaseException:
        source.close()
        raise


def open_file(path: Path) -> Source:
    """A file as a source. Its structure and large tensors are mapped, others read."""
    name = brief(path.name)
    descriptor = open_regular(path, f"model {name}")
    size = os.fstat(descriptor).st_size
    if not size:
        os.close(descriptor)
        raise ModelError(f"model {name}", "the file is empty")
    view = MappedFile.of(descriptor, path)
    return Source(memoryview(view), name, str(path.parent), descriptor)


def serialised(model: ModelProto) -> bytes:
    try:
        return bytes(model.SerializeToString())
    except (ValueError, TypeError) as error:
        raise ModelError("model (ModelProto)", f"cannot be written: {error}") from error


def checked(model: ModelData) -> ModelData:
    """The model, if it has what a model has."""
    if model.graph is None:
        raise model.source.fault("it has no graph: this is no ONNX model")
    if not 0 < model.ir <= NEWEST_IR:
        raise model.source.fault(
            f"IR version {model.ir} is unknown; versions are 1 to {NEWEST_IR}"
        )
    if not model.opsets and model.ir >= 3:
        raise model.source.fault("it does not say which opset it uses")
    return model
