"""What was acknowledged is stored, whatever happens to the writer or to the disk."""

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansor.errors import RecordError
from ansor.records.database import Database
from measured import doubling, measured

TESTS = Path(__file__).parents[1]
WRITER = """
import sys
from ansor.records.database import Database
from measured import doubling, measured
path, first, last, batch = sys.argv[1], *map(int, sys.argv[2:5])
task = doubling()
with Database(path) as database:
    print("open", flush=True)
    for n in range(first, last, batch):
        made = [measured(task, k) for k in range(n, min(n + batch, last))]
        for record, number in zip(made, database.add_all(task, made)):
            sys.stdout.write(f"{number} {record.created}\\n")
        sys.stdout.flush()
"""


def writer(path, first, last, batch=1):
    """A process that stores records, and says so of each once it is stored."""
    paths = [str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, *map(str, (path, first, last, batch))],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
    )


def acknowledged(lines):
    pairs = (line.split() for line in lines if line.endswith("\n") and line[0] != "o")
    return {int(number): float(created) for number, created in pairs}


def check_kills(path, kills, seed):
    draw = random.Random(seed)
    promised: dict[int, float] = {}
    first = 1
    for _ in range(kills):
        process = writer(path, first, first + 100_000, draw.choice((1, 3, 20)))
        process.stdout.readline()  # it is open
        time.sleep(draw.random() * 0.08)
        process.send_signal(signal.SIGKILL)
        promised |= acknowledged(process.communicate()[0].splitlines(keepends=True))
        first += 100_000
    with Database(path) as database:
        assert database.verify().is_clean
        stored = {record.id: record.created for record in database.records()}
    assert promised.items() <= stored.items()
    assert promised
    return len(promised)


def test_a_killed_writer_loses_nothing_it_acknowledged(tmp_path):
    check_kills(tmp_path / "a.db", kills=5, seed=0)


@pytest.mark.slow
def test_200_kills(tmp_path):
    check_kills(tmp_path / "a.db", kills=200, seed=1)


def check_writers(path, writers, rows):
    running = [writer(path, 1 + n * rows, 1 + (n + 1) * rows) for n in range(writers)]
    texts = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0] * writers
    promised = {}
    for text in texts:
        promised |= acknowledged(text.splitlines(keepends=True))
    with Database(path) as database:
        stored = {record.id: record.created for record in database.records()}
        assert database.verify().is_clean
    assert stored == promised
    assert sorted(stored.values()) == [1e9 + n for n in range(1, writers * rows + 1)]


def test_four_writers_at_once(tmp_path):
    check_writers(tmp_path / "a.db", 4, 20)


@pytest.mark.slow
def test_8_writers_of_1000_rows(tmp_path):
    check_writers(tmp_path / "a.db", 8, 1000)


def test_many_may_create_it_at_the_same_moment(tmp_path):
    for n in range(10):
        start = time.monotonic() + 0.02
        children = [_open_at(start, tmp_path / f"{n}.db") for _ in range(8)]
        statuses = [os.waitpid(child, 0)[1] for child in children]
        assert statuses == [0] * 8


def _open_at(moment, path):
    child = os.fork()
    if not child:
        try:
            time.sleep(max(0.0, moment - time.monotonic()))
            Database(path).close()
            os._exit(0)
        finally:
            os._exit(1)
    return child


def test_a_full_disk_is_named_and_harms_nothing(tmp_path):
    task = doubling()
    with Database(tmp_path / "a.db") as database:
        stored = database.add_all(task, [measured(task, n) for n in range(1, 51)])
        (pages,) = database._store.query("PRAGMA page_count")[0]
        database._store.query(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(RecordError, match="the disk is full\n  hint: free some"):
            database.add_all(task, [measured(task, n) for n in range(51, 500)])
        assert [record.id for record in database.records()] == stored
        database._store.query("PRAGMA max_page_count = 100000")
        assert database.add(task, measured(task, 51)) == 51
        assert database.verify().is_clean


def test_a_file_that_may_not_grow_is_named(tmp_path):
    """As with a quota: the operating system refuses to write."""
    path = tmp_path / "a.db"
    task = doubling()
    Database(path).close()
    child = os.fork()
    if not child:
        status = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
            status = _fill(path, task)
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with Database(path) as database:
        assert database.verify().is_clean
        count = len(database)
        assert count % 20 == 0
        assert count > 0


def _fill(path, task):
    with Database(path) as database:
        for start in range(1, 10_000, 20):
            made = [measured(task, n) for n in range(start, start + 20)]
            try:
                database.add_all(task, made)
            except RecordError as error:
                return 0 if "disk" in str(error) else 2
    return 3


def test_a_lock_that_is_held_is_named(tmp_path):
    path, task = tmp_path / "a.db", doubling()
    with Database(path) as first, Database(path, timeout=0.05) as second:
        with (
            first._store.writing(),
            pytest.raises(RecordError, match="another process holds its lock"),
        ):
            second.add(task, measured(task, 1))
        assert second.add(task, measured(task, 1)) == 1


@pytest.mark.slow
def test_100_000_rows_open_and_answer_within_a_second(tmp_path):
    path, task = tmp_path / "a.db", doubling()
    made = [measured(task, n) for n in range(1, 100_001)]
    with Database(path) as database:
        for start in range(0, len(made), 5000):
            database.add_all(task, made[start : start + 5000])
    start = time.perf_counter()
    with Database(path) as database:
        assert database.best(task, llvm="22.1").seconds == 1e-6
        assert database.best(task).seconds == 1e-6
        assert database.outcome(task, made[77].program) is not None
        assert len(database) == len(made)
    assert time.perf_counter() - start < 1.0
