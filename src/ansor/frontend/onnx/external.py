"""External data: tensors in files beside the model, and in no other place."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.onnx.messages import TensorData
from ansor.frontend.pages import LARGE, Bytes, MappedFile
from ansor.reading import brief

MOST_PATH = 1024  # characters
MOST_MAPPED = 64  # files of one model: each needs a descriptor


def read_external(tensor: TensorData, size: int, what: str) -> Bytes:
    """The `size` bytes of a tensor that lies in another file: mapped, if they are
    many."""
    folder = tensor.source.folder
    if folder is None:
        raise ModelError(
            what,
            "its data is in another file, but the model was not given as a path",
            "give from_onnx the path of the model: its folder is where data may lie",
        )
    entries = {pair.key: pair.value for pair in tensor.external}
    path = _place(folder, entries.get("location", ""), what)
    offset = _number(entries.get("offset", "0"), "offset", what)
    length = _number(entries.get("length", str(size)), "length", what)
    if length != size:
        raise ModelError(what, f"its external data has {length} bytes, not {size}")
    descriptor = open_regular(path, what, os.O_NOFOLLOW)
    try:
        end = os.fstat(descriptor).st_size
        if offset + size > end:
            raise ModelError(
                what,
                f"its bytes {offset} to {offset + size} lie behind the end of "
                f"{brief(path.name)} ({end} bytes)",
            )
        file = _mapped(tensor, descriptor, path) if size >= LARGE else None
        if file is not None and offset + size <= len(file):
            return file.span(offset, offset + size)
        return read_span(descriptor, offset, offset + size, what)
    finally:
        os.close(descriptor)


def _mapped(tensor: TensorData, descriptor: int, path: Path) -> MappedFile | None:
    """The file as other tensors of the model have it, too; None if it has to be read
    instead."""
    known = tensor.source.beside
    if path not in known and len(known) < MOST_MAPPED:
        with suppress(OSError):  # not every file system can
            known[path] = MappedFile.of(descriptor, path)
    return known.get(path)


def read_span(descriptor: int, start: int, stop: int, what: str) -> Bytes:
    """Bytes of a file, read into an array of their own."""
    found = np.empty(stop - start, np.uint8)
    at = 0
    while at < len(found):
        got = os.preadv(descriptor, [found[at:].data], start + at)
        if got <= 0:
            raise ModelError(what, "the file became shorter while it was read")
        at += got
    return found


def open_regular(path: Path, what: str, flags: int = 0) -> int:
    """A descriptor of an ordinary file: no device, pipe or folder."""
    try:
        flags |= os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path, flags)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError(what, f"{brief(path.name)}: {reason}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ModelError(what, f"{brief(path.name)} is not a regular file")
    return descriptor


def _place(folder: str, location: str, what: str) -> Path:
    """Where external data lies, links resolved."""
    parts = Path(location).parts
    if not location or len(location) > MOST_PATH or not location.isprintable():
        raise ModelError(what, f"its external location {brief(location)} is no path")
    if Path(location).is_absolute() or ".." in parts or "\\" in location:
        raise ModelError(
            what,
            f"its external location {brief(location)} is not inside the model's folder",
        )
    try:
        root = Path(folder).resolve(strict=True)
        found = (root / location).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise ModelError(
            what, f"its external location cannot be read: {error}"
        ) from error
    if not found.is_relative_to(root):
        raise ModelError(
            what, f"its external location {brief(location)} links out of the folder"
        )
    return found


def _number(text: str, name: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ModelError(
            what, f"{name} {brief(text)} of its external data is no number"
        )
    return int(text)
