"""The tables of workloads: every row is a computation that the reference can do."""

import pickle
from math import prod

import numpy as np
import pytest

from ansor.errors import ExpressionError
from ansor.te.dag import DAG
from ansor.te.reference import reference
from ansor.te.workloads import MORE, WORKLOADS, outputs, task, workload
from ansor.te.workloads.standard import convolution
from ansor.te.workloads.winograd import G, winograd

ALL = {**WORKLOADS, **MORE}
RNG = np.random.default_rng
MOST = 2_500  # iterations of a small version, all stages together

every = pytest.mark.parametrize("row", ALL.values(), ids=ALL)


def dag(made):
    return DAG.build(outputs(made))


def work(graph):
    stages = ((*stage.axes, *stage.reduce_axes) for stage in graph.stages)
    return sum(prod(axis.extent for axis in axes) for axes in stages)


@every
def test_it_makes_a_graph_at_both_batches_and_any_scale(row):
    one, many = dag(row.make()), dag(row.make(16))
    assert one.constants == many.constants
    assert [s.name for s in dag(row.make(scale=3)).stages] == [
        stage.name for stage in one.stages
    ]
    assert work(many) > 4 * work(one)
    assert work(dag(row.make(scale=3))) < work(one) or work(one) < MOST


@every
def test_the_small_version_has_the_same_structure_and_finite_values(row):
    full, small = dag(row.make(row.small_batch)), dag(row.small())
    assert work(small) < MOST
    assert len(small.stages) == len(full.stages)
    for ours, theirs in zip(small.stages, full.stages, strict=True):
        assert ours.name == theirs.name
        assert len(ours.reduce_axes) == len(theirs.reduce_axes)
        assert ours.reducer == theirs.reducer
    results = reference(small, row.inputs(small, RNG(0)))
    for buffer, array in zip(small.outputs, results, strict=True):
        assert array.shape == buffer.shape
        assert np.isfinite(array.astype("float64")).all()


@every
def test_a_row_can_be_sent_to_another_process(row):
    copy = pickle.loads(pickle.dumps(row))
    assert str(dag(copy.small())) == str(dag(row.small()))


def test_same_generator_same_inputs():
    row = MORE["gather"]
    graph = dag(row.small())
    first, second = (row.inputs(graph, RNG(7)) for _ in range(2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)


def test_indices_stay_inside_the_table_they_index():
    row = MORE["gather"]
    graph = dag(row.make(scale=8))
    ids = dict(zip([b.name for b in graph.inputs], row.inputs(graph, RNG(0)),
                   strict=True))["ids"]  # fmt: skip
    assert 0 <= ids.min() < ids.max() < -(-30522 // 8)


FLOPS = {
    "GMM512": 2 * 512**3,
    "GMM2039": 2 * 2039**3,
    "GMMsk-4x11008x4096": 2 * 4 * 11008 * 4096,
    "C1D-nhwc": 2 * 128 * 128 * 64 * 3,
    "C2D-nchw": 2 * 112 * 112 * 64 * 3 * 49,
    "C2D-nhwc": 2 * 112 * 112 * 64 * 3 * 49,
    "C3D-nchw": 2 * 8 * 112 * 112 * 64 * 3 * 343,
    "DEP-nhwc": 2 * 112 * 112 * 32 * 9,
    "DIL-nchw": 2 * 109 * 109 * 64 * 3 * 49,
    "GRP-nchw": 2 * 28 * 28 * 128 * 16 * 9,
    "T2D-nchw": 2 * 8 * 8 * 256 * 512 * 16,
    "CAP": 2 * 8 * 8 * 32 * 16 * 32 * 9 * 4,
    "R50c-nhwc": 2 * 14 * 14 * 256 * 1024,
    "TBG": 2 * 12 * 128 * 128 * 64,
    "matmul-relu": 2 * 512**3 + 512**2,
    "matmul-chain": 4 * 512**3,
    "sum-128": 128,
    "transpose-copy": 0,
}


@pytest.mark.parametrize("name", FLOPS)
def test_flops(name):
    assert task(name, "x86_64").flops == FLOPS[name]


def test_batch_multiplies_the_flops():
    assert task("R50a-nhwc", "x86_64", 16).flops == 16 * task("R50a-nhwc", "cuda").flops


def test_weights_are_constant_and_matrices_are_not():
    assert task("CBR-nhwc").dag.constants == {
        "W", "mean", "variance", "gamma", "beta",
    }  # fmt: skip
    assert task("GMM512").dag.constants == frozenset()


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("C1D-nchw", [(1, 64, 256), (128, 64, 3)]),
        ("C1D-nhwc", [(1, 256, 64), (3, 64, 128)]),
        ("C3D-nchw", [(1, 3, 16, 224, 224), (64, 3, 7, 7, 7)]),
        ("C3D-nhwc", [(1, 16, 224, 224, 3), (7, 7, 7, 3, 64)]),
        ("GRP-nhwc", [(1, 56, 56, 64), (3, 3, 16, 128)]),
        ("T2D-nchw", [(1, 512, 4, 4), (512, 256, 4, 4)]),
        ("GMMsk-31x1000x768", [(31, 768), (768, 1000)]),
    ],
)
def test_shapes_of_inputs(name, shapes):
    assert [buffer.shape for buffer in task(name, "x86_64").dag.inputs] == shapes


@pytest.mark.parametrize("tile", [2, 4])
def test_winograd_is_a_convolution(tile):
    rng = RNG(0)
    direct = dag(convolution(2, (5, 7), 3, 4, 3, padding=1, last=True))
    image, kernel = (rng.standard_normal(b.shape) for b in direct.inputs)
    fast = dag(winograd(2, (5, 7), 3, 4, tile))
    g = np.array(G[tile])
    transformed = np.einsum("ur,vs,rsco->uvco", g, g, kernel)
    given = {"X": image, "W": transformed}
    (actual,) = reference(fast, [given[b.name] for b in fast.inputs])
    (expected,) = reference(direct, [image, kernel])
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def test_winograd_matrices_read_no_tensor():
    graph = task("conv-winograd", "x86_64").dag
    empty = [stage.name for stage in graph.stages if not graph.reads(stage)]
    assert sorted(empty) == ["A", "B"]


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(ExpressionError) as caught:
        workload("C2D")
    assert str(caught.value) == (
        "workload 'C2D': unknown\n  hint: use one of C2D-nhwc, C2D-nchw"
    )


def test_a_batch_of_none_is_refused():
    with pytest.raises(ExpressionError, match="workload NRM: batch 0 is below 1"):
        workload("NRM").make(0)
