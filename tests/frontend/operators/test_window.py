"""Pooling against torch."""

import numpy as np
import pytest

from applied import applied, check

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.llvm
RNG = np.random.default_rng(0)


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


def _last(x):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


WINDOWS = [
    # spatial, kernel, stride, padding, dilation
    ((9,), (3,), (2,), (1,), (1,)),
    ((9, 8), (3, 2), (2, 1), (1, 0), (1, 1)),
    ((9, 8), (3, 3), (1, 2), (1, 1), (2, 2)),
    ((5, 6, 4), (2, 3, 2), (1, 2, 1), (0, 1, 1), (1, 1, 1)),
]


def _attributes(case):
    _, kernel, stride, padding, dilation = case
    return {
        "kernel": kernel,
        "strides": stride,
        "padding": tuple((n, n) for n in padding),
        "dilations": dilation,
    }


@pytest.mark.parametrize("case", WINDOWS)
def test_max_pool(case):
    space, *rest = case
    x = normal(2, 3, *space)
    function = getattr(F, f"max_pool{len(space)}d")
    want, places = function(torch.from_numpy(x), *rest, return_indices=True)
    given = _attributes(case)
    check("max_pool", x, **given, expected=want.numpy())
    check("max_pool", _last(x), **given, layout="last", expected=_last(want.numpy()),
          compiles=False)  # fmt: skip
    check("max_pool_indices", x, **given, expected=places.numpy(),
          compiles=len(space) == 2)  # fmt: skip


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("case", [WINDOWS[0], WINDOWS[1], WINDOWS[3]])
def test_avg_pool(case, counted):
    space, kernel, stride, padding, _ = case
    x = normal(2, 3, *space)
    function = getattr(F, f"avg_pool{len(space)}d")
    want = function(torch.from_numpy(x), kernel, stride, padding,
                    count_include_pad=counted).numpy()  # fmt: skip
    given = {**_attributes(case), "count_include_pad": counted}
    check("avg_pool", x, **given, expected=want, compiles=len(space) == 2)
    (found,) = applied("avg_pool", _last(x), **given, layout="last")
    np.testing.assert_allclose(found, _last(want), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("counted", [True, False])
def test_padding_that_completes_the_last_window_does_not_count(counted):
    x = normal(1, 2, 6, 7)
    want = F.avg_pool2d(torch.from_numpy(x), 3, 2, 1, True, counted).numpy()
    check("avg_pool", x, kernel=(3, 3), strides=(2, 2), padding=((1, 2), (1, 1)),
          dilations=(1, 1), count_include_pad=counted, uncounted=(1, 0),
          expected=want, compiles=counted)  # fmt: skip


def test_dilated_averages_divide_by_what_is_inside():
    x = np.ones((1, 1, 7), np.float32)
    check("avg_pool", x, kernel=(3,), strides=(1,), padding=((2, 3),), dilations=(2,),
          expected=np.ones((1, 1, 8), np.float32))  # fmt: skip


@pytest.mark.parametrize("p", [1, 2, 3])
def test_lp_pool(p):
    x = np.abs(normal(1, 2, 6, 6))
    want = F.lp_pool2d(torch.from_numpy(x), p, 2, 2).numpy()
    check("lp_pool", x, kernel=(2, 2), strides=(2, 2), padding=((0, 0), (0, 0)),
          dilations=(1, 1), p=p, expected=want, compiles=p == 3)  # fmt: skip


def test_pools_of_bytes():
    x = RNG.integers(-128, 127, (1, 1, 5, 5)).astype(np.int8)
    (found,) = applied(
        "max_pool", x, **_attributes(((), (3, 3), (1, 1), (1, 1), (1, 1)))
    )
    assert found[0, 0, 0, 0] == x[0, 0, :2, :2].max()
