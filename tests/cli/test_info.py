"""`ansor info`: what is here, what is missing, and whether measuring works."""

import json
from importlib import metadata

import pytest
from click.testing import CliRunner

import ansor as package
from ansor import MeasureError, Target
from ansor.cli.main import cli
from ansor.cli.measuring import Measuring
from ansor.records.outcome import Timed
from cli.scripted import CRASH, ScriptedRunner


@pytest.fixture
def ansor():
    return lambda *words: CliRunner().invoke(cli, ["info", *words])


@pytest.fixture
def use(monkeypatch):
    return lambda script: monkeypatch.setattr(
        Measuring, "_runner", lambda self: ScriptedRunner(script)
    )


@pytest.mark.llvm
def test_it_measures(ansor):
    result = ansor("--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["measuring"]["works"]
    assert 0 < found["measuring"]["seconds"] < 1e-3
    assert found["fingerprint"] == Target.host().fingerprint
    assert found["versions"]["ansor"] == package.__version__
    assert found["versions"]["llvmlite"] == metadata.version("llvmlite")
    assert set(found["optional"]) >= {"torch", "onnx", "distributed", "lightgbm"}


def test_people_get_a_line_for_each_fact(ansor, use):
    use(lambda number: Timed((1.5e-6,)))
    lines = dict(line.split(maxsplit=1) for line in ansor().stdout.splitlines())
    assert lines["machine"] == str(Target.host())
    assert lines["measuring"] == "works: a tiny kernel takes 1.5 µs"
    assert lines["caches"].startswith("L1 ")
    assert lines["versions"].startswith(f"ansor {package.__version__}, llvm ")


def test_what_is_missing_comes_with_the_way_to_get_it(ansor, use, monkeypatch):
    use(lambda number: Timed((1.5e-6,)))

    def version(name):
        if name in ("onnx", "torch"):
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(metadata, "version", version)
    assert ansor("--quiet").stdout.splitlines() == [
        "missing torch, for models from PyTorch: pip install 'ansor[torch]'",
        "missing onnx, for models from ONNX files: pip install 'ansor[onnx]'",
    ]
    found = json.loads(ansor("--json").stdout)["optional"]
    assert (found["onnx"], found["distributed"]) == (None, "1.0")


def test_measuring_that_does_not_work_is_exit_code_1(ansor, use):
    use(lambda number: CRASH)
    result = ansor()
    assert result.exit_code == 1
    assert "DOES NOT WORK: run, crash: ended by SIGSEGV" in result.stdout

    def refuse(number):
        raise MeasureError("worker processes", "cannot be kept alive", "free memory")

    use(refuse)
    found = json.loads(ansor("--json").stdout)["measuring"]
    assert not found["works"]
    assert "cannot be kept alive" in found["reason"]
