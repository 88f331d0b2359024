"""The database of records: what was measured, and what was best."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import TracebackType

from ansor.errors import AnsorError, RecordError
from ansor.reading import Data
from ansor.records import integrity, jsonl
from ansor.records.connection import translated
from ansor.records.integrity import Damage, Report
from ansor.records.jsonl import Loaded
from ansor.records.record import ROLES, Record
from ansor.records.rows import (
    Content,
    Contents,
    program_hash,
    short_hash,
    sketch_content,
    target_content,
    workload_content,
)
from ansor.records.store import Store
from ansor.records.text import canonical, parse, read
from ansor.target import Target
from ansor.target.data import target_from_data
from ansor.te.dag import DAG
from ansor.te.data import dag_from_data
from ansor.te.key import workload_key
from ansor.te.task import Task

WAIT = 30.0  # seconds for the lock of another writer
SEEDS = 64
TASKS = 200  # that are looked at, of many


class Database:
    """Records in one file, shared by any number of processes.

    What `add` has returned is stored: killing the process at any moment loses nothing
    of it. Rows carry checksums; a damaged one is never returned, `verify` names it and
    sets it aside. `notes` says what a person should know, such as rows left out.

    A workload is known by its key, which ignores names, but steps name stages. So a
    record belongs to the DAG with the names that it was made with: ask `task` for the
    form of a task to make programs of, and `task_of` for that of a record.

        mode      "rw", or "r" to read only
        durable   survive a power cut, too; False is faster and survives a kill
        timeout   seconds to wait for the lock of another writer

    >>> import tempfile, ansor
    >>> from ansor.schedule import Sketch, to_data
    >>> A = ansor.placeholder((31,), name="A")
    >>> task = ansor.Task(ansor.compute((31,), lambda i: A[i] * 2.0, name="B"))
    >>> program = to_data(Sketch(task).program())
    >>> timed = ansor.Timed((2e-6, 3e-6, 2e-6))
    >>> record = ansor.Record(task.key, task.target.fingerprint, program, timed,
    ...                       verified="seed 0", versions={"llvm": "22.1"})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with ansor.Database(f"{folder}/tuning.db") as database:
    ...         number = database.add(task, record)
    ...         best = database.best(task, llvm="22.1")
    >>> number, best.seconds, best.program == program
    (1, 2e-06, True)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: str = "rw",
        *,
        durable: bool = True,
        timeout: float = WAIT,
    ) -> None:
        self.path = Path(path)
        self._store = Store(self.path, mode, durable, timeout)
        self._last: tuple[Task, Content, Content] | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know of this file, each once."""
        return tuple(self._store.notes)

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        ((count,),) = self._store.query("SELECT count(*) FROM records")
        return int(str(count))

    def __repr__(self) -> str:
        return f"Database({str(self.path)!r})"

    # -- tasks ------------------------------------------------------------------------

    def task(self, task: Task) -> Task:
        """The task as this database knows it: with the names of its first records.

        The task itself if there is none yet.
        """
        for _, content in self._store.find("workload", task.key):
            dag = self._dag(content)
            if dag is not None:
                return Task.from_dag(dag, task.target, task.weight)
        return task

    def task_of(self, record: Record, target: Target | None = None) -> Task:
        """The task that a record's program replays on; its own target, or another."""
        content = self._store.by_hash("workload", record.form)
        dag = None if content is None else self._dag(content)
        if dag is None:
            raise RecordError(
                f"record {record.id}", f"its DAG {record.form!r} is not stored here"
            )
        return Task.from_dag(dag, target or self._target(record.target))

    def _dag(self, content: Content) -> DAG | None:
        with suppress(AnsorError):
            dag = dag_from_data(content.parsed)
            if workload_key(dag) == content.key:
                return dag
        self._store.note(f"the DAG of workload {content.key} cannot be read; left out")
        return None

    def _target(self, fingerprint: str) -> Target:
        for _, content in self._store.find("target", fingerprint):
            return target_from_data(content.parsed)
        raise RecordError(f"target {fingerprint!r}", "is not stored here")

    # -- writing ----------------------------------------------------------------------

    def add(self, task: Task, record: Record) -> int:
        """Store a record of the task; its row. An equal one is stored once."""
        return self.add_all(task, [record])[0]

    def add_all(self, task: Task, records: Iterable[Record]) -> list[int]:
        """Store records, all or none; stored when it returns. Their rows."""
        workload, target = self._shared(task)
        made = []
        for record in records:
            _check_fits(task, record)
            sketch = sketch_content(workload.hash, record.program)
            made.append((record, Contents(workload, target, sketch)))
        rows: dict[str, int] = {}
        with self._store.writing():
            return [self._insert(record, contents, rows) for record, contents in made]

    def _insert(self, record: Record, contents: Contents, rows: dict[str, int]) -> int:
        for content in (contents.workload, contents.target, contents.sketch):
            if content.hash not in rows:
                rows[content.hash] = self._store.put(content)
        references = tuple(rows[found] for found in contents.hashes)
        return self._store.insert(record, contents, references)[0]

    def _shared(self, task: Task) -> tuple[Content, Content]:
        """The named DAG and the target; remembered, since tasks come again."""
        if self._last is None or self._last[0] is not task:
            made = workload_content(task.dag), target_content(task.target)
            self._last = (task, *made)
        return self._last[1:]

    def prune(self, keep: int) -> int:
        """Delete all but the `keep` fastest and the `keep` last failed trials of each
        workload, target and LLVM; final records stay. The number of deleted ones.

        A search that resumes may measure what was deleted again.
        """
        if not isinstance(keep, int) or keep < 1:
            raise RecordError(f"prune to {keep!r}", "keep at least 1 record")
        ranked = (
            "SELECT id, row_number() OVER (PARTITION BY workload, target, llvm, kind"
            " ORDER BY estimate, id DESC) AS rank FROM records WHERE role = 'trial'"
        )
        with self._store.writing() as connection:
            (last,) = connection.execute("SELECT max(id) FROM records").fetchone()
            found = connection.execute(
                f"DELETE FROM records WHERE id != ? AND id IN "
                f"(SELECT id FROM ({ranked}) WHERE rank > ?)", (last, keep),
            )  # fmt: skip
            count = found.rowcount
        with suppress(RecordError), translated(self.path):
            self._store.connection.execute("VACUUM")  # not while others write
            self._store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return count

    # -- asking -----------------------------------------------------------------------

    def outcome(self, task: Task, program: Data, llvm: str = "") -> Record | None:
        """The last trial of this very program on the task's target, if there is one.

        `program` is `to_data(program)` of a program of this very task. With `llvm`,
        only what this version of LLVM compiled counts.
        """
        workload, target = self._shared(task)
        sketch = sketch_content(workload.hash, program)
        found = program_hash(sketch, program["point"])
        where, arguments = "program = ? AND role = 'trial'", [found]
        if llvm:
            where, arguments = f"{where} AND llvm = ?", [*arguments, llvm]
        last = None
        for record, contents in self._store.scan(where, arguments):
            if contents.target.key == target.key and contents.sketch == sketch:
                last = record
        return last

    def best(self, task: Task, llvm: str = "") -> Record | None:
        """The fastest verified record of the workload on this very target.

        If programs were ranked, the winner of the last ranking: they were timed side by
        side, and the best one known before took part. With `llvm`, only what this
        version of LLVM compiled counts, as it should where the time is to be relied on.
        Replay its program on `task_of(record)`.
        """
        for record in self.ranking(task, llvm):
            if record.seconds is not None:
                return record
        found = [
            record
            for where, arguments in self._places(task, "trial", llvm)
            for record in self._first(task, where, arguments)
        ]
        return min(found, key=lambda x: (x.seconds, x.id), default=None)

    def ranking(self, task: Task, llvm: str = "") -> list[Record]:
        """The final records of the workload on this target that were stored last: one
        ranking, the winner first; those that failed in it, too."""
        found = [
            record
            for where, arguments in self._places(task, "final", llvm)
            for record, _ in self._store.scan(where, arguments)
        ]
        last = max((record.created for record in found), default=0.0)
        return [record for record in found if record.created == last]

    def record(self, number: int) -> Record | None:
        """The record of this row, if it is there and intact."""
        for record, _ in self._store.scan("id = ?", (number,)):
            return record
        return None

    def _places(
        self, task: Task, role: str, llvm: str
    ) -> Iterator[tuple[str, list[object]]]:
        """One condition for each named form and each description of the target."""
        targets = list(self._store.find("target", task.target.fingerprint))
        for workload, _ in self._store.find("workload", task.key):
            for target, _ in targets:
                where = "workload = ? AND target = ? AND role = ?"
                arguments: list[object] = [workload, target, role]
                if llvm:
                    where, arguments = f"{where} AND llvm = ?", [*arguments, llvm]
                yield where, arguments

    def _first(
        self, task: Task, where: str, arguments: Sequence[object]
    ) -> Iterator[Record]:
        for record, _ in self._store.fastest(where, arguments):
            if (record.workload, record.target) == (task.key, task.target.fingerprint):
                yield record
                return

    def records(
        self,
        task: Task | None = None,
        target: str | None = None,
        role: str | None = None,
    ) -> Iterator[Record]:
        """All intact records in the order they were stored: of a workload (whatever
        its names and target), of a target by its fingerprint, of a role."""
        if role is not None and role not in ROLES:
            raise RecordError(f"records of role {role!r}", "unknown role")
        where, arguments = _wanted(task, target, role)
        for record, _ in self._store.scan(where, arguments):
            if task is None or record.workload == task.key:
                yield record

    def seeds(self, task: Task, llvm: str = "", limit: int = SEEDS) -> Iterator[Record]:
        """Programs that were good for the workload elsewhere: on another target or, if
        given, with another LLVM. Their times say nothing here: measure them again."""
        where = (
            "workload IN (SELECT id FROM contents WHERE kind = 'workload' AND key = ?)"
            " AND (target NOT IN (SELECT id FROM contents WHERE kind = 'target' AND"
            " key = ?) OR (? != '' AND llvm != ?))"
        )
        arguments = (task.key, task.target.fingerprint, llvm, llvm)
        for record, _ in self._store.fastest(where, arguments):
            if limit <= 0:
                return
            limit -= 1
            yield record

    @property
    def last(self) -> int:
        """The number of the record that was stored last; 0 if there is none."""
        ((number,),) = self._store.query("SELECT max(id) FROM records")
        return int(str(number or 0))

    def tasks(self, last: int, limit: int = TASKS) -> Iterator[Task]:
        """The tasks with trials among the records up to number `last`, each workload
        and target once, those that were worked on last first."""
        query = (
            "SELECT workload, target FROM records WHERE id <= ? AND role = 'trial'"
            " GROUP BY workload, target ORDER BY max(id) DESC LIMIT ?"
        )
        found: set[tuple[str, str]] = set()
        for form, machine in self._store.query(query, (last, limit)):
            with suppress(AnsorError):  # damaged contents are noted where they are read
                workload, target = map(self._store.content, (form, machine))
                dag = self._dag(workload)
                if dag is not None and (workload.key, target.key) not in found:
                    found.add((workload.key, target.key))
                    yield Task.from_dag(dag, target_from_data(target.parsed))

    def fastest(self, task: Task, last: int, limit: int) -> Iterator[Record]:
        """The fastest verified trials of a task up to number `last`, each program as
        often as it was measured. Replay one on `task_of(record)`."""
        found = [
            record
            for where, arguments in self._places(task, "trial", "")
            for record, _ in islice(
                self._store.fastest(f"{where} AND id <= ?", [*arguments, last]), limit
            )
        ]
        found.sort(key=lambda x: (x.seconds, x.id))
        yield from found[:limit]

    # -- other files ------------------------------------------------------------------

    def merge(self, other: Database | str | os.PathLike[str]) -> Loaded:
        """Take over all records of another database; those that are here stay single.

        Everything is checked as if it came from a stranger.
        """
        if not isinstance(other, Database):
            with Database(other, "r") as opened:
                return self.merge(opened)
        if self.path.resolve() == other.path.resolve():
            raise RecordError(f"merge of {str(self.path)!r}", "is this database itself")
        return jsonl.take(self._store, jsonl.lines(other._store.scan("1", ())))

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write all intact records as lines of JSON; how many. See `records.jsonl`."""
        return jsonl.write_lines(Path(path), self._store.scan("1", ()))

    def load(self, path: str | os.PathLike[str]) -> Loaded:
        """Take over the records that `export` wrote, here or elsewhere.

        A line that is malformed, altered or does not replay is refused; the result
        counts them and names the first by line and reason.
        """
        return jsonl.take(self._store, jsonl.read_lines(Path(path)))

    # -- care -------------------------------------------------------------------------

    def verify(self) -> Report:
        """Check the file and every row; damaged rows are named and set aside.

        Of a file that SQLite cannot read any more, what is intact moves to a fresh
        one. This does not run programs again.
        """
        with translated(self.path):
            return integrity.verify(self._store)

    @staticmethod
    def repair(path: str | os.PathLike[str]) -> Report:
        """Save what is intact of a file that does not open any more."""
        with translated(Path(path)):
            return integrity.repair(Path(path))

    def damaged(self) -> list[Damage]:
        """All rows that were set aside so far."""
        rows = self._store.query("SELECT place, row, reason FROM damaged ORDER BY id")
        return [Damage(str(place), row, str(why)) for place, row, why in rows]

    def meta(self, key: str) -> object:
        """What `set_meta` stored under a name; None if nothing, or if it is damaged."""
        query = "SELECT value, checksum FROM meta WHERE key = ?"
        for value, check in self._store.query(query, (key,)):
            if short_hash(key, value) == check:
                return parse(f"meta {key!r}", str(value))
            self._store.note(f"meta {key!r}: its checksum does not match; left out")
        return None

    def set_meta(self, key: str, value: object) -> None:
        """Store a small value that JSON can hold, such as the state of a search."""
        text = canonical(value)
        row = (read.text("meta", key), text, short_hash(key, text))
        with self._store.writing() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", row)


def _check_fits(task: Task, record: Record) -> None:
    for name, own, given in (
        ("workload", record.workload, task.key),
        ("target", record.target, task.target.fingerprint),
    ):
        if own != given:
            raise RecordError(
                f"record of {name} {own!r}",
                f"the task has {name} {given!r}",
                "add a record with the task it was made for",
            )


def _wanted(
    task: Task | None, target: str | None, role: str | None
) -> tuple[str, list[object]]:
    conditions, arguments = ["1"], []
    inside = "{} IN (SELECT id FROM contents WHERE kind = '{}' AND key = ?)"
    if task is not None:
        conditions.append(inside.format("workload", "workload"))
        arguments.append(task.key)
    if target is not None:
        conditions.append(inside.format("target", "target"))
        arguments.append(target)
    if role is not None:
        conditions.append("role = ?")
        arguments.append(role)
    return " AND ".join(conditions), list(arguments)
