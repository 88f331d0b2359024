"""Resizing and sampling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.onnx.convert.movement import axes_of, ints, transposed
from ansor.frontend.onnx.convert.pieces import reshape
from ansor.frontend.onnx.node import Converter, OnnxNode
from ansor.frontend.resample import Floats, Resampling, Span, resized
from ansor.ir.dtypes import DTYPES


def convert_resize(node: OnnxNode, build: Builder) -> Value:
    if node.opset < 11:
        return _scaled(node, build, node.known(1, build).reshape(-1).tolist())
    x, rank = node.input(0), len(node.input(0).shape)
    axes = axes_of(node, node.attribute("axes", tuple(range(rank))), rank)
    how = _how(node)
    for axis, span in zip(axes, _spans(node, build, x, axes), strict=True):
        if span != Span(span.extent, span.extent, 1.0):
            x = resized(build, x, axis, span, how)
    return x


def _how(node: OnnxNode) -> Resampling:
    return Resampling(
        mode=node.attribute("mode", "nearest"),
        coordinate=node.attribute("coordinate_transformation_mode", "half_pixel"),
        rounding=node.attribute("nearest_mode", "round_prefer_floor"),
        cubic=node.attribute("cubic_coeff_a", -0.75),
        renormalised=node.attribute("exclude_outside", False),
        antialias=node.attribute("antialias", False),
        outside=node.attribute("extrapolation_value", 0.0),
    )


def _spans(node: OnnxNode, build: Builder, x: Value, axes: Sequence[int]) -> list[Span]:
    extents = [x.shape[axis] for axis in axes]
    policy = node.attribute("keep_aspect_ratio_policy", "stretch")
    parts = [(0.0, 1.0)] * len(axes)
    if node.attribute("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        roi = node.known(1, build).reshape(2, len(axes)).astype(np.float64).tolist()
        parts = list(zip(*roi, strict=True))
    scales = node.maybe_known(2, build)
    if scales is not None and scales.size:
        factors = scales.astype(np.float64).reshape(-1).tolist()
        sizes = [int(n * s) for n, s in zip(extents, factors, strict=True)]
    else:
        sizes = list(ints(node.known(3, build)))
        factors = [m / n for n, m in zip(extents, sizes, strict=True)]
        if policy != "stretch":
            factors, sizes = _kept(node, policy, extents, factors)
    if min(sizes, default=1) < 1:
        raise ModelError(str(node), f"sizes {sizes}")
    quads = zip(extents, sizes, factors, parts, strict=True)
    return [Span(n, m, float(s), *part) for n, m, s, part in quads]


def _kept(
    node: OnnxNode, policy: str, extents: Sequence[int], factors: Sequence[float]
) -> tuple[list[float], list[int]]:
    """One factor for all axes."""
    if policy not in ("not_larger", "not_smaller"):
        raise node.unsupported(f"attribute 'keep_aspect_ratio_policy' is {policy!r}")
    one = min(factors) if policy == "not_larger" else max(factors)
    return [one] * len(extents), [int(one * n + 0.5) for n in extents]


def convert_upsample(node: OnnxNode, build: Builder) -> Value:
    if node.opset >= 9:
        return _scaled(node, build, node.known(1, build).reshape(-1).tolist())
    if node.opset >= 7:
        return _scaled(node, build, list(node.attribute("scales")))
    height, width = node.attribute("height_scale"), node.attribute("width_scale")
    return _scaled(node, build, [1.0, 1.0, height, width])


def _scaled(node: OnnxNode, build: Builder, scales: Sequence[float]) -> Value:
    """Before opset 11: coordinates are quotients, and the nearest is the one before,
    or the one after where an axis shrinks."""
    x, mode = node.input(0), node.attribute("mode", "nearest")
    if len(scales) != len(x.shape):
        raise ModelError(str(node), f"{len(scales)} scales of {len(x.shape)} axes")
    mode = "linear" if mode == "bilinear" else mode
    for axis, scale in enumerate(scales):
        extent = x.shape[axis]
        if scale == 1.0:
            continue
        rounding = "ceil" if scale < 1 else "floor"
        how = Resampling(mode, "asymmetric", rounding)
        span = Span(extent, int(extent * scale), float(scale))
        if span.result < 1:
            raise ModelError(str(node), f"axis {axis} of {extent} by {scale} is empty")
        x = resized(build, x, axis, span, how)
    return x


_SAMPLING = {"bilinear": "linear", "bicubic": "cubic"}


def convert_grid_sample(node: OnnxNode, build: Builder) -> Value:
    mode = node.attribute("mode", "linear" if node.opset >= 20 else "bilinear")
    padding = node.attribute("padding_mode", "zeros")
    corners = node.attribute("align_corners", False)
    mode = _SAMPLING.get(mode, mode)
    if mode not in ("nearest", "linear", "cubic"):
        raise node.unsupported(f"attribute 'mode' is {mode!r}")
    if padding not in ("zeros", "border", "reflection"):
        raise node.unsupported(f"attribute 'padding_mode' is {padding!r}")
    return build.add(
        "grid_sample",
        node.input(0),
        node.input(1),
        mode=mode,
        padding=padding,
        align_corners=corners,
    )


def convert_affine_grid(node: OnnxNode, build: Builder) -> Value:
    """The points of a regular grid, times the matrices."""
    theta = node.input(0)
    _, _, *extents = ints(node.known(1, build))
    corners = node.attribute("align_corners", False)
    lines = []
    for n in extents:
        place = np.arange(n, dtype=np.float64)
        even = place * 2 / max(n - 1, 1) - 1 if corners else (place * 2 + 1) / n - 1
        lines.append(even)
    grids = np.meshgrid(*lines, indexing="ij")[::-1]  # the innermost axis first
    points = np.stack([*(g.reshape(-1) for g in grids), np.ones(grids[0].size)])
    base = build.constant(points.astype(DTYPES[theta.dtype].numpy))
    moved = transposed(build, build.add("matmul", theta, base), (0, 2, 1))
    return reshape(build, moved, (theta.shape[0], *extents, len(extents)))


def convert_roi_align(node: OnnxNode, build: Builder) -> Value:
    """Averages of bilinear samples are products with weights of rows and of columns."""
    x, batch = node.input(0), node.input(2)
    mode = node.attribute("mode", "avg")
    if mode != "avg":
        raise node.unsupported(f"attribute 'mode' is {mode!r}")
    default = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    kind = node.attribute("coordinate_transformation_mode", default)
    if kind not in ("half_pixel", "output_half_pixel"):
        raise node.unsupported(
            f"attribute 'coordinate_transformation_mode' is {kind!r}"
        )
    shift = 0.5 if kind == "half_pixel" else 0.0
    rois = node.known(1, build).astype(np.float64) * node.attribute(
        "spatial_scale", 1.0
    )
    sampling = node.attribute("sampling_ratio", 0)
    found = build.add("gather", x, batch, axis=0)
    for axis, name in ((2, "output_height"), (3, "output_width")):
        place = 3 - axis  # a region is x1, y1, x2, y2
        begin, end = rois[:, place] - shift, rois[:, place + 2] - shift
        length = end - begin if shift else np.maximum(end - begin, 1.0)
        bins = node.attribute(name, 1)
        weights = _bin_weights(begin, length / bins, bins, sampling, x.shape[axis])
        wide = weights.astype(DTYPES[x.dtype].numpy)[:, None]  # for every channel
        if axis == 2:
            found = build.add("matmul", build.constant(wide), found)
        else:
            columns = np.ascontiguousarray(np.swapaxes(wide, 2, 3))
            found = build.add("matmul", found, build.constant(columns))
    return found


def _bin_weights(
    begin: Floats, size: Floats, bins: int, sampling: int, extent: int
) -> Floats:
    """How much of each of `extent` elements is in each bin: (regions, bins, extent)."""
    result = np.zeros((len(begin), bins, extent))
    for region, (start, width) in enumerate(zip(begin, size, strict=True)):
        count = sampling if sampling > 0 else max(0, int(np.ceil(width)))
        within = (np.arange(count) + 0.5) * (width / max(count, 1))
        place = start + np.arange(bins)[:, None] * width + within
        inside = (place >= -1.0) & (place <= extent)
        near = np.clip(place, 0, extent - 1)[..., None] - np.arange(extent)
        tents = np.maximum(1 - np.abs(near), 0) * inside[..., None]
        result[region] = tents.sum(axis=1) / max(count, 1)
    return result


CONVERTERS: Mapping[str, Converter] = {
    "AffineGrid": convert_affine_grid,
    "GridSample": convert_grid_sample,
    "Resize": convert_resize,
    "RoiAlign": convert_roi_align,
    "Upsample": convert_upsample,
}
