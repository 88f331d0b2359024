"""The NumPy reference against NumPy written by hand, and its tolerances."""

import math

import numpy as np
import pytest

import ansor
from ansor import ops
from ansor.ir.dtypes import DTYPES
from ansor.ir.ops import FUNCTIONS
from ansor.te import approximate
from ansor.te import contract as products
from ansor.te import magnitudes as sizes
from ansor.te import reference as module
from ansor.te.dag import DAG
from ansor.te.magnitudes import magnitudes
from ansor.te.reference import agrees, bound, expected, reference, tolerance
from ansor.te.workloads import MORE, WORKLOADS, outputs

RNG = np.random.default_rng(1)


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order():
    """Each test draws from the start, whichever tests ran before it."""
    RNG.bit_generator.state = np.random.default_rng(1).bit_generator.state


FLOATS = ["float64", "float32", "float16", "bfloat16"]


def run(tensor, *arrays):
    return reference(DAG.build([tensor]), arrays)[0]


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(DTYPES[dtype].numpy)


@pytest.fixture(params=[1 << 22, 50], ids=["whole", "blocks"])
def _points(request, monkeypatch):
    monkeypatch.setattr(module, "_POINTS", request.param)


@pytest.mark.usefixtures("_points")
class TestReductions:
    A = ansor.placeholder((5, 6, 7), name="A")
    k, m = ansor.reduce_axis(6, "k"), ansor.reduce_axis(7, "m")

    def over(self, function):
        return ansor.compute(
            (5,), lambda i: function(self.A[i, self.k, self.m], self.axes)
        )

    @property
    def axes(self):
        return [self.k, self.m]

    @pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
    def test_arithmetic(self, name):
        x = normal(5, 6, 7)
        wanted = getattr(np, name)(x.astype("float64"), axis=(1, 2))
        actual = run(self.over(getattr(ansor, name)), x)
        np.testing.assert_allclose(actual, wanted, rtol=1e-6)

    @pytest.mark.parametrize("name", ["argmax", "argmin"])
    def test_places(self, name):
        x = RNG.integers(0, 5, (5, 6, 7)).astype("float32")
        x[1, 2, 3] = x[1, 4, 0] = np.nan
        wanted = getattr(np, name)(x.reshape(5, -1), axis=1)
        np.testing.assert_array_equal(run(self.over(getattr(ansor, name)), x), wanted)

    @pytest.mark.parametrize("name", ["any", "all"])
    def test_truth(self, name):
        x = normal(5, 6, 7)
        x[0] = 9
        T = ansor.compute(
            (5,),
            lambda i: getattr(ansor, name)(self.A[i, self.k, self.m] > 2.5, self.axes),
        )
        wanted = getattr(np, name)(x > 2.5, axis=(1, 2))
        np.testing.assert_array_equal(run(T, x), wanted)

    def test_nan_wins_over_max(self):
        x = normal(5, 6, 7)
        x[3, 1, 1] = np.nan
        actual = run(self.over(ansor.max), x)
        np.testing.assert_array_equal(actual, x.max((1, 2)))

    def test_sum_of_something_that_ignores_an_axis(self):
        x = normal(5, 6, 7)
        S = ansor.compute((5,), lambda i: ansor.sum(self.A[i, self.k, 0], self.axes))
        P = ansor.compute(
            (5,), lambda i: ansor.sum(self.A[i, self.k, 0] * 2.0, self.axes)
        )
        wanted = 7 * x[:, :, 0].sum(1)
        np.testing.assert_allclose(run(S, x), wanted, rtol=1e-5)
        np.testing.assert_allclose(run(P, x), 2 * wanted, rtol=1e-5)

    def test_matmul_and_convolution(self):
        x, y = normal(9, 11), normal(11, 13)
        A, B = (ansor.placeholder(a.shape, name=n) for a, n in ((x, "A"), (y, "B")))
        np.testing.assert_allclose(
            run(ops.matmul(A, B), x, y), x @ y, rtol=1e-4, atol=1e-5
        )
        signal, taps = normal(1, 1, 40), normal(1, 1, 5)
        S, W = (
            ansor.placeholder(a.shape, name=n) for a, n in ((signal, "S"), (taps, "W"))
        )
        wanted = np.correlate(signal[0, 0], taps[0, 0])
        np.testing.assert_allclose(
            run(ops.conv1d(S, W), signal, taps)[0, 0], wanted, rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_integer_matmul_wraps_around(dtype):
    info = np.iinfo(dtype)
    x, y = (RNG.integers(info.min, info.max, (6, 6), dtype=dtype) for _ in range(2))
    A, B = (ansor.placeholder((6, 6), dtype, name=n) for n in "AB")
    with np.errstate(all="ignore"):
        wanted = x @ y
    np.testing.assert_array_equal(run(ops.matmul(A, B), x, y), wanted)


def test_select_never_reads_outside():
    x = normal(4)
    A = ansor.placeholder((4,), name="A")
    B = ansor.compute((9,), lambda i: ansor.select((i > 2) & (i < 7), A[i - 3], -1))
    np.testing.assert_array_equal(run(B, x), np.pad(x, (3, 2), constant_values=-1))


def test_reversed_and_diagonal_access():
    x = normal(5, 5)
    A = ansor.placeholder((5, 5), name="A")
    np.testing.assert_array_equal(
        run(ansor.compute((5,), lambda i: A[4 - i, i]), x), np.diag(x[::-1])
    )


def test_gather():
    x, at = normal(7, 3), RNG.integers(0, 7, 5).astype("int32")
    A, N = ansor.placeholder((7, 3), name="A"), ansor.placeholder((5,), "int32", "N")
    G = ansor.compute((5, 3), lambda i, j: A[N[i], j])
    np.testing.assert_array_equal(run(G, x, at), x[at])
    at[0] = 7
    with pytest.raises(
        ansor.ArgumentError, match="index 7 of axis 0 is outside 0 to 6"
    ):
        run(G, x, at)


def test_wrong_inputs_are_refused():
    dag = DAG.build([ops.relu(ansor.placeholder((3,), name="A"))])
    with pytest.raises(ansor.ArgumentError, match="2 inputs: the DAG has 1: A"):
        reference(dag, [np.zeros(3), np.zeros(3)])
    with pytest.raises(ansor.ArgumentError, match="shape \\(4,\\), but \\(3,\\)"):
        reference(dag, [np.zeros(4)])


def test_every_function_has_a_value():
    assert set(approximate.VALUES) == set(FUNCTIONS)


def test_erf():
    x = np.concatenate([np.linspace(-7, 7, 4001), [1e-300, 1e-9, np.inf, -np.inf]])
    wanted = np.array([math.erf(v) for v in x])
    np.testing.assert_allclose(approximate.VALUES["erf"](x), wanted, rtol=1e-15, atol=0)
    assert np.isnan(approximate.VALUES["erf"](np.array(np.nan)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_casts(dtype):
    x = normal(50, dtype=dtype) * 10
    A = ansor.placeholder((50,), dtype, name="A")
    for target in DTYPES:
        if target == "uint8":
            continue
        T = ansor.compute((50,), lambda i, t=target: ansor.cast(A[i], t))
        np.testing.assert_array_equal(run(T, x), x.astype(DTYPES[target].numpy))


def test_large_stages_are_evaluated_in_pieces():
    A = ansor.placeholder((3, 4096, 1024), name="A")
    k = ansor.reduce_axis(4096)
    M = ansor.compute((3, 1024), lambda i, j: ansor.max(A[i, k, j] - 1, axis=k))
    x = normal(3, 4096, 1024)
    np.testing.assert_array_equal(run(M, x), (x - 1).max(1))


def test_bound_of_a_matmul_is_the_sum_of_magnitudes():
    A, B = (ansor.placeholder((8, 8), name=n) for n in "AB")
    x, y = normal(8, 8), normal(8, 8)
    dag = DAG.build([ops.matmul(A, B)])
    (size,) = bound(dag, [x, y])
    np.testing.assert_allclose(size, np.abs(x).astype("float64") @ np.abs(y), rtol=1e-6)


@pytest.mark.parametrize("dtype", FLOATS[1:])
def test_tolerance_accepts_rounding_at_every_step_and_refuses_more(dtype):
    A, B = (ansor.placeholder((16, 64), dtype, name=n) for n in "AB")
    x, y = normal(16, 64, dtype=dtype), normal(16, 64, dtype=dtype)
    C = ops.matmul(A, B, transpose_b=True)
    dag = DAG.build([ops.softmax(ops.gelu(C))])
    (wanted,) = reference(dag, [x, y])
    (allowed,) = tolerance(dag, [x, y], [wanted])
    rounded = np.zeros((16, 16), DTYPES[dtype].numpy)
    for k in range(64):
        rounded = rounded + x[:, k, None] * y[None, :, k]
    v = rounded.astype("float64")
    v = v / 2 * (1 + approximate.VALUES["erf"](v / 2**0.5))
    v = np.exp(v - v.max(1, keepdims=True))
    actual = (v / v.sum(1, keepdims=True)).astype(DTYPES[dtype].numpy)
    assert agrees(actual, wanted, allowed).all()
    if dtype == "float32":
        wrong = wanted * np.float32(1.001)
        assert not agrees(wrong, wanted, allowed)[wanted > 1e-3].any()


def test_moved_and_integer_results_are_exact():
    A = ansor.placeholder((4, 4), name="A")
    I = ansor.placeholder((4, 4), "int32", name="I")  # noqa: E741
    moved = DAG.build([ops.pad(ops.transpose(A), [(1, 1), (0, 0)])])
    summed = DAG.build([ops.matmul(I, I)])
    x = normal(4, 4)
    assert not tolerance(moved, [x], reference(moved, [x]))[0].any()
    y = RNG.integers(0, 9, (4, 4)).astype("int32")
    assert not tolerance(summed, [y], reference(summed, [y]))[0].any()


def test_doubtful_places_and_branches_are_allowed_for():
    A, B = (ansor.placeholder((4,), name=n) for n in "AB")
    k = ansor.reduce_axis(4, "k")
    C = ansor.compute((4,), lambda i: A[i] * B[i])
    place = ansor.compute((), lambda: ansor.argmax(C[k], axis=k))
    step = ansor.compute((4,), lambda i: ansor.select(C[i] < 1, 0.0, 5.0))
    dag = DAG.build([place, step])
    x, y = np.array([0.5, 1, 0.1, -1], "f4"), np.array([2, 1, 1, 1], "f4")
    allowed = tolerance(dag, [x, y], reference(dag, [x, y]))
    assert allowed[0] == 1
    assert (allowed[1] > 4).tolist() == [True, True, False, False]


def test_infinities_stay_finite_in_the_tolerance():
    A, M = ansor.placeholder((2, 4), name="A"), ansor.placeholder((2, 4), name="M")
    dag = DAG.build([ops.softmax(ops.add(A, M))])
    mask = np.array([[0, -np.inf, 0, 0], [0, 0, -np.inf, -np.inf]], "f4")
    x = normal(2, 4)
    (wanted,) = reference(dag, [x, mask])
    assert (wanted[np.isinf(mask)] == 0).all()
    assert tolerance(dag, [x, mask], [wanted])[0].max() < 1e-4


# -- one pass, and matrix products ----------------------------------------------------

ALL = {**WORKLOADS, **MORE}


@pytest.mark.parametrize("row", ALL.values(), ids=ALL)
def test_expected_is_the_reference_and_its_tolerance(row):
    dag = DAG.build(outputs(row.small()))
    inputs = row.inputs(dag, np.random.default_rng(2))
    values, allowed = expected(dag, inputs)
    for ours, theirs in zip(values, reference(dag, inputs), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(allowed, tolerance(dag, inputs, values), strict=True):
        np.testing.assert_array_equal(ours, theirs)


PRODUCTS = {
    # spatial axes, all lengths, the axes each part uses
    "matrices": (2, (20, 30, 40), ((0, 2), (1, 2))),
    "stack of matrices": (3, (3, 20, 30, 40), ((0, 1, 3), (0, 2, 3))),
    "axes between each other": (4, (5, 6, 7, 8, 9, 3), ((0, 2, 4, 5), (1, 3, 4, 5))),
    "outer product": (2, (20, 30), ((0,), (1,))),
    "vector": (1, (50, 60), ((0, 1), (1,))),
    "a sum in one part alone": (2, (20, 30, 4, 5), ((0, 2, 3), (1, 3))),
    "an axis nobody uses": (3, (20, 30, 4, 5, 6), ((0, 3), (1, 3))),
    "three parts": (2, (20, 30, 10), ((0, 2), (1, 2), (2,))),
    "element by element": (2, (20, 30, 2), ((0, 1, 2), (0, 1, 2))),
}


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64"])
@pytest.mark.parametrize(
    ("spatial", "lengths", "used"), PRODUCTS.values(), ids=PRODUCTS
)
def test_contractions(spatial, lengths, used, dtype):
    parts = []
    for axes in used:
        shape = [n if d in axes else 1 for d, n in enumerate(lengths)]
        parts.append(RNG.integers(-9, 9, shape).astype(dtype))
    found = products.contract(parts, spatial, lengths)
    whole = np.broadcast_to(math.prod(parts[1:], start=parts[0]), lengths)
    wanted = whole.sum(tuple(range(spatial, len(lengths))))
    np.testing.assert_array_equal(np.broadcast_to(found, wanted.shape), wanted)
    assert found.dtype == dtype


def test_contraction_of_windows():
    """Overlapping views, turned and reversed ones: BLAS takes none of them as is."""
    x, w = RNG.standard_normal(1000), RNG.standard_normal((30, 20))
    windows = np.lib.stride_tricks.sliding_window_view(x, 30)[::-3, None, :]
    found = products.contract([windows, w.T[None, :, ::1]], 2, (324, 20, 30))
    np.testing.assert_allclose(found, windows[:, 0] @ w, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["GMM512", "C2D-nchw", "C2D-nhwc", "TBG", "CBR-nchw"])
def test_bounds_in_single_precision_are_not_below_exact_ones(name, monkeypatch):
    dag = DAG.build(outputs(ALL[name].make(scale=4)))
    inputs = ALL[name].inputs(dag, np.random.default_rng(4))
    exact = bound(dag, inputs)
    monkeypatch.setattr(sizes, "LARGE", 0)
    monkeypatch.setattr(sizes, "OFTEN", 0)
    for rough, fine in zip(bound(dag, inputs), exact, strict=True):
        assert (rough >= fine * (1 - 1e-12)).all()
        assert (rough <= fine * 1.01).all()


@pytest.mark.parametrize("top", [1.0, 1e300, 1e-300])
def test_bounds_hold_for_numbers_of_any_size(top, monkeypatch):
    monkeypatch.setattr(sizes, "LARGE", 0)
    monkeypatch.setattr(sizes, "OFTEN", 0)
    A, B = (ansor.placeholder((8, 8), "float64", name=n) for n in "AB")
    x, y = (np.abs(normal(8, 8, dtype="float64")) for _ in range(2))
    dag = DAG.build([ops.matmul(A, B)])
    (size,) = bound(dag, [x * top, y])
    np.testing.assert_allclose(size, x * top @ y, rtol=1e-4)
    x[3] *= 1e-40  # a row that float32 does not hold beside the others
    (size,) = bound(dag, [x * top, y])
    np.testing.assert_allclose(size, x * top @ y, rtol=1e-4)


def test_single_precision_is_for_large_products_of_elements():
    def prepared(scale, u):
        dag = DAG.build(outputs(WORKLOADS["GMM1024"].make(scale=scale)))
        arrays = {b.name: approximate.Approx(np.ones(b.shape)) for b in dag.inputs}
        parts = products.factors(dag.stages[0].body[0])
        return magnitudes(dag.stages[0], parts, arrays, u)

    assert prepared(8, 1e-6) is None
    assert prepared(2, 1e-6) is not None
    assert prepared(2, 0.0) is None
