"""The matrix of features: shape, batches, finite everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import ansor
from ansor.cost import analytic
from ansor.cost.columns import COLUMNS, READ
from ansor.cost.features import extract, log2
from ansor.te.workloads import task

CPU = ansor.Target("aarch64", cpu="neoverse-n1", cores=2)
WIDE = ansor.Target("cpu", cpu="skylake-avx512", cores=4)
GPU = ansor.Target("cuda", arch="sm_90")
NAMES = ("GMM128", "C2D-nhwc", "T2D-nchw", "SFM", "LNG", "ATT", "gather", "argmax-rows")


@pytest.mark.parametrize("target", [CPU, WIDE, GPU], ids=["neon", "avx512", "cuda"])
@pytest.mark.parametrize("name", NAMES)
def test_all_values_are_finite(name: str, target: ansor.Target):
    for sketch in ansor.sketches(task(name, target))[:2]:
        found = extract(sketch, sketch.sample(16, 0))
        assert np.isfinite(found.values).all()
        assert (found.values >= 0).all()
        assert np.isfinite(found.seconds).all()
        assert (found.seconds > 0).all()


def test_shape_and_types():
    sketch = ansor.sketches(task("SFM", CPU))[0]
    found = extract(sketch, sketch.sample(50, 0))
    statements = sum(not nest.ahead for nest in sketch.plan)
    assert found.values.shape == (statements, 50, len(READ))
    assert found.seconds.shape == (statements, 50)
    assert found.values.dtype == found.seconds.dtype == np.float32
    assert len(found) == 50


def test_columns_that_models_do_not_read():
    sketch = ansor.sketches(task("SFM", CPU))[0]
    points = sketch.sample(50, 0)
    every = extract(sketch, points, columns=COLUMNS).values
    assert every.shape[2] == len(COLUMNS) > len(READ)
    read = [at for at, column in enumerate(COLUMNS) if column.is_read]
    assert (every[..., read] == extract(sketch, points).values).all()


def test_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch):
    sketch = ansor.sketches(task("R50a-nhwc", CPU))[5]
    points = sketch.sample(40, 0)
    whole = extract(sketch, points)
    monkeypatch.setattr(analytic, "CHUNK", 13)  # one point is left over
    parts = extract(sketch, points)
    assert parts.values == pytest.approx(whole.values, rel=1e-4, abs=1e-4)
    assert parts.seconds == pytest.approx(whole.seconds, rel=1e-5)


def test_seconds_are_those_of_the_analytic_model():
    sketch = ansor.sketches(task("GMM128", CPU))[0]
    points = sketch.sample(20, 0)
    total = extract(sketch, points).seconds.sum(0)
    assert total == pytest.approx(analytic.seconds(sketch, points), rel=1e-5)


def test_no_points():
    sketch = ansor.sketches(task("GMM128", CPU))[0]
    assert len(extract(sketch, sketch.sample(0, 0))) == 0


def test_a_sketch_without_knobs():
    a = ansor.placeholder((8, 8), name="A")
    sketch = ansor.schedule.Sketch(
        ansor.Task(ansor.compute((8, 8), lambda i, j: a[i, j] + 1.0, name="Y"), CPU)
    )
    assert extract(sketch, np.zeros((1, 0), np.int32)).values.shape[:2] == (1, 1)


def test_points_may_be_a_list():
    sketch = ansor.sketches(task("GMM128", CPU))[0]
    points = sketch.sample(3, 0)
    assert np.array_equal(
        extract(sketch, points.tolist()).values, extract(sketch, points).values
    )


def test_another_target():
    sketch = ansor.sketches(task("GMM128", CPU))[0]
    points = sketch.sample(8, 0)
    assert (
        extract(sketch, points, WIDE).seconds < extract(sketch, points).seconds
    ).any()


def test_the_cheap_logarithm():
    x = np.float32([1, 1.5, 2, 1000, 1e9])
    assert log2(x.copy()) == pytest.approx(np.log2(x), abs=0.09)
