"""Operators that move elements against NumPy."""

import numpy as np
import pytest

from ansor.errors import ModelError
from ansor.frontend.graph import Value
from ansor.frontend.operators import operator
from applied import applied, check

pytestmark = pytest.mark.llvm
RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 5, 7)).astype(np.float32)
BYTES = RNG.integers(-128, 127, (2, 5, 7)).astype(np.int8)
TRUTHS = BYTES > 0
ALL = pytest.mark.parametrize("x", [X, BYTES, TRUTHS], ids=["float32", "int8", "bool"])


@ALL
def test_reshape(x):
    check("reshape", x, shape=(5, 14), expected=x.reshape(5, 14))
    (same,) = applied("reshape", x, shape=x.shape)
    assert same is x or (same == x).all()


def test_identity():
    assert applied("identity", X)[0] is X


def test_transpose_and_reverse():
    check("transpose", X, axes=(2, 0, 1), expected=X.transpose(2, 0, 1))
    check("reverse", X, axes=(0, 2), expected=np.flip(X, (0, 2)))


@ALL
def test_slice(x):
    starts, stops, steps = (1, 4, 0), (2, -1, 7), (1, -2, 3)
    want = x[1:2, 4::-2, 0:7:3]
    check("slice", x, starts=starts, stops=stops, steps=steps, expected=want)


def test_slice_refuses_what_lies_outside():
    with pytest.raises(ModelError, match="leaves an axis of 5"):
        operator("slice").types(
            [Value("x", "int8", (5,))], {"starts": (0,), "stops": (6,), "steps": (1,)}
        )


def test_repetitions():
    check("expand", X, shape=(3, 2, 5, 7), expected=np.broadcast_to(X, (3, 2, 5, 7)))
    check("tile", X, repeats=(1, 2, 3), expected=np.tile(X, (1, 2, 3)))
    check("repeat", X, repeats=3, axis=1, expected=X.repeat(3, 1))


@pytest.mark.parametrize("parts", [2, 5, 40])
def test_concat(parts):
    widths = RNG.integers(1, 4, parts)
    arrays = [RNG.standard_normal((3, w)).astype(np.float32) for w in widths]
    check("concat", *arrays, axis=1, expected=np.concatenate(arrays, 1))


def test_concat_of_values_without_elements():
    empty, full = np.zeros((3, 0), np.float32), np.ones((3, 2), np.float32)
    assert applied("concat", empty, full, axis=1)[0].shape == (3, 2)


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap", "constant"])
@pytest.mark.parametrize("widths", [((0, 1, 2), (1, 0, 3)), ((0, 7, 2), (0, 9, 0))])
def test_pad(mode, widths):
    before, after = widths
    if mode == "reflect":
        before, after = (0, *before[1:]), (0, *after[1:])
    given = {"constant_values": 1} if mode == "constant" else {}
    want = np.pad(X, list(zip(before, after, strict=True)), mode=mode, **given)
    check("pad", X, before=before, after=after, mode=mode, value=1, expected=want)


def test_pad_of_truths_and_infinities():
    want = np.pad(TRUTHS, ((0, 0), (1, 0), (0, 0)), constant_values=True)
    check("pad", TRUTHS, before=(0, 1, 0), after=(0, 0, 0), value=True, expected=want)
    low = np.pad(X, ((0, 0), (1, 0), (0, 0)), constant_values=-np.inf)
    check("pad", X, before=(0, 1, 0), after=(0, 0, 0), value=-np.inf, expected=low)


@pytest.mark.parametrize(("upper", "k"), [(True, 1), (False, -1), (True, -9)])
def test_triangle(upper, k):
    want = np.triu(X, k) if upper else np.tril(X, k)
    check("triangle", X, upper=upper, k=k, expected=want, compiles=k == 1)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("reshape", {"shape": (3, 3)}),
        ("transpose", {"axes": (0, 0, 1)}),
        ("expand", {"shape": (2, 5, 8)}),
        ("tile", {"repeats": (1,)}),
        ("pad", {"before": (0, 0, -1), "after": (0, 0, 0)}),
        ("pad", {"before": (0,) * 3, "after": (0,) * 3, "mode": "mirror"}),
        ("concat", {"axis": 3}),
        ("reverse", {"axes": (3,)}),
    ],
)
def test_what_does_not_fit(name, attributes):
    with pytest.raises(ModelError):
        operator(name).types([Value("x", "float32", (2, 5, 7))], attributes)
