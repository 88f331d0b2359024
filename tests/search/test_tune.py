"""The loop of a search: budgets, resuming, interruption, and failure."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pytest

import ansor
from ansor.measure.runner import Incumbent, Measured, Ranked
from ansor.records.outcome import Failed, Timed
from ansor.schedule import to_data


class Pretender:
    """A runner whose times are a function of the program; remembers what it was asked.

    `fails` says of which candidates, by their number, nothing is to be expected.
    `clock`, if there is one, moves by half a second for each of them.
    """

    def __init__(
        self,
        fails: Sequence[int] = (),
        stops_after: int | None = None,
        clock: "Clock | None" = None,
    ):
        self.clock = clock or Clock()
        self.untils: list[float] = []
        self.asked: list[ansor.Program] = []
        self.incumbents: list[Incumbent | None] = []
        self.ranked: list[Sequence[ansor.Program]] = []
        self.fails, self.stops_after = fails, stops_after

    def measure(
        self, task, candidates, incumbent=None, until=np.inf
    ) -> Iterator[Measured]:
        self.incumbents.append(incumbent)
        self.untils.append(until)
        has_time = False
        for at in reversed(range(len(candidates))):  # not in the order of asking
            if self.stops_after is not None and len(self.asked) >= self.stops_after:
                raise KeyboardInterrupt
            self.clock.now += 0.5
            if self.clock.now >= until and (incumbent is not None or has_time):
                self.clock.now = max(until, self.clock.now - 0.5)
                return
            self.asked.append(candidates[at])
            outcome = self.outcome(candidates[at])
            has_time = has_time or isinstance(outcome, Timed)
            yield Measured(at, outcome, "by pretending", 0.5)

    def outcome(self, program: ansor.Program) -> Timed | Failed:
        if len(self.asked) in self.fails:
            return Failed("check", "wrong", "pretended")
        return Timed((1e-3 * (1 + hash(program.point) % 97 / 97),))

    def rank(self, task, candidates, until=np.inf) -> Ranked:
        self.ranked.append(candidates)
        return Ranked(tuple(map(self.outcome, candidates)), 0)

    def close(self) -> None:
        pass


class Clock:
    """Time passes only when somebody works."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("time.monotonic", made)
    return made


def matmul(name: str = "C", n: int = 64) -> ansor.Task:
    a = ansor.placeholder((n, n), name="A")
    b = ansor.placeholder((n, n), name="B")
    return ansor.Task(ansor.ops.matmul(a, b, name=name))


def drawn(**options):
    """A search whose decisions do not depend on the size of its batches."""
    return ansor.tune(matmul(), policy="random", **options)


def programs(result) -> list[object]:
    return [record.program for record in result.records]


def test_trials_are_counted_and_the_best_is_the_fastest_of_the_finals():
    runner = Pretender()
    result = ansor.tune(matmul(), trials=20, runner=runner)
    assert result.trials == 20 == len(runner.asked)
    assert [moment.trial for moment in result.history] == list(range(1, 21))
    best = min(record.seconds for record in result.records)
    assert result.history[-1].best == best
    assert len(runner.ranked) == 1
    assert result.seconds == pytest.approx(best)


def test_candidates_are_timed_beside_one_until_another_is_clearly_faster():
    runner = Pretender()
    result = ansor.tune(matmul(), trials=40, runner=runner)
    first, *others = runner.incumbents
    assert first is None
    times = {str(record.program): record.seconds for record in result.records}
    for before, now in pairwise(others):
        assert now.seconds == times[str(to_data(now.candidate))]
        assert now.candidate is before.candidate or now.seconds < 0.92 * before.seconds
        assert now.best <= now.seconds < now.best / 0.92
    assert others[-1].best == min(record.seconds for record in result.records[:32])


class Equal(Pretender):
    """All programs are equally fast; chance makes paired times differ by some 3 %."""

    def measure(self, task, candidates, incumbent=None, until=np.inf):
        chance = np.random.default_rng(len(self.asked))
        known = 1e-3 if incumbent is None else incumbent.seconds
        for at, _ in enumerate(candidates):
            self.asked.append(candidates[at])
            seconds = 1e-3 * (1 + 0.03 * chance.standard_normal(5))
            yield Measured(at, Timed(tuple(seconds), (1e-3,) * 5, known))


def test_luck_does_not_add_up():
    result = ansor.tune(matmul(), trials=256, runner=Equal(), policy="mutation")
    assert min(record.seconds for record in result.records) > 0.92e-3


def test_same_seed_same_decisions_and_no_program_twice():
    one, two, other = (
        programs(ansor.tune(matmul(), trials=30, seed=seed, runner=Pretender()))
        for seed in (1, 1, 2)
    )
    assert one == two != other
    assert len({str(program) for program in one}) == 30


def test_nothing_is_measured_twice_with_a_database(tmp_path):
    path = tmp_path / "tuning.db"
    first = drawn(trials=20, database=path, runner=Pretender())
    runner = Pretender()
    again = drawn(trials=20, database=path, runner=runner)
    assert runner.asked == []
    assert runner.ranked == []
    assert programs(again) == programs(first)
    assert again.seconds == first.seconds
    more = drawn(trials=33, database=path, runner=runner)
    assert len(runner.asked) == 13
    assert programs(more)[:20] == programs(first)


def test_a_task_with_other_names_resumes_and_its_kernel_has_its_own_names(tmp_path):
    path = tmp_path / "tuning.db"
    ansor.tune(matmul("C"), trials=8, database=path, runner=Pretender())
    a, b = ansor.placeholder((64, 64), name="X"), ansor.placeholder((64, 64), name="Y")
    renamed = ansor.Task(ansor.ops.matmul(a, b, name="Z"))
    runner = Pretender()
    result = ansor.tune(renamed, trials=8, database=path, runner=runner)
    assert runner.asked == []
    assert [x.name for x in result.kernel.parameters] == ["X", "Y", "Z"]
    x, y = np.random.default_rng(0).random((2, 64, 64), np.float32)
    np.testing.assert_allclose(result.kernel(x, y), x @ y, rtol=1e-4)
    built = ansor.build(renamed, database=path)
    assert [x.name for x in built.parameters] == ["X", "Y", "Z"]
    assert built.seconds == result.seconds


def test_seconds_continue_where_they_were(tmp_path, clock):
    path = tmp_path / "tuning.db"
    first = drawn(seconds=5.1, database=path, runner=Pretender(clock=clock))
    assert first.trials == 10  # half a second each; ranking would take too long
    assert first.stopped == "seconds"
    runner = Pretender(clock=clock)
    more = drawn(seconds=10.1, database=path, runner=runner)
    assert 6 <= len(runner.asked) <= 8  # some time is kept for ranking
    assert len(runner.ranked) == 1
    assert all(program in programs(more) for program in programs(first))


def test_trials_do_not_depend_on_the_clock(clock):
    slow = Pretender(clock=clock)
    one = ansor.tune(matmul(), trials=30, runner=slow)
    two = ansor.tune(matmul(), trials=30, runner=Pretender())
    assert programs(one) == programs(two)
    assert one.stopped == two.stopped == "trials"
    assert set(slow.untils) == {np.inf}


def test_a_batch_that_takes_too_long_is_cut(clock):
    runner = Pretender(clock=clock)
    start = clock.now
    result = ansor.tune(matmul(), seconds=20, runner=runner)
    assert clock.now - start <= 20
    assert 32 <= result.trials <= 38
    assert runner.untils[0] == start + 20
    assert runner.untils[-1] < start + 20 - 1  # ranking comes after it


def test_it_goes_on_until_something_runs(clock):
    runner = Pretender(clock=clock, fails=range(1, 9))
    result = ansor.tune(matmul(), seconds=1, runner=runner)
    assert result.trials == 9
    assert result.stopped == "seconds"


def test_interrupted_before_the_first_trial_the_best_known_is_given(tmp_path):
    path = tmp_path / "tuning.db"
    with pytest.raises(KeyboardInterrupt):
        drawn(trials=4, database=path, runner=Pretender(stops_after=0))
    first = drawn(trials=4, database=path, runner=Pretender())
    again = drawn(trials=4, seed=1, database=path, runner=Pretender(stops_after=0))
    assert again.stopped == "interrupted"
    assert (again.seconds, again.trials) == (first.seconds, 0)


def test_an_interrupted_search_keeps_its_best(tmp_path):
    path = tmp_path / "tuning.db"
    runner = Pretender(stops_after=7)
    result = ansor.tune(matmul(), trials=30, database=path, runner=runner)
    assert not result.is_complete
    assert result.stopped == "interrupted"
    assert result.trials == 7
    with ansor.Database(path) as database:
        assert len(database) == 7


def test_stop_ends_the_search_and_progress_sees_every_trial():
    seen = []
    result = ansor.tune(
        matmul(),
        trials=30,
        runner=Pretender(fails=(1, 2)),
        progress=seen.append,
        stop=lambda now: now.trials >= 5,
    )
    assert result.trials == 5 == len(seen)
    assert result.stopped == "stopped by the caller"
    assert seen[-1].failures == 2
    assert result.failures == {"check": 2}


def test_no_valid_candidate_is_an_error_that_says_why():
    runner = Pretender(fails=range(100))
    with pytest.raises(ansor.MeasureError) as caught:
        ansor.tune(matmul(), trials=6, runner=runner)
    assert "none of 6 candidates gave a time: 6 at check (wrong)" in str(caught.value)
    assert "--reproduce" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "no budget"),
        ({"trials": 0}, "is below 1"),
        ({"trials": 1.5}, "is not an integer"),
        ({"seconds": -1}, "is not a time above 0"),
        ({"trials": 1, "policy": "magic"}, "policies are 'evolution', 'beam'"),
    ],
)
def test_bad_budgets_and_policies_are_refused(options, message):
    with pytest.raises(ansor.MeasureError, match=message):
        ansor.tune(matmul(), **options)


def test_what_is_no_task_is_refused():
    with pytest.raises(ansor.ScheduleError, match="not a task"):
        ansor.tune("matmul", trials=1)


@pytest.mark.llvm
def test_a_real_search_gives_a_verified_kernel(tmp_path):
    result = ansor.tune(matmul(), trials=4, database=tmp_path / "tuning.db")
    assert result.trials == 4
    x, y = np.random.default_rng(0).random((2, 64, 64), np.float32)
    np.testing.assert_allclose(result.kernel(x, y), x @ y, rtol=1e-4)
    assert all(r.verified for r in result.records if r.seconds is not None)
