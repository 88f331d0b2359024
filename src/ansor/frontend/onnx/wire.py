"""Protocol buffers, read field by field with limits: nothing is built before it is
counted, and large data stays where it is."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ansor.errors import ModelError
from ansor.frontend.pages import MappedFile

Buffer = memoryview
Span = tuple[int, int]  # where something starts and stops

MOST_FIELDS = 1_000_000  # of all messages of one file
MOST_TEXT = 1 << 16  # bytes
_MASK = (1 << 64) - 1
_FIXED = {1: 8, 5: 4}  # wire type -> bytes


@dataclass(eq=False)
class Source:
    """The bytes of a model, and how many of their fields were read."""

    view: Buffer
    name: str
    folder: str | None = None  # where external data may lie
    descriptor: int | None = None  # of the file, if there is one
    fields: int = 0
    beside: dict[Path, MappedFile] = field(default_factory=dict)  # external data

    def close(self) -> None:
        """Close the file; what was read or mapped of it stays."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None
        if isinstance(self.view.obj, MappedFile):
            self.view.obj.madvise(mmap.MADV_DONTNEED)

    def fault(self, reason: str) -> ModelError:
        return ModelError(f"model {self.name}", reason)

    def text(self, span: Span) -> str:
        start, stop = span
        if stop - start > MOST_TEXT:
            raise self.fault(f"a text of {stop - start:,} bytes, more than {MOST_TEXT}")
        try:
            return str(self.view[start:stop], "utf-8")
        except UnicodeDecodeError as error:
            raise self.fault(f"the text at byte {start} is not UTF-8") from error

    def varint(self, at: int, stop: int) -> tuple[int, int]:
        """The unsigned number at `at`, and where it ends."""
        value = shift = 0
        while at < stop and shift < 70:
            byte = self.view[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & _MASK, at
            shift += 7
        raise self.fault(f"a number at byte {at} does not end")

    def messages(self, span: Span) -> Iterator[tuple[int, int, Span]]:
        """(number, wire type, where its value is) of every field.

        The value of a field with a length is without that length.
        """
        at, stop = span
        while at < stop:
            self.fields += 1
            if self.fields > MOST_FIELDS:
                raise self.fault(f"more than {MOST_FIELDS:,} fields")
            key, start = self.varint(at, stop)
            at = self._end(key & 7, start, stop)
            if key & 7 == 2:
                _, start = self.varint(start, stop)
            yield key >> 3, key & 7, (start, at)

    def _end(self, wire: int, at: int, stop: int) -> int:
        """Where the value that starts at `at` ends."""
        if wire == 0:
            return self.varint(at, stop)[1]
        if wire == 2:
            length, at = self.varint(at, stop)
            end = at + length
        elif wire in _FIXED:
            end = at + _FIXED[wire]
        else:
            raise self.fault(f"a field at byte {at} has the unknown wire type {wire}")
        if end > stop:
            raise self.fault(f"a field at byte {at} ends behind its message")
        return end


def signed(value: int) -> int:
    """A 64-bit number, as int64 and int32 are written."""
    return value - (1 << 64) if value >> 63 else value


def decode_varints(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64] | None:
    """The numbers of a packed field; None where the last does not end, or one is too
    long."""
    ends = np.flatnonzero(data < 0x80)
    if not len(data):
        return np.zeros(0, np.uint64)
    if not len(ends) or ends[-1] != len(data) - 1:
        return None
    starts = np.concatenate([[0], ends[:-1] + 1])
    if int((ends - starts).max()) > 9:
        return None
    result = np.zeros(len(ends), np.uint64)
    for place in range(int((ends - starts).max()) + 1):
        there = starts + place <= ends
        bits = data[starts[there] + place].astype(np.uint64) & np.uint64(0x7F)
        result[there] |= bits << np.uint64(7 * place)
    return result
