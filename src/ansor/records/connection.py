"""Opening a database file, and the errors of SQLite in our words."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import quote

from ansor.errors import RecordError
from ansor.records.mounts import network_file_system
from ansor.records.schema import (
    APPLICATION,
    PAGE,
    VERSION,
    expected,
    migrate,
    objects,
    version_of,
)

MODES = ("rw", "r")
RECOVER = "Database.repair(path) or `ansor records PATH --verify` saves what is intact"

# How SQLite's error codes begin -> (reason, hint).
LEAST = 512  # bytes of the smallest page; SQLite takes one byte for an empty file
REASONS = {
    "SQLITE_BUSY": (
        "another process holds its lock for too long",
        "wait for that process or end it, then start again",
    ),
    "SQLITE_LOCKED": ("locked by this process", "finish the other operation first"),
    "SQLITE_FULL": (
        "the disk is full",
        "free some space and start again; what was stored is safe",
    ),
    "SQLITE_READONLY": (
        "cannot be written",
        'open it with mode="r" to read, or copy it to where you may write',
    ),
    "SQLITE_PERM": ("access is not permitted", "check the permissions of the file"),
    "SQLITE_CANTOPEN": (
        "cannot be opened",
        "check the permissions of the file and of its directory",
    ),
    "SQLITE_CORRUPT": ("the file is damaged", RECOVER),
    "SQLITE_NOTADB": (
        "is not a records database",
        f"choose another path; if it was one, {RECOVER}",
    ),
    "SQLITE_IOERR": (
        "the disk refused to read or write",
        "check its free space, quota and health; what was stored is safe",
    ),
}


def code(error: BaseException) -> str:
    return str(getattr(error, "sqlite_errorname", ""))


def translate(path: Path, error: sqlite3.Error | OverflowError) -> RecordError:
    name = code(error)
    for start, (reason, hint) in REASONS.items():
        if name.startswith(start):
            return RecordError(f"database {str(path)!r}", reason, hint)
    if isinstance(error, sqlite3.ProgrammingError):
        return RecordError(
            f"database {str(path)!r}", str(error), "open one in every thread"
        )
    return RecordError(f"database {str(path)!r}", f"{error}", RECOVER)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Errors of SQLite become RecordErrors."""
    try:
        yield
    except (sqlite3.Error, OverflowError) as error:
        raise translate(path, error) from error


def connect(
    path: Path, mode: str, durable: bool, timeout: float
) -> tuple[sqlite3.Connection, list[str]]:
    """An open connection to a database of the current version, and notes for people."""
    _check_path(path, mode)
    with translated(path):
        if mode == "r":
            return _connect_reading(path, timeout), []
        connection = _raw(path, "mode=rwc", timeout)
        try:
            notes = _prepare(connection, path, durable, timeout)
        except BaseException:
            connection.close()
            raise
        return connection, notes


def _check_path(path: Path, mode: str) -> None:
    what = f"database {str(path)!r}"
    if mode not in MODES:
        raise RecordError(what, f"unknown mode {mode!r}", 'use "rw" or "r"')
    if not path.parent.is_dir():
        raise RecordError(
            what, f"there is no directory {str(path.parent)!r}", "create it first"
        )
    if path.is_dir():
        raise RecordError(what, "is a directory", "name a file in it")
    if mode == "r" and not path.exists():
        raise RecordError(what, "there is no such file", "check its name")
    if path.exists() and 0 < path.stat().st_size < LEAST:
        raise RecordError(what, *REASONS["SQLITE_NOTADB"])
    writable = path if path.exists() else path.parent
    if mode == "rw" and not os.access(writable, os.W_OK):
        raise RecordError(what, *REASONS["SQLITE_READONLY"])


def _raw(path: Path, options: str, timeout: float) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?{options}"
    connection = sqlite3.connect(uri, timeout, isolation_level=None, uri=True)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    # A damaged text must reach the checksum, which finds it.
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    return connection


def _connect_reading(path: Path, timeout: float) -> sqlite3.Connection:
    """Where nothing may be written, a file that nobody writes is read as it is."""
    log = path.with_name(f"{path.name}-wal")
    connection = _raw(path, "mode=ro", timeout)
    try:
        _check_file(connection, path, "r")
    except sqlite3.OperationalError as error:
        connection.close()
        hindered = code(error).startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY"))
        if not hindered or (log.exists() and log.stat().st_size):
            raise
        connection = _raw(path, "mode=ro&immutable=1", timeout)
        _check_file(connection, path, "r")
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(
    connection: sqlite3.Connection, path: Path, durable: bool, timeout: float
) -> list[str]:
    _check_file(connection, path, "rw")
    connection.execute(f"PRAGMA page_size = {PAGE}")
    network = network_file_system(path)
    _journal(connection, "DELETE" if network else "WAL", timeout)
    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    if version_of(connection) < VERSION:
        connection.execute("BEGIN IMMEDIATE")
        _check_file(connection, path, "rw")  # another process may have been faster
        migrate(connection)
        connection.execute("COMMIT")
    if not network:
        return []
    return [
        f"database {str(path)!r} is on a network file system ({network}): slower there,"
        " and safe only if its locks work; a local disk is better, merge from there"
    ]


def _journal(connection: sqlite3.Connection, mode: str, timeout: float) -> None:
    """Set the journal; SQLite does not wait for the lock that this takes."""
    end = monotonic() + timeout
    while True:
        (now,) = connection.execute("PRAGMA journal_mode").fetchone()
        if now == mode.lower():
            return
        try:
            connection.execute(f"PRAGMA journal_mode = {mode}")
        except sqlite3.OperationalError as error:
            if not code(error).startswith("SQLITE_BUSY") or monotonic() > end:
                raise
            sleep(0.01)


def _check_file(connection: sqlite3.Connection, path: Path, mode: str) -> None:
    """The file is empty or one of ours, with our tables and nothing that acts."""
    what = f"database {str(path)!r}"
    version, application, found = _described(connection)
    if not found and not version and not application and mode == "rw":
        return
    if application != APPLICATION:
        raise RecordError(what, *REASONS["SQLITE_NOTADB"])
    if version > VERSION:
        raise RecordError(
            what,
            f"was written by a newer release (schema {version}, this one knows "
            f"{VERSION})",
            "update ansor, or export the records there as JSON lines",
        )
    if version < VERSION and mode == "r":
        raise RecordError(
            what,
            f"was written by an older release (schema {version}, now {VERSION})",
            "open it, or a copy of it, once for writing",
        )
    if found != expected(version):
        names = {name for _, name, _ in found ^ expected(version)}
        raise RecordError(
            what, f"its tables are not ours: {', '.join(sorted(names)[:5])}", RECOVER
        )


def _described(
    connection: sqlite3.Connection,
) -> tuple[int, int, set[tuple[str, str, str]]]:
    """(version, application, objects), all of one moment: others may write."""
    begins = not connection.in_transaction
    if begins:
        connection.execute("BEGIN")
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        return version_of(connection), int(application), objects(connection)
    finally:
        if begins and connection.in_transaction:
            connection.execute("COMMIT")
