"""Commands of whole models: tune, run, export."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from ansor import Database, Model
from ansor.cli.main import cli
from ansor.cli.measuring import Measuring
from cli.scripted import ScriptedRunner, falling, stop_the_clock

onnx = pytest.importorskip("onnx")


@pytest.fixture(scope="module")
def weight() -> np.ndarray:
    return np.random.default_rng(0).standard_normal((8, 4), dtype=np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory, weight) -> str:
    """A file: y = softmax(x @ w), x of batch * 8."""
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["z"]),
            helper.make_node("Softmax", ["z"], ["y"], axis=1),
        ],
        "tiny",
        [helper.make_tensor_value_info("x", kind, ["batch", 8])],
        [helper.make_tensor_value_info("y", kind, ["batch", 4])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    found = tmp_path_factory.mktemp("models") / "tiny.onnx"
    onnx.save(model, found)
    return str(found)


def ansor(*words):
    return CliRunner().invoke(cli, list(map(str, words)))


def failure(result):
    assert result.exit_code == 1, result.output
    return result.stderr.rpartition("ansor: error: ")[2].rstrip()


@pytest.mark.llvm
def test_run_on_files(path, tmp_path, weight):
    x = np.random.default_rng(1).standard_normal((2, 8), dtype=np.float32)
    np.save(tmp_path / "x.npy", x)
    files = ("--input", f"x={tmp_path / 'x.npy'}", "--output", tmp_path / "y.npy")
    result = ansor("run", path, "--shape", "batch=2", *files)
    assert result.exit_code == 0, result.output
    exponents = np.exp(x @ weight)
    right = exponents / exponents.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), right, rtol=1e-4)
    first, second, third = result.stdout.splitlines()
    assert first.startswith("tiny: ")
    assert "0 tuned" in second
    assert third == f"stored in {tmp_path / 'y.npy'}"


@pytest.mark.llvm
def test_run_writes_files_of_exactly_the_names(path, tmp_path):
    words = ("run", path, "--shape", "batch=2", "--output", tmp_path / "y.bin")
    assert ansor(*words, "--quiet").exit_code == 0
    assert [x.name for x in tmp_path.iterdir()] == ["y.bin"]
    assert np.load(tmp_path / "y.bin").shape == (2, 4)


@pytest.mark.llvm
def test_run_prints_a_profile(path):
    words = ("run", path, "--shape", "batch=2", "--repeats", 2)
    table = ansor(*words, "--profile").stdout.splitlines()
    assert table[0].split() == ["step", "time", "share", "GFLOP/s", "tuned",
                                "operators"]  # fmt: skip
    assert "matmul" in table[1]
    found = json.loads(ansor(*words, "--json").stdout)
    assert found["outputs"][0]["name"] == "y"
    assert found["outputs"][0]["shape"] == [2, 4]
    assert found["outputs"][0]["mean"] == pytest.approx(0.25)
    assert sum(row["share"] for row in found["steps"]) == pytest.approx(1)


@pytest.mark.llvm
def test_export_writes_a_library(path, tmp_path):
    result = ansor("export", path, "--shape", "batch=1", "-o", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    names = [name.rpartition("/")[2] for name in found["files"]]
    assert {"libtiny.a", "tiny.h", "tiny.json", "main.c"} <= set(names)
    assert all((tmp_path / name).is_file() for name in names)
    facts = json.loads((tmp_path / "tiny.json").read_text())
    assert [x["name"] for x in facts["outputs"]] == ["y"]


@pytest.mark.llvm
def test_tune_shares_a_budget_and_run_uses_it(path, tmp_path, monkeypatch):
    stop_the_clock(monkeypatch)
    runner = ScriptedRunner(falling)
    monkeypatch.setattr(Measuring, "_runner", lambda self: runner)
    db = tmp_path / "tuning.db"
    words = ("tune", path, "--shape", "batch=2", "--db", db)
    result = ansor(*words, "--trials", 8)
    assert result.exit_code == 0, result.output
    assert runner.is_closed
    heading, *rows = result.stdout.splitlines()
    assert heading.split() == ["task", "times", "trials", "each", "share", "GFLOP/s"]
    assert rows[0].startswith("matmul")
    assert f"stored in {db}" in rows
    assert "tasks measured" in result.stderr
    with Database(db, "r") as database:
        assert len(database) >= 8
    found = json.loads(ansor(*words, "--trials", 8, "--json").stdout)
    assert (found["trials"], found["complete"]) == (8, True)
    assert [task["weight"] for task in found["tasks"]] == [1] * len(found["tasks"])
    assert ansor(*words, "--trials", 8, "--quiet").stdout.startswith("tiny: ")
    ran = ansor("run", path, "--shape", "batch=2", "--db", db, "--json")
    assert any(step["tuned"] for step in json.loads(ran.stdout)["steps"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("run", "none.onnx"), "model 'none.onnx': there is no such file"),
        (
            ("run", "model.pt"),
            "model 'model.pt': its name does not end in .onnx\n"
            "  hint: name an ONNX file",
        ),
        (
            ("run", "{path}", "--shape", "batch"),
            "--shape batch: is not a shape\n  hint: write x=1,3,224,224 or batch=1",
        ),
        (
            ("run", "{path}", "--shape", "batch=1", "--input", "q=x.npy"),
            "--input q=x.npy: no input 'q'\n  hint: inputs are x",
        ),
        (
            ("run", "{path}", "--shape", "batch=1", "--input", "none.npy"),
            "--input none.npy: there is no such file",
        ),
        (
            ("run", "{path}", "--shape", "batch=1", "--output", "a", "--output", "b"),
            "2 times --output: the model has 1 output",
        ),
        (
            ("tune", "{path}", "--shape", "batch=1", "64"),
            "{path} 64: {path} takes no sizes",
        ),
        (
            ("tune", "matmul", "8", "8", "8", "--shape", "x=1"),
            "--shape x=1: matmul has its own shape",
        ),
    ],
)
def test_mistakes_are_named(path, words, message):
    found = failure(ansor(*(word.format(path=path) for word in words)))
    assert found == message.format(path=path)


@pytest.fixture
def never_compiled(monkeypatch):
    def refused(self, *args, **kwargs):
        raise AssertionError("compiled before all mistakes were named")

    monkeypatch.setattr(Model, "compile", refused)


@pytest.mark.usefixtures("never_compiled")
@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (np.ones((2, 8)), "float64[2, 8]"),
        (np.ones((3, 8), np.float32), "float32[3, 8]"),
    ],
)
def test_inputs_are_checked_first(path, tmp_path, array, kind):
    file = tmp_path / "x.npy"
    np.save(file, array)
    words = ("run", path, "--shape", "batch=2", "--input", file)
    message = f"--input {file}: is {kind}, but input 'x' is float32[2, 8]"
    assert failure(ansor(*words)) == message


@pytest.mark.usefixtures("never_compiled")
def test_places_of_results_are_checked_first(path, tmp_path):
    (tmp_path / "file").touch()
    run = ("run", path, "--shape", "batch=2", "--output")
    assert "is a directory" in failure(ansor(*run, tmp_path))
    assert "there is no directory" in failure(ansor(*run, tmp_path / "none/y.npy"))
    export = ("export", path, "--shape", "batch=2", "-o")
    assert failure(ansor(*export, tmp_path / "file")) == (
        f"{tmp_path / 'file'}: File exists"
    )
    assert "not a name in C" in failure(ansor(*export, tmp_path, "--name", "a b"))


@pytest.mark.llvm
def test_too_little_time_is_said(path, tmp_path, monkeypatch):
    nothing = ScriptedRunner(falling)
    monkeypatch.setattr(nothing, "measure", lambda *args, **kwargs: iter(()))
    monkeypatch.setattr(Measuring, "_runner", lambda self: nothing)
    words = ("tune", path, "--shape", "batch=2", "--db", tmp_path / "tuning.db")
    result = ansor(*words, "--seconds", 0.01)
    assert result.exit_code == 0, result.output
    assert "the time was too short for any" in result.stdout


def test_control_c_is_no_error(path, monkeypatch):
    def stopped(self, *args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(Model, "compile", stopped)
    result = ansor("run", path, "--shape", "batch=2")
    assert result.exit_code == 130
    assert result.stderr.endswith("ansor: interrupted\n")


def test_a_directory_is_no_model(tmp_path):
    (tmp_path / "m.onnx").mkdir()
    assert failure(ansor("run", tmp_path / "m.onnx")).endswith(": is not a file")


def test_a_length_that_is_open_is_named(path):
    assert "batch" in failure(ansor("run", path))
