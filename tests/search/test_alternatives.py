"""Tasks that share a place: the fastest counts, the others while they may become it."""

import pytest

import ansor
from ansor.search.chooser import AHEAD, Gradient, Standing, spread
from ansor.search.estimate import may_pay
from ansor.search.objective import Deadlines, bound
from ansor.search.scheduler import UNLIKELY
from search.test_tune_several import (
    Scripted,
    falling,
    flat,
    product,
    programs,
    runner,
)


def standing(seconds: float, *bests: float, at: int = 0, **more) -> Standing:
    return Standing(seconds, bests, places=(at,), **more)


def gain(tasks, number: int) -> float:
    return Gradient(epsilon=0.0).gain(tasks, bound(None, [1.0]), number)


# -- how things stand ------------------------------------------------------------------


def test_the_fastest_that_ran_counts():
    slow, fast = standing(3.0, 3.0), standing(2.0, 2.0)
    assert spread([slow, fast]) == spread([fast, slow]) == [2.0]
    assert spread([slow, standing(1.0)]) == [3.0]  # a belief
    assert spread([standing(3.0), standing(1.0)]) == [3.0]
    assert spread([standing(3.0), standing(1.0, float("inf"))]) == [3.0]
    assert spread([slow, fast], 0, 1.5) == [1.5]
    assert spread([slow, fast, standing(7.0, 7.0, at=1)]) == [2.0, 7.0]


def test_what_never_ran_has_a_first_batch_also_if_it_seems_slower():
    tried = standing(1.0, *[1.0] * 3)
    assert Gradient(epsilon=0.0).choose(
        [tried, standing(1.3)], bound(None, [1.0])
    ) == 1  # fmt: skip


def test_a_rival_has_batches_while_it_may_become_the_faster_one():
    best = standing(1.0, *[1.0] * 3)
    close, far = standing(1.1, 1.1), standing(3.0, 3.0)
    assert gain([best, close], 1) > 0
    assert gain([best, far], 1) == 0
    assert gain([best, standing(1.1, 1.1, ideal=1.09)], 1) < gain([best, close], 1)
    assert gain([best, standing(1.1, 1.1, least=1.05)], 1) == 0
    tired = standing(1.4, *[1.4] * 40)
    assert gain([best, tired], 1) == 0


def test_several_batches_count_where_one_brings_nothing():
    best, other = standing(1.0, *[1.0] * 3), standing(1.4, 1.4)
    after = Gradient(epsilon=0.0)._expected([best, other], 1)
    times = [next(after) for _ in range(AHEAD)]
    assert times == sorted(times, reverse=True)
    assert times[0] > 1.0 > times[-1]
    assert gain([best, other], 1) == pytest.approx(
        max((1.0 - time) / (n + 1) for n, time in enumerate(times))
    )


def test_what_is_alone_in_its_place_is_judged_by_its_next_batch():
    task = standing(1.4, 1.4)
    (first,) = (x for x, _ in zip(Gradient()._expected([task], 0), "1", strict=False))
    assert gain([task], 0) == pytest.approx(1.4 - first)


def test_an_alternative_may_seem_a_little_slower_or_need_far_less_arithmetic():
    assert may_pay((1.1, 1.0), (1, 1))
    assert not may_pay((1.2, 1.0), (1, 1))
    assert may_pay((1.2, 1.0), (4, 9))


# -- tuned -----------------------------------------------------------------------------

TASKS = [product(name, n) for name, n in {"X": 48, "Y": 47, "Z": 32}.items()]


def tuned(measured: Scripted, **options):
    options = {
        "policy": "random", "batch": 4, "places": [0, 0, 1], "weights": [2, 1],
        **options,
    }  # fmt: skip
    return ansor.tune(TASKS, runner=measured, **options)


def test_the_slower_one_is_left_alone():
    results = tuned(runner(flat(1e-3), flat(3e-3), flat(5e-4)), trials=60)
    assert 4 <= results.allocation[1] <= 8
    assert results.allocation[0] >= 28
    assert (results.places, results.fastest) == ((0, 0, 1), (0, 2))
    assert results.seconds == pytest.approx(2e-3 + 5e-4)
    assert [result.task for result in results] == TASKS


def test_one_that_overtakes_counts():
    made = runner(flat(1e-3), falling(1.1e-3, 0.98), flat(1e-5))
    results = tuned(made, trials=80)
    assert results.fastest == (1, 2)
    assert results.allocation[1] > results.allocation[0]
    assert results.seconds == pytest.approx(2 * results[1].seconds + results[2].seconds)
    assert results.history[-1].best == pytest.approx(results.seconds, rel=0.05)


def test_one_that_fails_does_not_count():
    results = tuned(runner(flat(1e-3), lambda n: None, flat(1e-5)), trials=60)
    assert results.fastest == (0, 2)
    assert results[1].error is not None
    assert results.allocation[1] <= 12


def test_one_that_is_not_believed_in_is_not_tried(monkeypatch):
    monkeypatch.setattr(
        "ansor.search.scheduler.estimate",
        lambda task: 9e-3 if task.dag.outputs[0].name == "Y" else 1e-3,
    )
    results = tuned(runner(flat(1e-3), flat(1e-4), flat(1e-4)), trials=24)
    assert results.allocation[1] == 0
    assert (results[1].stopped, results[1].error) == (UNLIKELY, None)
    assert results.fastest == (0, 2)


def test_a_second_run_decides_the_same(tmp_path):
    curves = [falling(1e-3), falling(1.2e-3, 0.95), flat(1e-4)]
    first = tuned(runner(*curves), trials=40, database=tmp_path / "tuning.db")
    made = runner(*curves)
    again = tuned(made, trials=40, database=tmp_path / "tuning.db")
    assert made.asked == []
    assert programs(again) == programs(first)
    assert (again.fastest, again.seconds) == (first.fastest, first.seconds)


def test_objectives_see_one_time_for_each_place():
    made = runner(flat(1e-3), flat(5e-4), flat(1e-4))
    results = tuned(made, trials=200, objective=Deadlines(1.5e-3))
    assert results.stopped == "no gain expected"
    assert results.seconds == pytest.approx(1.5e-3)
    pair = []
    tuned(made, trials=24, objective=lambda times: pair.append(times) or sum(times))
    assert {len(times) for times in pair} == {2}


def test_progress_is_that_of_tasks_not_of_places():
    heard = []
    made = runner(flat(1e-3), flat(2e-3), flat(1e-4))
    tuned(made, trials=12, scheduler="round-robin", progress=heard.append)
    assert {len(now.rows) for now in heard} == {3}
    assert {now.rows[now.index].task.key for now in heard} == {x.key for x in TASKS}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"places": [0, 1]}, "tune with 2 places: has 3 tasks"),
        ({"places": [0, 2, 2]}, "without a gap"),
        ({"places": [0, 0, 1], "weights": [1, 1, 1]}, "has 2 places"),
    ],
)
def test_nonsense_is_named(options, message):
    with pytest.raises(ansor.MeasureError, match=message):
        tuned(runner(*[flat(1e-3)] * 3), trials=8, **options)
    if "weights" not in options:
        with pytest.raises(ansor.MeasureError, match="is for several tasks"):
            ansor.tune(TASKS[0], trials=8, places=options["places"])
