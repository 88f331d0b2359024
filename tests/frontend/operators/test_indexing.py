"""Gathers and scatters against NumPy."""

import numpy as np
import pytest

from ansor.errors import ModelError
from ansor.frontend.graph import Value
from ansor.frontend.operators import operator
from applied import applied, check, compiled

pytestmark = pytest.mark.llvm
RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 5, 7)).astype(np.float32)
BYTES = RNG.integers(-9, 9, (2, 5, 7)).astype(np.int8)


def indices(shape, extent):
    """Some of them count from the back."""
    return RNG.integers(-extent, extent, shape)


def test_gather():
    places = indices((3, 4), 5)
    check("gather", X, places, axis=1, expected=np.take(X, places, 1))
    check("gather", BYTES, places.astype(np.int32), axis=1,
          expected=np.take(BYTES, places, 1))  # fmt: skip
    check("gather", X, np.array(-3), axis=2, expected=X[:, :, 4])


def test_a_gather_outside_stays_inside():
    """The reference refuses; a kernel cannot, and must not read foreign memory."""
    far = np.array([10**15, -(10**15), 7])
    (found,) = compiled("gather", X, far, axis=1)
    np.testing.assert_array_equal(found, X[:, [4, 0, 4]])
    with pytest.raises(ModelError, match="index 1000000000000000 is outside"):
        applied("gather", X, far, axis=1)


def test_gather_elements():
    places = indices((2, 9, 3), 5)
    want = np.take_along_axis(X[:, :, :3], places % 5, 1)
    check("gather_elements", X, places, axis=1, expected=want)


def test_gather_nd():
    pairs = indices((3, 2), 2)
    check("gather_nd", X, pairs, expected=X[pairs[:, 0], pairs[:, 1]])
    rows = indices((2, 4, 1), 5)
    want = np.stack([X[n, rows[n, :, 0]] for n in range(2)])
    check("gather_nd", X, rows, batch_dims=1, expected=want)


UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def scattered(x, places, updates, kind):
    result = x.copy()
    if kind == "none":
        for n, place in enumerate(zip(*places, strict=True)):
            result[place] = updates[n]
    else:
        UFUNCS[kind].at(result, places, updates)
    return result


@pytest.mark.parametrize("kind", ["none", *UFUNCS])
def test_scatter_elements(kind):
    x = X if kind in ("none", "add") else BYTES
    rows = indices((2, 6, 3), 5)
    updates = RNG.integers(-5, 5, rows.shape).astype(x.dtype)
    grid = np.indices(rows.shape)
    places = tuple(p.reshape(-1) for p in (grid[0], rows, grid[2]))
    want = scattered(x, places, updates.reshape(-1), kind)
    check("scatter_elements", x, rows, updates, axis=1, reduction=kind, expected=want,
          compiles=kind in ("none", "add", "max"))  # fmt: skip


@pytest.mark.parametrize("kind", ["none", "add", "max"])
def test_scatter_nd(kind):
    pairs = indices((3, 2, 2), 2)
    updates = RNG.integers(-5, 5, (3, 2, 7)).astype(np.float32)
    places = tuple(pairs.reshape(-1, 2).T)
    want = scattered(X, places, updates.reshape(-1, 7), kind)
    check("scatter_nd", X, pairs, updates, reduction=kind, expected=want,
          compiles=kind == "none")  # fmt: skip


def test_one_hot():
    places = np.array([[0, 5], [-1, 6], [-7, 3]])
    values = np.array([2, 7], np.int8)
    want = np.full((3, 6, 2), 2, np.int8)
    for i, j in ((0, 0), (0, 1), (1, 0), (2, 1)):
        want[i, places[i, j], j] = 7
    check("one_hot", places, values, depth=6, axis=1, expected=want)


@pytest.mark.parametrize(
    ("name", "shapes", "attributes"),
    [
        ("gather", [(2, 3), (2,)], {"axis": 2}),
        ("gather_elements", [(2, 3), (3, 3)], {"axis": 1}),
        ("gather_nd", [(2, 3), (2, 3)], {}),
        ("scatter_elements", [(2, 3), (2, 2), (2, 1)], {"axis": 1}),
        ("scatter_nd", [(2, 3), (2, 1), (2, 2)], {}),
        ("one_hot", [(2,), (3,)], {"depth": 2, "axis": 0}),
    ],
)
def test_what_does_not_fit(name, shapes, attributes):
    values = [Value(f"x{n}", "int64", shape) for n, shape in enumerate(shapes)]
    with pytest.raises(ModelError):
        operator(name).types(values, attributes)
    with pytest.raises(ModelError):
        operator("gather").types(
            [Value("x", "float32", (2,)), Value("i", "float32", (2,))], {"axis": 0}
        )
