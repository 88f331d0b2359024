"""Rows in a database file: transactions, inserting once, reading what is intact."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from ansor.errors import RecordError
from ansor.records.connection import REASONS, connect, translated
from ansor.records.record import Record
from ansor.records.rows import (
    Content,
    Contents,
    Row,
    checksum,
    content_row,
    digest,
    read_content,
    read_record,
    record_values,
)
from ansor.records.schema import CONTENT_COLUMNS, RECORD_COLUMNS

BLOCK = 500  # rows read at a time: no reader holds the log of writers for long
FEW = 20  # likewise where mostly one is wanted
COPIES = ("contents", "spares")
KEPT = 1_000  # contents kept in memory
CONTENTS = ", ".join(CONTENT_COLUMNS)
RECORDS = ", ".join(RECORD_COLUMNS)

Found: TypeAlias = tuple[Record, Contents]

# A connection must not be used, nor closed, by a child of the process that opened it.
_inherited: list[sqlite3.Connection] = []


class Store:
    """One open file. Use it in the thread that opened it; a forked child reopens it."""

    def __init__(self, path: Path, mode: str, durable: bool, timeout: float) -> None:
        self.path, self.mode = path, mode
        self._options = (durable, timeout)
        self.notes: list[str] = []  # for people: what was odd, each once
        self._contents: dict[object, Content] = {}
        self._seen = -1  # SQLite's counter of changes by others
        self.reopen()

    def reopen(self) -> None:
        self._connection: sqlite3.Connection | None
        self._connection, notes = connect(self.path, self.mode, *self._options)
        self._process = os.getpid()
        self._file = _identity(self.path)
        self.forget()
        for text in notes:
            self.note(text)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._process != os.getpid():
            _inherited.append(connection)
            return
        with translated(self.path):
            connection.close()

    @property
    def connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise RecordError(
                f"database {str(self.path)!r}", "is closed", "open it again"
            )
        if self._process != os.getpid():
            _inherited.append(self._connection)
            self.reopen()
        return self._connection

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # -- writing ----------------------------------------------------------------------

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that holds the write lock; committed when the block ends."""
        if self.mode != "rw":
            raise RecordError(
                f"database {str(self.path)!r}",
                "was opened for reading only",
                'open it with mode="rw"',
            )
        with translated(self.path):
            connection = self._locked()
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self.forget()
                raise

    def _locked(self) -> sqlite3.Connection:
        """The write lock, of the file that stands at the path now."""
        for _ in range(10):
            connection = self.connection
            connection.execute("BEGIN IMMEDIATE")
            if self._file == _identity(self.path):
                return connection
            connection.execute("ROLLBACK")  # it was repaired: another file took over
            self.close()
            self.reopen()
        raise RecordError(f"database {str(self.path)!r}", "is replaced again and again")

    def put(self, content: Content) -> int:
        """The row of a content, written unless it is there; a damaged one is mended."""
        query = "SELECT id FROM contents WHERE hash = ?"
        found = self.connection.execute(query, (content.hash,)).fetchone()
        number = int(found[0]) if found else self._next("contents")
        self.put_row(content_row(number, content))
        return number

    def put_row(self, row: Row) -> None:
        for table in COPIES:
            query = f"SELECT {CONTENTS} FROM {table} WHERE id = ?"
            if self.connection.execute(query, row[:1]).fetchone() != row:
                marks = ", ".join("?" * len(row))
                insert = f"INSERT OR REPLACE INTO {table} VALUES ({marks})"
                self.connection.execute(insert, row)

    def insert(self, record: Record, contents: Contents, rows: Row) -> tuple[int, bool]:
        """The record's row, and whether it is new. `rows` are those of its contents."""
        connection = self.connection
        values = record_values(record, contents.sketch)
        known = digest(contents.hashes, values)
        query = "SELECT id FROM records WHERE digest = ?"
        found = connection.execute(query, (known,)).fetchone()
        if found:
            return int(found[0]), False
        number = self._next("records")
        row = (number, *rows, *values, known, checksum(number, known))
        marks = ", ".join("?" * len(row))
        connection.execute(f"INSERT INTO records VALUES ({marks})", row)
        return number, True

    def _next(self, table: str) -> int:
        """A number that no row of the table has or had."""
        query = (
            f"SELECT max(coalesce((SELECT max(id) FROM {table}), 0), coalesce("
            "(SELECT max(row) FROM damaged WHERE place = ?), 0)) + 1"
        )
        return int(self.connection.execute(query, (table,)).fetchone()[0])

    # -- reading ----------------------------------------------------------------------

    def query(self, sql: str, arguments: Sequence[object] = ()) -> list[Row]:
        with translated(self.path):
            return self.connection.execute(sql, arguments).fetchall()

    def content(self, number: object) -> Content:
        """The content in a row, or in its spare, if one is intact."""
        if number not in self._contents:
            if len(self._contents) >= KEPT:
                self._contents.clear()
            self._contents[number] = self._read_content(number)
        return self._contents[number]

    def _read_content(self, number: object) -> Content:
        reason = "is missing"
        for table in COPIES:
            query = f"SELECT {CONTENTS} FROM {table} WHERE id = ?"
            for row in self.query(query, (number,)):
                try:
                    return read_content(row)
                except RecordError as error:
                    reason = str(error.args[1])
                    self.note(f"{table} {number}: {reason}")
        raise RecordError(f"shared content {number!r}", f"shared content {reason}")

    def find(self, kind: str, key: str) -> Iterator[tuple[int, Content]]:
        """(row, content) of all of a kind with this key, the oldest first."""
        query = "SELECT id FROM contents WHERE kind = ? AND key = ? ORDER BY id"
        for (number,) in self.query(query, (kind, key)):
            try:
                content = self.content(number)
            except RecordError as error:
                self.note(f"contents {number}: {error.args[1]}")
                continue
            if (content.kind, content.key) == (kind, key):
                yield int(str(number)), content

    def by_hash(self, kind: str, found: str) -> Content | None:
        for (number,) in self.query("SELECT id FROM contents WHERE hash = ?", (found,)):
            content = self.content(number)
            if content.kind == kind and content.hash == found:
                return content
        return None

    def decode(self, row: Row) -> Found:
        """The record of a row, if it and all that it refers to are intact."""
        kinds = zip(("workload", "target", "sketch"), row[1:4], strict=True)
        found = [(kind, self.content(number)) for kind, number in kinds]
        if any(content.kind != kind for kind, content in found):
            raise RecordError("record", "refers to content of another kind")
        contents = Contents(*(content for _, content in found))
        return read_record(row, contents), contents

    def scan(self, where: str, arguments: Sequence[object]) -> Iterator[Found]:
        """Intact records in the order of rows, however many; a note of damaged ones."""
        query = (
            f"SELECT {RECORDS} FROM records WHERE id > ? AND {where} "
            f"ORDER BY id LIMIT {BLOCK}"
        )
        last = -(2**63)
        while rows := self.query(query, (last, *arguments)):
            yield from self._intact(rows)
            before, last = last, int(str(rows[-1][0]))
            if last <= before:  # in a damaged file; it would never end
                raise RecordError(
                    f"database {str(self.path)!r}", *REASONS["SQLITE_CORRUPT"]
                )

    def fastest(self, where: str, arguments: Sequence[object]) -> Iterator[Found]:
        """Intact, verified and timed records, the fastest first."""
        query = (
            f"SELECT {RECORDS} FROM records WHERE kind = 'timed' AND verified != '' "
            f"AND {where} ORDER BY estimate, id"
        )
        start = 0
        while rows := self.query(f"{query} LIMIT {FEW} OFFSET {start}", arguments):
            yield from self._intact(rows)
            start += len(rows)

    def _intact(self, rows: list[Row]) -> Iterator[Found]:
        self._forget_if_changed()
        for row in rows:
            try:
                yield self.decode(row)
            except RecordError as error:
                self.note(f"record {row[0]}: {error.args[1]}; left out")

    def forget(self) -> None:
        """Contents are read anew."""
        self._contents.clear()

    def _forget_if_changed(self) -> None:
        """Contents in memory may be stale once another connection has written."""
        (row,) = self.query("PRAGMA data_version")
        if row[0] != self._seen:
            self._contents.clear()
            self._seen = int(str(row[0]))


def _identity(path: Path) -> tuple[int, int]:
    """Which file stands at the path."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return found.st_dev, found.st_ino
