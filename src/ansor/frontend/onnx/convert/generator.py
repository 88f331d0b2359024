"""Constants and ranges: what comes from no data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.onnx.convert.movement import ints
from ansor.frontend.onnx.convert.pieces import literal
from ansor.frontend.onnx.node import Converter, OnnxNode
from ansor.ir.dtypes import DTYPES, is_float

MOST = 1 << 26  # elements of one range


def convert_constant(node: OnnxNode, build: Builder) -> Value:
    plain: tuple[tuple[str, type], ...] = (
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    )
    for name, dtype in plain:
        found = node.attribute(name, None)
        if found is not None:
            return build.constant(np.asarray(found, dtype))
    for name in ("value_string", "value_strings"):
        if node.attribute(name, None) is not None:
            raise node.unsupported(f"attribute {name!r}: strings")
    found = node.attribute("sparse_value", None)
    if found is None:
        found = node.attribute("value")
    return build.constant(np.asarray(found))


def convert_constant_of_shape(node: OnnxNode, build: Builder) -> Value:
    shape = ints(node.known(0, build))
    if any(n < 0 for n in shape):
        raise ModelError(str(node), f"shape {shape}")
    given = node.attribute("value", None)
    one = np.zeros(1, np.float32) if given is None else np.asarray(given).reshape(-1)
    if one.size != 1:
        raise ModelError(str(node), f"attribute 'value' has {one.size} elements")
    return build.add("expand", build.constant(one.reshape(())), shape=shape)


def convert_range(node: OnnxNode, build: Builder) -> Value:
    node.attribute("stash_type", 1)
    start, limit, delta = (node.known(n, build).reshape(-1)[0] for n in range(3))
    dtype = node.input(0).dtype
    if is_float(dtype):
        start, limit, delta = float(start), float(limit), float(delta)
    else:
        start, limit, delta = int(start), int(limit), int(delta)
    if delta == 0:
        raise ModelError(str(node), "input 'delta' is 0")
    count = max(0, int(np.ceil((limit - start) / delta)))
    if count > MOST:
        raise node.unsupported(f"{count:,} elements, the limit is {MOST:,}")
    steps = np.arange(count) * delta + start
    return build.constant(steps.astype(DTYPES[dtype].numpy))


def convert_eye_like(node: OnnxNode, build: Builder) -> Value:
    x = node.input(0)
    if len(x.shape) != 2:
        raise ModelError(str(node), f"an input of {len(x.shape)} axes, not 2")
    dtype, k = node.dtype("dtype", x.dtype), node.attribute("k", 0)
    ones = build.add("expand", literal(build, 1, dtype), shape=x.shape)
    upper = build.add("triangle", ones, upper=True, k=k)
    return build.add("triangle", upper, upper=False, k=k)


def _random(node: OnnxNode, build: Builder) -> Value:
    raise node.unsupported("it is random")


CONVERTERS: Mapping[str, Converter] = {
    "Bernoulli": _random,
    "Constant": convert_constant,
    "ConstantOfShape": convert_constant_of_shape,
    "EyeLike": convert_eye_like,
    "Multinomial": _random,
    "RandomNormal": _random,
    "RandomNormalLike": _random,
    "RandomUniform": _random,
    "RandomUniformLike": _random,
    "Range": convert_range,
}
