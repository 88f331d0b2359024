"""`ansor tune`: progress, results, exit codes, and errors that say what to do."""

import json
import os
import pty
import resource
import select
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from ansor import Database
from ansor.cli.main import cli
from ansor.cli.measuring import Measuring
from ansor.measure import dask
from ansor.records.outcome import Timed
from cli.scripted import CRASH, WRONG, ScriptedRunner, falling, stop_the_clock

MATMUL = ("matmul", "16", "12", "8")
TINY = ("relu", "8", "8")


@pytest.fixture
def db(tmp_path):
    return str(tmp_path / "tuning.db")


@pytest.fixture
def ansor(db):
    """Run `ansor tune …` with a database of its own."""
    return lambda *words: CliRunner().invoke(cli, ["tune", *words, "--db", db])


@pytest.fixture
def scripted(monkeypatch):
    """Let a script decide about outcomes; gives the runner."""

    def use(script):
        stop_the_clock(monkeypatch)
        runner = ScriptedRunner(script)
        monkeypatch.setattr(Measuring, "_runner", lambda self: runner)
        return runner

    return use


def failure(result):
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    return result.stderr.rpartition("ansor: error: ")[2].rstrip()


def command(*words, **options):
    """The shell's `ansor tune`."""
    return subprocess.Popen(
        [sys.executable, "-m", "ansor", "tune", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def hear_ctrl_c() -> None:
    """Even where these tests were started without."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_the_result_and_the_way_to_use_it(ansor, scripted, db):
    runner = scripted(falling)
    result = ansor(*MATMUL, "--trials", "6")
    assert result.exit_code == 0, result.output
    first, trials, stored, use, see = result.stdout.splitlines()
    assert first.startswith("matmul: 1 µs, 3.072 GFLOP/s on cpu ")
    assert trials == "6 trials in 3 s; failed: 2 at check; gain over the first: 5x"
    assert stored == f"stored in {db}; the best is record 7"
    assert use == f"  use it:  ansor.build(task, database={db!r})"
    assert see == f"  see it:  ansor records {db} --best"
    assert runner.is_closed
    with Database(db, "r") as database:
        assert len(database) == 7  # and the one timed side by side


def test_progress_is_lines_on_stderr_where_there_is_no_terminal(ansor, scripted):
    scripted(falling)
    lines = ansor(*MATMUL, "--trials", "6").stderr.splitlines()
    assert lines == [
        "trial 1 of 6: best 1 ms, 0.003072 GFLOP/s, gain 1x, 2 s left",
        "trial 2 of 6: best 500 µs, 0.006144 GFLOP/s, gain 2x, 2 s left",
        "trial 4 of 6: best 250 µs, 0.01229 GFLOP/s, gain 4x, 1 failed, 1 s left",
        "trial 5 of 6: best 200 µs, 0.01536 GFLOP/s, gain 5x, 1 failed, 0 s left",
        "trial 6 of 6: best 200 µs, 0.01536 GFLOP/s, gain 5x, 2 failed, 0 s left",
    ]


def test_quiet_is_one_line(ansor, scripted):
    scripted(falling)
    result = ansor(*MATMUL, "--trials", "6", "--quiet")
    assert (result.stdout, result.stderr) == ("matmul: 1 µs, 3.072 GFLOP/s\n", "")


def test_json_is_all_there_is_on_stdout(ansor, scripted, db):
    scripted(falling)
    found = json.loads(ansor(*MATMUL, "--seconds", "3", "--json").stdout)
    assert found["task"].startswith("matmul: float32[16, 8], float32[8, 12] -> ")
    assert (found["trials"], found["failures"]) == (6, {"check": 2})
    assert (found["complete"], found["database"]) == (True, db)
    assert found["stopped"] == "seconds"
    assert found["best"] == {"record": 5, "seconds": 1e-3 / 5}  # no time to rank
    assert found["seconds"] == 1e-3 / 5
    assert found["history"][-1] == [6, 1e-3 / 5, 3.0]
    assert all(isinstance(step, str) for step in found["steps"])


def test_64_trials_are_the_default(ansor, scripted):
    runner = scripted(falling)
    assert ansor(*MATMUL, "--quiet").exit_code == 0
    assert runner.count == 64


def test_again_with_a_larger_budget_goes_on(ansor, scripted):
    runner = scripted(falling)
    ansor(*MATMUL, "--trials", "4")
    assert "8 trials in 4 s" in ansor(*MATMUL, "--trials", "8").stdout
    assert runner.count == 8


def test_an_interrupted_search_prints_the_best_so_far(ansor, scripted, db):
    def script(number):
        if number == 3:
            raise KeyboardInterrupt
        return falling(number)

    runner = scripted(script)
    result = ansor(*MATMUL)
    assert result.exit_code == 130
    assert result.stdout.startswith("interrupted; the best so far:\nmatmul: 500 µs, ")
    assert runner.is_closed
    with Database(db, "r") as database:
        assert len(database) == 3
    result = ansor(*MATMUL, "--trials", "3", "--json")
    assert json.loads(result.stdout)["complete"]


def test_without_a_single_time_it_says_what_failed(ansor, scripted, db):
    scripted(lambda number: (WRONG, CRASH)[number % 2])
    message = failure(ansor(*MATMUL, "--trials", "5", "--json"))
    assert "none of 5 candidates gave a time: 3 at check (wrong), 2 at run" in message
    assert "output 'relu': 3 of 64 elements differ" in message
    assert "--reproduce" in message
    with Database(db, "r") as database:
        assert len(database) == 5


def test_a_database_that_cannot_be_written(ansor, db, monkeypatch):
    Database(db).close()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    message = failure(ansor(*MATMUL))
    assert message.startswith(f"database {db!r}: cannot be written\n  hint: ")


def test_a_database_in_a_directory_that_does_not_exist(tmp_path):
    path = str(tmp_path / "nowhere" / "tuning.db")
    result = CliRunner().invoke(cli, ["tune", *MATMUL, "--db", path])
    assert "there is no directory" in failure(result)


def test_a_cluster_that_cannot_be_reached(ansor, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(dask, "CONNECT_SECONDS", 1)
    message = failure(ansor(*MATMUL, "--cluster", "tcp://127.0.0.1:1"))
    assert message.startswith("Dask cluster 'tcp://127.0.0.1:1': cannot be reached")
    assert "hint: start `dask scheduler`, check the address, or measure locally" in (
        message
    )


@pytest.mark.llvm
def test_a_target_that_this_machine_cannot_run(ansor):
    message = failure(ansor(*MATMUL, "--target", "cuda", "--arch", "sm_70"))
    assert "this machine cannot run its code" in message


def test_mistakes_of_the_command_line(ansor):
    assert ansor(*MATMUL, "--trials", "0").exit_code == 2
    assert ansor(*MATMUL, "--seconds", "0").exit_code == 2
    assert "is not a time" in failure(ansor(*MATMUL, "--seconds", "inf"))
    assert "policies are 'evolution', 'beam'" in failure(
        ansor(*MATMUL, "--policy", "luck")
    )
    assert failure(ansor(*MATMUL, "--trails", "3")).startswith(
        "matmul … --trails: there is no such size"
    )


def test_cold_and_warm_caches_do_not_share_a_database(ansor, scripted, db):
    scripted(lambda number: Timed((1e-3,)))
    assert ansor(*MATMUL, "--trials", "1", "--cold").exit_code == 0
    assert ansor(*MATMUL, "--trials", "2", "--cold").exit_code == 0
    assert failure(ansor(*MATMUL, "--trials", "1")) == (
        f"database {db!r}: holds times with cold caches\n"
        "  hint: name another file, or add --cold"
    )


@pytest.mark.llvm
def test_a_real_search_keeps_what_it_measured(ansor, db):
    result = ansor(*TINY, "--trials", "3", "--seed", "1", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert 0 < found["seconds"] < 1e-3
    with Database(db, "r") as database:
        assert {x.verified[:6] for x in database.records(role="trial")} == {"seed 1"}


@pytest.mark.llvm
def test_a_full_disk(db):
    limit = 100_000  # bytes of one file
    process = command(
        *(*TINY, "--trials", "4", "--quiet", "--db", db),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    text, errors = process.communicate(timeout=60)
    assert (process.returncode, text) == (1, "")
    assert errors.startswith(f"ansor: error: database {db!r}: the disk ")
    assert "  hint: " in errors


@pytest.mark.llvm
def test_ctrl_c_ends_a_real_search_with_the_best_so_far(db):
    words = (*MATMUL, "--seconds", "60", "--json", "--db", db)
    with command(*words, start_new_session=True, preexec_fn=hear_ctrl_c) as process:
        assert process.stderr.readline().startswith("trial 1: best ")
        os.killpg(process.pid, signal.SIGINT)
        text, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    found = json.loads(text)
    assert not found["complete"]
    with Database(db, "r") as database:
        assert len(database) >= found["trials"] >= 1


@pytest.mark.llvm
def test_a_terminal_gets_a_live_line(db):
    parent, child = pty.openpty()
    words = (*TINY, "--trials", "2", "--db", db)
    process = subprocess.Popen(
        [sys.executable, "-m", "ansor", "tune", *words],
        stdout=subprocess.PIPE,
        stderr=child,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(child)
    shown = drawn(parent)
    text, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert "2/2 best " in shown
    assert "\x1b[" in shown
    assert text.startswith(b"relu: ")


def drawn(terminal: int) -> str:
    """All that a process shows until it closes its terminal."""
    text, end = b"", time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([terminal], [], [], 1)[0]:
            try:
                text += os.read(terminal, 65536)
            except OSError:  # closed
                break
    os.close(terminal)
    return text.decode()
