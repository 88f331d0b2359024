"""Object files and archives without a toolchain: data as ELF, objects as `ar`.

Only what linkers need: one read-only section with one symbol, and an archive whose
first member is the index of symbols.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from ansor.errors import CodegenError

MACHINES = {"x86_64": 62, "aarch64": 183}  # numbers of the ELF standard
LARGEST = (1 << 31) - (1 << 20)  # bytes that code can reach

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_PROGBITS, _SYMTAB, _STRTAB = 1, 2, 3
_ALLOC = 2
_GLOBAL_OBJECT = 1 << 4 | 1
_NAMES = b"\0.rodata\0.symtab\0.strtab\0.note.GNU-stack\0"


@dataclass(frozen=True)
class Member:
    """An object in an archive, and the symbols that it defines for others."""

    name: str
    code: bytes
    symbols: tuple[str, ...]


def data_object(symbol: str, data: bytes, arch: str, alignment: int = 64) -> bytes:
    """A relocatable object (ELF, 64 bits) with `data` as read-only bytes at `symbol`.

    >>> data_object("weights", bytes(100), "aarch64")[:4]
    b'\\x7fELF'
    """
    if arch not in MACHINES:
        raise CodegenError(f"object for {arch!r}", "unknown", "x86_64 or aarch64")
    if len(data) > LARGEST:
        raise CodegenError(
            f"data {symbol!r}", f"{len(data):,} bytes, the limit is {LARGEST:,}"
        )
    start = -(-_HEADER.size // alignment) * alignment
    body = data + bytes(-len(data) % 8)
    strings = _NAMES + symbol.encode() + b"\0"
    strings += bytes(-len(strings) % 8)
    symbols = bytes(_SYMBOL.size)
    symbols += _SYMBOL.pack(len(_NAMES), _GLOBAL_OBJECT, 0, 1, 0, len(data))
    at_symbols = start + len(body)
    at_strings = at_symbols + len(symbols)
    at_sections = at_strings + len(strings)
    sections = (
        bytes(_SECTION.size),
        _section(".rodata", _PROGBITS, _ALLOC, start, len(data), alignment),
        _section(".symtab", _SYMTAB, 0, at_symbols, len(symbols), 8, (3, 1, 24)),
        _section(".strtab", _STRTAB, 0, at_strings, len(strings), 1),
        _section(".note.GNU-stack", _PROGBITS, 0, at_sections, 0, 1),
    )
    header = _header(arch, at_sections, len(sections))
    gap = bytes(start - len(header))
    return b"".join((header, gap, body, symbols, strings, *sections))


def _header(arch: str, sections: int, count: int) -> bytes:
    magic = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    sizes = (_HEADER.size, 0, 0, _SECTION.size, count, 3)
    return _HEADER.pack(magic, 1, MACHINES[arch], 1, 0, 0, sections, 0, *sizes)


def _section(
    name: str,
    kind: int,
    flags: int,
    offset: int,
    size: int,
    alignment: int,
    more: tuple[int, int, int] = (0, 0, 0),
) -> bytes:
    """`more` holds link, info, and the size of an entry."""
    at = _NAMES.index(b"\0" + name.encode() + b"\0") + 1
    link, info, entry = more
    return _SECTION.pack(
        at, kind, flags, 0, offset, size, link, info, alignment, entry
    )  # fmt: skip


def archive(members: Sequence[Member]) -> bytes:
    """A static library that linkers take, in the form of GNU `ar`; without dates and
    owners, so that the same members give the same bytes."""
    long_names = "".join(f"{x.name}/\n" for x in members).encode()
    names = [symbol for x in members for symbol in x.symbols]
    texts = b"".join(name.encode() + b"\0" for name in names)
    index_size = 4 + 4 * len(names) + len(texts)
    at = 8 + _padded(index_size) + _padded(len(long_names))
    offsets: list[int] = []
    for member in members:
        offsets += [at] * len(member.symbols)
        at += _padded(len(member.code))
    index = struct.pack(f">{len(names) + 1}I", len(names), *offsets) + texts
    parts = [b"!<arch>\n", _entry("/", index), _entry("//", long_names)]
    name_at = 0
    for member in members:
        parts.append(_entry(f"/{name_at}", member.code))
        name_at += len(member.name) + 2
    return b"".join(parts)


def _entry(name: str, data: bytes) -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(data):<10}`\n"
    return head.encode() + data + b"\n" * (len(data) % 2)


def _padded(size: int) -> int:
    """Bytes of an entry, its head of 60 included."""
    return 60 + size + size % 2
