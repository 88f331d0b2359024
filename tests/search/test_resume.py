"""Killed at any moment, a search goes on: nothing is lost or measured twice."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ansor
from ansor.schedule import to_data
from ansor.search.policy import RandomPolicy

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
result = ansor.tune(task, trials=int(sys.argv[3]), seed=5, database=sys.argv[2],
                    policy=sys.argv[4], progress=say)
with open(sys.argv[2] + ".order", "w") as file:
    json.dump([record.program for record in result.records], file)
"""


def task() -> ansor.Task:
    a = ansor.placeholder((64, 64), name="A")
    return ansor.Task(ansor.ops.softmax(a, name="S"))


def run(path: Path, policy: str, killed_after: float | None = None) -> list[str]:
    """Programs whose outcome was reported before the process ended."""
    source = str(Path(ansor.__file__).parents[1])
    command = [sys.executable, "-c", CODE, source, str(path), str(TRIALS), policy]
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


@pytest.mark.parametrize("policy", ["random", "evolution"])
@pytest.mark.parametrize(
    "kills", [2, pytest.param(20, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_kills_lose_and_repeat_nothing(tmp_path, kills, policy):
    path = tmp_path / "tuning.db"
    rng = np.random.default_rng(kills)
    acknowledged: set[str] = set()
    for _ in range(kills):
        acknowledged.update(run(path, policy, float(rng.uniform(0.8, 3.5))))
        assert acknowledged <= set(stored(path))
    final = run(path, policy)
    rows = stored(path)
    assert len(rows) == len(set(rows)) == TRIALS == len(final)
    assert set(rows) == set(final)
    if policy == "random":
        assert set(rows) == set(decisions())


@pytest.mark.parametrize("policy", ["random", "evolution"])
def test_with_recorded_times_the_decisions_are_the_same(tmp_path, policy):
    path = tmp_path / "tuning.db"
    run(path, policy)
    again = ansor.tune(
        task(), trials=TRIALS, seed=5, database=path, policy=policy, runner=NoRunner()
    )
    made = [record.program for record in again.records]
    assert made == json.loads(Path(f"{path}.order").read_text())
    if policy == "random":
        assert [json.dumps(x, sort_keys=True) for x in made] == decisions()


class NoRunner:
    """Everything is known already."""

    def measure(self, task, candidates, incumbent=None, until=None):
        assert not candidates
        return iter(())

    def rank(self, task, candidates, until=None):
        raise AssertionError("the finals are known")

    def close(self) -> None:
        pass


def stored(path: Path) -> list[str]:
    if not path.exists():
        return []
    with ansor.Database(path) as database:
        trials = database.records(role="trial")
        return [json.dumps(record.program, sort_keys=True) for record in trials]


def decisions() -> list[str]:
    """What chance asks for, whatever happens."""
    policy = RandomPolicy(ansor.sketches(task()), seed=5)
    asked: list[str] = []
    while len(asked) < TRIALS:
        for program in policy.ask(min(16, TRIALS - len(asked))):
            asked.append(json.dumps(to_data(program), sort_keys=True))
    return asked
