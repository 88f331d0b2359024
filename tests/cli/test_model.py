"""`ansor model`: training from databases, looking at models, and using them."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import ansor as package
from ansor.cli.main import cli
from ansor.cli.measuring import Measuring
from ansor.cost.columns import COLUMNS, VERSION
from ansor.cost.features import extract
from ansor.cost.model import default_model
from ansor.records.outcome import Timed
from cli.scripted import WRONG, ScriptedRunner, falling

TASKS = (
    ("matmul", "16", "12", "8"),
    ("matmul", "24", "20", "32"),
    ("softmax", "16", "32"),
    ("relu", "64", "64"),
)


def ansor(*words):
    return CliRunner().invoke(cli, list(map(str, words)))


def failure(result):
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    return result.stderr.removeprefix("ansor: error: ").rstrip()


def as_json(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def use(monkeypatch):
    """Let a script decide about outcomes."""
    return lambda script: monkeypatch.setattr(
        Measuring, "_runner", lambda self: ScriptedRunner(script)
    )


@pytest.fixture
def tuned(tmp_path, use):
    """Make a database with a few trials of some tasks, every third of them failed."""

    def make(*tasks, trials=12, script=falling):
        use(script)
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
        for task in tasks:
            words = ["--trials", trials, "--policy", "random", "--quiet", "--db", path]
            ansor("tune", *task, *words)
        assert path.exists()
        return path

    return make


@pytest.fixture
def out(tmp_path):
    return tmp_path / "model.bin"


@pytest.fixture
def trained(tuned, out):
    assert ansor("model", "train", tuned(*TASKS), "-o", out).exit_code == 0
    return out


def test_train_prints_tasks_and_scores_of_those_held_out(tuned, out):
    result = ansor("model", "train", tuned(*TASKS), "-o", out, "--hold-out", "2")
    assert result.exit_code == 0, result.output
    head, *rows, empty, held, analytic, saved = result.stdout.splitlines()
    assert head.split() == [
        "task", "programs", "failed", "pairwise", "recall@30", "R²",
    ]  # fmt: skip
    assert len(rows) == len(TASKS)
    assert rows[0].startswith("matmul: float32[16, 8], float32[8, 12] -> ")
    assert sorted(len(row.split("]")[-1].split()) for row in rows) == [2, 2, 5, 5]
    assert empty == ""
    assert held.startswith("held out, mean of 2 tasks:  pairwise 0.")
    assert analytic.startswith("the analytic model alone:  pairwise 0.")
    programs = sum(int(row.split("]")[-1].split()[0]) for row in rows)
    kind = default_model().name
    assert saved == f"{out}: {kind}, {programs} programs of 4 tasks"


def test_json_has_the_same(tuned, out):
    one, other = tuned(*TASKS[:2]), tuned(*TASKS[2:])
    found = as_json(ansor("model", "train", one, other, "-o", out, "--json"))
    assert (found["model"], found["left_out"]) == (str(out), 0)
    assert len(found["tasks"]) == len(TASKS)
    assert found["programs"] == sum(x["programs"] for x in found["tasks"])
    (held,) = [x["held_out"] for x in found["tasks"] if x["held_out"]]
    assert set(held) == {"pairwise", "recall", "r2", "programs"}


@pytest.mark.parametrize("kind", ["trees", "boosting", "network"])
def test_every_kind_is_trained_saved_and_shown(tuned, out, kind):
    if kind == "trees":
        pytest.importorskip("lightgbm")
    words = ("-o", out, "--kind", kind, "--hold-out", "0", "--seed", "3")
    database = tuned(TASKS[0], trials=24)
    assert ansor("model", "train", database, *words).exit_code == 0
    found = as_json(ansor("model", "show", out, "--json"))
    assert found["kind"] == kind
    assert (found["features"], found["columns"]) == (VERSION, len(COLUMNS))
    assert all(part["kind"] == kind for part in found["parts"])


def test_the_same_seed_gives_the_same_file(tuned, out, tmp_path):
    database = tuned(*TASKS)
    for path in (out, tmp_path / "again.bin"):
        words = ("--kind", "boosting", "--seed", "1", "--quiet")
        assert ansor("model", "train", database, "-o", path, *words).exit_code == 0
    assert out.read_bytes() == (tmp_path / "again.bin").read_bytes()


def test_one_task_is_trained_on_without_scores(tuned, out):
    lines = ansor("model", "train", tuned(TASKS[0]), "-o", out).stdout.splitlines()
    assert "no task held out: nothing to judge by" in lines
    assert out.exists()


def test_show_says_what_it_is(trained):
    first, features, learned = ansor("model", "show", trained).stdout.splitlines()
    assert first == f"{trained}: {default_model().name}"
    assert features == f"features  version {VERSION}, {len(COLUMNS)} columns"
    assert learned.startswith("learned   ")
    quiet = ansor("model", "show", trained, "--quiet").stdout
    assert quiet == f"{first}\n"


def test_tune_uses_a_model(trained, use, tmp_path):
    use(lambda number: Timed((1e-3 / (number + 1),)))
    words = ("tune", *TASKS[0], "--trials", "4", "--quiet", "--db", tmp_path / "new.db")
    assert ansor(*words, "--model", trained).exit_code == 0
    message = failure(ansor(*words, "--model", tmp_path / "typo.bin"))
    assert "typo.bin': cannot be read: No such file" in message


def test_python_loads_it_too(trained):
    model = package.load_model(trained)
    A = package.placeholder((16, 8), name="A")
    sketch = package.sketches(package.Task(package.ops.softmax(A)))[0]
    found = model.predict(extract(sketch, sketch.sample(5, 0)))
    assert np.isfinite(found.seconds).all()


def test_too_few_records(tuned, out):
    database = tuned(TASKS[0], trials=4)
    assert failure(ansor("model", "train", database, "-o", out)) == (
        f"training from {str(database)!r}: 3 trials with a time, at least 4 are "
        "needed\n  hint: tune some tasks first: ansor tune … --db FILE"
    )
    assert not out.exists()


def test_records_without_any_time(tuned, out):
    database = tuned(TASKS[0], script=lambda number: WRONG)
    message = failure(ansor("model", "train", database, "-o", out))
    assert "0 trials with a time" in message


def test_more_held_out_than_there_are(tuned, out):
    database = tuned(*TASKS[:2])
    assert failure(ansor("model", "train", database, "-o", out, "--hold-out", "2")) == (
        "--hold-out 2: the databases have 2 tasks, and one must be left to train on\n"
        "  hint: hold out at most 1"
    )


def test_files_that_are_missing_or_something_else(tuned, out, tmp_path):
    typo = tmp_path / "typo"
    assert "there is no such file" in failure(ansor("model", "train", typo, "-o", out))
    assert "cannot be read: No such file" in failure(ansor("model", "show", typo))
    database = tuned(TASKS[0])
    assert "not a stored model" in failure(ansor("model", "show", database))
    words = ("-o", tmp_path / "nowhere" / "model.bin")
    assert "cannot be written" in failure(ansor("model", "train", database, *words))
    assert ansor("model", "train", database).exit_code == 2
    assert ansor("model", "train", "-o", out).exit_code == 2


def test_a_model_of_other_features_is_refused(trained):
    data = json.loads(trained.read_text())
    trained.write_text(json.dumps(data | {"features": VERSION + 1}))
    message = failure(ansor("model", "show", trained))
    assert f"was trained on features of version {VERSION + 1}" in message
    assert "hint: train it again from a database" in message


@pytest.mark.parametrize("command", ["train", "show"])
def test_help_of_both_has_an_example(command):
    text = ansor("model", command, "--help").stdout
    assert f"ansor model {command} " in text
