"""Integers that stand for reals: quantisation and products of quantised values."""

from __future__ import annotations

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.onnx.convert.contraction import convolution
from ansor.frontend.onnx.convert.pieces import (
    along,
    as_axis,
    beside,
    cast,
    part,
    reshape,
    working,
)
from ansor.frontend.onnx.node import Converter, OnnxNode
from ansor.ir.dtypes import DTYPES, is_float


def _spread(node: OnnxNode, build: Builder, scale: Value, shape: tuple[int, ...],
            block: int) -> Value:  # fmt: skip
    """A scale or zero point that broadcasts to `shape`: one number, one per place of
    an axis, or one per block along it."""
    rank = len(shape)
    axis = node.attribute("axis", 1)
    if scale.size == 1 and len(scale.shape) <= 1:
        return reshape(build, scale, ())
    axis = as_axis(node, axis, rank)
    if not block:
        if scale.shape != (shape[axis],):
            raise ModelError(
                str(node), f"scale {scale.shape} for axis {axis} of {shape}"
            )
        return along(build, scale, axis, rank)
    if len(scale.shape) != rank or scale.shape[axis] != -(-shape[axis] // block):
        raise ModelError(
            str(node), f"scale {scale.shape} for blocks of {block} of {shape}"
        )
    whole = build.add("repeat", scale, repeats=block, axis=axis)
    return part(build, whole, axis, 0, shape[axis])


def _block(node: OnnxNode) -> int:
    return int(node.attribute("block_size", 0)) if node.opset >= 21 else 0


def convert_quantize(node: OnnxNode, build: Builder) -> Value:
    x, scale, zero = node.input(0), node.input(1), node.maybe(2)
    dtype = "uint8" if zero is None else zero.dtype
    if node.opset >= 21 and node.attribute("output_dtype", 0):
        dtype = node.dtype("output_dtype")
    if is_float(dtype):
        raise node.unsupported(f"its output is {dtype}")
    if node.opset >= 19:
        node.attribute("saturate", True)  # integers always saturate
    block = _block(node)
    wide = _divided(node, build, x, _spread(node, build, scale, x.shape, block))
    if zero is not None:
        zero = _spread(node, build, zero, x.shape, block)
    return quantized(build, wide, zero, dtype)


def _divided(node: OnnxNode, build: Builder, x: Value, scale: Value) -> Value:
    precision = scale.dtype
    if node.opset >= 23 and node.attribute("precision", 0):
        precision = node.dtype("precision")
    return build.add("divide", cast(build, x, precision), cast(build, scale, precision))


def quantized(build: Builder, x: Value, zero: Value | None, dtype: str) -> Value:
    """round(x) + zero, saturated."""
    wide = build.add("round", cast(build, x, working(x.dtype)))
    if zero is not None:
        wide = build.add("add", wide, cast(build, zero, wide.dtype))
    row = np.iinfo(DTYPES[dtype].numpy)
    return cast(build, build.add("clip", wide, low=row.min, high=row.max), dtype)


def convert_dequantize(node: OnnxNode, build: Builder) -> Value:
    x, scale, zero = node.input(0), node.input(1), node.maybe(2)
    block = _block(node)
    dtype = scale.dtype
    if node.opset >= 23 and node.attribute("output_dtype", 0):
        dtype = node.dtype("output_dtype")
    wide = cast(build, x, "int32")
    if zero is not None:
        shift = _spread(node, build, zero, x.shape, block)
        wide = build.add("subtract", wide, cast(build, shift, "int32"))
    factor = cast(build, _spread(node, build, scale, x.shape, block), "float32")
    return cast(
        build, build.add("multiply", cast(build, wide, "float32"), factor), dtype
    )


def _shifted(build: Builder, x: Value, zero: Value | None, axis: int | None) -> Value:
    """x - zero in int32; x itself where there is nothing to subtract."""
    if zero is None:
        return x
    known = build.known(zero)
    if known is not None and not known.any():
        return x
    rank = len(x.shape)
    if zero.size == 1:
        zero = reshape(build, zero, ())
    elif axis is not None and len(zero.shape) == 1:
        zero = along(build, zero, axis, rank)
    return build.add("subtract", cast(build, x, "int32"), cast(build, zero, "int32"))


def _alike(build: Builder, a: Value, b: Value) -> tuple[Value, Value]:
    """Both bytes, or both int32."""
    if "int32" in (a.dtype, b.dtype):
        return cast(build, a, "int32"), cast(build, b, "int32")
    return a, b


def convert_matmul_integer(node: OnnxNode, build: Builder) -> Value:
    a = _shifted(build, node.input(0), node.maybe(2), _row_axis(node.input(0)))
    b = _shifted(build, node.input(1), node.maybe(3), len(node.input(1).shape) - 1)
    return build.add("matmul", *_alike(build, a, b))


def _row_axis(x: Value) -> int:
    return max(len(x.shape) - 2, 0)


def convert_conv_integer(node: OnnxNode, build: Builder) -> Value:
    x, weight = node.input(0), node.input(1)
    data = _shifted(build, x, node.maybe(2), None)
    factor = _shifted(build, weight, node.maybe(3), 0)
    given = convolution(node, x, weight)
    return build.add("conv", *_alike(build, data, factor), **given)


def convert_qlinear_matmul(node: OnnxNode, build: Builder) -> Value:
    a, b = node.input(0), node.input(3)
    left = _shifted(build, a, node.input(2), _row_axis(a))
    right = _shifted(build, b, node.input(5), len(b.shape) - 1)
    product = build.add("matmul", *_alike(build, left, right))
    scales = [cast(build, node.input(n), "float32") for n in (1, 4, 6)]
    rows, columns, out = scales
    rows = _one_or(build, rows, _row_axis(a), len(a.shape))
    columns = _one_or(build, columns, len(b.shape) - 1, len(b.shape))
    factor = build.add("divide", build.add("multiply", rows, columns), _one(build, out))
    wide = build.add("multiply", cast(build, product, "float32"), factor)
    zero = node.input(7)
    return quantized(build, wide, _one(build, zero), zero.dtype)


def _one(build: Builder, x: Value) -> Value:
    return reshape(build, x, ()) if x.size == 1 else x


def _one_or(build: Builder, x: Value, axis: int, rank: int) -> Value:
    """One number, or one per place of an axis."""
    if x.size == 1 or len(x.shape) != 1:
        return _one(build, x)
    return along(build, x, axis, rank)


def convert_qlinear_conv(node: OnnxNode, build: Builder) -> Value:
    x, weight, bias = node.input(0), node.input(3), node.maybe(8)
    data = _shifted(build, x, node.input(2), None)
    factor = _shifted(build, weight, node.input(5), 0)
    given = convolution(node, x, weight)
    found = build.add("conv", *_alike(build, data, factor), **given)
    rank = len(x.shape)
    if bias is not None:
        found = build.add("add", found, along(build, bias, 1, rank))
    scale = build.add("multiply", _one(build, node.input(1)),
                      _one_or(build, node.input(4), 1, rank))  # fmt: skip
    scale = build.add("divide", scale, _one(build, node.input(6)))
    wide = build.add("multiply", cast(build, found, "float32"), scale)
    zero = node.input(7)
    return quantized(build, wide, _one(build, zero), zero.dtype)


def convert_dynamic_quantize(node: OnnxNode, build: Builder) -> tuple[Value, ...]:
    """uint8 over the range of the elements, 0 included; scale and zero point too."""
    x = node.input(0)
    axes = tuple(range(len(x.shape)))
    ends = []
    for kind, op in (("min", "minimum"), ("max", "maximum")):
        end = build.add("reduce", x, kind=kind, axes=axes, keepdims=False)
        ends.append(beside(build, op, end, 0.0))
    low, high = ends
    scale = beside(build, "divide", build.add("subtract", high, low), 255.0)
    zero = build.add("negative", build.add("divide", low, scale))
    zero = build.add("clip", build.add("round", zero), low=0, high=255)
    zero = cast(build, zero, "uint8")
    return quantized(build, build.add("divide", x, scale), zero, "uint8"), scale, zero


CONVERTERS: dict[str, Converter] = {
    "QuantizeLinear": convert_quantize,
    "DequantizeLinear": convert_dequantize,
    "DynamicQuantizeLinear": convert_dynamic_quantize,
    "MatMulInteger": convert_matmul_integer,
    "ConvInteger": convert_conv_integer,
    "QLinearMatMul": convert_qlinear_matmul,
    "QLinearConv": convert_qlinear_conv,
}
