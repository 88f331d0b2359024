"""Rows out of a damaged file, page by page, without asking SQLite.

A row is taken only if its checksums hold, so it does not matter which pages are
damaged, old or out of order: what is found is what was written. The pages of the
write-ahead log are read as well. Rows that were pruned may come back.

The layout is that of SQLite's file format, which is documented and fixed: a table
leaf page lists its cells; a cell is a row, of which a long one continues on overflow
pages; a row is a list of types and the values after it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ansor.errors import RecordError
from ansor.records.rows import Content, Contents, Row, read_content, read_record
from ansor.records.schema import (
    CONTENT_COLUMNS,
    DAMAGED_COLUMNS,
    META_COLUMNS,
    PAGE,
    REAL_COLUMNS,
    RECORD_COLUMNS,
)

LEAF = 13  # the first byte of a page of rows
INDEX = {10: (8, 0), 2: (12, 4)}  # of an index: bytes before the list and in a cell
DIGEST = 32  # characters of a record's digest
MAX_ROW = 64 << 20  # bytes
LOG_HEADER, FRAME_HEADER = 32, 24  # bytes of the write-ahead log
INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # by type
PLACES = ("records", "contents")


class Unreadable(Exception):
    """These bytes are no row."""


@dataclass
class Salvaged:
    """Intact rows by their numbers, and what was seen of others."""

    contents: dict[int, Row] = field(default_factory=dict)
    records: dict[int, Row] = field(default_factory=dict)
    meta: dict[object, Row] = field(default_factory=dict)
    damaged: dict[tuple[object, object], Row] = field(default_factory=dict)
    broken: dict[int, str] = field(default_factory=dict)  # record -> reason
    indexed: set[int] = field(default_factory=set)  # records that an index names


def salvage(files: Iterable[tuple[bytes, bytes]]) -> Salvaged:
    """All intact rows of some files, each given with its write-ahead log or nothing."""
    found = Salvaged()
    rows: list[tuple[int, list[object]]] = []
    for file, log in files:
        main = _pages(file, 0, 0)
        newer = {**main, **_pages(log, LOG_HEADER, FRAME_HEADER)}
        for pages in (newer, main) if log else (main,):
            for number, page in pages.items():
                start = 100 if number == 1 else 0
                rows += _rows(page, start, pages)
                found.indexed.update(_indexed(page, start))
    for number, row in rows:
        if len(row) != len(RECORD_COLUMNS):
            _sort(found, number, row)
    for number, row in rows:
        if len(row) == len(RECORD_COLUMNS):
            _take_record(found, number, _typed(RECORD_COLUMNS, number, row))
    return found


def lost(found: Salvaged) -> dict[int, str]:
    """Records that are not intact: number to reason."""
    named = {row for place, row in found.damaged if place == "records"}
    likely = max([*found.records, *found.indexed, 0])
    reasons = dict.fromkeys(found.indexed, "its page is damaged")
    reasons |= {n: why for n, why in found.broken.items() if 0 < n <= likely}
    gone = set(reasons) - set(found.records) - named
    return {number: reasons[number] for number in sorted(gone)}


def _sort(found: Salvaged, number: int, row: list[object]) -> None:
    if len(row) == len(META_COLUMNS):
        found.meta[row[0]] = _typed(META_COLUMNS, None, row)
    elif len(row) == len(DAMAGED_COLUMNS) and row[1] in PLACES:
        typed = _typed(DAMAGED_COLUMNS, number, row)
        found.damaged[(typed[1], typed[2])] = typed
    elif len(row) == len(CONTENT_COLUMNS):
        typed = _typed(CONTENT_COLUMNS, number, row)
        try:
            read_content(typed)
        except RecordError:
            return
        found.contents[number] = typed


def _take_record(found: Salvaged, number: int, row: Row) -> None:
    if number in found.records:
        return
    try:
        contents = [_content(found, reference) for reference in row[1:4]]
        read_record(row, Contents(*contents))
    except RecordError as error:
        found.broken[number] = str(error.args[1])
        return
    found.records[number] = row


def _content(found: Salvaged, reference: object) -> Content:
    row = found.contents.get(reference) if isinstance(reference, int) else None
    if row is None:
        raise RecordError("record", f"its shared content {reference!r} is damaged")
    return read_content(row)


def _typed(columns: tuple[str, ...], number: int | None, row: list[object]) -> Row:
    """The values as SQLite would give them: the row's number, and whole floats."""
    values = dict(zip(columns, row, strict=True))
    if number is not None:
        values["id"] = number
    for name in REAL_COLUMNS:
        if isinstance(values.get(name), int):
            values[name] = float(str(values[name]))
    return tuple(values.values())  # type: ignore[arg-type]


# -- the file format ------------------------------------------------------------------


def _pages(data: bytes, start: int, header: int) -> dict[int, bytes]:
    """Pages by number; of a log, the last that was written of each."""
    found: dict[int, bytes] = {}
    step = header + PAGE
    for n, at in enumerate(range(start, len(data) - step + 1, step), 1):
        number = int.from_bytes(data[at : at + 4], "big") if header else n
        found[number] = data[at + header : at + step]
    return found


def _rows(
    page: bytes, start: int, pages: Mapping[int, bytes]
) -> Iterator[tuple[int, list[object]]]:
    """(number, values) of the rows on a page, if it is a page of rows."""
    if page[start] != LEAF:
        return
    (count,) = struct.unpack_from(">H", page, start + 3)
    for n in range(min(count, PAGE // 4)):
        at = int.from_bytes(page[start + 8 + 2 * n : start + 10 + 2 * n], "big")
        try:
            yield _cell(page, at, pages)
        except Unreadable:
            continue


def _indexed(page: bytes, start: int) -> Iterator[int]:
    """Numbers of records on a page of the index of digests: (digest, number)."""
    if page[start] not in INDEX:
        return
    before, skipped = INDEX[page[start]]
    (count,) = struct.unpack_from(">H", page, start + 3)
    for n in range(min(count, PAGE // 4)):
        entry = start + before + 2 * n
        at = int.from_bytes(page[entry : entry + 2], "big") + skipped
        try:
            size, at = _varint(page, at)
            values = _values(page[at : at + size])
        except Unreadable:
            continue
        match values:
            case [str(digest), int(number)] if len(digest) == DIGEST and number > 0:
                yield number


def _cell(page: bytes, at: int, pages: Mapping[int, bytes]) -> tuple[int, list[object]]:
    size, at = _varint(page, at)
    number, at = _varint(page, at)
    if not 0 < size <= MAX_ROW:
        raise Unreadable
    payload = page[at : at + _local(size)]
    if _local(size) < size:
        link = at + len(payload)
        payload += _overflow(page[link : link + 4], size - len(payload), pages)
    if len(payload) != size:
        raise Unreadable
    return _signed(number), _values(payload)


def _local(size: int) -> int:
    """How many bytes of a row of this size are on its leaf page."""
    most, least = PAGE - 35, (PAGE - 12) * 32 // 255 - 23
    if size <= most:
        return size
    rest = least + (size - least) % (PAGE - 4)
    return rest if rest <= most else least


def _overflow(link: bytes, size: int, pages: Mapping[int, bytes]) -> bytes:
    parts: list[bytes] = []
    while size > 0:
        page = pages.get(int.from_bytes(link, "big"))
        if page is None or len(parts) > MAX_ROW // PAGE:
            raise Unreadable
        link = page[:4]
        parts.append(page[4 : 4 + size])
        size -= len(parts[-1])
    return b"".join(parts)


def _values(payload: bytes) -> list[object]:
    end, at = _varint(payload, 0)
    if end > len(payload):
        raise Unreadable
    kinds = []
    while at < end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values = []
    for kind in kinds:
        value, at = _value(kind, payload, at)
        values.append(value)
    return values


def _value(kind: int, payload: bytes, at: int) -> tuple[object, int]:
    if kind in (0, 8, 9):
        return {0: None, 8: 0, 9: 1}[kind], at
    if kind == 7:
        return _float(payload[at : at + 8]), at + 8
    if kind in INTEGER_BYTES:
        end = at + INTEGER_BYTES[kind]
        return int.from_bytes(payload[at:end], "big", signed=True), end
    if kind < 12:
        raise Unreadable
    end = at + (kind - 12) // 2
    if end > len(payload):
        raise Unreadable
    if kind % 2 == 0:
        raise Unreadable  # no column of ours holds bytes
    return payload[at:end].decode("utf-8", "replace"), end


def _float(raw: bytes) -> float:
    if len(raw) != 8:
        raise Unreadable
    (value,) = struct.unpack(">d", raw)
    return float(value)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for n in range(9):
        if at + n >= len(data):
            raise Unreadable
        byte = data[at + n]
        if n == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + n + 1
    raise AssertionError


def _signed(number: int) -> int:
    return number - (1 << 64) if number >= 1 << 63 else number
