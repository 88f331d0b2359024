"""Fourier transforms as products with constant matrices, and functions of windows."""

from __future__ import annotations

from collections.abc import Callable
from math import pi

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Array, Value
from ansor.frontend.onnx.convert.pieces import as_axis, part, reshape
from ansor.frontend.onnx.node import Converter, OnnxNode
from ansor.ir.dtypes import DTYPES

LONGEST = 1 << 11  # of a transform, whose matrix has the square of it
FRAMED = 1 << 24  # elements of all frames of a signal


def convert_dft(node: OnnxNode, build: Builder) -> Value:
    x = node.input(0)
    inverse = node.attribute("inverse", False)
    half = node.attribute("onesided", False)
    rank = len(x.shape)
    if node.opset < 20:
        axis = as_axis(node, node.attribute("axis", 1), rank)
    else:
        given = node.maybe_known(2, build)
        axis = as_axis(node, -2 if given is None else int(given.reshape(())), rank)
    known = node.maybe_known(1, build)
    length = x.shape[axis] if known is None else int(known.reshape(()))
    if known is None and inverse and half:
        length = 2 * (x.shape[axis] - 1)
    if x.shape[-1] not in (1, 2) or axis == rank - 1:
        raise ModelError(str(node), f"shape {x.shape} is no signal along axis {axis}")
    if inverse and not half:
        # Zeros of such spectra are noise in the suite's data, which nothing reproduces.
        raise node.unsupported("attribute 'inverse' is 1 without 'onesided'")
    _check_length(node, length)
    taken = length // 2 + 1 if inverse and half else length
    return _transformed(build, _sized(build, x, axis, taken), axis, length, inverse,
                        half)  # fmt: skip


def _check_length(node: OnnxNode, length: int) -> None:
    if not 1 <= length <= LONGEST:
        raise node.unsupported(
            f"the transform has length {length:,}, not up to {LONGEST:,}"
        )


def _sized(build: Builder, x: Value, axis: int, length: int) -> Value:
    """Cut, or filled up with zeros."""
    own = x.shape[axis]
    if own >= length:
        return part(build, x, axis, 0, length)
    none = (0,) * len(x.shape)
    after = tuple(length - own if d == axis else 0 for d in range(len(x.shape)))
    return build.add("pad", x, before=none, after=after)


def _transformed(
    build: Builder, x: Value, axis: int, length: int, inverse: bool, half: bool
) -> Value:
    """x · matrix along an axis, whose elements are real or pairs of real numbers."""
    rank, parts = len(x.shape), x.shape[-1]
    order = (*(d for d in range(rank - 1) if d != axis), axis, rank - 1)
    moved = build.add("transpose", x, axes=order)
    lead = moved.shape[:-2]
    matrix = _matrix(length, x.shape[axis], parts, inverse, half)
    count, ways = matrix.shape[2:]
    flat = reshape(build, moved, (*lead, x.shape[axis] * parts))
    weight = matrix.reshape(x.shape[axis] * parts, count * ways)
    constant = build.constant(weight.astype(DTYPES[x.dtype].numpy), "transform")
    found = build.add("matmul", flat, constant)
    found = reshape(build, found, (*lead, count, ways))
    back = tuple(int(n) for n in np.argsort(order))
    return build.add("transpose", found, axes=back)


def _matrix(length: int, taken: int, parts: int, inverse: bool, half: bool) -> Array:
    """(inputs, parts, outputs, parts) of the transform."""
    outputs = length // 2 + 1 if half and not inverse else length
    sign = 1 if inverse else -1
    product = np.outer(np.arange(taken), np.arange(outputs)) % length
    angle = sign * 2 * pi * product / length
    scale = np.full(taken, 1 / length if inverse else 1.0)
    if inverse and half:  # the other half are conjugates of this one
        scale[1 : (length + 1) // 2] *= 2
    cos, sin = np.cos(angle) * scale[:, None], np.sin(angle) * scale[:, None]
    rows = [np.stack([cos, sin], -1), np.stack([-sin, cos], -1)][:parts]
    whole = np.stack(rows, 1)
    return whole[..., :1] if inverse and half else whole


def convert_stft(node: OnnxNode, build: Builder) -> Value:
    x, window = node.input(0), node.maybe(2)
    step = int(node.known(1, build).reshape(()))
    half = node.attribute("onesided", True)
    size = node.maybe_known(3, build)
    if size is not None:
        length = int(size.reshape(()))
    else:
        length = x.shape[1] if window is None else window.size
    _check_length(node, length)
    if len(x.shape) == 2:
        x = reshape(build, x, (*x.shape, 1))
    frames = (x.shape[1] - length) // max(step, 1) + 1
    if step < 1 or frames < 1:
        raise ModelError(str(node), f"{frames} frames of length {length}, step {step}")
    if frames * length > FRAMED:
        raise node.unsupported(f"{frames:,} frames of {length:,}, more than {FRAMED:,}")
    places = np.arange(frames)[:, None] * step + np.arange(length)[None, :]
    framed = build.add("gather", x, build.constant(places, "frames"), axis=1)
    if window is not None:
        if window.size != length:
            raise ModelError(str(node), f"the window has {window.size}, not {length}")
        framed = build.add("multiply", framed, reshape(build, window, (length, 1)))
    return _transformed(build, framed, 2, length, False, half)


def _window(function: Callable[[Array], Array]) -> Converter:
    """A window as a function of angles from 0 to 2π."""

    def convert(node: OnnxNode, build: Builder) -> Value:
        size = int(node.known(0, build).reshape(()))
        if not 0 <= size <= FRAMED:
            raise node.unsupported(f"input 'size' is {size:,}")
        periodic = node.attribute("periodic", True)
        dtype = node.dtype("output_datatype", "float32")
        count = size if periodic else size - 1
        angle = 2 * pi * np.arange(size) / max(count, 1)
        return build.constant(function(angle).astype(DTYPES[dtype].numpy), "window")

    return convert


def _hann(angle: Array) -> Array:
    return 0.5 - 0.5 * np.cos(angle)


def _hamming(angle: Array) -> Array:
    return 25 / 46 - 21 / 46 * np.cos(angle)


def _blackman(angle: Array) -> Array:
    return 0.42 - 0.5 * np.cos(angle) + 0.08 * np.cos(2 * angle)


def convert_mel(node: OnnxNode, build: Builder) -> Value:
    """Triangles over the bins of a spectrum, evenly apart on the mel scale."""
    bins, length, rate = (int(node.known(n, build).reshape(())) for n in range(3))
    low, high = (float(node.known(n, build).reshape(())) for n in (3, 4))
    dtype = node.dtype("output_datatype", "float32")
    _check_length(node, max(bins, length))
    ends = [2595 * np.log10(1 + hertz / 700) for hertz in (low, high)]
    mels = np.arange(bins + 2) * ((ends[1] - ends[0]) / (bins + 2)) + ends[0]
    hertz = 700 * (10 ** (mels / 2595) - 1)
    edges = ((length + 1) * hertz // rate).astype(np.int64)
    found = np.zeros((length // 2 + 1, bins))
    for n in range(bins):
        _triangle(found[:, n], *edges[n : n + 3].tolist())
    return build.constant(found.astype(DTYPES[dtype].numpy), "mel")


def _triangle(column: Array, left: int, middle: int, right: int) -> None:
    if left == middle:
        column[middle] = 1
    else:
        rise = np.arange(left, middle + 1)
        column[rise] = (rise - left) / (middle - left)
    if right > middle:
        fall = np.arange(middle, right)
        column[fall] = (right - fall) / (right - middle)


CONVERTERS: dict[str, Converter] = {
    "DFT": convert_dft,
    "STFT": convert_stft,
    "HannWindow": _window(_hann),
    "HammingWindow": _window(_hamming),
    "BlackmanWindow": _window(_blackman),
    "MelWeightMatrix": convert_mel,
}
