"""Memory between pages that cannot be touched, so that a stray access is a fault.

    guard | slack | the array | guard         at="end": its last byte touches a guard
    guard | the array | slack | guard         at="start": its first byte does

Guards cannot be read or written. The slack fills up the pages of the array: what is
read there is NaN in every float type, and what is written there is found afterwards.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterable
from functools import cache
from types import TracebackType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ansor.errors import ArgumentError

PAGE = mmap.PAGESIZE
PLACES = ("end", "start")
HUGE = 1 << 21  # bytes of a large page
SLACK = (0xF5, 0xFF)  # bytes at even and odd addresses

_LEAST_GUARD = 1 << 16
_MOST_GUARD = 1 << 26
_FIXED, _NORESERVE = 0x10, 0x4000  # of Linux, which the mmap module does not name
_ADVISE_HUGE = 14

Bytes: TypeAlias = npt.NDArray[np.uint8]

_PATTERN: Bytes = np.tile(np.array(SLACK, np.uint8), PAGE)


class Guarded:
    """`nbytes` of memory between guards; those of a file (`fd`, `offset`) if given.

    Of a file, all processes that map it share the pages, which are read-only here; the
    file holds whole pages, the array at their end or start. Memory of its own is
    writable until `seal`, and any multiple of `alignment` bytes may be its address,
    which may leave slack on the guarded side. Guards are as long as the array
    (64 KiB to 64 MiB), as wrong strides go astray further than wrong bounds.
    """

    def __init__(
        self,
        nbytes: int,
        at: str = "end",
        *,
        alignment: int = 1,
        fd: int = -1,
        offset: int = 0,
    ) -> None:
        if at not in PLACES:
            raise ArgumentError(f"at={at!r}", "unknown", 'use "end" or "start"')
        self.nbytes = nbytes
        room = whole_pages(nbytes)
        guard = whole_pages(min(max(nbytes, _LEAST_GUARD), _MOST_GUARD))
        ahead = guard + (alignment if alignment > PAGE else 0)
        self._length = ahead + room + guard
        self._base = _reserve(self._length)
        self._pages = _round_up(self._base + guard, max(PAGE, alignment))
        self._room = room
        gap = 0 if at == "start" else (room - nbytes) // alignment * alignment
        self.address = self._pages + gap
        end, limit = self.address + nbytes, self._pages + room
        self._sides = ((self._pages, self.address), (end, limit))
        try:
            _fill(self._pages, room, fd, offset)
        except OSError:
            self.close()
            raise
        self._writable = fd < 0
        if self._writable:
            self._clean()

    def array(
        self, shape: tuple[int, ...] | None = None, dtype: npt.DTypeLike = np.uint8
    ) -> npt.NDArray[np.generic]:
        """The memory as an array, of bytes unless told; gone after `close`."""
        flat = _bytes(self.address, self.nbytes)
        flat.flags.writeable = self._writable
        typed = flat.view(dtype)
        return typed if shape is None else typed.reshape(shape)

    def fill(self, pattern: bytes) -> None:
        """Write `pattern` over and over into the array, and renew the slack."""
        self._clean()
        flat = _bytes(self.address, self.nbytes)
        done = min(len(pattern), self.nbytes)
        flat[:done] = np.frombuffer(pattern, np.uint8)[:done]
        while done < self.nbytes:
            step = min(done, self.nbytes - done)
            flat[done : done + step] = flat[:step]
            done += step

    def advise_huge(self) -> None:
        """Ask for large pages, as NumPy does for large arrays; may be refused."""
        _libc().madvise(self._pages, self._room, _ADVISE_HUGE)

    def seal(self) -> None:
        """Writing is a fault from now on."""
        _protect(self._pages, self._room, mmap.PROT_READ)
        self._writable = False

    def damage(self) -> tuple[int, int]:
        """Bytes of the slack that were written: before and behind the array."""
        before, behind = (
            0 if np.array_equal(part, clean) else int((part != clean).sum())
            for part, clean in self._slack()
        )
        return before, behind

    def _clean(self) -> None:
        for part, clean in self._slack():
            part[:] = clean

    def _slack(self) -> Iterable[tuple[Bytes, Bytes]]:
        """The slack before and behind the array, and what it should hold."""
        for start, stop in self._sides:
            yield _bytes(start, stop - start), slack(start % 2, stop - start)

    def close(self) -> None:
        """Give the memory back. Does nothing the second time."""
        if self._length:
            _libc().munmap(self._base, self._length)
            self._length = 0

    def __enter__(self) -> Guarded:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def whole_pages(nbytes: int) -> int:
    """`nbytes` rounded up to pages, at least one."""
    return _round_up(max(nbytes, 1), PAGE)


def slack(parity: int, nbytes: int) -> Bytes:
    """What slack holds that begins at an even (0) or odd (1) address: up to a page."""
    return _PATTERN[parity : parity + nbytes]


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _bytes(address: int, nbytes: int) -> Bytes:
    return np.frombuffer(memoryview(_block(nbytes).from_address(address)), np.uint8)


@cache
def _block(nbytes: int) -> type[ctypes.Array[ctypes.c_uint8]]:
    return ctypes.c_uint8 * nbytes


def _reserve(length: int) -> int:
    """Addresses without memory, which cannot be touched."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE
    return _map(None, length, 0, flags, -1, 0)


def _fill(address: int, length: int, fd: int, offset: int) -> None:
    """Put memory at reserved addresses: of a file, read-only, or zeros."""
    if fd < 0:
        _protect(address, length, mmap.PROT_READ | mmap.PROT_WRITE)
    else:
        _map(address, length, mmap.PROT_READ, mmap.MAP_PRIVATE | _FIXED, fd, offset)


def _map(
    address: int | None, length: int, access: int, flags: int, fd: int, offset: int
) -> int:
    found: int | None = _libc().mmap(address, length, access, flags, fd, offset)
    if found is None or found == ctypes.c_void_p(-1).value:
        raise _failure(f"mapping of {length} bytes")
    return found


def _protect(address: int, length: int, access: int) -> None:
    if _libc().mprotect(address, length, access):
        raise _failure(f"protecting {length} bytes")


def _failure(what: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"{what}: {os.strerror(code)}")


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    size, pointer, integer = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int
    libc.mmap.restype = pointer
    libc.mmap.argtypes = (pointer, size, integer, integer, integer, ctypes.c_int64)
    libc.munmap.argtypes = (pointer, size)
    libc.mprotect.argtypes = (pointer, size, integer)
    libc.madvise.argtypes = (pointer, size, integer)
    return libc
