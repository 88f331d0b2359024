"""What every policy promises, whatever it does inside."""

import numpy as np
import pytest

import ansor
from ansor.cost.model import AnalyticModel
from ansor.records.outcome import Failed, Timed
from ansor.search.evolution import Evolution, EvolutionPolicy
from ansor.search.judge import Belief
from ansor.search.policies import POLICIES, make_policy
from ansor.search.roofline import roofline
from ansor.space.constraints import one_of
from ansor.space.divisors import divided

PAIR = ansor.Target("aarch64", cpu="neoverse-n1", cores=2)
NAMES = tuple(POLICIES)


def task(n: int = 96) -> ansor.Task:
    a = ansor.placeholder((n, n), name="A")
    b = ansor.placeholder((n, n), name="B")
    return ansor.Task(ansor.ops.matmul(a, b, name="C"), PAIR)


@pytest.fixture(scope="module")
def sketches():
    return ansor.sketches(task())[:8]


@pytest.fixture(scope="module")
def small():
    """A space of a few hundred points at most, one structure of it."""
    fixed = [one_of(f"{axis}.{n}", 1) for axis in "ij" for n in (1, 2)]
    fixed += [one_of("i.3", 1, 2, 4), one_of("j.3", 4, 8), one_of("k.1", 1, 4)]
    return ansor.sketches(task(), constraints=fixed, most=4)[3:]


def made(name: str, sketches, seed: int = 0):
    return make_policy(name, task(), sketches, seed, AnalyticModel())


def outcome(program) -> Timed:
    return Timed((1e-3 * (1 + sum(np.log2(program.point)) / 50),))


def searched(policy, batches: int, count: int = 12, failing=lambda n: False) -> list:
    found: list = []
    for _ in range(batches):
        programs = policy.ask(count)
        policy.tell(
            programs,
            [
                Failed("check", "wrong", "pretended") if failing(n) else outcome(p)
                for n, p in enumerate(programs, len(found))
            ],
        )
        found += programs
    return found


def keys(programs) -> list:
    return [(program.sketch.trace, program.point) for program in programs]


@pytest.mark.parametrize("name", NAMES)
def test_never_twice_and_all_can_run(name, sketches):
    found = searched(made(name, sketches), 5)
    assert len(found) == 60 == len(set(keys(found)))
    assert all(p.sketch.feasible(np.array([p.point])).all() for p in found)


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_decisions(name, sketches):
    one, two, other = (
        keys(searched(made(name, sketches, seed), 3)) for seed in (3, 3, 4)
    )
    assert one == two != other


@pytest.mark.parametrize("name", NAMES)
def test_a_small_space_comes_to_its_end(name, small):
    policy = made(name, small)
    found = searched(policy, 12)
    assert 0 < len(found) == len(set(keys(found)))
    assert policy.ask(12) == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("failing", [lambda n: True, lambda n: n % 3 > 0])
def test_failures_do_not_stop_it(name, failing, sketches):
    policy = made(name, sketches)
    assert len(searched(policy, 4, failing=failing)) == 48
    assert policy.is_done(None) == ""


@pytest.mark.parametrize("name", NAMES)
def test_without_a_structure_there_is_nothing(name):
    assert made(name, []).ask(4) == []


# -- the limited space -----------------------------------------------------------------


def test_divisors_divide_and_nothing_is_packed():
    found = divided(ansor.sketches(task(90)))
    assert found
    for sketch in found:
        assert not any("pack" in entry for entry in sketch.trace)
        points = sketch.sample(200, 0)
        assert len(points)
        for group in sketch.table.groups:
            assert (group.extent % np.prod(points[:, group.columns[:-1]], 1) == 0).all()
    whole = divided(ansor.sketches(task(96)))[0]
    points = whole.sample(200, 0)
    for group in whole.table.groups:
        assert (96 % np.prod(points[:, group.columns], 1) == 0).all()


def test_a_prime_extent_has_whole_vectors_still():
    found = divided(ansor.sketches(task(97)))
    assert all(len(sketch.sample(20, 0)) for sketch in found)


# -- early stop ------------------------------------------------------------------------


class Sure:
    """Believes that nothing is faster than this."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def believe(self, sketch, points) -> Belief:
        return Belief(np.full(len(points), self.seconds), np.zeros(len(points)))

    def learn(self, trials) -> None:
        pass


def test_it_stops_only_when_nothing_better_is_in_sight(small):
    def end(seconds: float) -> list[str]:
        policy = EvolutionPolicy(small, 0, Sure(seconds), Evolution(certain=12))
        policy.settings = Evolution(certain=12, explore=8)
        said = []
        while programs := policy.ask(6):
            policy.tell(programs, [outcome(p) for p in programs])
            said.append(policy.is_done(1e-3))
        return said

    assert set(end(0.5e-3)) == {""}
    assert "no gain expected" in end(2e-3)


def test_it_stops_at_the_roofline(sketches, monkeypatch):
    monkeypatch.setattr("ansor.search.evolution.roofline", lambda task: 1e-3)
    policy = EvolutionPolicy(sketches, 0, Sure(1e-4))
    assert policy.is_done(1.01e-3) == ""  # too early
    searched(policy, 3)
    assert policy.is_done(1.01e-3) == "99% of the roofline"
    assert policy.is_done(1.1e-3) == ""
    assert policy.is_done(0.9e-3) == ""  # the roofline is wrong


def test_the_roofline_is_a_lower_bound(monkeypatch, tmp_path):
    monkeypatch.setenv("ANSOR_CACHE_DIR", str(tmp_path))
    assert roofline(task()) == 0.0  # nothing is known
