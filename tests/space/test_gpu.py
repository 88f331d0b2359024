"""Derivation for GPUs: which structures there are, and that they mean the same."""

import numpy as np
import pytest

import ansor
from ansor.ir.dtypes import DTYPES
from ansor.ir.interp import run
from ansor.schedule.bounds import Bounds
from ansor.schedule.knobs import Follow, Points
from ansor.schedule.plan import At
from ansor.space.derive import sketches
from ansor.space.gpu import STRUCTURE, gpu_lengths
from ansor.space.points import draw
from ansor.space.table import table_of
from ansor.space.threads import thread_counts
from ansor.space.tiling import Tiling
from ansor.te.reference import agrees, reference, tolerance
from ansor.te.workloads import MORE, WORKLOADS, outputs, workload

TARGET = ansor.Target("cuda", arch="sm_90")
EVERY = {**WORKLOADS, **MORE}
PRIMES = (1, 2, 3, 7, 31, 127, 251, 509, 1009, 2039)


def task_of(name, small=False):
    made = workload(name).small() if small else workload(name).make()
    return ansor.Task(list(outputs(made)), TARGET)


def space(name, small=False):
    return sketches(task_of(name, small))


def kinds(sketch, stage):
    """How the loops of a stage run, outermost first, if not one after another."""
    nest = sketch.plan.nest(stage)
    found = (nest.annotations.get(loop) for loop in nest.loops)
    return [kind for kind in found if kind not in (None, "unroll")]


def levels(sketch, stage):
    """The loops of a stage."""
    return " ".join(sketch.plan.nest(stage).loops)


def is_across(sketch, stage):
    """True if threads share the reduction of a stage."""
    nest = sketch.plan.nest(stage)
    return any(
        kind == "threadIdx.x" and nest.is_reduce(loop)
        for loop, kind in nest.annotations.items()
    )


def random_points(sketch, count, seed=0):
    table = table_of(sketch.plan, sketch.knobs)
    return draw(table, count, np.random.default_rng(seed))


# What the original derives for CUDA; there may be more.
LEAST = {
    "GMM512": 1,
    "matmul-8x8x1024": 2,
    "matmul-chain": 1,
    "conv-bias-bn-relu": 1,
    "max-pool": 1,
    "min-rows": 2,
    "softmax-2x1024": 4,
    "conv-winograd": 1,
    "sum-128": 2,
}


@pytest.mark.parametrize(("name", "least"), LEAST.items(), ids=LEAST)
def test_there_are_as_many_sketches_as_in_the_original(name, least):
    found = space(name)
    assert len(found) >= least
    assert len({sketch.steps for sketch in found}) == len(found)


@pytest.mark.parametrize("name", EVERY)
def test_every_workload_has_sketches_with_bounds(name):
    for small in (True, False):
        found = space(name, small)
        assert found
        for sketch in found:
            points = Points.of(sketch.knobs, random_points(sketch, 20))
            bounds = Bounds(sketch.plan, points)
            for nest in sketch.plan:
                for loop in nest.loops:
                    assert bounds.extent(nest.name, loop).min() >= 1
                for region in bounds.regions(nest.name):
                    assert region.span.shape in ((1,), (20,))
                    assert region.span.min() >= 1


@pytest.mark.parametrize("name", EVERY)
def test_results_at_the_root_are_spread_over_blocks_or_threads(name):
    for sketch in space(name):
        for nest in sketch.plan:
            bound = set(nest.annotations.values()) & {"blockIdx.x", "threadIdx.x"}
            if nest.at is None and nest.stage.axes:
                assert bound, nest.name


def test_a_matmul_runs_in_blocks_and_threads():
    (sketch,) = space("GMM512")
    out, local = "matmul", "matmul.local"
    assert levels(sketch, out) == "i.0@j.0 i.1@j.1 i.2@j.2 i.3 i.4 j.3 j.4"
    assert kinds(sketch, out) == ["blockIdx.x", "vthread", "threadIdx.x"]
    assert levels(sketch, local) == "k.0 k.1 i.0 j.0 k.2 i.1 j.1"
    assert sketch.plan.nest(local).at == At(out, "i.2@j.2")
    assert sketch.plan.nest(local).scope == "local"
    for tensor in ("A", "B"):
        copy = sketch.plan.nest(f"{tensor}.shared")
        assert copy.scope == "shared"
        assert copy.at == At(local, "k.0")
        assert copy.follows == (Follow(out, "i.2@j.2"),)
        assert kinds(sketch, copy.name) == ["threadIdx.x", "vectorize"]


def test_knobs_are_called_after_the_stage_of_the_dag():
    (sketch,) = space("GMM512")
    names = {knob.name for knob in sketch.knobs}
    assert {"matmul.i.1", "matmul.j.4", "matmul.k.2", "A.shared.d0@d1.2"} <= names
    assert not any("local" in name for name in names)


def test_padding_moves_into_the_shared_load():
    (sketch,) = space("conv-bias-bn-relu")
    names = {nest.name for nest in sketch.plan}
    assert names == {"relu", "conv2d", "W.shared", "conv2d_pad.shared"}
    assert kinds(sketch, "relu") == ["blockIdx.x", "vthread", "threadIdx.x"]
    conv = sketch.plan.nest("conv2d")
    assert conv.at == At("relu", sketch.plan.nest("relu").loops[2])
    padded = sketch.plan.nest("conv2d_pad.shared")
    assert padded.at == At("conv2d", "rx.0")
    assert "select" in str(padded.stage.body[0])
    assert {read.buffer.name for read in padded.reads()} == {"X"}


def test_a_chain_of_products_is_tiled_twice():
    (sketch,) = space("matmul-chain")
    assert sketch.plan.nest("AB.shared").at == At("ABC.local", "k.0")
    assert sketch.plan.nest("AB").at is None
    for name in ("AB", "ABC"):
        assert kinds(sketch, name) == ["blockIdx.x", "vthread", "threadIdx.x"]


def test_the_end_of_a_layer_stays_with_it_or_moves_into_the_next():
    a, b, c = (ansor.placeholder((64, 64), name=name) for name in "ABC")
    first = ansor.ops.relu(ansor.ops.matmul(a, b, name="AB"), name="R")
    found = sketches(ansor.Task(ansor.ops.matmul(first, c, name="C2"), TARGET))
    moved, kept = found
    assert kept.plan.nest("AB").at == At("R", "i0.2@i1.2")
    assert str(kept.plan.nest("R.shared").stage.body[0]) == "R[d0, d1]"
    assert "max" in str(moved.plan.nest("R.shared").stage.body[0])
    assert kinds(moved, "AB") == ["blockIdx.x", "vthread", "threadIdx.x"]


def test_a_product_is_fused_with_a_stage_of_several_broadcasts():
    a, b = (ansor.placeholder((64, 64), name=name) for name in "AB")
    scale, shift = (ansor.placeholder((64,), name=name) for name in ("s", "t"))
    c = ansor.ops.matmul(a, b, name="C")
    out = ansor.compute((64, 64), lambda i, j: c[i, j] * scale[j] + shift[j], name="D")
    (sketch,) = sketches(ansor.Task(out, TARGET))
    assert sketch.plan.nest("C").at == At("D", "i.2@j.2")


def test_a_long_sum_of_few_results_may_run_across_threads():
    across, tiled = space("matmul-8x8x1024")
    assert is_across(across, "matmul")
    assert levels(across, "matmul") == "i@j k.0 k.1"
    assert kinds(across, "matmul") == ["blockIdx.x", "threadIdx.x"]
    assert not is_across(tiled, "matmul.local")
    (knob,) = across.knobs
    assert knob.candidates == (32, 64, 128, 256, 512, 1024)


def test_sums_of_a_softmax_run_in_the_block_that_needs_them():
    both, *_ = space("softmax-2x1024")
    assert levels(both, "softmax") == "i0 i1.0 i1.1"
    assert kinds(both, "softmax") == ["blockIdx.x", "threadIdx.x"]
    for name in ("softmax_max", "softmax_sum"):
        assert both.plan.nest(name).at == At("softmax", "i0")
        assert is_across(both, name)
    assert len(both.knobs) == 1, "one number of threads for the whole block"


def test_each_reduction_also_runs_without_sharing():
    found = {
        tuple(is_across(sketch, f"softmax_{name}") for name in ("max", "sum"))
        for sketch in space("softmax-2x1024")
    }
    assert len(found) == 4


def test_a_result_without_axes_has_nothing_to_bind():
    across, plain = space("sum-128")
    assert kinds(across, "reduce_sum") == ["threadIdx.x"]
    assert kinds(plain, "reduce_sum") == []
    scalar = ansor.compute((), lambda: ansor.placeholder((), name="s")[()] + 1.0)
    (sketch,) = sketches(ansor.Task(scalar, TARGET))
    assert sketch.steps == ()


def test_a_short_reduction_is_left_to_each_thread():
    (sketch,) = space("max-pool")
    assert [nest.name for nest in sketch.plan] == ["max_pool"]
    assert kinds(sketch, "max_pool") == ["blockIdx.x", "threadIdx.x"]


def test_winograd_keeps_its_input_tile():
    (sketch,) = space("conv-winograd")
    tile = sketch.plan.nest("input_tile")
    assert tile.at == At("data_pack", "p@c.1")
    for name in ("data_pack", "inverse"):
        nest = sketch.plan.nest(name)
        assert kinds(sketch, name) == ["blockIdx.x", "threadIdx.x"]
        assert [nest.annotations[loop] for loop in nest.loops[2:]] == ["unroll"] * 4
    assert sketch.plan.nest("data_pack.shared").at == At("bgemm.local", "c.0")


def test_gathered_operands_are_read_where_they_are():
    table = ansor.placeholder((30522, 64), name="table")
    ids = ansor.placeholder((128,), "int64", name="ids")
    w = ansor.placeholder((64, 64), name="W")
    k = ansor.reduce_axis(64, name="k")
    out = ansor.compute(
        (128, 64),
        lambda i, j: ansor.sum(table[ids[i], k] * w[k, j], axis=k),
        name="C",
    )
    for sketch in sketches(ansor.Task(out, TARGET)):
        names = {nest.name for nest in sketch.plan}
        assert "W.shared" in names
        assert "table.shared" not in names


def test_operands_that_never_fit_are_read_where_they_are():
    x = ansor.placeholder((1 << 20, 64), name="X")
    w = ansor.placeholder((64, 64), name="W")
    k = ansor.reduce_axis(64, name="k")
    out = ansor.compute(
        (128, 64),
        lambda i, j: ansor.sum(x[i // 2 * 16000, k] * w[k, j], axis=k),
        name="C",
    )
    for sketch in sketches(ansor.Task(out, TARGET)):
        names = {nest.name for nest in sketch.plan}
        assert "W.shared" in names
        assert "X.shared" not in names


@pytest.mark.parametrize("extent", PRIMES[1:])
def test_primes_have_tiles(extent):
    a = ansor.placeholder((extent, extent), name="A")
    b = ansor.placeholder((extent, extent), name="B")
    task = ansor.Task(ansor.ops.matmul(a, b, name="C"), TARGET)
    stage = task.dag.stages[0]
    tiling = Tiling(stage, STRUCTURE, choose=gpu_lengths)
    for axis in (*stage.axes, *stage.reduce_axes):
        count = 2 if tiling.is_reduce(axis) else 4
        found = gpu_lengths(tiling, axis, count)
        assert len(found) == count
        assert all(max(candidates) > 1 for candidates in found)
        assert all(max(candidates) <= extent for candidates in found)
    assert sketches(task)


@pytest.mark.parametrize("extent", PRIMES)
def test_products_of_any_extent_derive(extent):
    a = ansor.placeholder((extent, 3), name="A")
    b = ansor.placeholder((3, extent), name="B")
    assert sketches(ansor.Task(ansor.ops.matmul(a, b), TARGET))


def test_thread_counts_are_whole_warps():
    gpu = TARGET.gpu
    assert thread_counts(gpu, 33) == (32, 64)
    assert thread_counts(gpu, 10) == (32,) == thread_counts(gpu, 1)
    assert thread_counts(gpu, 10**6) == (32, 64, 128, 256, 512, 1024)


SERIAL = (
    "GMM512",
    "GMMsk-1x4096x4096",
    "matmul-relu",
    "matmul-and-relu",
    "softmax-2x1024",
    "conv-winograd",
    "max-pool",
    "argmax-rows",
    "rms-norm",
    "sum-128",
    "transpose-copy",
)


@pytest.mark.parametrize("name", SERIAL)
def test_one_thread_after_another_computes_the_same(name):
    generator = np.random.default_rng(0)
    task = task_of(name, small=True)
    inputs = workload(name).inputs(task.dag, generator)
    expected = reference(task.dag, inputs)
    allowed = tolerance(task.dag, inputs, expected)
    for sketch in sketches(task):
        for point in random_points(sketch, 2):
            function = sketch.program(tuple(point)).lower().main
            results = [
                np.zeros(b.shape, DTYPES[b.dtype].numpy) for b in task.dag.outputs
            ]
            run(function, [*inputs, *results])
            for x, y, e in zip(results, expected, allowed, strict=True):
                assert agrees(x, y, e).all(), sketch.program(tuple(point))
