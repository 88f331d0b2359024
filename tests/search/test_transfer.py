"""What a search takes over from other tasks, and that it can do no harm."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

import ansor
from ansor.cost.features import extract
from ansor.cost.model import default_model
from ansor.cost.sample import Sample, task_key
from ansor.measure.runner import Measured, Ranked
from ansor.records.outcome import Timed
from ansor.search.evolution import EvolutionPolicy
from ansor.search.judge import ENOUGH, ModelJudge, Prior, Trials
from ansor.search.mapping import Anatomy, likeness, proposals, settled
from ansor.search.related import UNRELATED, distance
from ansor.search.transfer import Related, start_of

TARGET = ansor.Target("aarch64", cpu="neoverse-n1", cores=2)


def matmul(n: int, name: str = "C", target: ansor.Target = TARGET) -> ansor.Task:
    a = ansor.placeholder((n, n), name=f"{name}a")
    b = ansor.placeholder((n, n), name=f"{name}b")
    return ansor.Task(ansor.ops.matmul(a, b, name=name), target)


def conv(size: int, channels: int, window: int = 3) -> ansor.Task:
    x = ansor.placeholder((1, size, size, channels), name="X")
    w = ansor.placeholder((window, window, channels, channels), name="W")
    out = ansor.ops.conv2d(x, w, padding=window // 2, layout="NHWC")
    return ansor.Task(out, TARGET)


def softmax(n: int) -> ansor.Task:
    return ansor.Task(ansor.ops.softmax(ansor.placeholder((n, n))), TARGET)


def anatomies(task: ansor.Task) -> list[Anatomy]:
    return [Anatomy(sketch) for sketch in ansor.sketches(task) if sketch.is_feasible]


def nearest(source: Anatomy, goals: list[Anatomy]) -> Anatomy:
    return max(goals, key=lambda goal: likeness(source, goal))


def mapped(source: Anatomy, row: np.ndarray, goal: Anatomy, lanes: float = 1.0):
    return settled(goal.sketch, proposals(source, row.tolist(), goal, lanes))[0]


def tile(sketch, row: np.ndarray) -> list[int]:
    return [int(row[c]) for tiles in sketch.tiles for c in tiles.columns]


class Pretender:
    """Times are a function of the program; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[ansor.Program] = []

    def measure(self, task, candidates, incumbent=None) -> Iterator[Measured]:
        self.asked += candidates
        for at, program in enumerate(candidates):
            yield Measured(at, Timed((seconds(program),)), "by pretending", 0.1)

    def rank(self, task, candidates) -> Ranked:
        return Ranked(tuple(Timed((seconds(p),)) for p in candidates), 0)

    def close(self) -> None:
        pass


def seconds(program: ansor.Program) -> float:
    logs = np.log2(np.array(program.point, float))
    return 1e-3 * (1 + float(np.abs(logs - 2).sum()) + 0.1 * len(program.sketch.trace))


def tune(task: ansor.Task, trials: int, **options):
    runner = options.pop("runner", None) or Pretender()
    return ansor.tune(task, trials=trials, runner=runner, **options)


def programs(result) -> list[object]:
    return [record.program for record in result.records]


# -- mapping ---------------------------------------------------------------------------


@pytest.mark.parametrize("task", [matmul(96), conv(14, 32), softmax(64)])
def test_a_program_of_the_same_task_stays_what_it_is(task):
    for anatomy in anatomies(task):
        for row in anatomy.sketch.sample(2, seed=1):
            assert (mapped(anatomy, row, anatomy) == row).all()


def test_names_and_extents_are_no_part_of_the_structure():
    one, other = anatomies(matmul(96, "C")), anatomies(matmul(192, "other"))
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert [likeness(a, x) == 1.0 for x in other] == [x is b for x in other]


def test_twice_the_extents_have_the_same_register_tile_and_blocks_of_either_length():
    source = anatomies(matmul(128))[0]
    goal = nearest(source, anatomies(matmul(256)))
    names = [knob.name for knob in source.sketch.knobs]
    row = source.sketch.sample(1, seed=0)[0].copy()
    values = {"C.i.1": 4, "C.i.2": 4, "C.i.3": 4, "C.j.1": 2, "C.j.2": 2, "C.j.3": 8}
    values |= {"C.k.1": 16, "C.k.2": 4}
    row[:] = [values[name] for name in names]
    found = mapped(source, row, goal)
    assert goal.sketch.feasible(found).all()
    assert all(tile(goal.sketch, x) == tile(source.sketch, row) for x in found)
    assert {int(x[names.index("C.i.1")]) for x in found} == {4, 8}
    assert {int(x[names.index("C.k.1")]) for x in found} >= {16, 32}
    assert row.tolist() in found.tolist()


@pytest.mark.parametrize(
    ("source", "goal"),
    [
        (matmul(128), matmul(101)),
        (matmul(64), matmul(1009)),
        (conv(14, 64), conv(28, 16)),
        (conv(28, 16), conv(7, 96)),
        (matmul(128), conv(14, 64, 1)),
        (softmax(64), softmax(33)),
    ],
)
def test_what_is_mapped_is_feasible(source, goal):
    goals = anatomies(goal)
    for anatomy in anatomies(source)[:8]:
        best = nearest(anatomy, goals)
        for row in anatomy.sketch.sample(3, seed=2):
            found = mapped(anatomy, row, best)
            assert len(found)
            assert best.sketch.feasible(found).all()
            for column, knob in enumerate(best.sketch.knobs):
                assert set(found[:, column]) <= set(knob.candidates)


def test_another_operator_takes_over_the_register_tile():
    source = anatomies(matmul(128))[0]
    goal = nearest(source, anatomies(conv(28, 64, 1)))
    row = source.sketch.sample(1, seed=0)[0]
    mine = dict(zip([k.name for k in source.sketch.knobs], row.tolist(), strict=True))
    theirs = {knob.name: at for at, knob in enumerate(goal.sketch.knobs)}
    vector = mapped(source, row, goal)[:, theirs["conv2d.o.3"]]
    assert set(vector.tolist()) == {mine["C.j.3"]}


def test_vectors_of_another_machine_have_as_many_registers():
    source = anatomies(matmul(128))[0]
    wide = ansor.Target("x86_64", cpu="skylake-avx512", cores=2)
    times = wide.vector_bits // TARGET.vector_bits
    goal = nearest(source, anatomies(matmul(128, target=wide)))
    at = [knob.name for knob in goal.sketch.knobs].index("C.j.3")
    row = source.sketch.sample(1, seed=0)[0]
    found = mapped(source, row, goal, lanes=times)
    assert times > 1
    assert set(found[:, at].tolist()) == {times * int(row[at])}


def test_tasks_are_ordered_by_what_they_have_in_common():
    other = replace(TARGET, cores=8)
    order = [
        matmul(64, "renamed"),
        matmul(64, target=other),
        matmul(96),
        matmul(512),
        conv(14, 64),
    ]
    found = [distance(matmul(64), task) for task in order]
    assert found == sorted(found)
    assert found[0] == 0
    assert distance(matmul(64), softmax(64)) == UNRELATED


# -- the first batch -------------------------------------------------------------------


def test_seeds_get_half_of_the_first_batch_and_the_rest_is_as_without():
    task = matmul(128)
    sketches = ansor.sketches(task)
    seeds = [(s, row) for s in sketches[:6] for row in s.sample(3, seed=9)]

    def policy(given) -> EvolutionPolicy:
        judge = ModelJudge(default_model(0), task)
        return EvolutionPolicy(sketches, 0, judge, seeds=given)

    def asked(given) -> list[tuple[object, ...]]:
        return [(p.sketch.trace, p.point) for p in policy(given).ask(16)]

    cold, warm = asked(()), asked(seeds)
    assert [point for _, point in warm[:8]] == [tuple(row) for _, row in seeds[:8]]
    assert warm[8:] == cold[:8]
    few = asked(seeds[:3])
    assert few[3:] == cold[:13]
    same = policy(())
    again = [(p.sketch, np.array(p.point, np.int32)) for p in same.ask(16)][:8]
    assert asked(again) == cold  # seeds that would have been chosen take no place


def test_a_search_without_related_records_is_as_it_was(tmp_path):
    path = tmp_path / "tuning.db"
    tune(softmax(64), 8, database=path, policy="random")
    cold = programs(tune(matmul(96), 20))
    assert programs(tune(matmul(96), 20, database=path)) == cold


def test_transfer_changes_half_of_the_first_batch_at_most(tmp_path):
    path = tmp_path / "tuning.db"
    tune(matmul(128), 64, database=path, policy="random")
    cold = tune(matmul(192), 16)
    warm = tune(matmul(192), 16, database=path)
    count = sum(program not in programs(cold) for program in programs(warm))
    assert 2 <= count <= 8
    assert programs(warm)[count:] == programs(cold)[: 16 - count]
    assert min(r.seconds for r in warm.records[:count]) < min(
        r.seconds for r in cold.records
    )
    off = tune(matmul(192), 16, database=path, transfer=False)
    assert programs(off) == programs(cold)


def test_only_other_tasks_count_unless_another_llvm_compiled_them(tmp_path):
    task = matmul(96)
    with ansor.Database(tmp_path / "tuning.db") as database:
        result = tune(task, 8, database=database)
        llvm = result.records[0].versions["llvm"]
        found = ansor.sketches(task)
        assert not start_of(database, task, found, 1, llvm).seeds
        seeds = start_of(database, task, found, 1, "99.0").seeds
        best = min(result.records, key=lambda record: record.seconds).program
        points = [tuple(map(int, row)) for _, row in seeds]
        assert tuple(best["point"].values()) in points


# -- going on --------------------------------------------------------------------------


def test_a_search_that_goes_on_decides_as_when_it_began(tmp_path):
    def history(path, meanwhile: bool) -> list[object]:
        tune(matmul(128), 40, database=path, policy="random")
        tune(matmul(160), 10, database=path)
        if meanwhile:
            tune(matmul(144), 40, database=path, policy="random")
        runner = Pretender()
        result = tune(matmul(160), 20, database=path, runner=runner)
        assert len(runner.asked) <= 20
        return programs(result)

    other = history(tmp_path / "one.db", False)
    assert history(tmp_path / "two.db", True) == other


def test_what_comes_later_does_not_count(tmp_path):
    with ansor.Database(tmp_path / "tuning.db") as database:
        tune(matmul(128), 20, database=database, policy="random")
        last = database.last
        tune(matmul(144), 20, database=database, policy="random")
        assert [task.key for task in database.tasks(last)] == [matmul(128).key]
        assert len(list(database.tasks(database.last))) == 2
        related = Related(database, matmul(160), last)
        assert {source.anatomy.sketch.task.key for source in related.sources()} == {
            matmul(128).key
        }
        fast = [r.seconds for r in database.fastest(matmul(128), last, 5)]
        every = sorted(r.seconds for r in database.records(matmul(128), role="trial"))
        assert fast == every[:5]


# -- the prior -------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_prior_counts_only_while_it_ranks_the_trials_well(sign):
    """The machine disagrees with the analytic model; the prior with one of both."""
    sketch = ansor.sketches(matmul(128))[0]

    def sample(
        task: ansor.Task, sign: float, seed: int, count: int = 60
    ) -> tuple[Sample, Trials]:
        own = ansor.sketches(task)[0]
        points = own.sample(count, seed)
        column = [k.name for k in own.knobs].index("C.j.3")
        factor = np.exp(sign * np.log(points[:, column]))
        features = extract(own, points)
        times = features.seconds.sum(0) * factor
        return Sample(task_key(task), features, times), Trials(own, points, times)

    taught = default_model(0)
    others = tuple(sample(matmul(n), sign, n)[0] for n in (96, 160, 192))
    taught.fit(others)
    trials = sample(matmul(128), 1.0, 5, 16)[1]
    cold = ModelJudge(default_model(0), matmul(128))
    warm = ModelJudge(default_model(0), matmul(128), Prior(others, taught))
    points = sketch.sample(200, seed=7)
    before = [judge.believe(sketch, points).seconds for judge in (cold, warm)]
    np.testing.assert_array_equal(*before)  # the first batch is as without
    for judge in (cold, warm):
        judge.learn([trials])
    after = [judge.believe(sketch, points).seconds for judge in (cold, warm)]
    assert np.array_equal(*after) == (sign < 0)
    for judge in (cold, warm):
        judge.learn([sample(matmul(128), 1.0, 5, ENOUGH)[1]])
    np.testing.assert_array_equal(
        *(judge.believe(sketch, points).seconds for judge in (cold, warm))
    )
