"""Random inputs: of the right types, inside what they address, worth comparing."""

from random import Random

import numpy as np
import pytest

import ansor
from ansor.ir.dtypes import DTYPES
from ansor.te.dag import DAG
from ansor.te.inputs import random_inputs, random_trial
from ansor.te.ranges import input_ranges
from ansor.te.reference import expected, reference
from ansor.te.workloads import MORE, WORKLOADS, outputs
from strategies_dag import Maker

ALL = {**WORKLOADS, **MORE}
SEEDS = 150
RNG = np.random.default_rng


def one(shape, function):
    return DAG.build([ansor.compute(shape, function, name="out")])


@pytest.mark.parametrize("row", ALL.values(), ids=ALL)
def test_workloads_can_be_compared(row):
    dag = DAG.build(outputs(row.small()))
    inputs, values, allowed = random_trial(dag, RNG(0))
    for buffer, array in zip(dag.inputs, inputs, strict=True):
        assert array.dtype == DTYPES[buffer.dtype].numpy
        assert array.shape == buffer.shape
        assert array.flags.c_contiguous
    for value, error in zip(values, allowed, strict=True):
        assert np.isfinite(value.astype("float64")).all()
        assert np.isfinite(error).all()
        assert (np.abs(value.astype("float64")) > error).any()


def test_random_graphs_stay_inside_what_they_address():
    for seed in range(SEEDS):
        dag = DAG.build(Maker(Random(seed)).outputs())
        reference(dag, random_inputs(dag, RNG(seed)))  # raises for an index outside


def test_same_state_same_inputs():
    dag = DAG.build(outputs(MORE["gather"].small()))
    first, second, third = (random_inputs(dag, RNG(n)) for n in (7, 7, 8))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b)
    assert any((a != b).any() for a, b in zip(first, third, strict=True))


def test_a_trial_is_the_inputs_and_what_is_expected_of_them():
    dag = DAG.build(outputs(WORKLOADS["CBR-nchw"].small()))
    inputs, values, allowed = random_trial(dag, RNG(3))
    for ours, again in zip(inputs, random_inputs(dag, RNG(3)), strict=True):
        np.testing.assert_array_equal(ours, again)
    wanted = expected(dag, inputs)
    np.testing.assert_array_equal(values[0], wanted[0][0])
    np.testing.assert_array_equal(allowed[0], wanted[1][0])


def drawn(dtype):
    A = ansor.placeholder((5000,), dtype, name="A")
    (array,) = random_inputs(one((5000,), lambda i: A[i]), RNG(0))
    return array


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_floats_lie_between_minus_one_and_one(dtype):
    array = drawn(dtype).astype("float64")
    assert array.min() >= -1
    assert array.max() <= 1
    assert abs(array.mean()) < 0.05
    assert array.std() == pytest.approx(3**-0.5, rel=0.05)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_integers_take_every_value_of_8_bits(dtype):
    array = drawn(dtype)
    assert (array.min(), array.max()) == (-128, 127)


def test_unsigned_integers_and_bools():
    array = drawn("uint8")
    assert (array.min(), array.max()) == (0, 255)
    assert 0.4 < drawn("bool").mean() < 0.6


A = ansor.placeholder((10, 4), name="A")
N = ansor.placeholder((3,), "int32", name="N")
M = ansor.placeholder((3,), "uint8", name="M")
P = ansor.compute((3,), lambda i: N[i] * 2 + 1, name="P")
FOUND = {
    "direct": (lambda i, j: A[N[i], j], {"N": (0, 9)}),
    "scaled": (lambda i, j: A[2 * N[i] + j, j], {"N": (0, 4)}),
    "mirrored": (lambda i, j: A[9 - N[i] - j, j], {"N": (0, 8)}),
    "shifted": (lambda i, j: A[N[i] - 3, j], {"N": (3, 12)}),
    "two": (lambda i, j: A[N[i] + M[j], j], {"N": (0, 4), "M": (0, 4)}),
    "both axes": (lambda i, j: A[N[i], M[i]], {"N": (0, 9), "M": (0, 3)}),
    "one for both axes": (lambda i, j: A[N[i], N[j]], {"N": (0, 3)}),
    "wrapped": (lambda i, j: A[N[i] % 7, j], {"N": (0, 9)}),
    "divided": (lambda i, j: A[(N[i] - 3) // 2, j], {"N": (3, 22)}),
    "clipped": (lambda i, j: A[ansor.clip(N[i], 0, 9), j], {"N": (0, 9)}),
    "from the end": (
        lambda i, j: A[ansor.select(N[i] < 0, N[i] + 10, N[i]), j],
        {"N": (0, 9)},
    ),
    "through a stage": (lambda i, j: A[P[i], j], {"N": (0, 4)}),
    "guarded": (
        lambda i, j: ansor.select(N[i] >= 3, A[N[i] - 3, j], 0.0),
        {"N": (3, 12)},
    ),
    "bits": (lambda i, j: N[i] << M[j], {"M": (0, 31)}),
    "none": (lambda i, j: A[i, j] * N[i], {}),
}


@pytest.mark.parametrize(("body", "wanted"), FOUND.values(), ids=FOUND)
def test_ranges_of_indices(body, wanted):
    dag = one((3, 2), body)
    found = input_ranges(dag)
    assert {name: found[name] for name in sorted(found)} == {
        name: wanted[name] for name in sorted(wanted)
    }
    reference(dag, random_inputs(dag, RNG(0)))


def test_a_small_type_cannot_reach_the_end():
    T = ansor.placeholder((1000, 2), name="T")
    dag = one((3,), lambda i: T[M[i], 0])
    assert input_ranges(dag) == {"M": (0, 255)}


DOMAINS = {
    "log": lambda a, b: ansor.log(a),
    "root of a product": lambda a, b: ansor.sqrt(a * b),
    "quotient": lambda a, b: ansor.rsqrt(a) / b,
    "power": lambda a, b: ansor.pow(a, b),
    "half exp": lambda a, b: ansor.exp(ansor.cast(a * 1.5, "float16") * 8),
}


@pytest.mark.parametrize("function", DOMAINS.values(), ids=DOMAINS)
def test_functions_get_what_they_are_defined_on(function):
    X, Y = (ansor.placeholder((400,), name=n) for n in "XY")
    dag = one((400,), lambda i: function(X[i], Y[i]))
    _, (value,), (allowed,) = random_trial(dag, RNG(0))
    assert np.isfinite(value.astype("float64")).mean() >= 0.9
    assert np.isfinite(allowed).mean() >= 0.9


def test_only_what_needs_it_is_positive():
    """A variance is, the values beside it are not."""
    dag = DAG.build(outputs(WORKLOADS["CBR-nchw"].small()))
    arrays = dict(zip([b.name for b in dag.inputs], random_inputs(dag, RNG(0)),
                      strict=True))  # fmt: skip
    assert arrays["variance"].min() > 0
    assert arrays["X"].min() < 0


def test_a_long_product_does_not_vanish():
    X, k = ansor.placeholder((4, 3000), name="X"), ansor.reduce_axis(3000)
    dag = one((4,), lambda i: ansor.prod(X[i, k], axis=k))
    _, (value,), (allowed,) = random_trial(dag, RNG(0))
    assert (np.abs(value) > allowed).all()
