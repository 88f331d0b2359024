"""The contract of cost models, and what single ones promise beyond it."""

import json
import pickle

import numpy as np
import pytest

from ansor.cost import columns, learned, trees
from ansor.cost.boosting import DEEP, SHALLOW, Boosting, Forest
from ansor.cost.features import Features
from ansor.cost.linear import CHUNK, FURTHEST, PRODUCT, Trend, learn_trend
from ansor.cost.model import (
    AnalyticModel,
    CostModel,
    LearnedModel,
    default_model,
    load_model,
    model_from_name,
)
from ansor.cost.sample import Rows, Sample, log_seconds
from ansor.cost.scores import pairwise_accuracy
from ansor.errors import CostError
from cost.synthetic import features, sample, times

NAMES = ("trees", "boosting", "deep", "network")


@pytest.fixture(params=NAMES)
def name(request):
    if request.param == "trees":
        pytest.importorskip("lightgbm")
    return request.param


@pytest.fixture(scope="module")
def fitted():
    """Models that learned the same samples; each is fitted once."""
    made: dict[str, CostModel] = {}

    def model(name: str) -> CostModel:
        if name not in made:
            made[name] = model_from_name(name, seed=1)
            made[name].fit(SAMPLES)
        return made[name]

    return model


SAMPLES = [sample(150, 1, "a"), sample(100, 2, "b", 3.0, statements=3)]
TEST = features(200, seed=9)


def accuracy(model: CostModel, made: Features) -> float:
    return pairwise_accuracy(model.predict(made).seconds, times(made))


class TestContract:
    def test_predicts_the_analytic_seconds_before_the_first_fit(self, name):
        found = model_from_name(name).predict(TEST)
        assert found.seconds == pytest.approx(TEST.seconds.sum(0))
        assert len(set(found.spread)) == 1

    def test_learns_what_the_analytic_model_misses(self, name, fitted):
        before = accuracy(AnalyticModel(), TEST)
        assert accuracy(fitted(name), TEST) > before + 0.05

    def test_seconds_are_on_the_scale_of_a_known_task(self, name, fitted):
        _, made, seconds = SAMPLES[1]
        ratio = fitted(name).predict(made, "b").seconds / seconds
        assert 0.8 < np.median(ratio) < 1.25
        free = fitted(name).predict(made).seconds
        assert np.argsort(free).tolist() == np.argsort(ratio * seconds).tolist()

    def test_the_same_seed_predicts_the_same(self, name, fitted):
        again = model_from_name(name, seed=1)
        again.fit(SAMPLES)
        one, other = again.predict(TEST), fitted(name).predict(TEST)
        assert np.array_equal(one.seconds, other.seconds)
        assert np.array_equal(one.spread, other.spread)

    def test_is_less_sure_far_from_what_it_has_seen(self, name, fitted):
        spread = fitted(name).predict(TEST).spread
        assert (spread >= 0).all()
        assert spread.std() > 0

    def test_the_memory_order_does_not_matter(self, name, fitted):
        values = np.ascontiguousarray(TEST.values)
        found = fitted(name).predict(Features(values, TEST.seconds)).seconds
        assert found == pytest.approx(fitted(name).predict(TEST).seconds, rel=1e-4)

    def test_a_batch_predicts_like_its_points(self, name, fitted):
        whole = fitted(name).predict(TEST).seconds
        first = Features(TEST.values[:, :3], TEST.seconds[:, :3])
        assert fitted(name).predict(first).seconds == pytest.approx(whole[:3], rel=1e-4)

    def test_accepts_an_empty_batch(self, name, fitted):
        for model in (model_from_name(name), fitted(name)):
            found = model.predict(features(0))
            assert found.seconds.shape == found.spread.shape == (0,)

    def test_failures_change_nothing(self, name, fitted):
        task, made, seconds = sample(40, 5)
        failed = Sample(task, made, np.where(np.arange(40) % 3, np.inf, seconds))
        timed = np.flatnonzero(np.isfinite(failed.seconds))
        part = Features(made.values[:, timed], made.seconds[:, timed])
        one, other = model_from_name(name), model_from_name(name)
        one.fit([failed])
        other.fit([Sample(task, part, seconds[timed])])
        assert np.array_equal(one.predict(TEST).seconds, other.predict(TEST).seconds)

    @pytest.mark.parametrize("value", [np.inf, np.nan])
    def test_only_failures_teach_nothing(self, name, value):
        model = model_from_name(name)
        model.fit([Sample("a", TEST, np.full(200, value))])
        model.fit([])
        assert model.predict(TEST).seconds == pytest.approx(TEST.seconds.sum(0))

    def test_few_programs_are_fine(self, name):
        for count in (1, 2, 5):
            model = model_from_name(name)
            model.fit([sample(count)])
            assert np.isfinite(model.predict(TEST).seconds).all()

    def test_equal_programs_are_fine(self, name):
        made = features(1)
        same = Features(made.values.repeat(9, 1), made.seconds.repeat(9, 1))
        model = model_from_name(name)
        model.fit([Sample("a", same, np.full(9, 1e-3))])
        assert model.predict(same, "a").seconds == pytest.approx(np.full(9, 1e-3))

    def test_survives_pickling(self, name, fitted):
        for model in (model_from_name(name), fitted(name)):
            copy = pickle.loads(pickle.dumps(model))
            found = copy.predict(TEST).seconds
            assert np.array_equal(found, model.predict(TEST).seconds)

    def test_survives_saving(self, name, fitted, tmp_path):
        path = tmp_path / "model.json"
        fitted(name).save(path)
        loaded = load_model(path)
        assert loaded.name == name
        one, other = loaded.predict(TEST), fitted(name).predict(TEST)
        assert one.seconds == pytest.approx(other.seconds, rel=1e-5)
        assert one.spread == pytest.approx(other.spread, rel=1e-3, abs=1e-6)


class TestPrior:
    def test_a_loaded_model_goes_on_learning(self, name, fitted, tmp_path):
        fitted(name).save(tmp_path / "model")
        cold, warm = model_from_name(name), load_model(tmp_path / "model")
        few = [sample(8, 77, "new", 5.0)]
        cold.fit(few)
        warm.fit(few)
        assert accuracy(warm, TEST) > accuracy(cold, TEST)

    def test_a_prior_that_the_samples_contradict_does_not_count(self, name):
        misled = model_from_name(name)
        assert isinstance(misled, LearnedModel)
        made = features(150, 3)
        wrong = (made.seconds.sum(0, dtype=float) ** 2) / times(made)
        misled.fit([Sample("x", made, wrong)])
        warm, cold = misled.as_prior(), model_from_name(name)
        own = [sample(100, 4, "new")]
        warm.fit(own)
        cold.fit(own)
        assert np.array_equal(warm.predict(TEST).seconds, cold.predict(TEST).seconds)

    def test_parts_of_parts_are_saved(self, tmp_path):
        first = default_model()
        first.fit(SAMPLES)
        second = first.as_prior()
        second.fit([sample(20, 8, "new")])
        second.save(tmp_path / "model")
        found = load_model(tmp_path / "model").predict(TEST).seconds
        assert found == pytest.approx(second.predict(TEST).seconds, rel=1e-5)


class TestRefusals:
    def test_an_unknown_name(self):
        with pytest.raises(CostError, match="trees, boosting, deep, network"):
            model_from_name("forest")

    def test_trees_without_lightgbm(self, monkeypatch):
        def missing(name):
            raise ImportError(f"No module named {name!r}")

        monkeypatch.setattr(trees, "import_module", missing)
        with pytest.raises(CostError) as error:
            model_from_name("trees")
        assert str(error.value) == (
            "cost model 'trees': needs the package lightgbm, which does not load: "
            "No module named 'lightgbm'\n"
            "  hint: pip install 'ansor[learned]', or use the model 'boosting'"
        )
        assert default_model().name == "boosting"

    def test_trees_are_walked_and_continued_without_lightgbm(
        self, fitted, monkeypatch, tmp_path
    ):
        pytest.importorskip("lightgbm")
        fitted("trees").save(tmp_path / "model")
        monkeypatch.setattr(trees, "is_available", lambda: False)
        loaded = load_model(tmp_path / "model")
        found = loaded.predict(TEST).seconds
        assert found == pytest.approx(fitted("trees").predict(TEST).seconds, rel=1e-5)
        assert loaded.name == "boosting"

    def test_features_with_other_columns(self, name):
        few = Features(TEST.values[..., :5], TEST.seconds)
        with pytest.raises(CostError, match="features with 5 columns"):
            model_from_name(name).predict(few)
        with pytest.raises(CostError, match="features with 5 columns"):
            model_from_name(name).fit([Sample("a", few, times(TEST))])

    def test_times_that_do_not_fit_the_points(self):
        with pytest.raises(CostError, match="one time to each point"):
            model_from_name("boosting").fit([Sample("a", TEST, np.ones(3))])

    def test_a_model_of_other_features(self, tmp_path, monkeypatch):
        path = tmp_path / "model"
        model_from_name("boosting").save(path)
        monkeypatch.setattr(learned, "VERSION", columns.VERSION + 1)
        with pytest.raises(CostError) as error:
            load_model(path)
        old, count = columns.VERSION, len(columns.COLUMNS)
        assert str(error.value) == (
            f"model {str(path)!r}: was trained on features of version {old} with "
            f"{count} columns, this release has version {old + 1} with {count}\n"
            "  hint: train it again from a database"
        )

    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(CostError, match="cannot be read: No such file"):
            load_model(tmp_path / "nothing")

    def test_a_place_that_cannot_be_written(self, tmp_path):
        with pytest.raises(CostError, match="cannot be written"):
            model_from_name("network").save(tmp_path / "nowhere" / "model")

    @pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": NaN}', "\xff"])
    def test_a_file_that_is_no_model(self, text, tmp_path):
        path = tmp_path / "model"
        path.write_bytes(text.encode("latin-1"))
        with pytest.raises(CostError):
            load_model(path)

    def test_damaged_numbers(self, name, fitted, tmp_path):
        path = tmp_path / "model"
        fitted(name).save(path)
        whole = json.loads(path.read_text())
        for place, value in list(_places(whole["parts"][0]["data"])):
            for bad in ("x", None, -1e999, [[1]], {}):
                place[value[0]] = bad
                path.write_text(json.dumps(whole).replace("-Infinity", "-1e999"))
                with pytest.raises(CostError):
                    load_model(path)
                place[value[0]] = value[1]

    @pytest.mark.parametrize("bad", [-1, 10_000, 0.5])
    def test_a_column_that_does_not_exist(self, bad, fitted, tmp_path):
        path = tmp_path / "model"
        fitted("boosting").save(path)
        whole = json.loads(path.read_text())
        whole["parts"][0]["data"]["upper"]["columns"][0][0] = bad
        path.write_text(json.dumps(whole))
        with pytest.raises(CostError, match="an index that is not from 0 to"):
            load_model(path)


def _places(data):
    """(container, (key, value)) of each stored array, and of its first entry."""
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _places(value)
        else:
            yield data, (key, value)
            yield value, (0, value[0])


class TestRows:
    def test_slopes_are_the_gradient_of_the_loss(self):
        rows = Rows.of(SAMPLES)
        rng = np.random.default_rng(0)
        at = rng.normal(0, 0.3, len(rows.program))
        gradient, curvature = rows.slopes(at, rows.weight)
        towards = rng.normal(size=len(at))
        step = 1e-5
        rise = rows.loss(at + step * towards) - rows.loss(at - step * towards)
        expected = 2 * gradient @ towards / rows.weight.sum()
        assert rise / (2 * step) == pytest.approx(expected, rel=1e-4)
        assert (curvature > 0).all()

    def test_fast_programs_weigh_more_and_tasks_the_same(self):
        rows = Rows.of(SAMPLES)
        means = [rows.weight[rows.task == at].mean() for at in (0, 1)]
        assert means == pytest.approx([1, 1])
        order = np.argsort(rows.measured[rows.task == 0])
        assert (np.diff(rows.weight[rows.task == 0][order]) <= 0).all()

    def test_a_program_is_the_sum_of_its_statements(self):
        rows = Rows.of(SAMPLES[:1])
        errors, shares = rows.errors(np.zeros(len(rows.program)))
        made, seconds = SAMPLES[0].features, SAMPLES[0].seconds
        assert errors == pytest.approx(np.log(made.seconds.sum(0) / seconds), abs=1e-5)
        assert np.bincount(rows.program, shares) == pytest.approx(np.ones(len(rows)))
        assert log_seconds(made).shape == made.seconds.shape

    def test_a_subset_keeps_its_rows(self):
        rows = Rows.of(SAMPLES)
        part, chosen = rows.subset(np.array([7, 200, 3]))
        assert part.measured.tolist() == rows.measured[[7, 200, 3]].tolist()
        assert len(chosen) == len(part.program) == 2 + 3 + 2
        whole, _ = rows.errors(np.zeros(len(rows.program)))
        some, _ = part.errors(np.zeros(len(chosen)))
        assert some == pytest.approx(whole[[7, 200, 3]])


@pytest.mark.parametrize("count", [40, 7, 1])
@pytest.mark.parametrize("shape", [SHALLOW, DEEP])
def test_boosting_predicts_what_it_learned_from(shape, count):
    """The walk through tables is the sum over single trees, however many."""
    rows = Rows.of(SAMPLES)
    rng = np.random.default_rng(0)
    learned = Boosting(shape=shape).learn(rows, rows.bootstraps(4, rng), rng)
    parts = (learned.columns, learned.thresholds, learned.leaves)
    forest = Forest(*(part[:count] for part in parts))
    expected = np.zeros((4, len(rows.values)))
    for asked, limits, leaves in zip(
        forest.columns, forest.thresholds, forest.leaves, strict=True
    ):
        bits = rows.values[:, asked] > limits
        leaf = bits @ (1 << np.arange(bits.shape[1])[::-1])
        expected += leaves[leaf].T
    assert forest.predict(rows.values) == pytest.approx(expected, abs=1e-5)


def test_trees_walk_as_lightgbm_does(monkeypatch):
    library = pytest.importorskip("lightgbm")
    boosters = []
    train = library.train

    def keep(*arguments):
        boosters.append(train(*arguments))
        return boosters[-1]

    monkeypatch.setattr(library, "train", keep)
    rows = Rows.of(SAMPLES)
    rng = np.random.default_rng(0)
    grove = trees.Trees().learn(rows, rows.bootstraps(4, rng), rng)
    for values in (rows.values, TEST.values[0]):
        found = grove.predict(values)
        expected = [booster.predict(values, raw_score=True) for booster in boosters]
        assert found == pytest.approx(np.array(expected), abs=1e-5)


@pytest.mark.parametrize("count", [1, PRODUCT + 1, CHUNK, 2 * CHUNK + PRODUCT + 3])
def test_a_trend_is_the_same_in_any_number_of_rows(count):
    rng = np.random.default_rng(0)
    mean, scale = np.float32([1, 2, 3]), np.float32([1, 0, 0.5])
    trend = Trend(mean, scale, rng.normal(size=(4, 3)).astype(np.float32))
    values = rng.normal(2, 3, (count, 3)).astype(np.float32)
    inputs = np.clip((values - mean) * scale, -FURTHEST, FURTHEST)
    expected = trend.weights @ inputs.T
    assert trend.predict(values) == pytest.approx(expected, abs=1e-4)


def test_a_trend_is_found_and_noise_is_not():
    made = features(60, statements=1)
    trend = np.exp(0.3 * made.values[0, :, 7].astype(float))
    noise = np.random.default_rng(0).normal(0, 1, 60)
    for factor, expected in ((trend, True), (np.exp(noise), False)):
        rows = Rows.of([Sample("a", made, made.seconds[0] * factor)])
        found = learn_trend(rows, rows.weight[None]).weights[0]
        assert (np.abs(found).argmax() == 7 and found[7] > 0.1) == expected
