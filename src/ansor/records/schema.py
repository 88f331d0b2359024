"""The tables of a database, and how older files are brought up to date.

Rows are written once and not changed. `contents` holds what many records share, each
under the hash of its text: DAGs with their names, targets, sketches. They are few and
much depends on them, so `spares` holds each a second time. A record refers to three of
them; its `digest` covers all its columns and the hashes of the three, its `checksum`
the digest and the row's number.
"""

from __future__ import annotations

import sqlite3

APPLICATION = 0x616E736F  # "anso", in the header of the file
PAGE = 4096  # bytes; fixed, so that pages can be read without a header

CONTENT_COLUMNS = ("id", "kind", "hash", "key", "data", "checksum")
RECORD_COLUMNS = (
    *("id", "workload", "target", "sketch", "program", "point", "role", "kind"),
    *("stage", "cause", "message", "estimate", "samples", "spent", "verified"),
    *("versions", "llvm", "host", "created", "digest", "checksum"),
)
DAMAGED_COLUMNS = ("id", "place", "row", "reason", "data", "found")
META_COLUMNS = ("key", "value", "checksum")
REAL_COLUMNS = ("estimate", "spent", "created", "found")

# Entry n brings a file of version n to version n + 1. Entries are never edited.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE contents (
            id INTEGER PRIMARY KEY,
            kind TEXT NOT NULL,
            hash TEXT NOT NULL UNIQUE,
            key TEXT NOT NULL,
            data TEXT NOT NULL,
            checksum TEXT NOT NULL)""",
        "CREATE INDEX contents_key ON contents (kind, key)",
        """CREATE TABLE spares (
            id INTEGER PRIMARY KEY,
            kind TEXT NOT NULL,
            hash TEXT NOT NULL,
            key TEXT NOT NULL,
            data TEXT NOT NULL,
            checksum TEXT NOT NULL)""",
        """CREATE TABLE records (
            id INTEGER PRIMARY KEY,
            workload INTEGER NOT NULL,
            target INTEGER NOT NULL,
            sketch INTEGER NOT NULL,
            program TEXT NOT NULL,
            point TEXT NOT NULL,
            role TEXT NOT NULL,
            kind TEXT NOT NULL,
            stage TEXT NOT NULL,
            cause TEXT NOT NULL,
            message TEXT NOT NULL,
            estimate REAL,
            samples TEXT NOT NULL,
            spent REAL NOT NULL,
            verified TEXT NOT NULL,
            versions TEXT NOT NULL,
            llvm TEXT NOT NULL,
            host TEXT NOT NULL,
            created REAL NOT NULL,
            digest TEXT NOT NULL UNIQUE,
            checksum TEXT NOT NULL)""",
        """CREATE INDEX records_best
            ON records (workload, target, role, llvm, estimate)
            WHERE kind = 'timed' AND verified != ''""",
        "CREATE INDEX records_program ON records (program, target)",
        """CREATE TABLE damaged (
            id INTEGER PRIMARY KEY,
            place TEXT NOT NULL,
            row INTEGER NOT NULL,
            reason TEXT NOT NULL,
            data TEXT NOT NULL,
            found REAL NOT NULL)""",
    ),
    (
        """CREATE TABLE meta (
            key TEXT PRIMARY KEY,
            value TEXT NOT NULL,
            checksum TEXT NOT NULL)""",
        "CREATE INDEX records_task ON records (workload, id)",
    ),
)
VERSION = len(MIGRATIONS)


def version_of(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the file up to date; inside a transaction that holds the write lock."""
    for version in range(version_of(connection), VERSION):
        for statement in MIGRATIONS[version]:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def objects(connection: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """(kind, name, SQL) of all that the file defines."""
    query = "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
    return set(connection.execute(query))


def expected(version: int) -> set[tuple[str, str, str]]:
    """What a file of this version defines: no trigger, no view, nothing else."""
    connection = sqlite3.connect(":memory:")
    try:
        for statement in (x for part in MIGRATIONS[:version] for x in part):
            connection.execute(statement)
        return objects(connection)
    finally:
        connection.close()
