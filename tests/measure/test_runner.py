"""The contract of runners: what a search may rely on, whoever measures."""

import os
import signal

import pytest

import ansor
from ansor.measure.local import LocalRunner
from ansor.measure.runner import Incumbent
from ansor.records.outcome import Failed, Timed
from measure.faults import FAULTS, WRONG, task

pytestmark = [pytest.mark.llvm]

RESOURCE = "ansor"


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=3,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        resources={RESOURCE: 1},
        silence_logs=40,
    ) as made:
        yield made


def local(request):
    return LocalRunner()


def dask(request):
    from ansor.measure.dask import DaskRunner

    return DaskRunner(request.getfixturevalue("cluster").scheduler_address)


RUNNERS = {"local": local, "dask": dask}


@pytest.fixture(scope="module", params=RUNNERS)
def runner(request):
    made = RUNNERS[request.param](request)
    yield made
    made.close()
    made.close()


def good(count: int) -> list[ansor.Program]:
    made = task()
    sketch = ansor.sketches(made)[0]
    return [sketch.program(tuple(map(int, row))) for row in sketch.sample(count, 0)]


@pytest.mark.filterwarnings("ignore")
class TestRunnerContract:
    def test_each_candidate_gets_one_outcome(self, runner):
        found = list(runner.measure(task(), good(5)))
        assert sorted(measured.index for measured in found) == list(range(5))
        assert all(isinstance(measured.outcome, Timed) for measured in found)
        assert all(measured.verified for measured in found)

    def test_failures_are_outcomes(self, runner):
        crash = next(fault for fault in FAULTS if fault.name == "segfault")
        candidates = [crash.candidate(), *good(1), WRONG.candidate()]
        found = {m.index: m.outcome for m in runner.measure(task(), candidates)}
        assert isinstance(found[0], Failed)
        assert found[0].cause == "crash"
        assert isinstance(found[1], Timed)
        assert isinstance(found[2], Failed)
        assert found[2].cause == "wrong"

    def test_an_empty_batch_has_no_outcomes(self, runner):
        assert list(runner.measure(task(), [])) == []

    def test_the_incumbent_is_timed_beside(self, runner):
        first, second = good(2)
        (found,) = runner.measure(task(), [second], Incumbent(first, 1e-5))
        assert isinstance(found.outcome, Timed)
        assert found.outcome.anchor_seconds == 1e-5

    def test_ranking_gives_every_outcome_and_a_winner(self, runner):
        ranked = runner.rank(task(), [WRONG.candidate(), *good(2)])
        assert len(ranked.outcomes) == 3
        assert isinstance(ranked.outcomes[0], Failed)
        assert ranked.winner in (1, 2)


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_that_loses_a_worker_measures_the_same_points(cluster, tmp_path):
    """One of three is killed in the middle; the local pool gives the same set."""
    from ansor.measure.dask import DaskRunner

    made = DaskRunner(cluster.scheduler_address)
    victim = next(iter(cluster.workers.values())).pid
    seen = []

    def kill(now) -> None:
        seen.append(now)
        if len(seen) == 3:
            os.kill(victim, signal.SIGKILL)

    there = ansor.tune(task(), trials=20, seed=3, runner=made, progress=kill)
    made.close()
    here = ansor.tune(task(), trials=20, seed=3)
    assert [r.program for r in there.records] == [r.program for r in here.records]
    assert [r.outcome for r in there.records if not isinstance(r.outcome, Timed)] == []


def test_an_unreachable_cluster_says_what_to_do():
    pytest.importorskip("distributed")
    from ansor.measure import dask as module

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CONNECT_SECONDS", 1)
        with pytest.raises(ansor.MeasureError, match="cannot be reached") as caught:
            module.DaskRunner("tcp://127.0.0.1:9")
    assert "dask scheduler" in str(caught.value)


@pytest.mark.filterwarnings("ignore")
def test_a_cluster_without_devices_says_what_to_do(cluster):
    from ansor.measure.dask import DaskRunner

    with pytest.raises(ansor.MeasureError, match="none offers the resource 'gpu'"):
        DaskRunner(cluster.scheduler_address, resource="gpu")
