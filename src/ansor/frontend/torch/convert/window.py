"""Pooling, unfolding and resampling of ATen."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, prod

import numpy as np

from ansor.frontend.builder import Builder
from ansor.frontend.graph import Array, Value
from ansor.frontend.torch.call import (
    Call,
    Converter,
    Results,
    along,
    cast,
    reshaped,
    scalar,
    transposed,
)
from ansor.ir.dtypes import DTYPES


def _images(build: Builder, x: Value, space: int) -> Value:
    """With a batch axis, if it had none."""
    return x if len(x.shape) == space + 2 else reshaped(build, x, (1, *x.shape))


def _after(
    extent: int, places: int, kernel: int, stride: int, before: int, dilation: int = 1
) -> int:
    """Padding at the end, so that the last of `places` windows is complete."""
    end = (places - 1) * stride + dilation * (kernel - 1) + 1
    return max(before, end - extent - before)


def max_pool(space: int) -> Converter:
    def convert(call: Call, build: Builder) -> Results:
        x = _images(build, call.value("self"), space)
        kernel = call.numbers("kernel_size", space)
        strides = call.numbers("stride", space) or kernel
        before = call.numbers("padding", space)
        dilations = call.numbers("dilation", space)
        sizes = zip(
            x.shape[2:], call.shape[-space:], kernel, strides, before, dilations,
            strict=True,
        )  # fmt: skip
        after = [_after(*size) for size in sizes]
        found = build.add(
            "max_pool", x, kernel=kernel, strides=strides,
            padding=tuple(zip(before, after, strict=True)), dilations=dilations,
            layout="first",
        )  # fmt: skip
        found = reshaped(build, found, call.shape)
        return found if len(call.results) == 1 else (found, None)

    return convert


def avg_pool(space: int) -> Converter:
    def convert(call: Call, build: Builder) -> Results:
        x = _images(build, call.value("self"), space)
        kernel = call.numbers("kernel_size", space)
        strides = call.numbers("stride", space) or kernel
        before = call.numbers("padding", space)
        sizes = zip(
            x.shape[2:], call.shape[-space:], kernel, strides, before, strict=True
        )
        after = [_after(*size) for size in sizes]
        override = call.has("divisor_override")
        more = [0] * space if override else np.subtract(after, before).tolist()
        found = build.add(
            "avg_pool", x, kernel=kernel, strides=strides,
            padding=tuple(zip(before, after, strict=True)), dilations=(1,) * space,
            layout="first", uncounted=tuple(more),
            count_include_pad=override or call.flag("count_include_pad"),
        )  # fmt: skip
        if override:
            factor = prod(kernel) / call.number("divisor_override")
            found = build.add("multiply", found, scalar(build, factor, x.dtype))
        return reshaped(build, found, call.shape)

    return convert


def adaptive_avg_pool(space: int) -> Converter:
    def convert(call: Call, build: Builder) -> Results:
        x, places = call.value("self"), call.shape[-space:]
        axes = tuple(range(len(x.shape) - space, len(x.shape)))
        if set(places) == {1}:
            return build.add("reduce", x, kind="mean", axes=axes, keepdims=True)
        extents = x.shape[-space:]
        if all(n % m == 0 for n, m in zip(extents, places, strict=True)):
            sizes = tuple(n // m for n, m in zip(extents, places, strict=True))
            found = build.add(
                "avg_pool", _images(build, x, space), kernel=sizes, strides=sizes,
                padding=((0, 0),) * space, dilations=(1,) * space, layout="first",
                count_include_pad=True, uncounted=(0,) * space,
            )  # fmt: skip
            return reshaped(build, found, call.shape)
        for axis, count in zip(axes, places, strict=True):
            x = _mixed(build, x, axis, _means(x.shape[axis], count))
        return x

    return convert


def _means(extent: int, places: int) -> Array:
    """Rows that average the elements of each place."""
    rows = np.zeros((places, extent))
    for place in range(places):
        start = floor(place * extent / places)
        stop = ceil((place + 1) * extent / places)
        rows[place, start:stop] = 1 / (stop - start)
    return rows


def _mixed(build: Builder, x: Value, axis: int, rows: Array) -> Value:
    """A matrix applied to one axis."""
    turned = build.constant(rows.T.astype(DTYPES[x.dtype].numpy).copy(), "mix")
    rank = len(x.shape)
    order = [*(n for n in range(rank) if n != axis), axis]
    mixed = build.add("matmul", transposed(build, x, order), turned)
    return transposed(build, mixed, [order.index(n) for n in range(rank)])


# -- windows as columns ----------------------------------------------------------------


def convert_col2im(call: Call, build: Builder) -> Results:
    """Windows added up: a transposed convolution whose kernels have one element."""
    x, kernel = call.value("self"), call.numbers("kernel_size", 2)
    batch = x.shape[0] if len(x.shape) == 3 else 1
    size = call.numbers("output_size", 2)
    stride, padding = call.numbers("stride", 2), call.numbers("padding", 2)
    dilation = call.numbers("dilation", 2)
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    sizes = list(zip(size, padding, spans, stride, strict=True))
    places = [(n + 2 * p - span) // s + 1 for n, p, span, s in sizes]
    channels = x.shape[-2] // prod(kernel)
    ends = [
        n - ((m - 1) * s + span - 2 * p)
        for m, (n, p, span, s) in zip(places, sizes, strict=True)
    ]
    found = build.add(
        "conv_transpose",
        reshaped(build, x, (batch, x.shape[-2], *places)),
        build.constant(_single(channels, kernel, x.dtype), "single"),
        strides=stride, padding=tuple((p, p) for p in padding),
        output_padding=tuple(ends), dilations=dilation, groups=channels,
        layout="first",
    )  # fmt: skip
    return reshaped(build, found, call.shape)


def convert_im2col(call: Call, build: Builder) -> Results:
    x, kernel = _images(build, call.value("self"), 2), call.numbers("kernel_size", 2)
    found = build.add(
        "conv", x, build.constant(_single(x.shape[1], kernel, x.dtype), "single"),
        strides=call.numbers("stride", 2),
        padding=tuple((p, p) for p in call.numbers("padding", 2)),
        dilations=call.numbers("dilation", 2), groups=x.shape[1], layout="first",
    )  # fmt: skip
    return reshaped(build, found, call.shape)


def _single(channels: int, kernel: Sequence[int], dtype: str) -> Array:
    """Kernels with a one in each place, for every channel."""
    places = prod(kernel)
    one = np.eye(places, dtype=DTYPES[dtype].numpy).reshape(places, 1, *kernel)
    return np.tile(one, (channels, 1, 1, 1))


# -- resampling ------------------------------------------------------------------------


def _step(call: Call, extent: int, places: int, number: int) -> float:
    """Distance of neighbouring places in the source."""
    names = ("scales_d", "scales_h", "scales_w", "scales")
    single = [call.arguments[name] for name in names if name in call.arguments]
    scales = call.arguments.get("scale_factors", tuple(single))
    given = scales[number] if isinstance(scales, tuple) else None
    if isinstance(given, float | int) and given > 0:
        return 1.0 / given
    return extent / places


def _given(call: Call) -> str:
    return "input" if "input" in call.arguments else "self"


def convert_nearest(call: Call, build: Builder) -> Results:
    x = call.value(_given(call))
    for number, axis in enumerate(range(2, len(x.shape))):
        extent, places = x.shape[axis], call.shape[axis]
        step = np.float32(_step(call, extent, places, number))
        at = np.floor(np.arange(places, dtype=np.float32) * step).astype(np.int64)
        at = np.minimum(at, extent - 1)
        x = build.add("gather", x, build.constant(at, "places"), axis=axis)
    return x


def convert_linear(call: Call, build: Builder) -> Results:
    """Bilinear (trilinear, …): along one axis after the other."""
    x, dtype = call.value(_given(call)), call.dtype
    wide = "float32" if dtype in ("float16", "bfloat16") else dtype
    x = cast(build, x, wide)
    for number, axis in enumerate(range(2, len(x.shape))):
        extent, places = x.shape[axis], call.shape[axis]
        at = _sources(call, extent, places, number)
        low = np.minimum(np.floor(at).astype(np.int64), extent - 1)
        high = np.minimum(low + 1, extent - 1)
        share = (at - low).astype(DTYPES[wide].numpy)
        first = build.add("gather", x, build.constant(low, "places"), axis=axis)
        second = build.add("gather", x, build.constant(high, "places"), axis=axis)
        weight = along(build, build.constant(share, "share"), axis, len(x.shape))
        apart = build.add("subtract", second, first)
        x = build.add("add", first, build.add("multiply", apart, weight))
    return cast(build, x, dtype)


def _sources(call: Call, extent: int, places: int, number: int) -> Array:
    """Where each place reads from, between the elements of the source."""
    index = np.arange(places, dtype=np.float64)
    if call.flag("align_corners"):
        return index * ((extent - 1) / (places - 1) if places > 1 else 0.0)
    step = _step(call, extent, places, number)
    return np.maximum((index + 0.5) * step - 0.5, 0.0)


def convert_grid_sample(call: Call, build: Builder) -> Results:
    if call.whole("interpolation_mode") == 2 and call.whole("padding_mode") == 1:
        raise call.unsupported("padding_mode='border' with mode='bicubic'")
    return build.add(
        "grid_sample",
        call.value("input"),
        call.value("grid"),
        mode=("linear", "nearest", "cubic")[call.whole("interpolation_mode")],
        padding=("zeros", "border", "reflection")[call.whole("padding_mode")],
        align_corners=call.flag("align_corners"),
    )


CONVERTERS: dict[str, Converter] = {
    "aten.grid_sampler_2d.default": convert_grid_sample,
    **{f"aten.max_pool{n}d_with_indices.default": max_pool(n) for n in (2, 3)},
    **{f"aten.max_pool{n}d.default": max_pool(n) for n in (1, 2, 3)},
    **{f"aten.avg_pool{n}d.default": avg_pool(n) for n in (1, 2, 3)},
    **{f"aten._adaptive_avg_pool{n}d.default": adaptive_avg_pool(n) for n in (2, 3)},
    **{f"aten.adaptive_avg_pool{n}d.default": adaptive_avg_pool(n) for n in (1, 2, 3)},
    "aten.col2im.default": convert_col2im,
    "aten.im2col.default": convert_im2col,
    **{
        f"aten.upsample_{name}.{which}": converter
        for which in ("vec", "default")
        for name, converter in (
            ("nearest1d", convert_nearest),
            ("nearest2d", convert_nearest),
            ("nearest3d", convert_nearest),
            ("linear1d", convert_linear),
            ("bilinear2d", convert_linear),
            ("trilinear3d", convert_linear),
        )
    },
}
