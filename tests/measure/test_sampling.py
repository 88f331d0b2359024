"""Sampling on a simulated machine: no test here looks at a real clock."""

import dataclasses
import math
from collections.abc import Callable
from statistics import median

import numpy as np
import pytest

from ansor.errors import ArgumentError
from ansor.measure.sampling import Samples, Sampling, emptying, sample, spread
from simulated import NOISES, Machine

QUIET = {"drift": 0.0, "noisy": 0.0, "jitter": 0.0}
Run = Callable[[int], float]


def machine(seed: int = 0, **noise: float) -> Machine:
    return Machine(np.random.default_rng(seed), **noise)


def quiet() -> Machine:
    return machine(**QUIET)


def ratios(noise: dict[str, float], trials: int, slower: float = 1.0) -> np.ndarray:
    """Estimates of a kernel `slower` than its anchor, relative to the anchor."""
    return np.array([median(one(seed, noise, slower).ratios) for seed in range(trials)])


def one(seed: int, noise: dict[str, float], slower: float = 1.0) -> Samples:
    host = machine(seed, **noise)
    run, anchor = host.kernel(slower * 1e-3), host.kernel(1e-3)
    return sample(run, anchor=anchor, best=1e-3, watch=host.watch, clock=host.clock)


@pytest.mark.parametrize("noise", NOISES)
def test_copies_of_a_kernel_are_equally_fast(noise: str) -> None:
    found = ratios(NOISES[noise], 200)
    assert np.mean(np.abs(found - 1) <= 0.05) >= 0.95


@pytest.mark.parametrize("noise", ["drift", "slow drift", "bursts"])
def test_a_kernel_that_is_five_percent_slower_is_seen_to_be(noise: str) -> None:
    found = ratios(NOISES[noise], 200, slower=1.05)
    assert np.mean(found > 1.02) >= 0.95


def test_the_anchor_is_what_cancels_drift() -> None:
    noise = {"memory": 0.5}
    alone = [median(one(seed, noise).seconds) / 1e-3 for seed in range(200)]
    assert np.mean(np.abs(np.array(alone) - 1) <= 0.05) < 0.9


@pytest.mark.parametrize("noise", ["drift", "fast drift", "noisy"])
def test_a_kernel_of_a_millisecond_takes_forty(noise: str) -> None:
    spent = []
    for seed in range(100):
        host = machine(seed, **NOISES[noise])
        runs = [host.kernel(1e-3), host.kernel(1e-3)]
        sample(runs[0], anchor=runs[1], watch=host.watch, clock=host.clock)
        spent.append(host.now)
    assert np.quantile(spent, 0.95) <= 0.040


def test_sampling_ends_once_the_estimate_is_sure() -> None:
    host = quiet()
    found = sample(host.kernel(1e-3), clock=host.clock)
    assert found == Samples((pytest.approx(1e-3),) * 5)


def test_short_calls_are_looped() -> None:
    host = quiet()
    found = sample(host.kernel(1e-6), clock=host.clock)
    assert found.seconds == pytest.approx([1e-6] * 5)
    assert host.now == pytest.approx(7e-3, rel=0.3)  # warm-up, and five samples


def test_long_calls_are_few() -> None:
    host = quiet()
    found = sample(host.kernel(0.7), anchor=host.kernel(0.6), clock=host.clock)
    assert len(found.seconds) == len(found.anchor) == 1
    assert host.calls == 4


def test_calls_of_a_tenth_of_a_second_have_three_samples() -> None:
    host = quiet()
    found = sample(host.kernel(0.1), anchor=host.kernel(0.1), clock=host.clock)
    assert len(found.seconds) == 3


@pytest.mark.parametrize(
    ("slower", "calls"), [(1.35, 3), (1.8, 3), (3.5, 2), (5.0, 1), (100.0, 1)]
)
def test_what_cannot_win_is_given_up(slower: float, calls: int) -> None:
    host = quiet()
    run, anchor = host.kernel(slower * 1e-3), host.kernel(1e-3)
    found = sample(run, anchor=anchor, best=1e-3, clock=host.clock)
    assert found.stopped
    assert len(found.seconds) == calls
    assert len(found.anchor) in (0, calls)


def test_without_an_anchor_the_best_is_what_it_was() -> None:
    host = quiet()
    found = sample(host.kernel(1.4e-3), best=1e-3, clock=host.clock)
    assert found.stopped
    assert found.anchor == ()


def test_what_may_win_is_not_given_up() -> None:
    stopped = [one(seed, NOISES["noisy"], 1.1).stopped for seed in range(300)]
    assert np.mean(stopped) <= 0.01


def test_a_slow_machine_is_not_held_against_the_candidate() -> None:
    host = quiet()
    found = sample(
        host.kernel(2e-3), anchor=host.kernel(2e-3), best=1e-3, clock=host.clock
    )
    assert not found.stopped


class Script:
    """A kernel whose times are listed, and what was stolen of each."""

    def __init__(self, times: list[float], stolen: list[float]) -> None:
        self.times, self.stolen = iter(times), iter(stolen)
        self.now, self.lost = 0.0, 0.0

    def run(self, count: int) -> float:
        seconds = count * next(self.times)
        self.now += seconds
        self.lost += next(self.stolen, 0.0)
        return seconds

    def watch(self) -> float:
        lost, self.lost = self.lost, 0.0
        return lost

    def sampled(self, settings: Sampling) -> Samples:
        return sample(
            self.run, settings=settings, watch=self.watch, clock=lambda: self.now
        )


def test_a_disturbed_sample_is_repeated() -> None:
    script = Script([1, 1, 1.2, 1, 1, 1], [0, 0.2, 0.2, 0, 0, 0])
    found = script.sampled(Sampling(limit=100, warm_up=0))
    assert found == Samples((1, 1, 1))


def test_disturbed_samples_are_left_out_if_others_are_enough() -> None:
    times, stolen = [1, 1.1, 1, 1, 1, 1], [0, 0.1, 0, 0, 0, 0]
    settings = Sampling(limit=100, budget=100, warm_up=0, retries=0, most=5)
    found = Script(times, stolen).sampled(settings)
    assert found == Samples((1, 1, 1, 1))


def test_load_until_the_end_is_said() -> None:
    settings = Sampling(limit=100, warm_up=0, retries=1)
    found = Script([2.0] * 9, [1.0] * 9).sampled(settings)
    assert found == Samples((2, 2, 2), disturbed=True)


def test_an_outlier_is_load_that_was_not_seen() -> None:
    settings = Sampling(limit=100, budget=100, warm_up=0, most=4)
    found = Script([1, 1, 2, 1, 1], []).sampled(settings)
    assert found == Samples((1, 1, 1))


def test_warm_up_goes_on_until_batches_agree() -> None:
    settings = Sampling(sample=1, limit=100, warm_up=100, budget=0)
    found = Script([9, 5, 2, 1, 1, 1, 1, 1], []).sampled(settings)
    assert found.seconds == (1, 1, 1)


def test_anchor_and_candidate_take_turns_in_being_first() -> None:
    order = ""

    def named(name: str) -> Run:
        def run(count: int) -> float:
            nonlocal order
            order += name
            return count * 1e-3

        return run

    settings = Sampling(warm_up=0)
    sample(named("A"), anchor=named("B"), settings=settings, clock=lambda: 0.0)
    assert order == "AB" + "ABBAABBAAB"


def test_a_clock_that_stands_still_ends() -> None:
    found = sample(lambda count: 0.0, clock=lambda: 0.0)
    assert min(found.seconds) > 0


def test_cold_samples_are_single_calls() -> None:
    counts = []

    def run(count: int) -> float:
        counts.append(count)
        return 1e-6

    found = sample(run, settings=Sampling.cold_cache(4096), clock=lambda: 0.0)
    assert set(counts) == {1}
    assert set(found.seconds) == {1e-6}


def test_a_cold_run_adds_up_its_calls() -> None:
    assert emptying(lambda count: float(count), 64)(3) == 3.0


def test_the_spread_of_few_values_is_unknown() -> None:
    assert spread([1.0] * 4) == math.inf
    assert spread([1.0] * 5) == 0.0
    assert spread([1.0, 1.01, 0.99, 1.02, 0.98, 50.0]) < 0.03


@pytest.mark.parametrize(
    "wrong", [{"sample": -1.0}, {"budget": math.nan}, {"fewest": 0}, {"most": 2}]
)
def test_settings_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError):
        dataclasses.replace(Sampling(), **wrong)  # type: ignore[arg-type]
