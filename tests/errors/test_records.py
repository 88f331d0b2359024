"""What people read when a database cannot be used."""

import sqlite3

import pytest

from ansor.errors import RecordError
from ansor.records.database import Database
from ansor.records.outcome import Failed, Timed
from measured import doubling, measured


def message(error: pytest.ExceptionInfo[RecordError], path: object) -> str:
    return str(error.value).replace(str(path), "PATH")


def test_a_missing_directory(tmp_path):
    with pytest.raises(RecordError) as error:
        Database(tmp_path / "none" / "a.db")
    assert message(error, tmp_path) == (
        "database 'PATH/none/a.db': there is no directory 'PATH/none'\n"
        "  hint: create it first"
    )


def test_a_directory(tmp_path):
    with pytest.raises(RecordError) as error:
        Database(tmp_path)
    assert message(error, tmp_path) == (
        "database 'PATH': is a directory\n  hint: name a file in it"
    )


def test_a_missing_file(tmp_path):
    with pytest.raises(RecordError) as error:
        Database(tmp_path / "a.db", "r")
    assert message(error, tmp_path) == (
        "database 'PATH/a.db': there is no such file\n  hint: check its name"
    )


def test_an_unknown_mode(tmp_path):
    with pytest.raises(RecordError) as error:
        Database(tmp_path / "a.db", "w")
    assert message(error, tmp_path) == (
        "database 'PATH/a.db': unknown mode 'w'\n  hint: use \"rw\" or \"r\""
    )


NO_DATABASE = (
    "database 'PATH': is not a records database\n"
    "  hint: choose another path; if it was one, Database.repair(path) or "
    "`ansor records PATH --verify` saves what is intact"
)


@pytest.mark.parametrize("mode", ["rw", "r"])
@pytest.mark.parametrize("lines", [1, 34, 500])
def test_another_kind_of_file(tmp_path, mode, lines):
    path = tmp_path / "notes.txt"
    path.write_text("milk and bread\n" * lines)
    with pytest.raises(RecordError) as error:
        Database(path, mode)
    assert message(error, path) == NO_DATABASE
    assert path.read_text() == "milk and bread\n" * lines


@pytest.mark.parametrize("mode", ["rw", "r"])
def test_a_database_of_another_program(tmp_path, mode):
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE people (name TEXT)")
    connection.commit()
    connection.close()
    with pytest.raises(RecordError) as error:
        Database(path, mode)
    assert message(error, path) == NO_DATABASE


def test_a_newer_schema(tmp_path):
    path = tmp_path / "a.db"
    Database(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(RecordError) as error:
        Database(path)
    assert message(error, path) == (
        "database 'PATH': was written by a newer release (schema 99, this one "
        "knows 2)\n"
        "  hint: update ansor, or export the records there as JSON lines"
    )


def test_a_closed_database(tmp_path):
    database = Database(tmp_path / "a.db")
    database.close()
    with pytest.raises(RecordError) as error:
        database.meta("x")
    assert message(error, tmp_path) == (
        "database 'PATH/a.db': is closed\n  hint: open it again"
    )


def test_a_record_of_another_task(tmp_path):
    task, other = doubling(), doubling(size=7)
    with Database(tmp_path / "a.db") as database, pytest.raises(RecordError) as error:
        database.add(other, measured(task, 1))
    assert str(error.value) == (
        f"record of workload {task.key!r}: the task has workload {other.key!r}\n"
        "  hint: add a record with the task it was made for"
    )


def test_merging_with_itself(tmp_path):
    path = tmp_path / "a.db"
    with Database(path) as database, pytest.raises(RecordError) as error:
        database.merge(path)
    assert message(error, path) == "merge of 'PATH': is this database itself"


def test_pruning_to_nothing(tmp_path):
    with Database(tmp_path / "a.db") as database, pytest.raises(RecordError) as error:
        database.prune(0)
    assert str(error.value) == "prune to 0: keep at least 1 record"


@pytest.mark.parametrize(
    ("kind", "arguments", "text"),
    [
        (
            Timed,
            ((),),
            "timed outcome: has no samples\n  hint: record a failure instead",
        ),
        (
            Timed,
            ((1.0, 0.0),),
            "timed outcome, seconds: 0.0 is not a time\n  hint: times are above 0",
        ),
        (
            Timed,
            ((1.0, 2.0), (1.0,), 1.0),
            "timed outcome: 1 samples of the anchor for 2\n"
            "  hint: time the anchor once beside every sample, or not at all",
        ),
        (
            Failed,
            ("walk", "exit", "x"),
            "failed outcome: unknown stage 'walk'\n"
            "  hint: use one of lower, build, load, check, run",
        ),
        (
            Failed,
            ("run", "exit", ""),
            "failed outcome: its message is empty\n  hint: say what happened",
        ),
    ],
)
def test_outcomes_that_are_none(kind, arguments, text):
    with pytest.raises(RecordError) as error:
        kind(*arguments)
    assert str(error.value) == text


def test_an_unknown_role():
    with pytest.raises(RecordError) as error:
        measured(doubling(), 1, role="hero")
    assert str(error.value) == (
        "record: unknown role 'hero'\n  hint: use one of trial, final"
    )
