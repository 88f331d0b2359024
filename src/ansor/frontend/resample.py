"""Resizing along one axis: which elements each place reads, and how much of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.ir.dtypes import DTYPES, is_float

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MODES = ("nearest", "linear", "cubic")
COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
               "align_corners", "asymmetric", "tf_crop_and_resize")  # fmt: skip
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
UNROLLED = 4  # elements that are added up in one formula; more are a reduction


@dataclass(frozen=True)
class Resampling:
    """How elements between elements are made up; the words are those of ONNX.

    `rounding` is for nearest, `cubic` is the coefficient of cubic, `renormalised` gives
    elements outside no weight, `antialias` widens what is read when the axis shrinks,
    and `outside` is the value of places that tf_crop_and_resize puts outside.
    """

    mode: str = "nearest"
    coordinate: str = "half_pixel"
    rounding: str = "round_prefer_floor"
    cubic: float = -0.75
    renormalised: bool = False
    antialias: bool = False
    outside: float = 0.0

    def __post_init__(self) -> None:
        for name, value, known in (
            ("mode", self.mode, MODES),
            ("coordinate", self.coordinate, COORDINATES),
            ("rounding", self.rounding, ROUNDINGS),
        ):
            if value not in known:
                raise ModelError("resize", f"{name} {value!r} is not supported")


@dataclass(frozen=True)
class Span:
    """An axis that changes: its extents, their quotient (which scales may round), and
    the part that is read, in units of the axis."""

    extent: int
    result: int
    scale: float
    first: float = 0.0
    last: float = 1.0


def resized(build: Builder, x: Value, axis: int, span: Span, how: Resampling) -> Value:
    """`x` with another extent along one axis."""
    places = coordinates(span, how.coordinate)
    found = _picked(build, x, axis, span, how, places)
    if how.coordinate != "tf_crop_and_resize":
        return found
    beyond = (places < 0) | (places > span.extent - 1)
    if not beyond.any():
        return found
    mask = build.constant(beyond.reshape(-1, *(1,) * (len(x.shape) - axis - 1)))
    fill = build.constant(np.array(how.outside).astype(DTYPES[x.dtype].numpy))
    return build.add("where", mask, fill, found)


def _picked(
    build: Builder, x: Value, axis: int, span: Span, how: Resampling, places: Floats
) -> Value:
    if how.mode == "nearest":
        return picked(build, x, axis, nearest(span.extent, places, how.rounding))
    if not is_float(x.dtype):
        raise ModelError("resize", f"mode {how.mode!r} of {x.dtype}", "cast it first")
    indices, weights = shares(span, how, places)
    exact = np.float64 if x.dtype == "float64" else np.float32
    op = "interpolate" if indices.shape[1] <= UNROLLED else "resample"
    return build.add(
        op,
        x,
        build.constant(indices),
        build.constant(weights.astype(exact)),
        axis=axis,
    )


def coordinates(span: Span, kind: str) -> Floats:
    """Where the places of the result lie on the axis that is read."""
    place = np.arange(span.result, dtype=np.float64)
    width = span.scale * span.extent  # of the result, before it was rounded
    top = span.extent - 1
    if kind == "align_corners":
        return np.asarray(place * (top / (width - 1) if width != 1 else 0.0))
    if kind == "asymmetric":
        return np.asarray(place / span.scale)
    if kind == "tf_crop_and_resize":
        length = (span.last - span.first) * top
        moved = place * length / (width - 1) if width != 1 else place * 0 + length / 2
        return np.asarray(moved + span.first * top)
    if kind == "pytorch_half_pixel" and width == 1:
        return np.asarray(place * 0 - 0.5)
    offset = 0.0
    if kind == "half_pixel_symmetric":
        offset = span.extent / 2 * (1 - span.result / width)
    return np.asarray(offset + (place + 0.5) / span.scale - 0.5)


def nearest(extent: int, places: Floats, rounding: str) -> Ints:
    """The element that each place takes."""
    rounded = {
        "round_prefer_floor": np.ceil(places - 0.5),
        "round_prefer_ceil": np.floor(places + 0.5),
        "floor": np.floor(places),
        "ceil": np.ceil(places),
    }[rounding]
    return np.clip(rounded, 0, extent - 1).astype(np.int64)


def shares(span: Span, how: Resampling, places: Floats) -> tuple[Ints, Floats]:
    """The elements that each place reads, and their weights: (result, reads) each."""
    reach = 1 if how.mode == "linear" else 2
    narrow = min(span.scale, 1.0) if how.antialias else 1.0
    most = int(np.ceil(reach / narrow))
    below = np.floor(places).astype(np.int64)
    indices = below[:, None] + np.arange(1 - most, most + 1)
    distance = (indices - places[:, None]) * narrow
    weights = _tent(distance) if how.mode == "linear" else _keys(distance, how.cubic)
    if how.renormalised:
        weights = np.where((indices < 0) | (indices >= span.extent), 0.0, weights)
    if how.renormalised or how.antialias:
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1.0, total)
    return np.clip(indices, 0, span.extent - 1), weights


def _tent(distance: Floats) -> Floats:
    return np.asarray(np.maximum(1 - np.abs(distance), 0.0))


def _keys(distance: Floats, a: float) -> Floats:
    """The cubic convolution kernel of Keys (1981) with the coefficient `a`."""
    x = np.abs(distance)
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x <= 1, inner, np.where(x < 2, outer, 0.0))


def picked(build: Builder, x: Value, axis: int, indices: Ints) -> Value:
    """Elements along an axis; regular indices need no table of them."""
    extent, count = x.shape[axis], len(indices)
    if np.array_equal(indices, np.arange(extent)):
        return x
    if count % extent == 0 and np.array_equal(
        indices, np.arange(count) // (count // extent)
    ):
        return build.add("repeat", x, repeats=count // extent, axis=axis)
    steps = np.unique(np.diff(indices))
    if len(steps) == 1 and steps[0] > 0:
        starts, stops, strides = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
        starts[axis], strides[axis] = int(indices[0]), int(steps[0])
        stops[axis] = int(indices[-1]) + 1
        return build.add(
            "slice", x, starts=tuple(starts), stops=tuple(stops), steps=tuple(strides)
        )
    return build.add("gather", x, build.constant(indices), axis=axis)
