"""A damaged row is never returned: it is named, set aside, and harms no other."""

import random
import shutil
import sqlite3
from contextlib import suppress

import pytest

from ansor.errors import RecordError
from ansor.records.database import Database
from ansor.records.schema import PAGE
from measured import doubling, measured

ROWS = 300
FLIPS = 12


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """(bytes of a database file, its records by number)"""
    path = tmp_path_factory.mktemp("original") / "a.db"
    task = doubling()
    with Database(path) as database:
        database.add_all(task, [measured(task, n) for n in range(1, ROWS + 1)])
        database.set_meta("run", 1)
        records = {record.id: record for record in database.records()}
    return path.read_bytes(), records


def check_flipped(folder, original, bit):
    """Flip one bit; what is returned is right, and what is missing is named."""
    raw, records = original
    path = folder / "a.db"
    changed = bytearray(raw)
    changed[bit // 8] ^= 1 << bit % 8
    path.write_bytes(changed)
    try:
        with Database(path) as database:
            check_read(database, records)
            report = database.verify()
    except RecordError:  # it does not open
        report = Database.repair(path)
    with Database(path) as database:
        found = {record.id: record for record in database.records()}
        assert found.items() <= records.items()
        missing = set(records) - set(found)
        named = {x.row for x in report.damaged if x.place == "records"}
        assert missing == named, f"bit {bit}"
        assert {x.row for x in database.damaged() if x.place == "records"} == missing
        assert database.verify().is_clean
    return len(missing)


def check_read(database, records):
    with suppress(RecordError):  # where the file is too damaged to go on
        for record in database.records():
            assert record == records[record.id]


def test_a_flipped_bit_costs_one_row_at_most(tmp_path, original):
    draw = random.Random(0)
    for n in range(FLIPS):
        folder = tmp_path / str(n)
        folder.mkdir()
        assert check_flipped(folder, original, draw.randrange(len(original[0]) * 8)) < 2


@pytest.mark.slow
def test_300_flipped_bits(tmp_path, original):
    draw = random.Random(1)
    lost = []
    for _ in range(300):
        shutil.rmtree(tmp_path)
        tmp_path.mkdir()
        bit = draw.randrange(len(original[0]) * 8)
        lost.append(check_flipped(tmp_path, original, bit))
    assert sum(n > 1 for n in lost) <= 3  # a page of rows whose header is hit


@pytest.mark.parametrize("at", [0, 16, 18, 21, 28, 40, 44, 56, 60, 68, 100, 103, 105])
def test_a_damaged_header_loses_nothing(tmp_path, original, at):
    assert check_flipped(tmp_path, original, at * 8 + 1) == 0


def test_a_lost_page_is_named_row_by_row(tmp_path, original):
    raw, records = original
    path = tmp_path / "a.db"
    pages = range(0, len(raw), PAGE)
    row = next(at for at in pages[1:] if raw[at] == 13 and b"seed 7" in raw[at:][:PAGE])
    path.write_bytes(raw[:row] + bytes(PAGE) + raw[row + PAGE :])
    with Database(path) as database:
        report = database.verify()
        found = {record.id for record in database.records()}
        assert database.meta("run") == 1
    lost = {damage.row for damage in report.damaged}
    assert lost
    assert found | lost == set(records)
    assert "is kept as 'a.db.damaged-1'" in report.notes[0]
    kept = path.with_name("a.db.damaged-1").read_bytes()
    assert kept[PAGE:row] == raw[PAGE:row]


def test_repair_reads_the_log_of_a_killed_writer(tmp_path, original, task, make):
    path, copy = tmp_path / "a.db", tmp_path / "b.db"
    path.write_bytes(original[0])
    with Database(path) as database:
        number = database.add(task, make(task, 999))
        shutil.copy(path, copy)
        shutil.copy(f"{path}-wal", f"{copy}-wal")
    with copy.open("r+b") as file:
        file.write(b"no longer SQLite")
    with pytest.raises(RecordError, match="not a records database"):
        Database(copy)
    report = Database.repair(copy)
    assert report.intact == ROWS + 1
    with Database(copy) as database:
        assert [x.id for x in database.records()][-1] == number


def test_a_copy_taken_while_others_write_is_read_or_repaired(
    tmp_path, original, task, make
):
    """The file and its log are copied at different moments."""
    path = tmp_path / "a.db"
    path.write_bytes(original[0])
    with Database(path) as database:
        for n in range(5):
            made = [make(task, 1000 + 200 * n + k) for k in range(200)]
            shutil.copy(path, tmp_path / f"{n}.db")
            database.add_all(task, made)
            shutil.copy(f"{path}-wal", tmp_path / f"{n}.db-wal")
        records = {record.id: record for record in database.records()}
    for n in range(5):
        with Database(tmp_path / f"{n}.db") as copy:
            copy.verify()
            found = {record.id: record for record in copy.records()}
        assert found.items() <= records.items()
        assert len(found) >= ROWS


def test_repair_waits_for_nobody(tmp_path, original):
    path = tmp_path / "a.db"
    path.write_bytes(original[0])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(RecordError, match="another process has it open"):
        Database.repair(path)
    other.close()


def test_a_writer_follows_to_the_repaired_file(tmp_path, original, task, make):
    path = tmp_path / "a.db"
    path.write_bytes(original[0])
    with Database(path) as writer:
        raw = tmp_path / "raw.db"
        raw.write_bytes(original[0])
        raw.replace(path)  # as a repair does
        number = writer.add(task, make(task, 999))
    with Database(path) as database:
        assert database.outcome(task, make(task, 999).program).id == number


def test_rows_from_elsewhere_do_not_fit(tmp_path, original):
    """Exchanging rows, references or numbers is seen as well."""
    path = tmp_path / "a.db"
    path.write_bytes(original[0])
    connection = sqlite3.connect(path)
    connection.execute("UPDATE records SET estimate = estimate / 2 WHERE id = 1")
    connection.execute("UPDATE records SET id = 9999 WHERE id = 2")
    connection.execute("UPDATE records SET sketch = 1 WHERE id = 3")
    connection.execute("UPDATE records SET role = 'final' WHERE id = 4")
    connection.execute("UPDATE records SET host = x'00ff' WHERE id = 5")
    connection.execute("UPDATE meta SET value = '2'")
    connection.commit()
    connection.close()
    with Database(path) as database:
        assert len(list(database.records())) == ROWS - 5
        assert database.meta("run") is None
        assert len(database.notes) == 6
        report = database.verify()
    rows = {damage.row for damage in report.damaged}
    assert rows == {1, 9999, 3, 4, 5, "run"}


def test_a_file_without_any_row_is_not_replaced(tmp_path):
    path = tmp_path / "a.db"
    path.write_bytes(b"hello" * 3000)
    with pytest.raises(RecordError, match="no row of it can be read"):
        Database.repair(path)
    assert path.read_bytes() == b"hello" * 3000
