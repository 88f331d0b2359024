"""Inputs and right results in memory that processes share."""

import ctypes
import json
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ansor
from ansor.ir.dtypes import DTYPES, is_float
from ansor.measure.memory import PAGE
from ansor.measure.problem import Problem, interval, ordered, readable
from ansor.te.dag import DAG
from ansor.te.inputs import random_trial
from ansor.te.reference import agrees


def matmul(m=5, n=7, k=3, dtype="float32") -> DAG:
    A = ansor.placeholder((m, k), dtype, name="A")
    B = ansor.placeholder((k, n), dtype, name="B")
    r = ansor.reduce_axis(k)
    C = ansor.compute((m, n), lambda i, j: ansor.sum(A[i, r] * B[r, j], axis=r))
    return DAG.build([C])


def at(address: int, array: np.ndarray) -> bytes:
    return ctypes.string_at(address, array.nbytes)


@pytest.fixture
def problem():
    made = Problem.create(matmul(), 3)
    yield made
    made.close()


def test_every_place_holds_the_inputs(problem):
    inputs = random_trial(problem.dag, np.random.default_rng(3)).inputs
    ways = (
        problem.input_addresses("end"),
        problem.input_addresses("start"),
        problem.timing_arguments(),
    )
    for addresses in ways:
        for where, array in zip(addresses, inputs, strict=True):
            assert at(where, array) == array.tobytes()


def test_inputs_are_timed_where_arrays_of_numpy_are(problem):
    assert all(x % PAGE == 16 for x in problem.timing_arguments())


def test_large_inputs_are_timed_in_large_pages():
    made = Problem.create(matmul(1024, 4, 1025), 0)
    first, second = made.timing_arguments()
    assert first % (1 << 21) == 16
    assert second % PAGE == 16
    array = random_trial(made.dag, np.random.default_rng(0)).inputs[0]
    assert at(first, array) == array.tobytes()
    made.close()


def test_another_process_opens_it_from_json():
    made = Problem.create(matmul(), 3)
    layout = json.loads(json.dumps(made.layout))
    low = made.right[0][0].tobytes()
    pid = os.fork()
    if not pid:
        other = Problem.open(os.dup(made.fd), layout, matmul())
        os._exit(other.right[0][0].tobytes() != low or other.seed != 3)
    assert os.waitpid(pid, 0)[1] == 0
    made.close()


def test_a_file_can_be_given_and_is_sealed():
    fd = os.memfd_create("given", os.MFD_ALLOW_SEALING)
    made = Problem.create(matmul(), 3, fd)
    assert made.fd == fd
    with pytest.raises(PermissionError):
        os.pwrite(fd, b"x", 0)
    made.close()


def test_a_file_that_cannot_be_sealed_will_do():
    made = Problem.create(matmul(), 3, os.memfd_create("given"))
    assert made.right[0][0].size == 35
    made.close()


def test_exact_results_are_stored_once():
    made = Problem.create(matmul(dtype="int32"), 0)
    (row,) = made.layout["outputs"]
    assert row["low"] == row["high"]
    assert made.right[0][0] is made.right[0][1]
    made.close()


def test_no_descriptor_and_no_mapping_is_left():
    def count() -> tuple[int, int]:
        with open("/proc/self/maps", encoding="ascii") as file:
            maps = sum("ansor-problem" in line for line in file)
        return len(os.listdir("/proc/self/fd")), maps

    before = count()
    for _ in range(3):
        made = Problem.create(matmul(), 0)
        made.timing_arguments()
        made.output_regions("end")
        _ = made.right
        made.close()
        made.close()
    assert count() == before


FLOATS = ("float64", "float32", "float16", "bfloat16")
numbers = st.one_of(
    st.floats(width=16),
    st.floats(-10, 10),
    st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan, 6.5e4, 3e38, 1e-45]),
)
errors = st.one_of(
    st.floats(0, 1e-3), st.floats(0, 1e40), st.sampled_from([0.0, np.inf])
)


@given(st.sampled_from(FLOATS), numbers, errors, st.lists(numbers, max_size=5))
def test_floats_are_inside_exactly_where_they_agree(name, value, allowed, others):
    row = DTYPES[name].numpy
    with np.errstate(all="ignore"):
        y = np.array([value], np.float64).astype(row)
    most = np.array([allowed])
    low, high, unknown = interval(y, most, name)
    assert unknown == np.isinf(allowed)
    for x in _near(low, high, y, others, name):
        inside = bool(
            (low <= ordered(x, name)).all() and (ordered(x, name) <= high).all()
        )
        right = bool(agrees(x, y, most).all())
        if np.isnan(x.astype(float)).any() or np.isinf(allowed):
            assert not inside or right  # told apart by a closer look
        elif name == "float64":
            assert inside == right or _close(x, y, most)
        else:
            assert inside == right, (x, y, most, low, high)


def _near(low, high, y, others, name):
    """Elements at and next to the bounds, and any others."""
    row = DTYPES[name].numpy
    kind = {2: np.int16, 4: np.int32, 8: np.int64}[row.itemsize]
    with np.errstate(all="ignore"):
        given = [np.array([x], np.float64).astype(row) for x in others]
        edges = [readable(low, name).astype(row), readable(high, name).astype(row)]
    for edge in (*edges, y):
        if np.isfinite(edge.astype(float)).all():
            bits = edge.view(kind)
            given += [(bits + step).astype(kind).view(row) for step in (-1, 0, 1)]
    return given


def _close(x, y, most) -> bool:
    """Within the rounding of float64, in which both sides are worked out."""
    gap = abs(abs(float(x[0]) - float(y[0])) - most[0])
    return bool(gap <= 4e-16 * (abs(float(x[0])) + abs(float(y[0])) + most[0]) + 5e-324)


@pytest.mark.parametrize("name", ["int64", "int32", "int16", "int8", "uint8", "bool"])
@pytest.mark.parametrize("gap", [0.0, 0.5, 1.0, 3.7, 1e30, np.inf])
def test_integers_are_inside_exactly_where_they_agree(name, gap):
    row = DTYPES[name].numpy
    info = None if name == "bool" else np.iinfo(row)
    values = [0, 1] if info is None else [0, 1, 5, 100, info.min, info.max]
    for value in values:
        y, most = np.array([value], row), np.array([gap])
        low, high, _ = interval(y, most, name)
        for x in (np.array([v], row) for v in values):
            key = ordered(x, name)
            right = abs(int(x[0]) - int(y[0])) <= gap
            assert bool((low <= key) & (key <= high)) == right, (x, y)


def test_nan_is_told_apart_from_the_unknown():
    value = np.array([np.nan, np.nan, 1.0, np.inf], np.float32)
    low, high, unknown = interval(
        value, np.array([0.0, np.inf, np.inf, 0.0]), "float32"
    )
    assert unknown == 2
    assert np.isnan(low[0])
    assert np.isnan(high[0])
    assert (low[1:] == [-np.inf, -np.inf, np.inf]).all()
    assert (high[1:] == [np.inf, np.inf, np.inf]).all()


@pytest.mark.parametrize("name", DTYPES)
def test_every_type_can_be_a_problem(name):
    A = ansor.placeholder((3, 5), name, name="A")
    made = Problem.create(DAG.build([ansor.compute((5, 3), lambda i, j: A[j, i])]), 1)
    (low, high), (x,) = (
        made.right[0],
        random_trial(made.dag, np.random.default_rng(1)).inputs,
    )
    key = ordered(np.ascontiguousarray(x.T), name)
    assert (low <= key).all()
    assert (key <= high).all()
    assert is_float(name) or (low == high).all()
    made.close()


def test_rank_zero():
    A = ansor.placeholder((3,), name="A")
    k = ansor.reduce_axis(3)
    S = ansor.compute((), lambda: ansor.sum(A[k], axis=k))
    made = Problem.create(DAG.build([S]), 1)
    assert made.right[0][0].shape == (1,)
    made.close()
