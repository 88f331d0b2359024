"""Evolution: its proposals follow from seed, judge, and what it was told."""

import numpy as np
import pytest

import ansor
from ansor.records.outcome import Failed, Timed
from ansor.search.evolution import Evolution, EvolutionPolicy, neighbours
from ansor.search.judge import Belief, Indifferent
from ansor.search.policy import RandomPolicy


def task() -> ansor.Task:
    a = ansor.placeholder((512, 512), name="A")
    b = ansor.placeholder((512, 512), name="B")
    target = ansor.Target("aarch64", cpu="neoverse-n1", cores=2)  # on any machine
    return ansor.Task(ansor.ops.matmul(a, b, name="C"), target)


@pytest.fixture(scope="module")
def sketches():
    return ansor.sketches(task())[:12]


def truth(sketch, points) -> np.ndarray:
    """Seconds in a world where some lengths are best, and one structure."""
    logs = np.log2(np.asarray(points, float))
    ideal = (np.arange(logs.shape[1]) % 3) + 1.5
    badness = np.abs(logs - ideal).sum(1)
    return 1e-3 * (1 + 0.2 * badness + 0.3 * (len(sketch.trace) % 3))


class Tutor:
    """Knows the truth, but not well."""

    def __init__(self, noise: float) -> None:
        self.noise, self.taught = noise, 0

    def believe(self, sketch, points) -> Belief:
        rng = np.random.default_rng(points.sum() % 1000)
        seconds = truth(sketch, points)
        blur = np.exp(self.noise * rng.standard_normal(len(points)))
        return Belief(seconds * blur, np.full(len(points), self.noise))

    def learn(self, trials) -> None:
        self.taught = sum(len(part.points) for part in trials)


def search(policy, trials: int, batch: int = 16):
    """Programs in order, with their seconds."""
    found = []
    while len(found) < trials:
        programs = policy.ask(min(batch, trials - len(found)))
        assert programs
        outcomes = [
            Timed((float(truth(p.sketch, np.array([p.point]))[0]),)) for p in programs
        ]
        policy.tell(programs, outcomes)
        found += [(p, o.estimate) for p, o in zip(programs, outcomes, strict=True)]
    return found


def evolution(sketches, seed=0, judge=None, **settings) -> EvolutionPolicy:
    return EvolutionPolicy(sketches, seed, judge or Tutor(0.3), Evolution(**settings))


def key(program) -> tuple:
    return program.sketch.trace, program.point


def test_nothing_is_proposed_twice_and_all_is_feasible(sketches):
    found = search(evolution(sketches), 64)
    assert len({key(program) for program, _ in found}) == 64
    for program, _ in found:
        assert program.sketch.feasible([program.point]).all()


def test_not_even_by_chance(sketches):
    few = [min(sketches, key=lambda sketch: len(sketch.knobs))]
    found = search(evolution(few, random=0.9), 64)
    assert len({key(program) for program, _ in found}) == 64


def test_same_seed_same_decisions(sketches):
    one, two, other = (
        [key(program) for program, _ in search(evolution(sketches, seed), 48)]
        for seed in (3, 3, 4)
    )
    assert one == two != other


def test_the_first_batch_is_spread_out(sketches):
    first = evolution(sketches).ask(16)
    traces = [program.sketch.trace for program in first]
    assert max(map(traces.count, traces)) <= 6
    assert len(set(traces)) >= 3


def test_a_judge_makes_it_better_than_chance(sketches):
    def best(policy) -> float:
        return min(seconds for _, seconds in search(policy, 64))

    guided = np.mean([best(evolution(sketches, s)) for s in range(4)])
    blind = np.mean([best(evolution(sketches, s, Indifferent())) for s in range(4)])
    chance = np.mean([best(RandomPolicy(sketches, s)) for s in range(4)])
    assert guided < blind < chance


def test_the_judge_learns_every_trial(sketches):
    tutor = Tutor(0.3)
    search(evolution(sketches, judge=tutor), 40)
    assert tutor.taught == 40


def test_later_batches_look_near_the_best(sketches):
    found = search(evolution(sketches), 64)
    best = min(found[:48], key=lambda pair: pair[1])[0]
    last = [p for p, _ in found[48:] if p.sketch.trace == best.sketch.trace]
    differ = (np.array([p.point for p in last]) != np.array(best.point)).sum(1)
    assert min(differ) <= 2


def test_failures_are_no_parents(sketches):
    policy = evolution(sketches)
    programs = policy.ask(16)
    policy.tell(programs, [Failed("check", "wrong", "no")] * 16)
    assert len(policy.ask(16)) == 16


def test_neighbours_differ_by_a_step(sketches):
    sketch = sketches[0]
    row = sketch.sample(1, 0)[0]
    near = neighbours(sketch, row)
    assert len(near) > len(row)
    assert ((near != row).sum(1) >= 1).all()
    assert ((near != row).sum(1) <= 2).all()
    for column, knob in enumerate(sketch.knobs):
        assert set(near[:, column]) <= set(knob.candidates)


def test_without_a_feasible_sketch_there_is_nothing_to_ask():
    assert EvolutionPolicy([], 0, Indifferent()).ask(4) == []
