"""Pages of memory that need not be held: of constants that stay in their files, of
LLVM's code when it is done, of heap that is free.

A mapped page costs memory from its first use until it is given back; what is used
later comes from its file again. Mapped files must not be written to: one that was cut
short would end the process.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.graph import Array
from ansor.reading import brief

Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]

LARGE = 1 << 18  # bytes of an array that is worth a mapping

_PAGE = mmap.PAGESIZE
_DONE = re.compile(r"/(libllvmlite|libLLVM|onnx_cpp2py_export)[^/]*\.so")


class MappedFile(mmap.mmap):
    """All of a file, for reading. Arrays over it keep it alive."""

    path: Path
    stamp: tuple[int, ...]  # of the file's contents

    @classmethod
    def of(cls, descriptor: int, path: Path) -> MappedFile:
        """The file that a descriptor is open for; the descriptor may be closed."""
        made = cls(descriptor, 0, access=mmap.ACCESS_READ)
        made.path = path.absolute()
        made.stamp = _stamp(os.fstat(descriptor))
        return made

    def span(self, start: int, stop: int) -> Bytes:
        """Bytes of the file as a read-only array."""
        return np.frombuffer(self, np.uint8, stop - start, start)

    @property
    def is_changed(self) -> bool:
        """True if the file was written to since it was mapped. One that was replaced
        or removed is still there for who has it open."""
        try:
            now = _stamp(os.stat(self.path))
        except OSError:
            return False
        return now[:2] == self.stamp[:2] and now != self.stamp


def _stamp(facts: os.stat_result) -> tuple[int, ...]:
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns


def mapped_file(array: Array) -> MappedFile | None:
    """The file that the elements of an array are in, if they are in one."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    found = base.obj if isinstance(base, memoryview) else base
    return found if isinstance(found, MappedFile) else None


def check_unchanged(constants: Mapping[str, Array]) -> None:
    """Raise ModelError if constants are in files that were written to."""
    for file in _files(constants.values()):
        if file.is_changed:
            raise ModelError(
                f"constants in {brief(file.path.name)}",
                "the file was written to since the model was read",
                "read the model again; a file that is replaced by renaming can be in "
                "use meanwhile",
            )


def give_back(array: Array) -> None:
    """Hold no memory for the elements of an array that are in a file."""
    file = mapped_file(array)
    if file is None or not array.size:
        return
    start = _address(np.frombuffer(file, np.uint8, 1))
    low, high = np.lib.array_utils.byte_bounds(array)
    first = (low - start) // _PAGE * _PAGE
    file.madvise(mmap.MADV_DONTNEED, first, high - start - first)


def give_back_all(constants: Mapping[str, Array]) -> None:
    for file in _files(constants.values()):
        file.madvise(mmap.MADV_DONTNEED)


def _files(arrays: Iterable[Array]) -> Iterable[MappedFile]:
    found = (mapped_file(array) for array in arrays)
    return {id(file): file for file in found if file is not None}.values()


def _address(array: Array) -> int:
    return int(array.__array_interface__["data"][0])


# -- this process ----------------------------------------------------------------------


def make_room() -> None:
    """Hold no memory for what is free in the heap, where the C library can, and for
    LLVM's code until it is used again: about 100 MB after a compilation."""
    libc = ctypes.CDLL(None)
    for start, stop in _untouched(_DONE):
        libc.madvise(
            ctypes.c_void_p(start), ctypes.c_size_t(stop - start), mmap.MADV_DONTNEED
        )
    trim = getattr(libc, "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


def _untouched(library: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Where parts of a library are that nobody may write, and that are as in its file:
    a page that was changed, as by relocations, could not be read again."""
    try:
        lines = Path("/proc/self/smaps").read_text("utf-8", "replace").splitlines()
    except OSError:
        return
    where: tuple[int, int] | None = None
    for line in lines:
        key, *rest = line.split(None, 5)
        if not key.endswith(":"):
            is_named = len(rest) == 5 and library.search(rest[4])
            start, _, stop = key.partition("-")
            fits = is_named and rest[0].startswith("r") and "w" not in rest[0]
            where = (int(start, 16), int(stop, 16)) if fits else None
        elif key == "Anonymous:" and where is not None and rest[0] == "0":
            yield where
