"""Operators, types and numbers of scalar values."""

import operator
import pickle

import numpy as np
import pytest

import ansor
from ansor.ir.dtypes import DTYPES
from ansor.te.dag import DAG
from ansor.te.reference import reference
from ansor.te.value import promote


def element(dtype):
    return ansor.placeholder((4,), dtype, name="A")[0]


@pytest.mark.parametrize(
    ("a", "b", "common"),
    [
        ("float32", "float64", "float64"),
        ("float16", "float32", "float32"),
        ("bfloat16", "float32", "float32"),
        ("bfloat16", "float16", "float32"),
        ("int64", "float16", "float16"),
        ("int8", "uint8", "int16"),
        ("int32", "int64", "int64"),
        ("bool", "int8", "int8"),
        ("bool", "bfloat16", "bfloat16"),
    ],
)
def test_promotion(a, b, common):
    assert promote(a, b) == promote(b, a) == common
    assert (element(a) * element(b)).dtype == common


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_integers_adopt_the_type_of_the_value(dtype):
    x = element(dtype)
    for value in (
        x + 1,
        1 - x,
        x * np.int64(2),
        np.float32(1) * x if "f" in dtype else x,
    ):
        assert value.dtype == dtype


def test_python_float_beside_an_integer_makes_float32():
    assert (element("int8") * 0.5).dtype == "float32"
    assert (element("int32") / 2).dtype == "float32"
    assert (element("int32") // 2).dtype == "int32"


def test_int_beside_a_bool_makes_int64():
    assert (element("bool") + 1).dtype == "int64"


def test_comparisons_are_bool():
    x = element("float32")
    for value in (x < 1, x <= 1, x > 1, x >= 1, x == 1, x != 1, ~(x < 1)):
        assert value.dtype == "bool"


def test_numpy_scalars_on_the_left():
    assert str(np.float32(2) * element("float32")) == "2.0 * A[0]"
    assert str(np.int8(2) - element("int8")) == "int8(2) - A[0]"


def test_index_arithmetic_with_neutral_constants_vanishes():
    shapes = []

    def body(i):
        shapes.extend(map(str, (i * 1, i + 0, 0 + i, i // 1, 1 * i, i - 0)))
        return i

    ansor.compute((4,), body)
    assert set(shapes) == {"i"}


def test_small_integer_powers_are_products():
    x = element("float32")
    assert str(x**2) == "A[0] * A[0]"
    assert "pow" not in str(x**3) + str(x**4)
    assert str(x**0.5) == "pow(A[0], 0.5)"
    assert (element("int32") ** 3).dtype == "int32"


INT_OPS = [
    "add",
    "sub",
    "mul",
    "floordiv",
    "mod",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
]


@pytest.mark.parametrize("name", INT_OPS)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_integer_operators_agree_with_numpy(name, dtype):
    op = getattr(operator, name)
    a, b = (ansor.placeholder((64,), dtype, name=n) for n in "AB")
    dag = DAG.build([ansor.compute((64,), lambda i: op(a[i], b[i]))])
    info = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    x = rng.integers(info.min, info.max, 64, dtype=dtype, endpoint=True)
    y = rng.integers(info.min, info.max, 64, dtype=dtype, endpoint=True)
    y = np.abs(y) % 7 if "shift" in name else np.where(y == 0, 1, y)
    y = y.astype(dtype)
    np.testing.assert_array_equal(reference(dag, [x, y])[0], op(x, y))


def test_floor_division_of_floats_and_unary_operators():
    a = ansor.placeholder((5,), name="A")
    dag = DAG.build(
        [
            ansor.compute((5,), lambda i: a[i] // 2),
            ansor.compute((5,), lambda i: abs(-a[i]) + +a[i]),
        ]
    )
    x = np.array([-3, -0.5, 0, 1.5, 4], "float32")
    first, second = reference(dag, [x])
    np.testing.assert_array_equal(first, x // 2)
    np.testing.assert_array_equal(second, np.abs(x) + x)


def test_values_and_errors_survive_pickling():
    x = element("float32") + 1
    assert str(pickle.loads(pickle.dumps(x))) == str(x)
    with pytest.raises(ansor.ExpressionError) as caught:
        bool(x > 0)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
