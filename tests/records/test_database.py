"""What goes into the database comes out again, to those it belongs to."""

import os
import sqlite3
import tempfile
from dataclasses import replace

import pytest

from ansor.errors import RecordError
from ansor.records.database import Database
from ansor.records.outcome import Failed, Timed
from ansor.records.schema import APPLICATION, MIGRATIONS, VERSION
from ansor.schedule import from_data
from ansor.target import Target

ELSEWHERE = Target("x86_64", cpu="haswell", cores=4)


@pytest.fixture
def database(tmp_path):
    with Database(tmp_path / "tuning.db") as opened:
        yield opened


def stored(record, number, database, task):
    return replace(record, id=number, form=next(database.records(task)).form)


def test_records_return_as_they_were(database, task, make):
    records = [make(task, n) for n in range(1, 31)]
    numbers = database.add_all(task, records)
    assert numbers == list(range(1, 31))
    found = list(database.records())
    assert found == [stored(x, x_id, database, task)
                     for x, x_id in zip(records, numbers, strict=True)]  # fmt: skip
    assert len(database) == 30


def test_they_are_there_after_reopening(tmp_path, task, make):
    with Database(tmp_path / "a.db") as database:
        database.add(task, make(task, 3))
    with Database(tmp_path / "a.db") as database:
        (record,) = database.records()
    assert record.seconds == 3e-6


def test_an_equal_record_is_stored_once(database, task, make):
    assert database.add(task, make(task, 1)) == database.add(task, make(task, 1))
    assert len(database) == 1


def test_a_batch_is_stored_whole_or_not_at_all(database, task, make, make_task):
    other = make_task(size=99)
    with pytest.raises(RecordError, match="the task has workload"):
        database.add_all(task, [make(task, 1), make(other, 2)])
    assert len(database) == 0


def test_outcome_tells_what_has_been_measured(database, task, make, make_task):
    record = make(task, 7)
    assert database.outcome(task, record.program) is None
    database.add(task, record)
    assert database.outcome(task, record.program).seconds == record.seconds
    assert database.outcome(task, make(task, 8).program) is None
    assert database.outcome(task, record.program, llvm="21") is None
    there = make_task(target=ELSEWHERE)
    assert database.outcome(there, record.program) is None


def test_finals_are_no_trials(database, task, make):
    database.add(task, make(task, 7, role="final"))
    assert database.outcome(task, make(task, 7).program) is None


def test_the_best_is_the_fastest_verified(database, task, make):
    records = [make(task, n) for n in (9, 4, 6, 10)]
    records.append(make(task, 1, verified=""))
    database.add_all(task, records)
    assert database.best(task).seconds == 4e-6


def test_finals_go_before_trials(database, task, make):
    database.add_all(task, [make(task, 2), make(task, 4, role="final")])
    assert database.best(task).seconds == 4e-6


def test_only_this_target_and_this_llvm_count(database, task, make, make_task):
    there = make_task(target=ELSEWHERE)
    database.add(there, make(there, 1))
    assert database.best(task) is None
    database.add(task, make(task, 2, versions={"llvm": "21"}))
    database.add(task, make(task, 3))
    assert database.best(task, llvm="22.1").seconds == 3e-6
    assert database.best(task, llvm="20") is None
    seeds = [record.seconds for record in database.seeds(task, llvm="22.1")]
    assert seeds == [1e-6, 2e-6]
    assert [x.seconds for x in database.seeds(task)] == [1e-6]
    assert len(list(database.seeds(task, llvm="22.1", limit=1))) == 1


def test_records_by_task_target_and_role(database, task, make, make_task):
    other, there = make_task(size=99), make_task(target=ELSEWHERE)
    for n, each in enumerate((task, other, there), 1):
        database.add(each, make(each, n, role="final" if n == 2 else "trial"))
    assert [x.id for x in database.records(task)] == [1, 3]
    assert [x.id for x in database.records(task, target=there.target.fingerprint)] == [
        3
    ]
    assert [x.id for x in database.records(role="final")] == [2]
    with pytest.raises(RecordError):
        list(database.records(role="hero"))


def test_programs_replay_on_the_names_they_were_made_with(
    database, task, make, make_task
):
    database.add(task, make(task, 5))
    renamed = make_task(name="Other")
    assert renamed.key == task.key
    known = database.task(renamed)
    assert known.dag == task.dag
    best = database.best(renamed)
    assert from_data(known, best.program).point == (5,)
    database.add(renamed, make(renamed, 3))
    best = database.best(task)
    replayed = from_data(database.task_of(best), best.program)
    assert replayed.task.dag == renamed.dag
    assert replayed.task.target == task.target


def test_an_unknown_task_is_returned_as_it_is(database, task):
    assert database.task(task) is task


def test_meta_holds_small_values(database):
    assert database.meta("run") is None
    database.set_meta("run", {"trials": 7, "seed": [1, None]})
    database.set_meta("run", {"trials": 8})
    assert database.meta("run") == {"trials": 8}


def test_prune_keeps_the_fastest_the_last_failures_and_finals(database, task, make):
    records = [make(task, n) for n in range(1, 41)]
    database.add_all(task, [*records, make(task, 39, role="final", created=3.0)])
    assert database.prune(keep=3) == 40 - 3 - 3
    kept = list(database.records())
    assert [x.seconds for x in kept if isinstance(x.outcome, Timed)] == [
        1e-6, 2e-6, 3e-6, pytest.approx(39e-6)
    ]  # fmt: skip
    assert [x.id for x in kept if isinstance(x.outcome, Failed)] == [20, 30, 40]
    assert database.verify().is_clean
    assert database.add(task, make(task, 77)) == 42


def test_merging_takes_every_record_once(tmp_path, database, task, make, make_task):
    renamed = make_task(name="Other")
    with Database(tmp_path / "other.db") as other:
        other.add_all(renamed, [make(renamed, n) for n in range(1, 12)])
        database.add_all(task, [make(task, n) for n in range(5, 8)])
        first = database.merge(other)
        again = database.merge(other.path)
    assert (first.added, first.known, first.refused) == (11, 0, 0)
    assert (again.added, again.known, again.refused) == (0, 11, 0)
    assert len(database) == 14
    best = database.best(task)
    assert best.seconds == 1e-6
    assert from_data(database.task_of(best), best.program).point == (1,)
    assert database.verify().is_clean


def test_a_forked_child_has_its_own_connection(database, task, make):
    database.add(task, make(task, 1))
    child = os.fork()
    if not child:
        try:
            database.add(task, make(task, 2))
            database.close()
        finally:
            os._exit(len(list(Database(database.path).records())) - 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert database.add(task, make(task, 3)) == 3


def test_a_file_of_the_first_version_is_brought_up_to_date(tmp_path, task, make):
    path = tmp_path / "old.db"
    with Database(path) as database:
        database.add_all(task, [make(task, n) for n in range(1, 12)])
    old = tmp_path / "v1.db"
    connection = sqlite3.connect(old)
    for statement in MIGRATIONS[0]:
        connection.execute(statement)
    connection.execute("ATTACH ? AS new", (str(path),))
    for table in ("contents", "spares", "records"):
        connection.execute(f"INSERT INTO {table} SELECT * FROM new.{table}")
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()
    with pytest.raises(RecordError, match="older release"):
        Database(old, "r")
    with Database(old) as database, Database(path) as new:
        assert list(database.records()) == list(new.records())
        database.set_meta("a", 1)
        assert database.verify().is_clean
    assert VERSION == 2


def test_reading_changes_nothing(tmp_path, task, make):
    path = tmp_path / "a.db"
    with Database(path) as database:
        database.add(task, make(task, 1))
    before = path.read_bytes()
    with Database(path, "r") as database:
        assert database.best(task).seconds == 1e-6
        assert database.verify().is_clean
        with pytest.raises(RecordError, match="for reading only"):
            database.add(task, make(task, 2))
    assert path.read_bytes() == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs to give up rights")
def test_a_directory_that_cannot_be_written_is_read(task, make):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = f"{folder}/a.db"
        with Database(path) as database:
            database.add(task, make(task, 1))
        child = os.fork()
        if not child:
            try:
                os.setuid(65534)
                os._exit(_look_without_rights(path, task))
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _look_without_rights(path, task):
    with Database(path, "r") as database:
        if database.best(task).seconds != 1e-6:
            return 2
    try:
        Database(path)
    except RecordError as error:
        return 0 if "cannot be written" in str(error) else 4
    return 3


def test_foreign_tables_are_refused(tmp_path, task, make):
    path = tmp_path / "a.db"
    with Database(path) as database:
        database.add(task, make(task, 1))
    connection = sqlite3.connect(path)
    connection.execute(
        "CREATE TRIGGER act AFTER INSERT ON records BEGIN DELETE FROM records; END"
    )
    connection.commit()
    connection.close()
    for mode in ("rw", "r"):
        with pytest.raises(RecordError, match="its tables are not ours: act"):
            Database(path, mode)
