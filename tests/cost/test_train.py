"""Records to samples, tasks held out, and the figures that judge models."""

import numpy as np
import pytest

from ansor.cost.features import extract
from ansor.cost.model import AnalyticModel, model_from_name, task_key
from ansor.cost.sample import Sample
from ansor.cost.scores import (
    Scores,
    evaluate,
    mean,
    pairwise_accuracy,
    r_squared,
    recall,
)
from ansor.cost.train import apart, collect, folds, hold_out, tasks_of, train
from ansor.errors import CostError
from ansor.records.database import Database
from ansor.space.derive import sketches
from ansor.space.replay import replay
from cost.synthetic import features, sample, times
from measured import CHOICES, doubling, measured


@pytest.fixture
def database(tmp_path):
    with Database(tmp_path / "tuning.db", durable=False) as made:
        yield made


class TestCollect:
    def test_one_sample_for_each_sketch_of_each_task(self, database):
        tasks = [doubling(), doubling(size=999)]
        for task in tasks:
            database.add_all(task, [measured(task, n) for n in range(1, 13)])
        found = collect([database])
        assert found.tasks == tuple(map(task_key, tasks))
        assert [len(x.features) for x in found.samples] == [12, 12]
        assert (found.programs, found.left_out) == (22, 0)

    def test_times_belong_to_their_points(self, database):
        task = doubling()
        database.add_all(task, [measured(task, n) for n in range(1, 13)])
        (own,) = collect([database]).samples
        expected = [np.inf if n % 10 == 0 else n * 1e-6 for n in range(1, 13)]
        assert own.seconds.tolist() == pytest.approx(expected)
        program = database.record(5).program
        sketch = replay(database.task_of(database.record(5)), program).sketch
        alone = extract(sketch, [[5]])
        assert np.array_equal(own.features.values[:, 4], alone.values[:, 0])

    def test_names_do_not_part_a_task(self, database):
        for task in (doubling("B"), doubling("D")):
            database.add(task, measured(task))
        found = collect([database])
        assert (len(found.samples), len(found.tasks)) == (2, 1)

    def test_a_point_that_is_none_is_left_out_with_a_reason(self, database):
        task = doubling()
        good, bad = measured(task, 1), measured(task, 2)
        bad.program["point"] = {"t": max(CHOICES) + 1}
        database.add_all(task, [good, bad])
        found = collect([database])
        assert (found.programs, found.left_out) == (1, 1)
        assert found.reasons == ["a knob has a value that is no candidate, or none"]

    def test_steps_that_do_not_apply_are_left_out_with_a_reason(self, database):
        task = doubling()
        record = measured(task)
        record.program["steps"][0]["loop"] = "nonsense"
        database.add(task, record)
        found = collect([database])
        assert (found.samples, found.left_out) == ([], 1)
        assert "nonsense" in found.reasons[0]

    def test_an_empty_database(self, database):
        assert collect([database]).samples == []


MANY = [sample(20, n, f"task {n // 2}") for n in range(10)]


class TestHoldingOut:
    def test_tasks_are_on_one_side(self):
        train_on, test_on = hold_out(MANY, 0.4, seed=3)
        assert not set(tasks_of(train_on)) & set(tasks_of(test_on))
        assert (len(train_on), len(test_on)) == (6, 4)

    def test_the_seed_decides(self):
        choices = {tasks_of(hold_out(MANY, 0.2, seed)[1]) for seed in range(9)}
        assert len(choices) > 1
        assert tasks_of(hold_out(MANY, 0.2, 1)[1]) == tasks_of(
            hold_out(MANY, 0.2, 1)[1]
        )

    @pytest.mark.parametrize("share", [0.0, 1.0])
    def test_neither_side_is_empty(self, share):
        assert all(hold_out(MANY, share))

    def test_one_task_is_too_few(self):
        with pytest.raises(CostError, match="holding out of 1 task"):
            hold_out(MANY[:2])

    def test_folds_hold_every_task_out_once(self):
        held = [tasks_of(test) for _, test in folds(MANY, 3)]
        assert sorted(x for group in held for x in group) == sorted(tasks_of(MANY))
        assert len(list(folds(MANY, 99))) == 5

    def test_apart_keeps_all(self):
        others, own = apart(MANY, ["task 1"])
        assert len(others) + len(own) == len(MANY)


class TestScores:
    def test_pairs(self):
        truth = np.array([1.0, 2.0, 3.0, 3.0])
        assert pairwise_accuracy(truth, truth) == 1
        assert pairwise_accuracy(-truth, truth) == 0
        assert pairwise_accuracy(np.ones(4), truth) == 0.5
        assert pairwise_accuracy(truth, np.ones(4)) == 1  # nothing to get wrong

    def test_recall(self):
        truth = np.arange(10.0)
        assert recall(truth, truth, 3) == 1
        assert recall(-truth, truth, 3) == 0
        assert recall(-truth, truth, 99) == 1

    def test_r_squared(self):
        truth = np.array([0.1, 0.5, 1.0])
        assert r_squared(truth, truth) == 1
        assert r_squared(np.full(3, truth.mean()), truth) == pytest.approx(0)
        assert r_squared(np.ones(3), np.ones(3)) == 1

    def test_a_factor_does_not_matter(self):
        class Slow(AnalyticModel):
            def predict(self, features, task=""):
                found = super().predict(features)
                return type(found)(7 * found.seconds, found.spread)

        assert evaluate(Slow(), MANY) == pytest.approx(evaluate(AnalyticModel(), MANY))

    def test_failures_and_single_programs_are_left_out(self):
        seconds = times(features(5))
        seconds[1:4] = np.inf
        found = evaluate(AnalyticModel(), [Sample("a", features(5), seconds)])
        assert found["a"].programs == 2
        seconds[4] = np.inf
        assert evaluate(AnalyticModel(), [Sample("a", features(5), seconds)]) == {}

    def test_the_mean_over_tasks(self):
        found = mean([Scores(1, 0.5, 0.8, 3), Scores(0.5, 0.7, 0.2, 9)])
        assert str(found) == "pairwise 0.750, recall@30 0.600, R2 0.500 (12 programs)"


class TestTraining:
    def test_tasks_teach_each_other(self):
        samples = [sample(60, n, f"task {n}", factor=n + 1) for n in range(5)]
        train_on, test_on = hold_out(samples, 0.2)
        model = model_from_name("boosting")
        train(model, train_on)
        before = mean(evaluate(AnalyticModel(), test_on).values())
        after = mean(evaluate(model, test_on).values())
        assert after.pairwise > before.pairwise + 0.05
        assert after.r2 > before.r2

    def test_nothing_to_learn_from(self):
        with pytest.raises(CostError, match="no program in the samples has a time"):
            train(model_from_name("boosting"), [])


def test_real_sketches_are_learned_from():
    """Features of the real kind, with times that favour long vectors."""
    task = doubling()
    samples = []
    for number, sketch in enumerate(sketches(task)):
        made = extract(sketch, sketch.sample(40, seed=number))
        seconds = made.seconds.sum(0, dtype=float) * np.exp(made.values[0, :, 7] / 9)
        samples.append(Sample(task_key(task), made, seconds))
    model = model_from_name("boosting")
    model.fit(samples)
    assert all(np.isfinite(model.predict(x.features).seconds).all() for x in samples)
