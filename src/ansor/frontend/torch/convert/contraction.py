"""Matrix products, convolutions and attention of ATen."""

from __future__ import annotations

from math import inf, sqrt

import numpy as np

from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.torch.call import (
    Call,
    Converter,
    Results,
    along,
    cast,
    expanded,
    operand,
    reshaped,
    scalar,
    transposed,
)
from ansor.ir.dtypes import DTYPES

HALF = ("float16", "bfloat16")


def _product(build: Builder, a: Value, b: Value, dtype: str) -> Value:
    return cast(build, build.add("matmul", a, b), dtype)


def convert_product(call: Call, build: Builder) -> Results:
    """mm, bmm, mv, dot, matmul."""
    first, second = list(call.arguments)[:2]
    return _product(build, call.value(first), call.value(second), call.dtype)


def convert_addmm(call: Call, build: Builder) -> Results:
    """addmm, baddbmm: beta * self + alpha * (a @ b)."""
    names = ("mat1", "mat2") if "mat1" in call.arguments else ("batch1", "batch2")
    found = _product(build, call.value(names[0]), call.value(names[1]), call.dtype)
    more = call.value("self")
    if call.number("alpha") != 1:
        alpha = operand(call, build, "alpha", call.dtype)
        found = build.add("multiply", found, alpha)
    if call.number("beta") == 0:
        return found
    if call.number("beta") != 1:
        more = build.add("multiply", more, operand(call, build, "beta", call.dtype))
    return build.add("add", found, more)


def convert_linear(call: Call, build: Builder) -> Results:
    weight = call.value("weight")
    turned = transposed(build, weight, range(len(weight.shape))[::-1])
    found = _product(build, call.value("input"), turned, call.dtype)
    bias = call.maybe("bias")
    return found if bias is None else build.add("add", found, bias)


def convert_convolution(call: Call, build: Builder) -> Results:
    x, weight = call.value("input"), call.value("weight")
    space = len(x.shape) - 2
    strides, dilations = call.numbers("stride", space), call.numbers("dilation", space)
    padding = tuple((n, n) for n in call.numbers("padding", space))
    groups = call.whole("groups")
    if call.flag("transposed"):
        found = build.add(
            "conv_transpose", x, weight, strides=strides, padding=padding,
            output_padding=call.numbers("output_padding", space), dilations=dilations,
            groups=groups, layout="first",
        )  # fmt: skip
    else:
        found = build.add(
            "conv", x, weight, strides=strides, padding=padding, dilations=dilations,
            groups=groups, layout="first",
        )  # fmt: skip
    found = cast(build, found, call.dtype)
    bias = call.maybe("bias")
    if bias is None:
        return found
    return build.add("add", found, along(build, bias, 1, len(found.shape)))


# -- attention -------------------------------------------------------------------------


def convert_attention(call: Call, build: Builder) -> Results:
    """softmax(query @ keyᵀ * scale + mask) @ value; halves are computed in float32."""
    if call.has("dropout_p") and call.number("dropout_p") > 0:
        raise call.unsupported("argument 'dropout_p' is not zero")
    names = ("query", "key", "value")
    wide = "float32" if call.dtype in HALF else call.dtype
    query, key, value = (cast(build, call.value(name), wide) for name in names)
    if key.shape[-3:-2] != query.shape[-3:-2]:  # heads that share keys
        key, value = (_shared(build, x, query.shape[-3]) for x in (key, value))
    scale = call.number("scale") if call.has("scale") else 1 / sqrt(query.shape[-1])
    rank = len(key.shape)
    turned = transposed(build, key, [*range(rank - 2), rank - 1, rank - 2])
    scores = build.add("matmul", query, turned)
    scores = build.add("multiply", scores, scalar(build, scale, wide))
    weights = _weights(call, build, scores)
    found = cast(build, build.add("matmul", weights, value), call.dtype)
    return found if len(call.results) == 1 else (found, None)


def _shared(build: Builder, x: Value, heads: int) -> Value:
    """Every head of `x` repeated, so that there are `heads`."""
    own = x.shape[-3]
    lead, rest = x.shape[:-3], x.shape[-2:]
    if own == 1:
        return x
    parts = reshaped(build, x, (*lead, own, 1, *rest))
    whole = expanded(build, parts, (*lead, own, heads // own, *rest))
    return reshaped(build, whole, (*lead, heads, *rest))


def _weights(call: Call, build: Builder, scores: Value) -> Value:
    """Softmax of the scores of the places that the masks allow; of a row without any,
    zeros."""
    axis = len(scores.shape) - 1
    if call.flag("is_causal"):  # every row has a first place
        kept = build.constant(np.tri(*scores.shape[-2:], dtype=np.bool_), "causal")
        scores = build.add("where", kept, scores, scalar(build, -inf, scores.dtype))
    mask = call.maybe("attn_mask")
    if mask is None:
        return build.add("softmax", scores, axis=axis)
    if mask.dtype != "bool":
        scores = build.add("add", scores, cast(build, mask, scores.dtype))
        known = build.known(mask)
        if known is not None and np.isfinite(known).all():
            return build.add("softmax", scores, axis=axis)
        mask = build.add("not_equal", scores, scalar(build, -inf, scores.dtype))
    least = float(np.finfo(DTYPES[scores.dtype].numpy).min)
    scores = build.add("where", mask, scores, scalar(build, least, scores.dtype))
    weights = build.add("softmax", scores, axis=axis)
    return build.add("where", mask, weights, scalar(build, 0, scores.dtype))


CONVERTERS: dict[str, Converter] = {
    **dict.fromkeys(
        (
            "aten.mm.default",
            "aten.bmm.default",
            "aten.mv.default",
            "aten.dot.default",
            "aten.matmul.default",
        ),
        convert_product,
    ),
    "aten.addmm.default": convert_addmm,
    "aten.baddbmm.default": convert_addmm,
    "aten.linear.default": convert_linear,
    "aten.convolution.default": convert_convolution,
    "aten.scaled_dot_product_attention.default": convert_attention,
    "aten._scaled_dot_product_flash_attention_for_cpu.default": convert_attention,
}
