"""Arithmetic, logic, comparisons, activations, casts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np

from ansor.frontend.builder import Builder
from ansor.frontend.graph import Attribute, Value
from ansor.frontend.onnx.convert.pieces import literal
from ansor.frontend.onnx.dtypes import CODES, NAMES
from ansor.frontend.onnx.node import Converter, OnnxNode
from ansor.frontend.operators.elementwise import common_shape
from ansor.ir.dtypes import DTYPES, is_float

_BROADCASTING = 7  # from this opset on operands broadcast as in NumPy


def _unary(op: str, **fixed: Attribute) -> Converter:
    def convert(node: OnnxNode, build: Builder) -> Value:
        _ignore_memory(node)
        return build.add(op, node.input(0), **fixed)

    return convert


def _with(op: str, **defaults: float) -> Converter:
    """An activation whose attributes have the names that ours have."""

    def convert(node: OnnxNode, build: Builder) -> Value:
        _ignore_memory(node)
        given = {name: node.attribute(name, x) for name, x in defaults.items()}
        return build.add(op, node.input(0), **given)

    return convert


def _ignore_memory(node: OnnxNode) -> None:
    """Opset 1 said which inputs may be overwritten, which means nothing here."""
    node.attribute("consumed_inputs", None)


def operands(node: OnnxNode, build: Builder) -> tuple[Value, Value]:
    """Two operands; before opset 7 the second one lines up with `axis`."""
    a, b = node.input(0), node.input(1)
    if node.opset >= _BROADCASTING:
        return a, b
    _ignore_memory(node)
    repeats, axis = node.attribute("broadcast", False), node.attribute("axis", None)
    if not repeats:
        if a.shape != b.shape:
            raise node.unsupported(f"shapes {a.shape} and {b.shape} without broadcast")
        return a, b
    if axis is not None and b.shape:
        after = len(a.shape) - axis % len(a.shape) - len(b.shape)
        b = build.add("reshape", b, shape=(*b.shape, *(1,) * max(after, 0)))
    return a, b


def _binary(op: str) -> Converter:
    def convert(node: OnnxNode, build: Builder) -> Value:
        return build.add(op, *operands(node, build))

    return convert


def _variadic(op: str) -> Converter:
    def convert(node: OnnxNode, build: Builder) -> Value:
        _ignore_memory(node)
        values = [node.input(n) for n in range(max(1, len(node.inputs)))]
        return reduce(lambda a, b: build.add(op, a, b), values)

    return convert


def convert_mean(node: OnnxNode, build: Builder) -> Value:
    total = _variadic("add")(node, build)
    assert isinstance(total, Value)
    count = literal(build, len(node.inputs), total.dtype)
    return build.add("divide", total, count)


def convert_pow(node: OnnxNode, build: Builder) -> Value:
    base, exponent = operands(node, build)
    known = build.known(exponent)
    if known is None or known.size == 0 or not is_float(base.dtype):
        return build.add("power", base, exponent)
    first = float(known.flat[0])
    grows = common_shape("Pow", base.shape, exponent.shape) != base.shape
    if grows or not bool((known == known.flat[0]).all()):
        return build.add("power", base, exponent)
    return _power_of(build, base, exponent, first)


def _power_of(build: Builder, base: Value, exponent: Value, n: float) -> Value:
    """A power whose exponent is one number: products and roots where these do."""
    if n in (1.0, 2.0, 3.0, 4.0):
        square = base if n == 1 else build.add("multiply", base, base)
        if n == 4:
            return build.add("multiply", square, square)
        return square if n < 3 else build.add("multiply", square, base)
    if n == -1.0:
        return build.add("reciprocal", base)
    return build.add("power", base, exponent)


def convert_mod(node: OnnxNode, build: Builder) -> Value:
    truncates = node.attribute("fmod", False)
    op = "fmod" if truncates else "remainder"
    return build.add(op, node.input(0), node.input(1))


def convert_shift(node: OnnxNode, build: Builder) -> Value:
    direction = node.attribute("direction")
    if direction not in ("LEFT", "RIGHT"):
        raise node.unsupported(f"attribute 'direction' is {direction!r}")
    op = "shift_left" if direction == "LEFT" else "shift_right"
    return build.add(op, node.input(0), node.input(1))


def convert_clip(node: OnnxNode, build: Builder) -> Value:
    x = node.input(0)
    if node.opset < 11:
        _ignore_memory(node)
        low, high = node.attribute("min", None), node.attribute("max", None)
        return build.add("clip", x, low=low, high=high)
    bounds = {"low": node.maybe(1), "high": node.maybe(2)}
    for name, op in (("low", "maximum"), ("high", "minimum")):
        bound = bounds[name]
        if bound is None:
            continue
        number = _number(build, bound)
        x = (
            build.add(op, x, bound)
            if number is None
            else build.add("clip", x, **{"low": None, "high": None, name: number})
        )
    return x


def _number(build: Builder, value: Value) -> float | int | None:
    """The one element of a constant; None if it is not constant, or not a number."""
    known = build.known(value)
    if known is None or known.size != 1 or value.dtype == "bool":
        return None
    found = known.reshape(()).astype(np.float64 if is_float(value.dtype) else np.int64)
    return None if np.isnan(found) else found.item()


def convert_prelu(node: OnnxNode, build: Builder) -> Value:
    _ignore_memory(node)
    x, slope = node.input(0), node.input(1)
    if node.opset < _BROADCASTING and slope.size > 1:
        after = len(x.shape) - 2
        slope = build.add("reshape", slope, shape=(slope.size, *(1,) * after))
    if common_shape("PRelu", x.shape, slope.shape) != x.shape:
        raise node.unsupported(f"a slope of shape {slope.shape} for {x.shape}")
    return build.add("prelu", x, slope)


def convert_gelu(node: OnnxNode, build: Builder) -> Value:
    approximate = node.attribute("approximate", "none")
    if approximate not in ("none", "tanh"):
        raise node.unsupported(f"attribute 'approximate' is {approximate!r}")
    return build.add("gelu", node.input(0), approximate=approximate)


def _swish(node: OnnxNode, build: Builder) -> Value:
    x, alpha = node.input(0), node.attribute("alpha", 1.0)
    if alpha == 1.0:
        return build.add("silu", x)
    scaled = build.add("multiply", x, literal(build, alpha, x.dtype))
    return build.add("multiply", x, build.add("sigmoid", scaled))


def convert_swiglu(node: OnnxNode, build: Builder) -> Value:
    return build.add("multiply", _swish(node, build), node.input(1))


def convert_selu(node: OnnxNode, build: Builder) -> Value:
    _ignore_memory(node)
    first = node.opset < 6
    alpha = node.attribute("alpha", 1.6732 if first else 1.67326319217681884765625)
    gamma = node.attribute("gamma", 1.0507 if first else 1.05070102214813232421875)
    return build.add("selu", node.input(0), alpha=alpha, gamma=gamma)


def convert_isinf(node: OnnxNode, build: Builder) -> Value:
    positive = node.attribute("detect_positive", True)
    negative = node.attribute("detect_negative", True)
    return build.add("isinf", node.input(0), positive=positive, negative=negative)


def convert_cast(node: OnnxNode, build: Builder) -> Value:
    node.attribute("saturate", True)  # both are about types that graphs lack
    node.attribute("round_mode", "up")
    return build.add("cast", node.input(0), dtype=_target(node))


def _target(node: OnnxNode) -> str:
    if node.opset >= 6:
        return node.dtype("to")
    name = str(node.attribute("to")).lower()
    dtype = {"float": "float32", "double": "float64"}.get(name, name)
    if dtype not in DTYPES:
        raise node.unsupported(f"attribute 'to' is {name!r}")
    return dtype


def convert_cast_like(node: OnnxNode, build: Builder) -> Value:
    node.attribute("saturate", True)
    node.attribute("round_mode", "up")
    return build.add("cast", node.input(0), dtype=node.input(1).dtype)


def convert_bit_cast(node: OnnxNode, build: Builder) -> Value:
    """Bits of numbers of other kinds are known ahead of time only."""
    x, code = node.input(0), node.attribute("to")
    if code not in CODES:
        raise node.unsupported(f"attribute 'to' is {NAMES.get(code, code)}")
    dtype = CODES[code]
    if DTYPES[dtype].bytes != DTYPES[x.dtype].bytes:
        raise node.unsupported(f"bits of {x.dtype} as {dtype}")
    if x.dtype == dtype:
        return x
    if {x.dtype, dtype} == {"int8", "uint8"}:
        return build.add("cast", x, dtype=dtype)
    if dtype == "bool":
        raise node.unsupported("bits as bool")
    return build.constant(node.known(0, build).view(DTYPES[dtype].numpy))


_UNARY = {
    "Abs": "abs", "Acos": "acos", "Acosh": "acosh", "Asin": "asin", "Asinh": "asinh",
    "Atan": "atan", "Atanh": "atanh", "BitwiseNot": "bitwise_not", "Ceil": "ceil",
    "Cos": "cos", "Cosh": "cosh", "Erf": "erf", "Exp": "exp", "Floor": "floor",
    "HardSwish": "hard_swish", "IsNaN": "isnan", "Log": "log", "Mish": "mish",
    "Neg": "negative", "Not": "logical_not", "Reciprocal": "reciprocal",
    "Relu": "relu", "Round": "round", "Sigmoid": "sigmoid", "Sign": "sign",
    "Sin": "sin", "Sinh": "sinh", "Softplus": "softplus", "Softsign": "softsign",
    "Sqrt": "sqrt", "Tan": "tan", "Tanh": "tanh",
}  # fmt: skip

_BINARY = {
    "Add": "add", "And": "logical_and", "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or", "BitwiseXor": "bitwise_xor", "Div": "divide",
    "Equal": "equal", "Greater": "greater", "GreaterOrEqual": "greater_equal",
    "Less": "less", "LessOrEqual": "less_equal", "Mul": "multiply",
    "Or": "logical_or", "Sub": "subtract", "Xor": "logical_xor",
}  # fmt: skip


def convert_where(node: OnnxNode, build: Builder) -> Value:
    return build.add("where", node.input(0), node.input(1), node.input(2))


CONVERTERS: Mapping[str, Converter] = {
    **{name: _unary(op) for name, op in _UNARY.items()},
    **{name: _binary(op) for name, op in _BINARY.items()},
    "BitCast": convert_bit_cast,
    "BitShift": convert_shift,
    "Cast": convert_cast,
    "CastLike": convert_cast_like,
    "Celu": _with("celu", alpha=1.0),
    "Clip": convert_clip,
    "Elu": _with("elu", alpha=1.0),
    "Gelu": convert_gelu,
    "HardSigmoid": _with("hard_sigmoid", alpha=0.2, beta=0.5),
    "IsInf": convert_isinf,
    "LeakyRelu": _with("leaky_relu", alpha=0.01),
    "Max": _variadic("maximum"),
    "Mean": convert_mean,
    "Min": _variadic("minimum"),
    "Mod": convert_mod,
    "PRelu": convert_prelu,
    "Pow": convert_pow,
    "Selu": convert_selu,
    "Shrink": _with("shrink", bias=0.0, lambd=0.5),
    "Sum": _variadic("add"),
    "SwiGLU": convert_swiglu,
    "Swish": _swish,
    "ThresholdedRelu": _with("thresholded_relu", alpha=1.0),
    "Where": convert_where,
}
