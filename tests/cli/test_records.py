"""`ansor records`: look, check, run again, move."""

import json
import os

import pytest
from click.testing import CliRunner

from ansor import Database
from ansor.cli.main import cli
from ansor.cli.measuring import Measuring
from ansor.records.outcome import Timed
from cli.scripted import CRASH, WRONG, ScriptedRunner, falling, stop_the_clock

MATMUL = ("matmul", "16", "12", "8")


@pytest.fixture
def use(monkeypatch):
    """Let a script decide about outcomes."""
    return lambda script: monkeypatch.setattr(
        Measuring, "_runner", lambda self: ScriptedRunner(script)
    )


@pytest.fixture
def db(tmp_path, use, monkeypatch):
    """Six trials of a matrix product, two of which failed, and one timed again."""
    path = tmp_path / "tuning.db"
    stop_the_clock(monkeypatch)
    use(falling)
    words = ["tune", *MATMUL, "--trials", "6", "--quiet", "--db", str(path)]
    assert CliRunner().invoke(cli, words).exit_code == 0
    return path


@pytest.fixture
def ansor(db):
    """Run `ansor records tuning.db …`."""
    return lambda *words: CliRunner().invoke(cli, ["records", str(db), *words])


def as_json(result, code=0):
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def rows(result):
    assert result.exit_code == 0, result.output
    return [line.strip() for line in result.stdout.splitlines()]


def failure(result):
    assert result.exit_code == 1
    assert result.stdout == ""
    return result.stderr.removeprefix("ansor: error: ").rstrip()


def test_the_table_tells_what_where_how_fast_and_when(ansor):
    head, first, *_, last, empty, count = rows(ansor())
    assert head.split() == [
        "id",
        "task",
        "target",
        "outcome",
        "GFLOP/s",
        "role",
        "when",
    ]
    task = "matmul: float32[16, 8], float32[8, 12] -> float32[16, 12]"
    assert first.startswith(f"1  {task}  cpu ")
    assert "1 ms" in first
    assert "0.003072  trial  20" in first
    assert "final" in last
    assert (empty, count) == ("", "7 records")


def test_quiet_is_rows_only(ansor):
    assert rows(ansor("--quiet")) == rows(ansor())[1:-2]


def test_limit_shows_the_newest(ansor):
    assert rows(ansor("--limit", "2"))[-1] == "7 records; 5 not shown"
    assert [x["id"] for x in as_json(ansor("--limit", "2", "--json"))] == [6, 7]


def test_best_and_failures_and_workloads(ansor):
    assert [x["id"] for x in as_json(ansor("--best", "--json"))] == [7]
    assert [x["id"] for x in as_json(ansor("--failures", "--json"))] == [3, 6]
    assert "check, wrong: output 'relu': 3 of 64" in ansor("--failures").stdout
    assert len(as_json(ansor("--workload", "matmul", "--json"))) == 7
    key = as_json(ansor("--best", "--json"))[0]["workload"]
    assert len(as_json(ansor("--workload", key[:12], "--json"))) == 7
    assert as_json(ansor("--workload", "softmax", "--json")) == []


def test_json_has_everything_but_the_program(ansor):
    timed, _, failed, *_ = as_json(ansor("--json"))
    assert timed["seconds"] == 1e-3
    assert timed["outcome"]["seconds"] == [1e-3]
    found = (timed["role"], timed["verified"], timed["spent"])
    assert found == ("trial", "scripted", 0.5)
    assert {"ansor", "llvm", "numpy", "python"} == set(timed["versions"])
    assert failed["seconds"] is None
    assert failed["outcome"]["stage"] == "check"


def test_looking_needs_no_right_to_write(ansor, db):
    db.chmod(0o444)
    assert rows(ansor())[-1] == "7 records"


def test_verify_runs_the_best_again(ansor, use):
    use(lambda number: Timed((2e-6,)))
    result = ansor("--verify")
    assert result.exit_code == 0, result.output
    first, second = result.stdout.splitlines()
    assert first == "7 records intact, 0 rows damaged"
    assert second.startswith("record 7, matmul: ")
    assert second.endswith("recorded 1 µs, now right, 2 µs")


def test_verify_reports_a_wrong_result(ansor, use):
    use(lambda number: WRONG)
    found = as_json(ansor("--verify", "--json"), code=1)
    assert (found["ok"], found["intact"], found["damaged"]) == (False, 7, [])
    (again,) = found["again"]
    assert (again["record"], again["ok"]) == (7, False)
    assert again["now"]["cause"] == "wrong"
    assert "now FAILED check, wrong: output" in ansor("--verify").stdout


def test_verify_saves_what_is_intact_of_a_damaged_file(ansor, db):
    with Database(db) as database:
        database._store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(db.read_bytes())
    content[:100] = os.urandom(100)  # the header: SQLite does not open it any more
    db.write_bytes(content)
    assert "--verify` saves what is intact" in failure(ansor())
    found = as_json(ansor("--verify", "--json"), code=1)
    assert found["intact"] == 7
    assert "the damaged file is kept" in found["notes"][0]
    assert as_json(ansor("--verify", "--json"))["ok"]


def test_reproduce_says_whether_it_fails_as_recorded(ansor, use):
    use(lambda number: WRONG)
    result = ansor("--reproduce", "3")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("def matmul(A: float32[16, 8], B: float32[8, 12])")
    assert result.stdout.endswith("\nas recorded\n")
    assert f"recorded: {WRONG}\nnow:      {WRONG}\n" in result.stdout
    use(lambda number: CRASH)
    found = as_json(ansor("--reproduce", "3", "--json"), code=1)
    assert not found["as_recorded"]
    assert (found["recorded"]["cause"], found["now"]["cause"]) == ("wrong", "crash")
    assert found["loops"].startswith("def matmul(")


def test_reproduce_of_what_does_not_exist(ansor, db):
    for number in ("0", "8", "-1"):
        assert failure(ansor("--reproduce", number)) == (
            f"record {number}: {str(db)!r} has no such record\n"
            f"  hint: `ansor records {db}` lists them"
        )


@pytest.mark.llvm
def test_reproduce_really_builds_and_runs(ansor, monkeypatch):
    monkeypatch.undo()
    found = as_json(ansor("--reproduce", "1", "--json"))
    assert found["as_recorded"]
    assert found["now"]["seconds"]
    result = ansor("--reproduce", "3")  # which was said to be wrong, but is not
    assert result.exit_code == 1
    assert result.stdout.endswith("\nNOT as recorded\n")


@pytest.mark.llvm
def test_verify_really_runs(ansor, monkeypatch):
    monkeypatch.undo()
    found = as_json(ansor("--verify", "--json"))
    assert [x["ok"] for x in found["again"]] == [True]


def test_export_and_import(ansor, tmp_path):
    lines, other = str(tmp_path / "all.jsonl"), str(tmp_path / "other.db")
    assert as_json(ansor("--export", lines, "--json")) == {"exported": 7, "to": lines}
    words = ["records", other, "--import", lines]
    assert CliRunner().invoke(cli, words).stdout == "7 added, 0 known, 0 refused\n"
    assert CliRunner().invoke(cli, words).stdout == "0 added, 7 known, 0 refused\n"


def test_a_refused_line_is_named_and_the_exit_code_is_1(ansor, tmp_path):
    lines = tmp_path / "all.jsonl"
    ansor("--export", str(lines))
    text = lines.read_text() + "{}\n"
    lines.write_text(text)
    result = ansor("--import", str(lines))
    assert result.exit_code == 1
    assert result.stdout.startswith(
        f"0 added, 7 known, 1 refused\n  line {text.count(chr(10))}: "
    )


def test_merge_and_prune(ansor, db, tmp_path):
    other = str(tmp_path / "other.db")
    words = ["records", other, "--merge", str(db), "--json"]
    assert as_json(CliRunner().invoke(cli, words))["added"] == 7
    assert "is this database itself" in failure(ansor("--merge", str(db)))
    assert ansor("--prune", "1").stdout.endswith(" left\n")
    assert as_json(ansor("--best", "--json"))[0]["id"] == 7


def test_one_action_at_a_time(ansor):
    result = ansor("--verify", "--import", "x.jsonl")
    assert result.exit_code == 2
    assert "--verify and --import are given: ask for one at a time" in result.stderr


@pytest.mark.parametrize("words", [(), ("--verify",), ("--prune", "3")])
def test_a_file_that_does_not_exist_is_not_made(tmp_path, words):
    path = tmp_path / "typo.db"
    result = CliRunner().invoke(cli, ["records", str(path), *words])
    assert "there is no such file" in failure(result)
    assert not path.exists()


def test_something_else_than_a_database(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello " * 1000)
    for words in ([], ["--verify"]):
        assert CliRunner().invoke(cli, ["records", str(path), *words]).exit_code == 1
    assert path.read_text() == "hello " * 1000
