"""Is every row of a database as it was written? What is not is named and set aside."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ansor.errors import RecordError
from ansor.records.connection import code, connect, translated
from ansor.records.rows import Row, read_content, short_hash
from ansor.records.salvage import Salvaged, lost, salvage
from ansor.records.schema import CONTENT_COLUMNS, META_COLUMNS, RECORD_COLUMNS
from ansor.records.store import BLOCK, COPIES, Store
from ansor.records.text import canonical, plain

DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_ERROR", "SQLITE_MISMATCH")


@dataclass(frozen=True)
class Damage:
    """A row that is not as it was written."""

    place: str  # "records" | "contents" | "meta"
    row: object  # its number; of meta its key
    reason: str

    def __str__(self) -> str:
        return f"{self.place} {self.row}: {self.reason}"


@dataclass
class Report:
    """What `Database.verify` found and did."""

    intact: int = 0  # records
    damaged: list[Damage] = field(default_factory=list)  # set aside now
    notes: list[str] = field(default_factory=list)  # what was repaired, and where

    @property
    def is_clean(self) -> bool:
        return not self.damaged and not self.notes

    def __str__(self) -> str:
        text = f"{self.intact} records intact, {len(self.damaged)} rows damaged"
        return "\n".join([text, *map(str, self.damaged), *self.notes])


def verify(store: Store) -> Report:
    """Check the file and every row; set damaged rows aside, mend what can be mended."""
    try:
        report = Report()
        if _mend_file(store, report):
            _check_rows(store, report)
            return report
    except sqlite3.DatabaseError as error:
        if not code(error).startswith(DAMAGE):
            raise
    if store.mode != "rw":
        note = "the file is damaged: open it for writing to repair it"
        return Report(damaged=report.damaged, notes=[note])
    store.close()
    report = repair(store.path)
    store.reopen()
    return report


def _mend_file(store: Store, report: Report) -> bool:
    """Whether the structure of the file is sound, at the latest after reindexing."""
    problems = _problems(store.connection)
    if problems and store.mode == "rw" and all("index" in x for x in problems):
        store.connection.execute("REINDEX")
        report.notes.append(f"indices were made anew: {problems[0]}")
        problems = _problems(store.connection)
    return not problems


def _problems(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("PRAGMA integrity_check(100)").fetchall()
    return [str(text) for (text,) in rows if text != "ok"]


def _check_rows(store: Store, report: Report) -> None:
    store.forget()
    contents = _bad_contents(store, report)
    found = [*contents, *_bad_records(store, report), *_bad_meta(store)]
    report.damaged = [damage for damage, _ in found]
    if found and store.mode == "rw":
        with store.writing() as connection:
            for damage, row in found:
                _set_aside(connection, damage, row)
        store.forget()


def _blocks(store: Store, table: str, columns: tuple[str, ...]) -> Iterator[Row]:
    last: object = -(2**63)
    names = ", ".join(columns)
    query = f"SELECT {names} FROM {table} WHERE id > ? ORDER BY id LIMIT {BLOCK}"
    while rows := store.connection.execute(query, (last,)).fetchall():
        yield from rows
        last = rows[-1][0]


def _bad_contents(store: Store, report: Report) -> list[tuple[Damage, Row]]:
    """Contents whose copies are both damaged; an intact one mends the other."""
    bad: list[tuple[Damage, Row]] = []
    names = ", ".join(CONTENT_COLUMNS)
    numbers = "SELECT id FROM contents UNION SELECT id FROM spares"
    for (number,) in store.connection.execute(numbers).fetchall():
        rows = [
            store.connection.execute(f"SELECT {names} FROM {table} WHERE id = ?",
                                     (number,)).fetchone()
            for table in COPIES
        ]  # fmt: skip
        good = [row for row in rows if row and _is_intact(row)]
        if not good:
            why = "both copies are damaged"
            bad.append((Damage("contents", number, why), rows[0] or rows[1]))
        elif rows[0] != rows[1]:
            report.notes.append(f"contents {number}: mended by its copy")
            if store.mode == "rw":
                with store.writing():
                    store.put_row(good[0])
    return bad


def _is_intact(row: Row) -> bool:
    try:
        read_content(row)
    except RecordError:
        return False
    return True


def _bad_records(store: Store, report: Report) -> Iterator[tuple[Damage, Row]]:
    for row in _blocks(store, "records", RECORD_COLUMNS):
        try:
            store.decode(row)
            report.intact += 1
        except RecordError as error:
            yield Damage("records", row[0], error.args[1]), row


def _bad_meta(store: Store) -> Iterator[tuple[Damage, Row]]:
    names = ", ".join(META_COLUMNS)
    for row in store.connection.execute(f"SELECT {names} FROM meta").fetchall():
        if short_hash(str(row[0]), str(row[1])) != row[2]:
            yield Damage("meta", row[0], "its checksum does not match"), row


def _set_aside(connection: sqlite3.Connection, damage: Damage, row: Row) -> None:
    name = "key" if damage.place == "meta" else "id"
    query = f"SELECT * FROM {damage.place} WHERE {name} = ?"
    if connection.execute(query, (damage.row,)).fetchone() not in (row, None):
        return  # another process has mended it
    connection.execute(f"DELETE FROM {damage.place} WHERE {name} = ?", (damage.row,))
    if damage.place == "contents":
        connection.execute("DELETE FROM spares WHERE id = ?", (damage.row,))
    number = damage.row if isinstance(damage.row, int) else 0
    _keep(connection, damage.place, number, damage.reason, row)


def _keep(
    connection: sqlite3.Connection, place: str, row: int, reason: str, values: object
) -> None:
    query = "INSERT INTO damaged (place, row, reason, data, found) VALUES (?,?,?,?,?)"
    data = canonical(plain(repr(values), 1 << 20))
    connection.execute(query, (place, row, reason, data, time.time()))


# -- damaged files --------------------------------------------------------------------


def repair(path: Path) -> Report:
    """Move what is intact into a fresh file, which takes the place of the damaged one.

    The damaged file stays beside it under another name.
    """
    what = f"repair of {str(path)!r}"
    fresh = path.with_name(f"{path.name}.fresh")
    try:
        with _alone(path), path.open("rb") as file:  # closing it would end the lock
            sources = [(file.read(), _bytes(_beside(path, "-wal")))]
            found = salvage([*sources, (_bytes(fresh), b"")])
            if not found.records and not found.contents:
                raise RecordError(
                    what, "no row of it can be read", "restore a copy, or delete it"
                )
            _fill(fresh, found)
            kept = _swap(path, fresh)
    except OSError as error:
        raise RecordError(what, f"{error.strerror}", "check the disk") from error
    report = Report(len(found.records), _damages(found))
    report.notes.append(
        f"the file was damaged: {len(found.records)} records were saved, the damaged "
        f"file is kept as {kept.name!r}"
    )
    return report


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """No other process has the file open, if it is sound enough to tell."""
    connection = sqlite3.connect(path, timeout=1.0, isolation_level=None)
    try:
        _lock(connection, path)
        yield
    finally:
        connection.close()


def _lock(connection: sqlite3.Connection, path: Path) -> None:
    try:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.DatabaseError as error:
        if code(error).startswith("SQLITE_BUSY"):
            raise RecordError(
                f"repair of {str(path)!r}",
                "another process has it open",
                "end that process, then try again",
            ) from error


def _damages(found: Salvaged) -> list[Damage]:
    return [Damage("records", row, reason) for row, reason in lost(found).items()]


def _fill(fresh: Path, found: Salvaged) -> None:
    """Write the fresh file; it has its name only once it is complete."""
    building = _beside(fresh, ".part")
    for end in ("", "-wal", "-shm", "-journal"):
        _beside(building, end).unlink(missing_ok=True)
    connection, _ = connect(building, "rw", True, 30.0)
    with translated(building):
        connection.execute("BEGIN IMMEDIATE")
        for table in COPIES:
            _copy(connection, table, list(found.contents.values()))
        _copy(connection, "records", list(found.records.values()))
        metas = [x for x in found.meta.values() if short_hash(x[0], x[1]) == x[2]]
        _copy(connection, "meta", metas)
        _copy(connection, "damaged", list(found.damaged.values()))
        for row, reason in lost(found).items():
            _keep(connection, "records", row, reason, None)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.close()
    os.replace(building, fresh)


def _copy(connection: sqlite3.Connection, table: str, rows: list[Row]) -> None:
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", rows)


def _swap(path: Path, fresh: Path) -> Path:
    """Put the fresh file in place; the name under which the damaged one is kept.

    The log must be gone before: SQLite would apply it to the fresh file. Whenever this
    is interrupted, repairing again finds all rows in the damaged and the fresh file.
    """
    number = 1
    while (kept := _beside(path, f".damaged-{number}")).exists():
        number += 1
    os.link(path, kept)
    log = _bytes(_beside(path, "-wal"))
    if log:
        _beside(kept, "-wal").write_bytes(log)
    for end in ("-wal", "-shm", "-journal"):
        _beside(path, end).unlink(missing_ok=True)
    os.replace(fresh, path)
    return kept


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _bytes(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
