"""The local pool: whatever a candidate does, the search goes on and knows why."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ansor
from ansor.codegen.kernel import Build
from ansor.measure.limits import Limits
from ansor.measure.local import LocalRunner
from ansor.measure.runner import Incumbent
from ansor.records.outcome import Failed, Timed
from measure.faults import FAULTS, WRONG, Fault, task
from measure.hostile import hostile_modules

pytestmark = [pytest.mark.llvm]

LIMITS = Limits(run_seconds=1.0, build_seconds=4.0)


@pytest.fixture(scope="module")
def runner():
    with LocalRunner(limits=LIMITS) as made:
        yield made


def good(count: int = 1) -> list[ansor.Program]:
    made = task()
    sketch = ansor.sketches(made)[0]
    return [sketch.program(tuple(map(int, row))) for row in sketch.sample(count, 0)]


def outcomes(runner, candidates, **options):
    found = {m.index: m for m in runner.measure(task(), candidates, **options)}
    assert sorted(found) == list(range(len(candidates)))
    return [found[at].outcome for at in range(len(candidates))]


def test_a_program_is_timed_and_says_how_it_was_checked(runner):
    (measured,) = runner.measure(task(), good())
    assert isinstance(measured.outcome, Timed)
    assert measured.verified.startswith("seed 0")
    assert measured.spent > 0


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_named_and_the_next_candidate_is_timed(runner, fault: Fault):
    bad, fine = outcomes(runner, [fault.candidate(), *good()])
    if fault.outcome is None:
        assert isinstance(bad, Timed), bad
    else:
        assert isinstance(bad, Failed), bad
        assert (bad.stage, bad.cause) == fault.outcome, bad
    assert isinstance(fine, Timed), fine


def test_a_wrong_result_is_not_timed(runner):
    (bad,) = outcomes(runner, [WRONG.candidate()])
    assert isinstance(bad, Failed)
    assert (bad.stage, bad.cause) == ("check", "wrong")
    assert "1000 of 1000 elements differ" in bad.message


@pytest.mark.parametrize("name", hostile_modules())
def test_a_hostile_module_ends_the_builder_only(runner, name):
    text = hostile_modules()[name]
    made = task()
    bad, fine = outcomes(
        runner, [Build("B", text, made.target, made.dag.arguments), *good()]
    )
    assert isinstance(bad, Failed), bad
    assert isinstance(fine, Timed), fine


def test_the_incumbent_is_timed_beside_the_candidate(runner):
    first, second = good(2)
    (outcome,) = outcomes(runner, [second], incumbent=Incumbent(first, 1e-5))
    assert isinstance(outcome, Timed)
    assert len(outcome.anchor) == len(outcome.seconds)
    assert outcome.anchor_seconds == 1e-5


def test_ranking_leaves_out_what_fails_its_second_check(runner):
    programs = good(2)
    ranked = runner.rank(task(), [WRONG.candidate(), *programs])
    assert isinstance(ranked.outcomes[0], Failed)
    assert ranked.winner in (1, 2)


def test_ranking_survives_a_crash(runner):
    crash = next(fault for fault in FAULTS if fault.name == "segfault")
    ranked = runner.rank(task(), [*good(1), crash.candidate()])
    assert ranked.winner == 0
    assert isinstance(ranked.outcomes[1], Failed)
    assert ranked.outcomes[1].cause == "crash"


def test_time_over_ends_it(runner):
    first, *others = good(8)
    late = time.monotonic() - 1
    (found,) = runner.measure(task(), [first, *others], until=late)
    assert isinstance(found.outcome, Timed)  # one, as there was none before
    beside = Incumbent(first, found.outcome.estimate)
    assert list(runner.measure(task(), others, beside, until=late)) == []
    assert runner.rank(task(), others, until=late).outcomes == ()
    assert runner.rank(task(), others[:2]).winner is not None


def test_a_batch_that_is_left_early_leaves_nothing_at_work(runner):
    stream = runner.measure(task(), good(8))
    next(stream)
    stream.close()
    assert isinstance(outcomes(runner, good())[0], Timed)


def test_a_killed_worker_is_replaced_and_its_candidate_runs_again(runner):
    list(runner.measure(task(), good()))
    _, worker, _ = runner._shop.crew._runner[::1]
    os.kill(runner._shop.crew._runner[0].pid, signal.SIGKILL)
    (outcome,) = outcomes(runner, good())
    assert isinstance(outcome, Timed)
    assert worker


def test_a_killed_zygote_is_replaced(runner):
    list(runner.measure(task(), good()))
    os.kill(runner._shop.crew._zygote._process.pid, signal.SIGKILL)
    assert isinstance(outcomes(runner, good())[0], Timed)


def test_closing_leaves_no_process_and_no_descriptor():
    before = set(os.listdir("/proc/self/fd"))
    made = LocalRunner(limits=LIMITS)
    bad, fine = outcomes(made, [FAULTS[0].candidate(), *good()])
    assert isinstance(bad, Failed)
    assert isinstance(fine, Timed)
    pid = made._shop.crew._zygote._process.pid
    session = [p for p in _processes() if _session(p) == pid]
    assert pid in session
    made.close()
    made.close()
    assert not [p for p in session if _is_alive(p)]
    assert set(os.listdir("/proc/self/fd")) == before


def test_workers_end_with_the_process_that_searches():
    code = """
import sys, time
sys.path[:0] = sys.argv[1:]
from measure.faults import task
import ansor
from ansor.measure.local import LocalRunner
sketch = ansor.sketches(task())[0]
runner = LocalRunner()
list(runner.measure(task(), [sketch.program(sketch.sample(1, 0)[0])]))
print(runner._shop.crew._zygote._process.pid, flush=True)
time.sleep(60)
"""
    paths = [str(Path(__file__).parents[1]), str(Path(ansor.__file__).parents[1])]
    child = subprocess.Popen(
        [sys.executable, "-c", code, *paths], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    zygote = int(child.stdout.readline())
    members = [p for p in _processes() if _session(p) == zygote]
    assert len(members) > 1
    child.kill()
    child.wait()
    child.stdout.close()
    end = time.monotonic() + 5
    while any(map(_is_alive, members)) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any(map(_is_alive, members))


def test_a_closed_runner_says_so():
    made = LocalRunner()
    made.close()
    with pytest.raises(ansor.MeasureError, match="is closed"):
        list(made.measure(task(), good()))


def test_a_foreign_target_is_refused(runner):
    other = "x86_64" if ansor.Target.host().arch == "aarch64" else "aarch64"
    a = ansor.placeholder((4,))
    foreign = ansor.Task(ansor.compute((4,), lambda i: a[i] * 2.0), target=other)
    with pytest.raises(ansor.MeasureError, match="cannot run its code"):
        list(runner.measure(foreign, []))


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def _is_alive(pid: int) -> bool:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"
