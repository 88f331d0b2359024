"""Several tasks tuned together, with runners that pretend."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

import ansor
from ansor.measure.runner import Measured, Ranked
from ansor.records.outcome import Failed, Timed
from ansor.schedule import to_data
from ansor.search.objective import Deadlines, Network, Patient

Curve = Callable[[int], float | None]  # seconds of the n-th candidate; None: it fails


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("time.monotonic", made)
    return made


class Scripted:
    """A runner whose n-th candidate of a task takes what a curve says. The first that
    is asked for is the 0-th. `price` is what a trial of each task takes."""

    def __init__(
        self,
        curves: dict[str, Curve],
        clock: Clock | None = None,
        price: dict[str, float] | None = None,
        stops_after: int | None = None,
    ) -> None:
        self.curves, self.price = curves, price or {}
        self.clock = clock or Clock()
        self.stops_after = stops_after
        self.asked: list[str] = []
        self.known: dict[str, Timed | Failed] = {}
        self.ranked: list[str] = []
        self.refuted: set[str] = set()  # fail when they are ranked

    def measure(
        self, task, candidates, incumbent=None, until=np.inf
    ) -> Iterator[Measured]:
        name = task.dag.outputs[0].name
        for at, candidate in enumerate(candidates):
            if self.stops_after is not None and len(self.asked) >= self.stops_after:
                raise KeyboardInterrupt
            price = self.price.get(name, 0.5)
            if self.clock.now + price > until and incumbent is not None:
                return
            self.clock.now += price
            seconds = self.curves[name](self.asked.count(name))
            self.asked.append(name)
            outcome = (
                Failed("run", "crash", "pretended")
                if seconds is None
                else Timed((seconds,))
            )
            self.known[str(to_data(candidate))] = outcome
            yield Measured(at, outcome, "by pretending", price)

    def rank(self, task, candidates: Sequence[ansor.Program], until=np.inf) -> Ranked:
        self.ranked.append(task.dag.outputs[0].name)
        self.clock.now += 2.0
        found = [self.known.get(str(to_data(x)), Timed((1.0,))) for x in candidates]
        if self.ranked[-1] in self.refuted:
            wrong = Failed("check", "wrong", "pretended")
            return Ranked((wrong,) * len(candidates), None)
        times = [x.seconds[0] if isinstance(x, Timed) else np.inf for x in found]
        return Ranked(tuple(found), int(np.argmin(times)))

    def close(self) -> None:
        pass


def product(name: str, n: int) -> ansor.Task:
    """A small task with a large space."""
    a, b = ansor.placeholder((n, 8), name="A"), ansor.placeholder((8, n), name="B")
    return ansor.Task(ansor.ops.matmul(a, b, name=name))


SIZES = {"X": 48, "Y": 40, "Z": 32}
TASKS = [product(name, n) for name, n in SIZES.items()]


def flat(seconds: float) -> Curve:
    return lambda n: seconds


def falling(seconds: float, rate: float = 0.97) -> Curve:
    return lambda n: seconds * rate**n


def runner(x: Curve, y: Curve, z: Curve, **options) -> Scripted:
    return Scripted({"X": x, "Y": y, "Z": z}, **options)


def tuned(measured: Scripted, **options):
    options = {"policy": "random", "batch": 4, **options}
    return ansor.tune(TASKS, runner=measured, **options)


def programs(results) -> list[object]:
    return [[record.program for record in result.records] for result in results]


def test_batches_go_where_it_pays():
    made = runner(flat(1e-3), falling(2e-3), flat(1e-5))
    results = tuned(made, trials=60)
    assert results.trials == 60 == len(made.asked) == sum(results.allocation)
    assert results.allocation[1] > 1.5 * results.allocation[0]
    assert results.allocation[2] <= 12
    assert results.stopped == "trials"
    assert [result.task for result in results] == TASKS
    assert results.seconds == pytest.approx(sum(x.seconds for x in results))
    assert [x.trial for x in results.history] == list(range(1, 61))
    assert results.history[-1].best < results.history[20].best
    assert sorted(made.ranked) == ["X", "Y", "Z"]


def test_weights_count():
    curves = [flat(1e-3)] * 3
    heavy = tuned(runner(*curves), trials=48, weights=[1, 1, 8])
    assert heavy.allocation[2] >= 28
    assert heavy.seconds == pytest.approx(1e-2)


def test_round_robin_and_chance_are_there_to_compare_with():
    curves = [flat(1e-3), flat(1e-4), flat(1e-5)]
    assert tuned(runner(*curves), trials=24, scheduler="round-robin").allocation == (
        (8, 8, 8)
    )  # fmt: skip
    assert sum(tuned(runner(*curves), trials=24, scheduler="random").allocation) == 24


def test_same_seed_same_decisions_whatever_the_clock(clock):
    curves = [falling(1e-3), falling(2e-3, 0.9), flat(1e-4)]
    one = tuned(runner(*curves, clock=clock, price={"Y": 9.0}), trials=40, seed=3)
    two = tuned(runner(*curves), trials=40, seed=3)
    assert programs(one) == programs(two)
    assert one.allocation == two.allocation


@pytest.mark.parametrize("scheduler", ["gradient", "round-robin"])
def test_a_second_run_repeats_everything_and_goes_on(tmp_path, scheduler):
    path = tmp_path / "tuning.db"
    curves = [falling(1e-3), falling(2e-3, 0.9), flat(1e-4)]
    options = {"database": path, "scheduler": scheduler}
    first = tuned(runner(*curves), trials=40, **options)
    made = runner(*curves)
    again = tuned(made, trials=40, **options)
    assert made.asked == made.ranked == []
    assert programs(again) == programs(first)
    assert again.seconds == first.seconds
    assert [x.best for x in again.history] == [x.best for x in first.history]
    more = tuned(made, trials=60, **options)
    assert len(made.asked) == 20
    assert all(
        new[: len(old)] == old
        for new, old in zip(programs(more), programs(first), strict=True)
    )


def test_seconds_are_kept_and_trials_have_their_price(clock):
    made = runner(
        *[flat(1e-3)] * 3, clock=clock, price={"X": 2.0, "Y": 0.25, "Z": 0.25}
    )
    start = clock.now
    results = tuned(made, seconds=60)
    assert results.stopped == "seconds"
    assert clock.now - start <= 60 + 2 * 4
    allocation = dict(zip(SIZES, results.allocation, strict=True))
    assert allocation["Y"] > 3 * allocation["X"]
    assert made.ranked


def test_seconds_go_on_where_they_were(tmp_path, clock):
    path = tmp_path / "tuning.db"
    curves = [falling(1e-3), falling(2e-3, 0.9), flat(1e-4)]
    first = tuned(runner(*curves, clock=clock), seconds=20, database=path)
    made = runner(*curves, clock=clock)
    more = tuned(made, seconds=40, database=path)
    assert 20 < len(made.asked) < 60
    assert more.trials == first.trials + len(made.asked)
    for new, old in zip(programs(more), programs(first), strict=True):
        assert all(program in new for program in old)


def test_little_time_goes_to_what_matters_and_the_rest_is_believed():
    made = runner(*[flat(1e-3)] * 3)
    results = tuned(made, trials=4, weights=[1, 1, 1e6])
    assert results.allocation == (0, 0, 4)
    assert [x.is_measured for x in results] == [False, False, True]
    assert results[0].seconds > 0
    assert results[0].error is None
    assert results[0].program.task.key == TASKS[0].key


def test_a_task_that_fails_does_not_end_the_others():
    made = runner(flat(1e-3), lambda n: None, flat(1e-3))
    results = tuned(made, trials=40)
    assert results[1].stopped == "failed"
    assert "none of 12 candidates gave a time" in str(results[1].error)
    assert results[1].trials == 12
    assert not results[1].is_measured
    assert results[0].is_measured
    assert results[2].is_measured
    assert results.trials == 40


def test_what_fails_when_it_is_ranked_is_not_given():
    made = runner(*[flat(1e-3)] * 3)
    made.refuted = {"Y"}
    results = tuned(made, trials=12, scheduler="round-robin")
    assert "finalists failed when they were ranked" in str(results[1].error)
    assert [x.is_measured for x in results] == [True, False, True]


def test_if_all_fail_it_says_why():
    with pytest.raises(ansor.MeasureError, match="none of 12 candidates"):
        tuned(runner(*[lambda n: None] * 3), trials=60)


def test_an_interrupted_run_keeps_what_it_has(tmp_path):
    path = tmp_path / "tuning.db"
    made = runner(*[flat(1e-3)] * 3, stops_after=9)
    results = tuned(made, trials=40, seed=1, database=path)
    assert not results.is_complete
    assert results.trials == 9
    assert sum(x.is_measured for x in results) == 3
    with ansor.Database(path) as database:
        assert len(database) == 9
    with pytest.raises(KeyboardInterrupt):
        tuned(runner(*[flat(1e-3)] * 3, stops_after=0), trials=40)
    made = runner(*[flat(1e-3)] * 3, stops_after=0)
    known = tuned(made, trials=9, seed=1, database=path)
    assert known.trials == 9  # all of them remembered


def test_interrupted_before_it_began_it_gives_what_is_known(tmp_path, monkeypatch):
    path = tmp_path / "tuning.db"
    before = tuned(runner(*[flat(1e-3)] * 3), trials=12, database=path)
    asked = []

    def stopped(task):
        asked.append(task)
        raise KeyboardInterrupt

    monkeypatch.setattr("ansor.search.scheduler.estimate", stopped)
    results = tuned(runner(*[flat(1e-3)] * 3), trials=40, database=path)
    assert (results.trials, results.is_complete, len(asked)) == (0, False, 1)
    assert [x.is_measured for x in results] == [x.is_measured for x in before]
    assert sum(x.is_measured for x in results) >= 1
    with pytest.raises(KeyboardInterrupt):
        tuned(runner(*[flat(1e-3)] * 3), trials=40)


def test_stop_and_progress_see_all_tasks():
    seen = []
    results = tuned(
        runner(*[flat(1e-3)] * 3),
        trials=40,
        progress=seen.append,
        stop=lambda now: now.trials >= 10,
    )
    assert results.stopped == "stopped by the caller"
    assert results.trials == 10 == len(seen)
    last = seen[-1]
    assert [row.trials for row in last.rows] == list(results.allocation)
    assert last.total == 40
    assert last.now.task in TASKS
    assert last.value == pytest.approx(results.seconds, rel=0.01)
    assert last.left is not None


def test_deadlines_end_the_search_when_they_are_met():
    nets = (Network("one", {0: 1, 1: 1}), Network("two", {2: 1}))
    made = runner(falling(1e-3, 0.9), falling(1e-3, 0.9), flat(1e-3))
    results = tuned(made, trials=400, objective=Deadlines((1e-3, 2e-3), nets))
    assert results.stopped == "no gain expected"
    assert results.trials < 60
    assert results[0].seconds + results[1].seconds <= 1e-3
    assert results.seconds == pytest.approx(3e-3)


def test_patience_ends_tasks_one_by_one():
    made = runner(flat(1e-3), falling(1e-3), flat(1e-3))
    results = tuned(made, trials=80, objective=Patient(12))
    assert results[0].stopped == results[2].stopped == "no gain in 12 trials"
    assert results[1].stopped == "trials"
    assert results.allocation[0] <= 16
    ended = tuned(runner(*[flat(1e-3)] * 3), trials=400, objective=Patient(8))
    assert ended.stopped == "no gain in 8 trials"
    assert ended.trials <= 36


def test_your_own_objective():
    made = runner(flat(1e-3), falling(2e-3, 0.999), flat(1e-4))
    results = tuned(made, trials=60, objective=max)
    assert results.allocation[1] >= 40
    assert results.seconds == results[1].seconds


def test_equal_tasks_are_tuned_once_and_have_their_own_names():
    twin = product("Q", SIZES["X"])
    made = Scripted({"X": flat(1e-3), "Y": flat(1e-3)})
    results = ansor.tune(
        [TASKS[0], TASKS[1], twin], trials=24, runner=made, policy="random", batch=4
    )
    assert results.trials == 24
    assert results[0].records == results[2].records
    assert results[2].task is twin
    assert results.seconds == pytest.approx(3e-3)
    assert Counter(made.asked)["X"] > Counter(made.asked)["Y"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [1, 2]}, "has 3 tasks"),
        ({"weights": [1, 2, -1]}, "is not a positive number"),
        ({"scheduler": "magic"}, "schedulers are 'gradient'"),
        ({"batch": 0}, r"tune\(batch=0\): is below 1"),
        ({"objective": Deadlines((1.0, 2.0))}, "has 1 networks"),
    ],
)
def test_nonsense_is_refused(options, message):
    with pytest.raises(ansor.MeasureError, match=message):
        tuned(runner(*[flat(1e-3)] * 3), trials=4, **options)


def test_what_is_for_several_tasks_is_refused_for_one():
    with pytest.raises(ansor.MeasureError, match="is for several tasks"):
        ansor.tune(TASKS[0], trials=4, weights=[1.0])
    with pytest.raises(ansor.ScheduleError, match="the list is empty"):
        ansor.tune([], trials=4)
    with pytest.raises(ansor.ScheduleError, match="not a task"):
        ansor.tune([TASKS[0], "Y"], trials=4)
    with pytest.raises(ansor.MeasureError, match="no budget"):
        ansor.tune(TASKS)


@pytest.mark.llvm
def test_a_real_run_transfers_and_gives_verified_kernels(tmp_path):
    path = tmp_path / "tuning.db"
    tasks = [product("X", 64), product("Y", 48)]
    results = ansor.tune(tasks, trials=4, batch=2, database=path, weights=[1, 2])
    assert results.trials == 4
    rng = np.random.default_rng(0)
    for result, n in zip(results, (64, 48), strict=True):
        assert result.is_measured
        x, y = rng.random((n, 8), np.float32), rng.random((8, n), np.float32)
        np.testing.assert_allclose(result.kernel(x, y), x @ y, rtol=1e-4)
