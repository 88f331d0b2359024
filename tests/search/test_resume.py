"""Killed at any moment, a search goes on: nothing is lost or measured twice."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ansor

pytestmark = pytest.mark.llvm

TRIALS = 48
CODE = """
import sys, json
sys.path.insert(0, sys.argv[1])
import ansor


def say(now):
    print(json.dumps(now.record.program), flush=True)

a = ansor.placeholder((64, 64), name="A")
task = ansor.Task(ansor.ops.softmax(a, name="S"))
ansor.tune(task, trials=int(sys.argv[3]), seed=5, database=sys.argv[2], progress=say)
"""


def task() -> ansor.Task:
    a = ansor.placeholder((64, 64), name="A")
    return ansor.Task(ansor.ops.softmax(a, name="S"))


def run(path: Path, killed_after: float | None) -> list[str]:
    """Programs whose outcome was reported before the process ended."""
    source = str(Path(ansor.__file__).parents[1])
    command = [sys.executable, "-c", CODE, source, str(path), str(TRIALS)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    if killed_after is not None:
        try:
            child.wait(timeout=killed_after)
        except subprocess.TimeoutExpired:
            child.kill()
    reported, _ = child.communicate(timeout=200)
    lines = reported.splitlines()
    if lines and not reported.endswith("\n"):
        lines.pop()  # the kill cut it
    return [json.dumps(json.loads(line), sort_keys=True) for line in lines]


@pytest.mark.parametrize(
    "kills", [3, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_kills_lose_and_repeat_nothing(tmp_path, kills):
    path = tmp_path / "tuning.db"
    rng = np.random.default_rng(kills)
    acknowledged: set[str] = set()
    for _ in range(kills):
        acknowledged.update(run(path, killed_after=float(rng.uniform(0.8, 3.5))))
        assert acknowledged <= set(stored(path))
    final = run(path, killed_after=None)
    rows = stored(path)
    assert len(rows) == len(set(rows)) == TRIALS == len(final)
    assert set(rows) == set(final)


def test_with_recorded_times_the_decisions_are_the_same(tmp_path):
    path = tmp_path / "tuning.db"
    run(path, killed_after=None)
    again = ansor.tune(task(), trials=TRIALS, seed=5, database=path, runner=NoRunner())
    made = [json.dumps(r.program, sort_keys=True) for r in again.records]
    assert set(made) == set(stored(path))
    once_more = ansor.tune(
        task(), trials=TRIALS, seed=5, database=path, runner=NoRunner()
    )
    assert [r.program for r in once_more.records] == [r.program for r in again.records]


class NoRunner:
    """Everything is known already."""

    def measure(self, task, candidates, incumbent=None):
        assert not candidates
        return iter(())

    def rank(self, task, candidates):
        raise AssertionError("the finals are known")

    def close(self) -> None:
        pass


def stored(path: Path) -> list[str]:
    if not path.exists():
        return []
    with ansor.Database(path) as database:
        trials = database.records(role="trial")
        return [json.dumps(record.program, sort_keys=True) for record in trials]
