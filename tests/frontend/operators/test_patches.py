"""Windows as columns, and displaced ones, against torch and a plain loop."""

import numpy as np
import pytest

from applied import check

torch = pytest.importorskip("torch")
F = torch.nn.functional

pytestmark = pytest.mark.llvm
RNG = np.random.default_rng(0)
WINDOW = {
    "kernel": (2, 3),
    "strides": (2, 1),
    "padding": ((1, 1), (0, 0)),
    "dilations": (1, 2),
}


def normal(*shape):
    return RNG.standard_normal(shape).astype("float32")


def test_unfold():
    x = normal(2, 3, 6, 7)
    want = F.unfold(torch.from_numpy(x), (2, 3), (1, 2), (1, 0), (2, 1)).numpy()
    check("unfold", x, **WINDOW, expected=want.reshape(2, 3, 2, 3, 4, 3))


def test_fold():
    x = normal(2, 3, 2, 3, 4, 3)
    flat = torch.from_numpy(x.reshape(2, 18, 12))
    want = F.fold(flat, (6, 7), (2, 3), (1, 2), (1, 0), (2, 1)).numpy()
    check("fold", x, **WINDOW, shape=(6, 7), expected=want)


def test_displaced():
    x, offset = normal(1, 2, 6, 7), normal(1, 2, 2, 3, 2, 4, 3) * 2
    mask = normal(1, 2, 2, 3, 4, 3)
    want = np.zeros((1, 2, 2, 3, 4, 3), np.float32)
    for c, ky, kx, y, at in np.ndindex(*want.shape[1:]):
        row = y * 2 + ky - 1 + offset[0, c, ky, kx, 0, y, at]
        column = at + kx * 2 + offset[0, c, ky, kx, 1, y, at]
        value = _between(x[0, c], row, column)
        want[0, c, ky, kx, y, at] = value * mask[0, c, ky, kx, y, at]
    check("displaced", x, offset, mask, **WINDOW, expected=want, atol=1e-5)


def _between(image, row, column):
    total = 0.0
    for y in (int(np.floor(row)), int(np.floor(row)) + 1):
        for x in (int(np.floor(column)), int(np.floor(column)) + 1):
            if 0 <= y < image.shape[0] and 0 <= x < image.shape[1]:
                total += image[y, x] * (1 - abs(row - y)) * (1 - abs(column - x))
    return total
