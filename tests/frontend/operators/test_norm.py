"""Softmax and normalisations against torch."""

import numpy as np
import pytest

from applied import applied, check

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.llvm
RNG = np.random.default_rng(0)


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax(name, axis):
    x = normal(3, 4, 5) * 10
    want = getattr(F, name)(torch.from_numpy(x), axis).numpy()
    check(name, x, axis=axis, expected=want, atol=1e-5, compiles=axis > 0)


def test_softmax_of_halves_is_rounded_once():
    x = normal(4, 64, dtype="float16")
    want = F.softmax(torch.from_numpy(x.astype("float32")), 1).half().numpy()
    check("softmax", x, axis=1, expected=want, rtol=1e-3)


@pytest.mark.parametrize("axis", [1, 2])
def test_layer_norm(axis):
    x, shape = normal(2, 3, 4), (2, 3, 4)[axis:]
    scale, bias = normal(*shape), normal(*shape)
    given = [torch.from_numpy(a) for a in (scale, bias)]
    want = F.layer_norm(torch.from_numpy(x), shape, *given, 1e-3).numpy()
    check("layer_norm", x, scale, bias, axis=axis, epsilon=1e-3, expected=want)


def test_layer_norm_broadcasts_its_scale():
    x, scale, bias = normal(2, 3, 4), normal(4), np.zeros((), np.float32)
    want = F.layer_norm(torch.from_numpy(x), (3, 4)).numpy() * scale
    check("layer_norm", x, scale, bias, axis=1, epsilon=1e-5, expected=want)


def test_rms_norm():
    x, scale = normal(2, 3, 4), normal(4)
    want = F.rms_norm(torch.from_numpy(x), (4,), torch.from_numpy(scale), 1e-5).numpy()
    check("rms_norm", x, scale, axis=2, epsilon=1e-5, expected=want)


@pytest.mark.parametrize("shape", [(2, 6, 5), (2, 6, 3, 4), (2, 6)])
def test_group_norm(shape):
    x, scale, bias = normal(*shape), normal(6), normal(6)
    given = [torch.from_numpy(a) for a in (scale, bias)]
    want = F.group_norm(torch.from_numpy(x), 2, *given, 1e-5).numpy()
    check("group_norm", x, scale, bias, groups=2, epsilon=1e-5, expected=want,
          compiles=len(shape) == 4)  # fmt: skip


def test_instance_norm():
    x, scale, bias = normal(2, 3, 4, 5), normal(3), normal(3)
    given = [torch.from_numpy(a) for a in (scale, bias)]
    want = F.instance_norm(torch.from_numpy(x), None, None, *given).numpy()
    check("instance_norm", x, scale, bias, epsilon=1e-5, expected=want)


@pytest.mark.parametrize("size", [3, 4, 5])
def test_lrn(size):
    x = normal(2, 7, 3, 3)
    squares = [
        (x[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1] ** 2).sum(1)
        for c in range(7)
    ]
    want = x / (1.5 + 0.1 / size * np.stack(squares, 1)) ** 0.75
    check("lrn", x, alpha=0.1, beta=0.75, bias=1.5, size=size, expected=want,
          compiles=size == 4)  # fmt: skip


@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalize(p):
    x = normal(3, 4)
    x[:, 1] = 0
    want = F.normalize(torch.from_numpy(x), p, 0).numpy()
    check("lp_normalize", x, axis=0, p=p, expected=want, compiles=p == 2)


def test_half_norms_keep_their_type():
    x = normal(2, 8, dtype="float16")
    ones = np.ones(8, np.float16)
    for name, arrays in (("layer_norm", (x, ones, ones)), ("rms_norm", (x, ones))):
        (found,) = applied(name, *arrays, axis=1, epsilon=1e-5)
        assert found.dtype == np.float16
