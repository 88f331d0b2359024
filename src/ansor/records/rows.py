"""Records as rows and back, with the hashes that show whether a row is intact."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from ansor.errors import RecordError
from ansor.reading import Data
from ansor.records.outcome import Failed, Outcome, Timed, outcome_from_data
from ansor.records.outcome import outcome_to_data as outcome_data
from ansor.records.record import PROGRAM_FIELDS, Record, read_versions
from ansor.records.schema import RECORD_COLUMNS
from ansor.records.text import canonical, message, number, parse, read
from ansor.target import Target
from ansor.target.data import target_to_data
from ansor.te.dag import DAG
from ansor.te.data import dag_to_data
from ansor.te.key import workload_key

KINDS = ("workload", "target", "sketch")
SKETCH_FIELDS = tuple(name for name in PROGRAM_FIELDS if name != "point")

Value: TypeAlias = str | int | float | None
Row: TypeAlias = tuple[Value, ...]

# Columns that a record alone decides, in order: all but its number and references.
OWN = RECORD_COLUMNS[4:-2]


@dataclass(frozen=True)
class Content:
    """What many records share, under the hash of its text.

    The key is what it is looked up by: the workload key of a DAG, the fingerprint of a
    target, the hash of the named DAG that a sketch belongs to.
    """

    kind: str
    key: str
    data: str  # canonical JSON

    @cached_property
    def hash(self) -> str:
        text = f"{self.kind}\n{self.key}\n{self.data}"
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def parsed(self) -> Data:
        what = f"data of a {self.kind}"
        return read.dictionary(what, parse(what, self.data))


@dataclass(frozen=True)
class Contents:
    """The three that a record refers to."""

    workload: Content
    target: Content
    sketch: Content

    @cached_property
    def hashes(self) -> tuple[str, str, str]:
        return self.workload.hash, self.target.hash, self.sketch.hash


def short_hash(*parts: object) -> str:
    return hashlib.sha256(canonical(parts).encode()).hexdigest()[:32]


def workload_content(dag: DAG) -> Content:
    return Content("workload", workload_key(dag), canonical(dag_to_data(dag)))


def target_content(target: Target) -> Content:
    return Content("target", target.fingerprint, canonical(target_to_data(target)))


def sketch_content(form: str, program: Data) -> Content:
    """The steps of a program's data, for the named DAG with this hash."""
    try:
        data = {name: program[name] for name in SKETCH_FIELDS}
    except (KeyError, TypeError):
        raise RecordError(
            "program data", f"has other fields than {', '.join(PROGRAM_FIELDS)}"
        ) from None
    return Content("sketch", form, canonical(data))


def program_hash(sketch: Content, point: object) -> str:
    """What is equal for equal programs of equally named DAGs."""
    return short_hash(sketch.hash, canonical(point))


def content_row(number: int, content: Content) -> Row:
    found = content.hash
    check = short_hash(number, found)
    return (number, content.kind, found, content.key, content.data, check)


def read_content(row: Sequence[object]) -> Content:
    """The content of a row, if it is intact."""
    what = "shared content"
    number, kind, found, key, data, checksum = row
    if not isinstance(data, str) or not isinstance(key, str):
        raise RecordError(what, "a column changed its type")
    content = Content(read.text(what, kind), key, data)
    if content.hash != found or short_hash(number, found) != checksum:
        raise RecordError(what, "its checksum does not match")
    return content


def record_values(record: Record, sketch: Content) -> Row:
    """The columns of OWN."""
    timed, failed = _outcome_columns(record.outcome)
    kind = "timed" if isinstance(record.outcome, Timed) else "failed"
    point = record.program["point"]
    return (
        program_hash(sketch, point), canonical(point), record.role, kind,
        *failed, record.seconds, timed, record.spent, record.verified,
        canonical(record.versions), record.versions.get("llvm", ""), record.host,
        record.created,
    )  # fmt: skip


def digest(hashes: Sequence[str], values: Sequence[object]) -> str:
    """The identity of a record: equal rows of two databases have the same."""
    return short_hash(list(hashes), list(values))


def checksum(number: object, digest: object) -> str:
    return short_hash(number, digest)


def read_record(row: Sequence[object], contents: Contents) -> Record:
    """The record of a row, or a RecordError if one bit of it is not as written."""
    what = "record"
    values, (found, check) = row[4:-2], row[-2:]
    if digest(contents.hashes, values) != found or checksum(row[0], found) != check:
        raise RecordError(what, "its checksum does not match")
    return _decoded(int(str(row[0])), dict(zip(OWN, values, strict=True)), contents)


def _decoded(number_: int, own: Data, contents: Contents) -> Record:
    what = f"record {number_}"
    point = read.dictionary(what, parse(what, _text(what, own["point"])))
    versions = parse(what, _text(what, own["versions"]))
    if contents.sketch.key != contents.workload.hash:
        raise RecordError(what, "its sketch belongs to another workload")
    return Record(
        workload=contents.workload.key,
        target=contents.target.key,
        program={**contents.sketch.parsed, "point": point},
        outcome=_outcome(what, own),
        role=_text(what, own["role"]),
        spent=number(what, own["spent"]),
        verified=_text(what, own["verified"]),
        versions=read_versions(what, versions),
        host=_text(what, own["host"]),
        created=number(what, own["created"]),
        id=number_,
        form=contents.workload.hash,
    )


def _outcome_columns(outcome: Outcome) -> tuple[str, tuple[str, str, str]]:
    """(samples, (stage, cause, message)); one of the two is empty."""
    if isinstance(outcome, Failed):
        return "", (outcome.stage, outcome.cause, outcome.message)
    return canonical(outcome_data(outcome)), ("", "", "")


def _outcome(what: str, own: Data) -> Outcome:
    if own["kind"] == "timed":
        return outcome_from_data(parse(what, _text(what, own["samples"])))
    names = ("stage", "cause", "message")
    return Failed(*(message(f"{what}, {name}", own[name]) for name in names))


def _text(what: str, value: object) -> str:
    if not isinstance(value, str):
        raise RecordError(what, "a column changed its type")
    return value
