"""Softmax and normalisations of ATen."""

from __future__ import annotations

from math import prod

from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.torch.call import (
    Call,
    Converter,
    Results,
    along,
    cast,
    filled,
    reshaped,
    scalar,
)

HALF = ("float16", "bfloat16")


def softmax(op: str) -> Converter:
    def convert(call: Call, build: Builder) -> Results:
        x = cast(build, call.value("self"), call.dtype)
        if not x.shape:
            return filled(build, 1 if op == "softmax" else 0, x.dtype, ())
        return build.add(op, x, axis=call.axis("dim", len(x.shape)))

    return convert


def _or_filled(
    call: Call, build: Builder, name: str, number: int, shape: tuple[int, ...]
) -> Value:
    found = call.maybe(name)
    if found is not None:
        return found
    return filled(build, number, call.dtype, shape)


def convert_layer_norm(call: Call, build: Builder) -> Results:
    x = call.value("input")
    shape = call.numbers("normalized_shape")
    found = build.add(
        "layer_norm",
        x,
        _or_filled(call, build, "weight", 1, shape),
        _or_filled(call, build, "bias", 0, shape),
        axis=len(x.shape) - len(shape),
        epsilon=float(call.number("eps")),
    )
    return found if len(call.results) == 1 else (found, None, None)


def convert_group_norm(call: Call, build: Builder) -> Results:
    x = call.value("input")
    channels = (x.shape[1],)
    found = build.add(
        "group_norm",
        x,
        _or_filled(call, build, "weight", 1, channels),
        _or_filled(call, build, "bias", 0, channels),
        groups=call.whole("group" if "group" in call.arguments else "num_groups"),
        epsilon=float(call.number("eps")),
    )
    return found if len(call.results) == 1 else (found, None, None)


# -- batch normalisation ---------------------------------------------------------------


def convert_batch_norm(call: Call, build: Builder) -> Results:
    """With given statistics: x * a + b, where a and b are constants of the graph."""
    if call.flag("training"):
        raise call.unsupported("argument 'training' is set: statistics would change")
    mean, variance = call.value("running_mean"), call.value("running_var")
    found = _normalised(call, build, mean, variance)
    return (found, *[None] * (len(call.results) - 1))


def convert_batch_norm_now(call: Call, build: Builder) -> Results:
    """With the statistics of the batch itself; running ones, if any, are results."""
    x = call.value("input")
    axes = tuple(n for n in range(len(x.shape)) if n != 1)
    wide = _wide(build, x)
    mean = build.add("reduce", wide, kind="mean", axes=axes, keepdims=False)
    apart = build.add("subtract", wide, along(build, mean, 1, len(x.shape)))
    squares = build.add("multiply", apart, apart)
    variance = build.add("reduce", squares, kind="mean", axes=axes, keepdims=False)
    found = _normalised(call, build, mean, variance)
    if not call.has("running_mean"):
        return found, mean, None
    count = prod(x.shape[n] for n in axes)
    unbiased = _scaled(build, variance, count / max(count - 1, 1))
    return (
        found,
        mean,
        None,
        _moved(call, build, "running_mean", mean),
        _moved(call, build, "running_var", unbiased),
    )


def _moved(call: Call, build: Builder, name: str, now: Value) -> Value:
    """A running statistic after this batch."""
    momentum = float(call.number("momentum"))
    before = call.value(name)
    kept = _scaled(build, before, 1 - momentum)
    new = _scaled(build, cast(build, now, before.dtype), momentum)
    return build.add("add", kept, new)


def _scaled(build: Builder, x: Value, factor: float) -> Value:
    return build.add("multiply", x, scalar(build, factor, x.dtype))


def _wide(build: Builder, x: Value) -> Value:
    return cast(build, x, "float32") if x.dtype in HALF else x


def _normalised(call: Call, build: Builder, mean: Value, variance: Value) -> Value:
    x = call.value("input")
    rank = len(x.shape)
    mean, variance = _wide(build, mean), _wide(build, variance)
    epsilon = scalar(build, float(call.number("eps")), variance.dtype)
    factor = build.add("rsqrt", build.add("add", variance, epsilon))
    weight, bias = call.maybe("weight"), call.maybe("bias")
    if weight is not None:
        factor = build.add("multiply", factor, cast(build, weight, factor.dtype))
    offset = build.add("negative", build.add("multiply", mean, factor))
    if bias is not None:
        offset = build.add("add", offset, cast(build, bias, offset.dtype))
    given = cast(build, x, factor.dtype)
    found = build.add("multiply", given, along(build, factor, 1, rank))
    found = build.add("add", found, along(build, offset, 1, rank))
    return cast(build, found, x.dtype)


def convert_rms_norm(call: Call, build: Builder) -> Results:
    x = call.value("input")
    shape = call.numbers("normalized_shape")
    scale = _or_filled(call, build, "weight", 1, shape)
    found = build.add(
        "rms_norm", x, reshaped(build, scale, shape),
        axis=len(x.shape) - len(shape), epsilon=_epsilon(call),
    )  # fmt: skip
    return found if len(call.results) == 1 else (found, None)


def _epsilon(call: Call) -> float:
    if not call.has("eps"):
        raise call.unsupported("argument 'eps' is left out")
    return float(call.number("eps"))


_LEGIT = "aten._native_batch_norm_legit"

CONVERTERS: dict[str, Converter] = {
    "aten._softmax.default": softmax("softmax"),
    "aten._log_softmax.default": softmax("log_softmax"),
    "aten.layer_norm.default": convert_layer_norm,
    "aten.native_layer_norm.default": convert_layer_norm,
    "aten.native_group_norm.default": convert_group_norm,
    "aten.group_norm.default": convert_group_norm,
    "aten.rms_norm.default": convert_rms_norm,
    "aten._fused_rms_norm.default": convert_rms_norm,
    f"{_LEGIT}_no_training.default": convert_batch_norm,
    f"{_LEGIT}.default": convert_batch_norm,
    f"{_LEGIT}.no_stats": convert_batch_norm_now,
    f"{_LEGIT}_functional.default": convert_batch_norm_now,
}
