"""Ranking on a simulated machine, and its rule for ties."""

import numpy as np
import pytest

from ansor.errors import ArgumentError
from ansor.measure.rank import Ranking, interval, rank
from ansor.measure.sampling import Sampling
from simulated import NOISES, Machine

DEFAULT = Sampling()


def ranked(
    times: list[float], noise: str, seed: int, settings: Sampling = DEFAULT
) -> tuple[Ranking, Machine]:
    """A ranking of kernels of these milliseconds."""
    machine = Machine(np.random.default_rng(seed), **NOISES[noise])
    runs = [machine.kernel(time * 1e-3) for time in times]
    rng = np.random.default_rng(seed)
    found = rank(
        runs, settings=settings, rng=rng, watch=machine.watch, clock=machine.clock
    )
    return found, machine


def wins(times: list[float], noise: str, expected: int, trials: int = 100) -> float:
    winners = [ranked(times, noise, seed)[0].winner for seed in range(trials)]
    return winners.count(expected) / trials


@pytest.mark.parametrize("noise", NOISES)
def test_five_percent_decide_whatever_the_order(noise: str) -> None:
    assert wins([1.05, 1.0], noise, 1) >= 0.95
    assert wins([1.0, 1.05], noise, 0) >= 0.95


@pytest.mark.parametrize("noise", NOISES)
def test_of_equal_ones_the_first_wins(noise: str) -> None:
    assert wins([1.0, 1.0, 1.0], noise, 0, trials=50) >= 0.95


def test_the_fastest_of_several_wins() -> None:
    assert wins([1.04, 1.3, 1.0, 1.1, 2.0], "drift", 2) >= 0.95


def test_a_difference_within_the_tie_does_not_count() -> None:
    settings = Sampling(tie=0.1)
    found, _ = ranked([1.04, 1.0], "slow drift", 0, settings)
    assert found.tied == (0, 1)
    assert (found.winner, found.fastest) == (0, 1)
    assert found.order == (0, 1)


def test_slow_ones_leave_early() -> None:
    found, _ = ranked([1.0, 3.0, 1.0], "fast drift", 0)
    assert len(found.seconds[1]) == 8
    assert len(found.seconds[0]) == len(found.seconds[2]) > 8


def test_ratios_are_to_the_fastest() -> None:
    found, _ = ranked([1.2, 1.0, 1.5], "drift", 1)
    assert found.ratios == pytest.approx([1.2, 1.0, 1.5], rel=0.03)
    assert found.order == (1, 0, 2)
    for ratio, (low, high) in zip(found.ratios, found.intervals, strict=True):
        assert low <= ratio <= high


def test_the_same_seed_gives_the_same_ranking() -> None:
    assert ranked([1.0, 1.02], "noisy", 7)[0] == ranked([1.0, 1.02], "noisy", 7)[0]


def test_time_is_bounded() -> None:
    _, machine = ranked([1.0] * 8, "fast drift", 0, Sampling(rank_budget=0.1))
    assert machine.now <= 0.1 + 0.03


def test_long_kernels_are_told_apart_by_what_there_is() -> None:
    found, _ = ranked([3000.0, 1500.0], "slow drift", 0)
    assert [len(x) for x in found.seconds] == [1, 1]
    assert found.winner == 1


def test_one_is_the_winner() -> None:
    assert ranked([1.0], "drift", 0)[0].tied == (0,)


def test_none_is_refused() -> None:
    with pytest.raises(ArgumentError, match="nothing to rank"):
        rank([], rng=np.random.default_rng(0))


@pytest.mark.parametrize(("count", "skip"), [(3, 0), (8, 0), (12, 1), (20, 3)])
def test_the_interval_of_a_median(count: int, skip: int) -> None:
    values = list(map(float, range(count)))
    assert interval(values) == (skip, count - 1 - skip)


def test_intervals_hold_the_median_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    draws = rng.exponential(size=(2000, 15))
    found = np.array([interval(list(row)) for row in draws])
    inside = (found[:, 0] <= np.log(2)) & (np.log(2) <= found[:, 1])
    assert inside.mean() >= 0.985
