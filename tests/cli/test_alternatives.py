"""Commands with models that have alternatives."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from ansor.cli.main import cli
from ansor.cli.measuring import Measuring
from ansor.records.outcome import Timed
from cli.scripted import ScriptedRunner, stop_the_clock

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.llvm


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> str:
    """A convolution that Winograd's method fits."""
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(
        """
        <ir_version: 10, opset_import: ["" : 21]>
        layer (float[1, 64, 8, 8] x) => (float[1, 64, 8, 8] y) {
            y = Conv <pads = [1, 1, 1, 1]> (x, w)
        }"""
    )
    kernels = rng.standard_normal((64, 64, 3, 3), dtype=np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(kernels, "w"))
    found = tmp_path_factory.mktemp("models") / "layer.onnx"
    onnx.save(model, found)
    return str(found)


def ansor(*words):
    result = CliRunner().invoke(cli, list(map(str, words)))
    assert result.exit_code == 0, result.output
    return result


def test_tune_shows_all_ways_and_run_takes_the_fastest(path, tmp_path, monkeypatch):
    stop_the_clock(monkeypatch)
    made = ScriptedRunner(lambda n: Timed((1e-3 / (n + 1),)))
    monkeypatch.setattr(Measuring, "_runner", lambda self: made)
    words = (path, "--db", tmp_path / "tuning.db", "--memory", "inf")
    table = ansor("tune", *words, "--trials", 40).stdout.splitlines()
    names = [line.split()[:2] for line in table[1:5]]
    assert ["transpose", "winograd"] in names
    assert ["transpose", "winograd4"] in names
    found = json.loads(ansor("tune", *words, "--trials", 40, "--json").stdout)
    rivals = [row for row in found["tasks"] if row["place"] == 0]
    assert len(rivals) == 3
    assert sum(row["fastest"] for row in rivals) == 1
    ran = json.loads(ansor("run", *words, "--json").stdout)
    (fastest,) = (row for row in rivals if row["fastest"])
    ops = [" ".join(step["operators"]) for step in ran["steps"]]
    assert fastest["operators"] in ops


def test_what_memory_has_no_room_for_is_not_tried(path, tmp_path, monkeypatch):
    monkeypatch.setattr("ansor.frontend.ways.SMALL", 0)
    stop_the_clock(monkeypatch)
    made = ScriptedRunner(lambda n: Timed((1e-3 / (n + 1),)))
    monkeypatch.setattr(Measuring, "_runner", lambda self: made)
    words = ("tune", path, "--trials", 24, "--json", "--db")
    usual = json.loads(ansor(*words, tmp_path / "a.db").stdout)["tasks"]
    more = json.loads(ansor(*words, tmp_path / "b.db", "--memory", 2).stdout)["tasks"]
    assert len(more) == len(usual) + 1
    assert not any("winograd" in row["operators"] for row in usual)
    for words in (("run", path), ("export", path, "-o", tmp_path), ("tune", path)):
        result = CliRunner().invoke(cli, [*map(str, words), "--memory", "0.5"])
        assert result.exit_code == 1
        assert "memory=0.5: is not a number from 1 up" in result.stderr
    result = CliRunner().invoke(cli, ["tune", "matmul", "8", "8", "8", "--memory", "2"])
    assert "--memory: is for models" in result.stderr


def test_plain_means_no_other_way(path, tmp_path):
    steps = json.loads(ansor("run", path, "--plain", "--json").stdout)["steps"]
    assert not any("winograd" in step["operators"] for step in steps)
    result = CliRunner().invoke(cli, ["tune", "matmul", "8", "8", "8", "--plain"])
    assert result.exit_code == 1
    assert "--plain: is for models, not for matmul" in result.stderr
