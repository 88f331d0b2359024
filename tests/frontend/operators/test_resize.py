"""Interpolation and sampling against torch."""

import numpy as np
import pytest

from ansor.frontend.builder import Builder
from ansor.frontend.interpret import interpret
from ansor.frontend.resample import Resampling, Span, resized
from applied import check

torch = pytest.importorskip("torch")
functional = torch.nn.functional
pytestmark = pytest.mark.llvm
RNG = np.random.default_rng(0)
X = RNG.standard_normal((1, 2, 6, 5)).astype(np.float32)


def ours(sizes, how, scales=None):
    build = Builder()
    x = build.input("x", "float32", X.shape)
    y = x
    for axis, size in enumerate(sizes, start=2):
        extent = X.shape[axis]
        scale = scales[axis - 2] if scales else size / extent
        y = resized(build, y, axis, Span(extent, size, scale), how)
    graph = build.finish([y])
    return interpret(graph, [X])[0], [node.op for node in graph.nodes]


@pytest.mark.parametrize("sizes", [(12, 10), (4, 3), (9, 11), (6, 1)])
@pytest.mark.parametrize(
    ("mode", "corners", "antialias"),
    [
        ("nearest", None, False),
        ("bilinear", False, False),
        ("bilinear", True, False),
        ("bicubic", False, False),
        ("bilinear", False, True),
        ("bicubic", False, True),
    ],
)
def test_resizing_is_torchs(sizes, mode, corners, antialias):
    want = functional.interpolate(
        torch.from_numpy(X),
        sizes,
        mode=mode,
        align_corners=corners,
        antialias=antialias,
    )
    kind = "align_corners" if corners else "half_pixel"
    how = Resampling(
        {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode),
        "asymmetric" if mode == "nearest" else kind,
        "floor",
        cubic=-0.5 if antialias else -0.75,
        renormalised=antialias,
        antialias=antialias,
    )
    found, _ = ours(sizes, how)
    np.testing.assert_allclose(found, want.numpy(), rtol=2e-5, atol=2e-6)


def test_regular_steps_need_no_table():
    how = Resampling("nearest", "asymmetric", "floor")
    assert ours((12, 10), how)[1] == ["repeat", "repeat"]
    assert ours((3, 5), how)[1] == ["slice"]
    assert ours((4, 7), how)[1] == ["gather", "gather"]


@pytest.mark.parametrize("name", ["interpolate", "resample"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_interpolate(name, dtype):
    x = X.astype(dtype)
    places = RNG.integers(0, 6, (9, 3))
    weights = RNG.uniform(0, 1, (9, 3)).astype(np.float32)
    want = sum(
        x[:, :, places[:, t]].astype(np.float64) * weights[:, t, None] for t in range(3)
    )
    check(name, x, places, weights, axis=2, expected=want.astype(dtype),
          rtol=2e-3 if dtype == "float16" else 1e-5)  # fmt: skip


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_grid_sample(mode, padding, corners):
    grid = RNG.uniform(-1.6, 1.6, (1, 4, 3, 2)).astype(np.float32)
    name = {"linear": "bilinear"}.get(mode, mode)
    want = functional.grid_sample(
        *map(torch.from_numpy, (X, grid)), name, padding, align_corners=corners
    )
    check("grid_sample", X, grid, mode=mode, padding=padding, align_corners=corners,
          expected=want.numpy(), rtol=1e-4, atol=1e-5,
          compiles=corners or padding == "zeros")  # fmt: skip


def test_grid_sample_cubic_and_volumes():
    grid = RNG.uniform(-0.7, 0.7, (1, 3, 2, 2)).astype(np.float32)
    want = functional.grid_sample(
        *map(torch.from_numpy, (X, grid)), "bicubic", "zeros", align_corners=False
    )
    check("grid_sample", X, grid, mode="cubic", expected=want.numpy(), rtol=1e-4,
          atol=1e-5)  # fmt: skip
    volume = RNG.standard_normal((1, 1, 3, 4, 5)).astype(np.float32)
    points = RNG.uniform(-1.2, 1.2, (1, 2, 2, 3, 3)).astype(np.float32)
    want = functional.grid_sample(
        *map(torch.from_numpy, (volume, points)), "bilinear", "zeros",
        align_corners=False,
    )  # fmt: skip
    check("grid_sample", volume, points, expected=want.numpy(), rtol=1e-4, atol=1e-5,
          compiles=False)  # fmt: skip


def test_points_that_are_no_numbers_stay_inside():
    grid = np.full((1, 2, 2, 2), np.nan, np.float32)
    check("grid_sample", X, grid, padding="border",
          expected=np.broadcast_to(X[:, :, :1, :1], (1, 2, 2, 2)))  # fmt: skip
