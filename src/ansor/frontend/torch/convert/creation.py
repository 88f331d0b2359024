"""Operators of ATen that make tensors from nothing: constants of the graph."""

from __future__ import annotations

import numpy as np

from ansor.frontend.builder import Builder
from ansor.frontend.graph import Array
from ansor.frontend.torch.call import Call, Converter, Number, Results, filled
from ansor.ir.dtypes import DTYPES

LARGEST = 1 << 28  # elements of one such constant


def _constant(call: Call, build: Builder, number: Number) -> Results:
    if np.prod(call.shape, dtype=np.float64) > LARGEST:
        raise call.unsupported(f"makes more than {LARGEST:,} elements")
    return filled(build, number, call.dtype, call.shape)


def convert_full(call: Call, build: Builder) -> Results:
    """full, full_like, fill, scalar_tensor: their number has different names."""
    for name in ("fill_value", "value", "s"):
        if call.has(name):
            return _constant(call, build, call.number(name))
    raise call.unsupported("the number is missing")


def convert_zeros(call: Call, build: Builder) -> Results:
    """zeros; and empty, whose elements are arbitrary."""
    return _constant(call, build, 0)


def convert_ones(call: Call, build: Builder) -> Results:
    return _constant(call, build, 1)


def convert_arange(call: Call, build: Builder) -> Results:
    start, step = call.number("start"), call.number("step")
    (count,) = call.shape
    if count > LARGEST:
        raise call.unsupported(f"makes more than {LARGEST:,} elements")
    numbers: Array
    if isinstance(start, float) or isinstance(step, float):
        numbers = start + np.arange(count, dtype=np.float64) * step
    else:
        numbers = start + np.arange(count, dtype=np.int64) * step
    return build.constant(numbers.astype(DTYPES[call.dtype].numpy), "arange")


CONVERTERS: dict[str, Converter] = {
    "aten.full.default": convert_full,
    "aten.full_like.default": convert_full,
    "aten.fill.Scalar": convert_full,
    "aten.scalar_tensor.default": convert_full,
    "aten.empty.memory_format": convert_zeros,
    "aten.empty_strided.default": convert_zeros,
    "aten.empty_like.default": convert_zeros,
    "aten.zeros.default": convert_zeros,
    "aten.zeros_like.default": convert_zeros,
    "aten.ones.default": convert_ones,
    "aten.ones_like.default": convert_ones,
    "aten.arange.start_step": convert_arange,
}
