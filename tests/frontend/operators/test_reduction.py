"""Reductions, running sums and orders against NumPy."""

from dataclasses import replace

import numpy as np
import pytest

from ansor.errors import ExpressionError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.operators import operator, ranking
from applied import applied, check

pytestmark = pytest.mark.llvm
RNG = np.random.default_rng(0)
INF = np.inf


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def _log_sum_exp(x, axis, keepdims):
    return np.log(np.exp(x).sum(axis, keepdims=keepdims))


REFERENCE = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "l1": lambda x, **k: np.abs(x).sum(**k),
    "l2": lambda x, **k: np.sqrt((x * x).sum(**k)),
    "log_sum": lambda x, **k: np.log(np.abs(x).sum(**k)),
    "log_sum_exp": _log_sum_exp,
    "sum_square": lambda x, **k: (x * x).sum(**k),
}


@pytest.mark.parametrize("keepdims", [True, False])
@pytest.mark.parametrize("kind", REFERENCE)
def test_reduce(kind, keepdims):
    x = np.abs(normal(2, 3, 4))
    want = REFERENCE[kind](x, axis=(0, 2), keepdims=keepdims)
    check("reduce", x, kind=kind, axes=(0, 2), keepdims=keepdims, expected=want,
          compiles=keepdims and kind in ("mean", "l2", "log_sum_exp"))  # fmt: skip


@pytest.mark.parametrize("axes", [(), (1,), (0, 1)])
def test_reduce_over_some_axes(axes):
    x = normal(3, 4)
    for kind in ("sum_square", "log_sum_exp"):
        want = REFERENCE[kind](x, axis=axes, keepdims=False)
        (found,) = applied("reduce", x, kind=kind, axes=axes, keepdims=False)
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_log_sum_exp_of_infinities():
    x = np.array([[-INF, -INF], [INF, 1], [-INF, 2], [1000, 1000]], np.float32)
    want = np.array([-INF, INF, 2, 1000 + np.log(2)], np.float32)
    check("reduce", x, kind="log_sum_exp", axes=(1,), keepdims=False, expected=want)


def test_reduce_of_halves_adds_in_float32():
    x = np.ones((1, 4096), np.float16)
    want = np.array([4096], np.float16)
    check("reduce", x, kind="sum", axes=(1,), keepdims=False, expected=want)


def test_reduce_of_integers_and_bools():
    x = RNG.integers(-50, 50, (3, 4)).astype(np.int32)
    rest = {"axes": (1,), "keepdims": False}
    check("reduce", x, kind="sum", **rest, expected=x.sum(1).astype(np.int32))
    check("reduce", x, kind="mean", **rest, expected=np.trunc(x.mean(1)).astype("i4"))
    truth = x > 0
    check("reduce", truth, kind="any", **rest, expected=truth.any(1))
    check("reduce", truth, kind="min", **rest, expected=truth.all(1), compiles=False)


@pytest.mark.parametrize(
    ("kind", "fill"),
    [("sum", 0), ("prod", 1), ("max", -INF), ("min", INF), ("log_sum", -INF),
     ("log_sum_exp", -INF), ("mean", np.nan)],
)  # fmt: skip
def test_reduce_of_nothing(kind, fill):
    build = Builder()
    x = build.input("x", "float32", (2, 0, 3))
    found = build.known(build.add("reduce", x, kind=kind, axes=(1,), keepdims=True))
    np.testing.assert_array_equal(found, np.full((2, 1, 3), fill, np.float32))


def test_reduce_refuses():
    x = Value("x", "float32", (2, 3))
    for attributes in ({"kind": "median", "axes": (0,)}, {"kind": "sum", "axes": (2,)}):
        with pytest.raises(ExpressionError, match="reduce"):
            operator("reduce").types([x], {**attributes, "keepdims": True})


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places(name, last):
    x = RNG.integers(0, 3, (3, 7, 2)).astype(np.float32)
    turned = x[:, ::-1] if last else x
    want = getattr(np, name)(turned, axis=1, keepdims=True)
    want = 6 - want if last else want
    check(name, x, axis=1, keepdims=True, last=last, expected=want,
          compiles=last == (name == "argmax"))  # fmt: skip


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums(exclusive, reverse):
    x = RNG.integers(-5, 5, (3, 6)).astype(np.float64)
    turned = x[:, ::-1] if reverse else x
    shifted = np.hstack([np.zeros((3, 1)), turned[:, :-1]]) if exclusive else turned
    want = np.cumsum(shifted, 1)
    want = want[:, ::-1] if reverse else want
    check("cumsum", x, axis=1, exclusive=exclusive, reverse=reverse, expected=want,
          compiles=reverse)  # fmt: skip


def test_running_products():
    x = RNG.integers(1, 4, (5, 3)).astype(np.int64)
    want = np.cumprod(x, 0)
    check("cumprod", x, axis=0, exclusive=False, reverse=False, expected=want)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_topk(dtype, largest):
    x = RNG.integers(0, 6, (2, 9, 3)).astype(dtype)
    places = np.argsort(-x if largest else x, axis=1, kind="stable")[:, :4]
    want = (np.take_along_axis(x, places, 1), places)
    check("topk", x, k=4, axis=1, largest=largest, sorted=True, expected=want,
          compiles=largest)  # fmt: skip


def defined(name, x, **attributes):
    """By the definition in the tensor language."""
    found = replace(operator(name), evaluate=None)
    return found.values([x], attributes)


@pytest.mark.parametrize("n", [97, 128, 1000])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_long_running_sums_go_by_blocks(n, reverse, exclusive):
    x = RNG.integers(-9, 9, (2, n, 2)).astype(np.int32)
    turned = np.flip(x, 1) if reverse else x
    want = np.cumsum(turned, 1, dtype=np.int32) - (turned if exclusive else 0)
    want = np.flip(want, 1) if reverse else want
    rest = {"axis": 1, "exclusive": exclusive, "reverse": reverse}
    (found,) = defined("cumsum", x, **rest)
    np.testing.assert_array_equal(found, want)


def test_long_running_sums_compile():
    x = RNG.integers(1, 3, (2, 70)).astype(np.float64)
    for name, want in (("cumsum", np.cumsum(x, 1)), ("cumprod", np.cumprod(x, 1))):
        check(name, x, axis=1, exclusive=False, reverse=False, expected=want)


@pytest.mark.parametrize("name", ["cumsum", "topk"])
def test_many_elements_are_not_compared_each_with_each(name):
    found = replace(operator(name), evaluate=None)
    few = {"axis": 0, "exclusive": False, "reverse": False}
    rest = few if name == "cumsum" else {"axis": 0, "k": 5}
    assert found.work([Value("x", "float32", (1 << 14,))], rest) < 1 << 26


@pytest.mark.parametrize(("n", "k"), [(130, 5), (128, 9), (97, 40)])
@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
@pytest.mark.parametrize("largest", [False, True])
def test_topk_of_many_goes_by_blocks(monkeypatch, n, k, dtype, largest):
    monkeypatch.setattr(ranking, "SHORT", 16)
    x = RNG.integers(-9, 9, (2, n)).astype(dtype)
    key = x.astype(float) * (-1 if largest else 1)
    places = np.argsort(key, 1, kind="stable")[:, :k]
    found = defined("topk", x, k=k, axis=1, largest=largest)
    np.testing.assert_array_equal(found[1], places)
    np.testing.assert_array_equal(found[0], np.take_along_axis(x, places, 1))


def test_topk_of_many_ends_with_real_elements(monkeypatch):
    monkeypatch.setattr(ranking, "SHORT", 16)
    x = np.full(77, -np.inf, np.float32)
    x[[5, 7, 70]] = [np.nan, np.inf, np.nan]
    most = defined("topk", x, largest=True, k=5, axis=0)[1]
    assert most.tolist() == [5, 70, 7, 0, 1]
    x = np.full(77, np.nan, np.float32)
    x[70] = 1
    least = defined("topk", x, largest=False, k=5, axis=0)[1]
    assert least.tolist() == [70, 0, 1, 2, 3]


def test_topk_puts_nan_above_infinity():
    x = np.array([1, np.nan, INF, -INF, np.nan], np.float32)
    rest = {"k": 5, "axis": 0, "sorted": True}
    assert applied("topk", x, largest=True, **rest)[1].tolist() == [1, 4, 2, 0, 3]
    assert applied("topk", x, largest=False, **rest)[1].tolist() == [3, 0, 2, 1, 4]


def test_a_constant_that_takes_long_is_not_computed_ahead():
    build = Builder()
    x = build.constant(np.ones((1, 1, 2000, 2000), np.float32))
    rest = {"strides": (1, 1), "padding": ((0, 0),) * 2, "dilations": (1, 1)}
    assert build.known(build.add("max_pool", x, kernel=(1, 2), **rest)) is not None
    assert build.known(build.add("max_pool", x, kernel=(999, 999), **rest)) is None
