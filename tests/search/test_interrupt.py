"""Ctrl-C at any moment: the best so far comes back, and nothing is lost."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import ansor

pytestmark = pytest.mark.llvm

CODE = """
import sys, json
sys.path.insert(0, sys.argv[1])
import ansor
from ansor.schedule.data import to_data

a = ansor.placeholder((64, 64), name="A")
task = ansor.Task(ansor.ops.softmax(a, name="S"))
print("ready", flush=True)


def say(now):
    print(json.dumps(now.record.program), flush=True)

try:
    result = ansor.tune(task, trials=40, seed=5, database=sys.argv[2], progress=say)
    answer = {"seconds": result.seconds, "stopped": result.stopped}
except KeyboardInterrupt:
    answer = {"seconds": None, "stopped": "nothing"}
with open(sys.argv[2] + ".answer", "w") as file:
    json.dump(answer, file)
"""


def interrupted(path: Path, after: float) -> tuple[dict, list[str]]:
    """What came back, and the programs that were reported."""
    source = str(Path(ansor.__file__).parents[1])
    command = [sys.executable, "-c", CODE, source, str(path)]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(after)
    child.send_signal(signal.SIGINT)
    start = time.monotonic()
    reported, errors = child.communicate(timeout=200)
    answer = Path(f"{path}.answer")
    if not answer.exists():  # it came after the end of `tune`
        assert "KeyboardInterrupt" in errors, errors
        return {"seconds": None, "stopped": "after"}, reported.splitlines()
    assert time.monotonic() - start < 60
    return json.loads(answer.read_text()), reported.splitlines()


def check(tmp_path: Path, moments: list[float]) -> None:
    for number, after in enumerate(moments):
        path = tmp_path / f"{number}.db"
        answer, reported = interrupted(path, after)
        programs = [json.dumps(json.loads(x), sort_keys=True) for x in reported]
        with ansor.Database(path) as database:
            trials = database.records(role="trial")
            stored = {json.dumps(x.program, sort_keys=True) for x in trials}
        assert set(programs) <= stored
        if answer["stopped"] == "nothing":
            assert not reported
        elif answer["stopped"] != "after":
            assert answer["seconds"] is not None
        if len(reported) == 40:
            assert answer["stopped"] in ("trials", "interrupted", "after")


def test_it_keeps_what_there_is(tmp_path):
    check(tmp_path, [0.3, 4.0])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_does_so_at_any_moment(tmp_path):
    rng = np.random.default_rng(0)
    check(tmp_path, list(map(float, rng.uniform(0.0, 9.0, 20))))
