"""Records as lines of JSON, and the checks that lines from elsewhere must pass.

    {"line": "header", "format": "ansor records", "version": 1}
    {"line": "workload", "hash": …, "key": …, "data": the DAG}
    {"line": "target", "hash": …, "key": …, "data": the target}
    {"line": "sketch", "hash": …, "key": hash of its workload, "data": trace and steps}
    {"line": "record", "workload": hash, "target": hash, "sketch": hash, "point": …,
     "role": …, "outcome": …, "spent": …, "verified": …, "versions": …, "host": …,
     "created": …, "digest": …}

A line stands after those it refers to by their hashes. Nothing is taken on trust: DAGs
and steps are built and replayed, hashes and keys are computed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from ansor.errors import AnsorError, RecordError
from ansor.reading import Data, brief
from ansor.records.outcome import outcome_from_data, outcome_to_data
from ansor.records.record import MAX_FINGERPRINT, Record, read_versions
from ansor.records.rows import KINDS, Content, Contents, digest, record_values
from ansor.records.store import Found, Store
from ansor.records.text import MAX_BYTES, canonical, number, parse, plain, read
from ansor.schedule import sketch_from_data
from ansor.target import Target
from ansor.target.data import target_from_data
from ansor.te.data import dag_from_data
from ansor.te.key import workload_key
from ansor.te.task import Task

FORMAT, VERSION = "ansor records", 1
HEADER: Data = {"line": "header", "format": FORMAT, "version": VERSION}
CONTENT_FIELDS = ("line", "hash", "key", "data")
RECORD_FIELDS = (
    *("line", "workload", "target", "sketch", "point", "role", "outcome", "spent"),
    *("verified", "versions", "host", "created", "digest"),
)
BATCH = 500  # lines of one transaction
REPORTED = 1_000  # refused lines that are named
MAX_CONTENTS = 200_000  # of one file
ANYWHERE = Target("x86_64")  # replaying steps does not depend on the target


@dataclass
class Loaded:
    """What became of lines from elsewhere."""

    added: int = 0
    known: int = 0  # equal rows were here already
    refused: int = 0
    reasons: list[tuple[int, str]] = field(default_factory=list)  # (line, why)

    def refuse(self, line: int, error: AnsorError) -> None:
        self.refused += 1
        if len(self.reasons) < REPORTED:
            self.reasons.append((line, plain(str(error), 500)))

    def __str__(self) -> str:
        text = f"{self.added} added, {self.known} known, {self.refused} refused"
        shown = [f"  line {line}: {why}" for line, why in self.reasons[:5]]
        return "\n".join([text, *shown])


# -- writing --------------------------------------------------------------------------


def lines(found: Iterable[Found]) -> Iterator[Data]:
    """The records as data of lines, each after what it refers to."""
    yield HEADER
    written: set[str] = set()
    for record, contents in found:
        for content in (contents.workload, contents.target, contents.sketch):
            if content.hash not in written:
                written.add(content.hash)
                yield _content_line(content)
        yield _record_line(record, contents)


def write_lines(path: Path, found: Iterable[Found]) -> int:
    """Write a file, whole or not at all; the number of records in it."""
    count = 0
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("w", encoding="ascii") as file:
            for line in lines(found):
                count += line["line"] == "record"
                file.write(canonical(line) + "\n")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise RecordError(
            f"export to {str(path)!r}", f"{error.strerror}", "choose another place"
        ) from error
    return count


def _content_line(content: Content) -> Data:
    return {
        "line": content.kind,
        "hash": content.hash,
        "key": content.key,
        "data": content.parsed,
    }


def _record_line(record: Record, contents: Contents) -> Data:
    workload, target, sketch = contents.hashes
    values = record_values(record, contents.sketch)
    return {
        "line": "record",
        "workload": workload,
        "target": target,
        "sketch": sketch,
        "point": record.program["point"],
        "role": record.role,
        "outcome": outcome_to_data(record.outcome),
        "spent": record.spent,
        "verified": record.verified,
        "versions": record.versions,
        "host": record.host,
        "created": record.created,
        "digest": digest(contents.hashes, values),
    }


# -- reading --------------------------------------------------------------------------


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file; of one that is too long only the beginning."""
    try:
        with path.open("rb") as file:
            while line := file.readline(MAX_BYTES + 1):
                if len(line) > MAX_BYTES:
                    _skip_line(file, line)
                yield line
    except OSError as error:
        raise RecordError(
            f"records file {str(path)!r}", f"{error.strerror}", "check its name"
        ) from error


def _skip_line(file: BinaryIO, line: bytes) -> None:
    while line and not line.endswith(b"\n"):
        line = file.readline(MAX_BYTES)


def take(store: Store, source: Iterable[bytes | Data]) -> Loaded:
    """Store the records of these lines; what is wrong is refused line by line."""
    intake = Intake(store)
    numbered = enumerate(source, 1)
    while batch := list(islice(numbered, BATCH)):
        with store.writing():
            for line, text in batch:
                intake.take(line, text)
    return intake.loaded


class Intake:
    """Lines from elsewhere on their way into a database."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.loaded = Loaded()
        self.rows: dict[str, int] = {}  # of the contents of this file, by hash
        self.knobs: dict[str, dict[str, tuple[int, ...]]] = {}  # of its sketches

    def take(self, line: int, text: bytes | Data) -> None:
        try:
            data = parse("line", text) if isinstance(text, bytes) else text
            self._take(read.dictionary("line", data))
        except AnsorError as error:
            self.loaded.refuse(line, error)

    def _take(self, data: Data) -> None:
        kind = data.get("line")
        if kind == "header":
            read.versioned("header", data, VERSION, tuple(HEADER))
            if data["format"] != FORMAT:
                raise RecordError("header", f"unknown format {brief(data['format'])}")
        elif kind == "record":
            self._record(read.fields("record", data, RECORD_FIELDS))
        elif isinstance(kind, str) and kind in KINDS:
            self._content(kind, read.fields(kind, data, CONTENT_FIELDS))
        else:
            raise RecordError("line", f"unknown kind {brief(kind)}")

    def _content(self, kind: str, data: Data) -> None:
        key = read.text(f"{kind}, key", data["key"], MAX_FINGERPRINT)
        content = Content(kind, key, canonical(data["data"]))
        if content.hash != data["hash"]:
            raise RecordError(kind, "its hash does not match: it was changed")
        if content.hash in self.rows:
            return
        if len(self.rows) >= MAX_CONTENTS:
            raise RecordError(kind, f"more than {MAX_CONTENTS} in one file")
        check = {"workload": check_workload, "target": check_target}
        if kind == "sketch":
            self.knobs[content.hash] = self._knobs(content.key, data["data"])
        else:
            check[kind](key, data["data"])
        self.rows[content.hash] = self.store.put(content)

    def _knobs(self, form: str, data: object) -> dict[str, tuple[int, ...]]:
        """The knobs of a sketch that replays on its workload."""
        workload = self._known("workload", form)
        dag = dag_from_data(workload.parsed)
        sketch = sketch_from_data(Task.from_dag(dag, ANYWHERE), data)
        return {knob.name: knob.candidates for knob in sketch.knobs}

    def _known(self, kind: str, found: object) -> Content:
        content = None
        if isinstance(found, str) and found in self.rows:
            content = self.store.by_hash(kind, found)
        if content is None:
            raise RecordError(
                "line", f"refers to a {kind} {brief(found)} that no line before holds"
            )
        return content

    def _record(self, data: Data) -> None:
        contents = Contents(*(self._known(kind, data[kind]) for kind in KINDS))
        record = _record(data, contents)
        if (
            digest(contents.hashes, record_values(record, contents.sketch))
            != (data["digest"])
        ):
            raise RecordError("record", "its digest does not match: it was changed")
        check_point(self.knobs[contents.sketch.hash], record.program["point"])
        rows = tuple(self.rows[found] for found in contents.hashes)
        _, is_new = self.store.insert(record, contents, rows)
        self.loaded.added += is_new
        self.loaded.known += not is_new


def check_workload(key: str, data: object) -> None:
    if workload_key(dag_from_data(data)) != key:
        raise RecordError("workload", "its key is not that of what it computes")


def check_target(key: str, data: object) -> None:
    if target_from_data(data).fingerprint != key:
        raise RecordError("target", "its fingerprint is not that of its fields")


def check_point(knobs: dict[str, tuple[int, ...]], point: object) -> None:
    """Every knob has one of its candidates."""
    found = read.dictionary("point", point)
    read.names("point", found, tuple(knobs))
    for name, candidates in knobs.items():
        value = found[name]
        if type(value) is not int or value not in candidates:
            raise RecordError(f"point, {name}", f"{brief(value)} is not a candidate")


def _record(data: Data, contents: Contents) -> Record:
    what = "record"
    if contents.sketch.key != contents.workload.hash:
        raise RecordError(what, "its sketch belongs to another workload")
    return Record(
        workload=contents.workload.key,
        target=contents.target.key,
        program={
            **contents.sketch.parsed,
            "point": read.dictionary(what, data["point"]),
        },
        outcome=outcome_from_data(data["outcome"]),
        role=read.text(what, data["role"]),
        spent=number(what, data["spent"]),
        verified=read.text(what, data["verified"]),
        versions=read_versions(what, data["versions"]),
        host=read.text(what, data["host"]),
        created=number(what, data["created"]),
    )
