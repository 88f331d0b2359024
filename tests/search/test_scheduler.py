"""Who gets the next batch: choosers, on tasks that exist on paper."""

import sys
from dataclasses import replace
from pathlib import Path
from statistics import median

import numpy as np
import pytest

import ansor
from ansor.search.budget import Finalist
from ansor.search.chooser import Chance, Gradient, RoundRobin, Standing, make_chooser
from ansor.search.finals import Final, in_order, reserved
from ansor.search.objective import Deadlines, Network, Speedup, bound

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
from curves import Simulated, share, until

GREEDY = {"epsilon": 0.0}


def task(seconds: float, *bests: float, at: int = 0, **more) -> Standing:
    return Standing(seconds, bests or (seconds,), places=(at,), **more)


def chosen(tasks, objective=None, weights=None, **options) -> int | None:
    placed = [replace(task, places=(at,)) for at, task in enumerate(tasks)]
    goal = bound(objective, weights or [1.0] * len(tasks))
    return Gradient(**{**GREEDY, **options}).choose(placed, goal)


def test_it_spends_where_most_time_is():
    assert chosen([task(1.0), task(5.0), task(2.0)]) == 1
    assert chosen([task(1.0), task(5.0), task(2.0)], weights=[9, 1, 1]) == 0


def test_what_was_never_measured_comes_first_unless_it_is_small():
    fresh = Standing(1.0)
    assert chosen([task(2.0), fresh]) == 1
    assert chosen([task(50.0), fresh]) == 0


def test_hope_fades_with_the_batches_and_gains_keep_it_up():
    tried = task(4.0, *[4.0] * 12)
    assert chosen([tried, task(1.0)]) == 1
    assert chosen([replace(tried, bests=(4.0,)), task(1.0)]) == 0
    gaining = task(4.0, 16.0, 12.0, 8.0, 4.0)
    stuck = task(4.0, 4.0, 4.0, 4.0, 4.0)
    assert chosen([stuck, gaining], alpha=0.5) == 1


def test_less_is_hoped_of_what_is_near_full_speed():
    assert chosen([task(4.0, ideal=3.5), task(1.0, ideal=0.2)]) == 1
    assert chosen([task(40.0, ideal=50.0), task(1.0, ideal=0.2)]) == 0


def test_cheap_batches_are_preferred():
    assert chosen([task(2.0, cost=3.0), task(1.0, cost=1.0)]) == 1


def test_a_task_at_its_roofline_has_nothing_to_hope_for():
    assert chosen([task(5.0, least=4.9), task(1.0)]) == 1
    assert chosen([task(5.0, least=9.0), task(1.0)]) == 1  # the figure is wrong
    assert chosen([task(5.0, least=5.0)]) is None


def test_a_task_slower_than_others_like_it_may_catch_up():
    slow = task(1.0, *[1.0] * 8, flops=10.0, alike=(1,))
    fast = task(1.0, *[1.0] * 8, flops=80.0, alike=(0,))
    third = task(3.0, *[3.0] * 8)
    assert chosen([slow, fast, third]) == 0
    assert chosen([replace(slow, alike=()), fast, third]) == 2
    assert chosen([slow, fast, third], beta=8.0) == 2


def test_similarity_that_does_not_hold_is_forgotten():
    slow = task(1.0, *[1.0] * 14, flops=10.0, alike=(1,))
    fast = task(1.0, *[1.0] * 8, flops=80.0, alike=(0,))
    assert chosen([slow, fast, task(3.0, *[3.0] * 8)]) == 2


def test_a_network_within_its_deadline_gets_nothing_more():
    nets = (Network("done", {0: 1}), Network("late", {1: 1}))
    tasks = [task(9.0), task(2.0, *[2.0] * 9)]
    assert chosen(tasks, Deadlines((10.0, 1.0), nets)) == 1
    assert chosen(tasks, Deadlines((10.0, 3.0), nets)) is None


def test_a_speedup_counts_shares_not_seconds():
    nets = (Network("large", {0: 1, 1: 1}), Network("small", {2: 1}))
    tasks = [task(10.0), task(10.0), task(0.1)]
    assert chosen(tasks) in (0, 1)
    assert chosen(tasks, Speedup((20.0, 0.1), nets)) == 2


def test_an_objective_that_falls_only_after_several_batches_is_pursued():
    late = lambda times: float(sum(times) > 1.0)  # noqa: E731
    assert chosen([task(6.0, *[6.0] * 9), task(7.0, *[7.0] * 9)], late) == 1
    assert chosen([task(0.1), task(0.2)], late) is None


def test_closed_tasks_get_nothing():
    tasks = [task(5.0, is_open=False), task(1.0)]
    assert chosen(tasks) == 1
    assert chosen(tasks[:1]) is None
    goal = bound(None, [1.0])
    assert RoundRobin().choose([replace(tasks[0])], goal) is None
    assert Chance().choose([replace(tasks[0])], goal) is None


def test_epsilon_visits_all_of_them_now_and_then():
    tasks = [task(100.0, at=0), task(1.0, at=1), task(1.0, at=2)]
    chooser = Gradient(seed=3, epsilon=0.3)
    goal = bound(None, [1.0] * 3)
    counts = np.bincount([chooser.choose(tasks, goal) for _ in range(400)])
    assert counts[0] > 280
    assert min(counts[1:]) > 20


def test_round_robin_takes_turns():
    _, batches = Simulated.network(7, 1.0, 0).run(RoundRobin(), 7 * 3 + 2)
    assert sorted(batches) == [3] * 5 + [4] * 2


@pytest.mark.parametrize("name", ["gradient", "round-robin", "random"])
def test_same_seed_same_choices(name):
    tasks = Simulated.network(9, 1.0, 5)
    one, two = (tasks.run(make_chooser(name, 4), 60) for _ in range(2))
    assert one == two


def test_unknown_schedulers_are_named():
    with pytest.raises(ansor.MeasureError, match="schedulers are 'gradient'"):
        make_chooser("magic", 0)


def test_equal_tasks_in_several_places_count_together():
    tasks = [
        Standing(1.0, (1.0,), places=(0, 2, 3)),
        Standing(2.0, (2.0,), places=(1,)),
    ]
    assert Gradient(**GREEDY).choose(tasks, bound(None, [1.0] * 4)) == 0


# -- simulated networks ----------------------------------------------------------------


def test_the_gradient_ends_below_round_robin_and_chance():
    ends = np.array(
        [
            [
                Simulated.network(20, 1.3, seed).run(chooser, 80)[0][-1]
                for chooser in (Gradient(seed), RoundRobin(), Chance(seed))
            ]
            for seed in range(4)
        ]
    )
    ours, robin, chance = (ends / ends[:, :1]).mean(0)
    assert ours < min(robin, chance) / 1.005


def test_the_gradient_needs_far_fewer_batches():
    found = [
        share(Simulated.network(25, 1.3, seed), lambda: Gradient(0), RoundRobin(), 100)
        for seed in range(5)
    ]
    assert median(found) < 0.65


def test_expensive_batches_are_worth_it_only_for_what_they_bring():
    flat = np.full((2, 50), 1.0)
    tasks = Simulated(flat, np.ones(2), np.zeros(2), np.array([1.0, 4.0]))
    _, (cheap, dear) = tasks.run(Gradient(**GREEDY), 50)
    assert 2.5 <= cheap / dear <= 5


def test_until_means_for_good():
    assert until([5.0, 1.0, 3.0, 1.0, 1.0], 2.0) == 4
    assert until([5.0, 3.0], 2.0) is None
    assert until([1.0], 2.0) == 1


# -- the last rankings -----------------------------------------------------------------


def final(number: int, stake: float, *seconds: float) -> Final:
    return Final(number, stake, tuple(Finalist(x, 0.0, 0) for x in seconds))


def test_rankings_go_where_most_is_at_stake():
    clear = final(0, 9.0, 1e-3)  # there is nobody else
    close = final(1, 1.0, 1e-3, 1.01e-3)
    vague = final(2, 1.0, 1e-3, 1.14e-3)
    dear = final(3, 1.0, 10.0, 10.1)
    order = [x.number for x in in_order([clear, close, vague, dear])]
    assert order == [1, 2, 3]
    assert reserved([clear, close, vague, dear], 4.0) < 4.0
    assert reserved([close], 0.1) == 0.0
