"""The analytic model: orders that hold on any machine, and its explanation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ansor
from ansor.cost.analytic import estimates, explain, seconds
from ansor.cost.estimate import GATHER, SCATTER
from ansor.cost.machine import Machine
from ansor.schedule import Annotate, Knob, Reorder, Sketch, Split
from ansor.target import Calibration
from ansor.target.calibrate import store
from ansor.te.workloads import task

ONE_CORE = ansor.Target("aarch64", cpu="neoverse-n1")
FOUR = ansor.Target("aarch64", cpu="neoverse-n1", cores=4)


def matmul(size: int = 512, target: ansor.Target = ONE_CORE) -> Sketch:
    a = ansor.placeholder((size, size), name="A")
    b = ansor.placeholder((size, size), name="B")
    some = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    return Sketch(ansor.Task(ansor.ops.matmul(a, b, name="C"), target)).then(
        Split("C", "i", (Knob("i1", some), Knob("i2", some))),
        Split("C", "j", (Knob("j1", some), Knob("j2", some))),
        Split("C", "k", (Knob("k1", some),)),
        Reorder("C", ("i.0", "j.0", "k.0", "i.1", "j.1", "k.1", "i.2", "j.2")),
        Annotate("C", "i.2", "unroll"),
        Annotate("C", "j.2", "vectorize"),
    )


def times(points: list[tuple[int, ...]], sketch: Sketch | None = None) -> list[float]:
    return list(seconds(sketch or matmul(), np.array(points, np.int32)))


def test_a_register_tile_beats_single_vectors():
    tile, single = times([(8, 4, 8, 16, 64), (8, 1, 8, 4, 64)])
    assert tile < single / 1.5


def test_blocks_that_fit_beat_those_that_do_not():
    small, large = times([(16, 4, 8, 16, 64), (128, 4, 32, 16, 512)])
    assert small < large


def test_no_program_beats_the_peak():
    sketch = matmul()
    points = [(8, 4, 8, 16, 64), (4, 8, 4, 8, 128), (16, 4, 4, 16, 32)]
    peak = sketch.task.flops / Machine.of(ONE_CORE).peak
    assert min(times(points, sketch)) >= peak


def test_a_good_tile_comes_near_the_peak():
    peak = matmul().task.flops / Machine.of(ONE_CORE).peak
    assert min(times([(16, 4, 8, 16, 128)])) < 2 * peak


def parallel() -> Sketch:
    return matmul(target=FOUR).then(Annotate("C", "i.0", "parallel"))


def test_cores_share_the_work():
    point = [(8, 4, 8, 16, 64)]
    (alone,), (together,) = times(point, matmul(target=FOUR)), times(point, parallel())
    assert alone / 4.1 < together < alone / 2.5


def test_pieces_that_cores_cannot_share_equally_cost_time():
    even, odd = times([(32, 4, 8, 16, 64), (128, 4, 8, 16, 64)], parallel())
    assert even < odd  # 4 pieces for 4 cores, 1 for 4
    (estimate,) = estimates(parallel(), np.array([(128, 4, 8, 16, 64)], np.int32))
    assert float(estimate.speedup[0]) == 1


def test_what_is_loaded_again_and_again_counts_once_outside_its_loops():
    sketch = ansor.sketches(task("ATT", ONE_CORE))[0]
    found = estimates(sketch, sketch.sample(2, 0))
    last = next(e for e in found if e.statement.name == "attention")
    # One division for each row of the result, not for each multiply-add.
    assert float(last.slots[0]) < 2.1 * float(last.vectors[0])


def test_lanes_that_lie_apart_are_stored_one_by_one():
    a = ansor.placeholder((64, 32), name="A")
    y = ansor.ops.transpose(a, (1, 0), name="Y")
    plain = Sketch(ansor.Task(y, ONE_CORE))
    beside, apart = (
        plain.then(
            Reorder("Y", order),
            Split("Y", order[-1], (4,)),
            Annotate("Y", f"{order[-1]}.1", "vectorize"),
        )
        for order in (("i0", "i1"), ("i1", "i0"))
    )
    counts = [float(estimates(x, np.zeros((2, 0), np.int32))[0].stores[0])
              for x in (beside, apart)]  # fmt: skip
    assert counts == [64 * 32 / 4, SCATTER * 64 * 32]


def test_lanes_of_different_groups_are_looked_up_one_by_one():
    x = ansor.placeholder((8, 16), name="X")
    y = ansor.compute((32, 16), lambda c, w: x[c // 4, w] + 1.0, name="Y")
    sketch = Sketch(ansor.Task(y, ONE_CORE)).then(
        Split("Y", "c", (Knob("c", (4, 8)),)),
        Reorder("Y", ("c.0", "w", "c.1")),
        Annotate("Y", "c.1", "vectorize"),
    )
    (estimate,) = estimates(sketch, np.array([(4,), (8,)], np.int32))
    one, several = map(float, estimate.loads)
    assert several == 32 * 16 * GATHER
    assert one < several / 4


def test_rows_that_were_just_read_do_not_come_from_far_again():
    known = task("rms-norm", ONE_CORE)
    place = "place rms_norm_squares at rms_norm.i0.0"
    sketch = next(x for x in ansor.sketches(known) if place in x.trace)
    found = estimates(sketch, sketch.sample(50, 0))
    last = next(e for e in found if e.statement.name == "rms_norm")
    (before,) = last.before
    alone = replace(last, before=())
    saved = alone.far[1] - last.far[1]
    assert float(saved.max()) > 0.9 * 512 * 4096 * 4 / 64  # X once
    assert float(saved.max()) <= float(before.lines.max())
    assert (last.seconds <= alone.seconds).all()


def test_seconds_of_a_batch_are_those_of_single_points():
    sketch = ansor.sketches(task("C2D-nhwc", ONE_CORE))[3]
    points = sketch.sample(9, 0)
    alone = [float(seconds(sketch, points[n : n + 1])[0]) for n in range(9)]
    assert alone == pytest.approx(seconds(sketch, points), rel=1e-5)


def test_measured_speeds_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ANSOR_CACHE_DIR", str(tmp_path))
    target = ansor.Target("aarch64", cpu="neoverse-n1", cores=7)
    guessed = Machine.of(target)
    other = ansor.Target("aarch64", cpu="neoverse-n1", cores=9)
    speeds = Calibration(1e12, 1e11, 8e10, 4e10, 2e10, 1e-6)
    store(other.fingerprint, speeds)
    measured = Machine.of(other)
    assert measured.peak == pytest.approx(1e12)
    assert measured.bandwidths == (8e10, 4e10, 2e10)
    assert guessed.peak < 1e11


def test_explanation_names_every_statement():
    sketch = ansor.sketches(task("SFM", ONE_CORE))[0]
    text = explain(sketch.program(tuple(sketch.sample(1, 0)[0])))
    lines = text.splitlines()
    assert lines[0].split()[:3] == ["statement", "seconds", "arithmetic"]
    assert [line.split()[0] for line in lines[1:-1]] == [n.name for n in sketch.plan]
    parts = [float(line.split()[1]) for line in lines[1:-1]]
    assert float(lines[-1].split()[1]) == pytest.approx(sum(parts), abs=0.05)
