"""Softmax and normalisations."""

from __future__ import annotations

from collections.abc import Callable

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.onnx.convert.pieces import (
    along,
    as_axis,
    beside,
    cast,
    literal,
    reduced,
    reshape,
    softmax,
    working,
)
from ansor.frontend.onnx.convert.reduction import flattened
from ansor.frontend.onnx.node import Converter, OnnxNode


def convert_softmax(node: OnnxNode, build: Builder) -> Value:
    return _flat(node, build, lambda x, axis: softmax(build, x, axis))


def convert_log_softmax(node: OnnxNode, build: Builder) -> Value:
    return _flat(node, build, lambda x, axis: build.add("log_softmax", x, axis=axis))


def _flat(
    node: OnnxNode, build: Builder, function: Callable[[Value, int], Value]
) -> Value:
    """`function` along the axis that the node means, in the shape that it means."""
    x = node.input(0)
    whole = x if x.shape else reshape(build, x, (1,))
    shape, axis = flattened(node, whole)
    return reshape(build, function(reshape(build, whole, shape), axis), x.shape)


def convert_batch_norm(node: OnnxNode, build: Builder) -> Value:
    """x * a + b, where a and b are known before the graph runs."""
    x = node.input(0)
    wide = working(x.dtype)
    _refuse_training(node)
    scale, bias, mean, variance = (
        cast(build, node.input(n), wide) for n in range(1, 5)
    )
    epsilon = node.attribute("epsilon", 1e-5)
    node.attribute("momentum", 0.9)
    root = build.add("sqrt", beside(build, "add", variance, epsilon))
    factor = build.add("divide", scale, root)
    shift = build.add("subtract", bias, build.add("multiply", mean, factor))
    rank = len(x.shape)
    axis = 1 if rank > 1 else 0
    found = build.add(
        "multiply", cast(build, x, wide), along(build, factor, axis, rank)
    )
    found = build.add("add", found, along(build, shift, axis, rank))
    return cast(build, found, x.dtype)


def _refuse_training(node: OnnxNode) -> None:
    if node.opset >= 14:
        if node.attribute("training_mode", False):
            raise node.unsupported("attribute 'training_mode' is 1")
        return
    if node.opset < 9 and not node.attribute("spatial", True):
        raise node.unsupported("attribute 'spatial' is 0")
    if node.opset < 7:
        node.attribute("is_test", False)
        node.attribute("consumed_inputs", ())
    if any(node.wants(n) for n in range(1, node.output_count)):
        raise node.unsupported("more than one output, which means training")


def convert_layer_norm(node: OnnxNode, build: Builder) -> tuple[Value, ...]:
    x, scale, bias = node.input(0), node.input(1), node.maybe(2)
    axis = as_axis(node, node.attribute("axis", -1), len(x.shape))
    epsilon = node.attribute("epsilon", 1e-5)
    _check_stash(node)
    zero = literal(build, 0, scale.dtype) if bias is None else bias
    found = build.add("layer_norm", x, scale, zero, axis=axis, epsilon=epsilon)
    if not (node.wants(1) or node.wants(2)):
        return (found,)
    return found, *_statistics(build, x, axis, epsilon)


def _check_stash(node: OnnxNode) -> None:
    stash = node.attribute("stash_type", 1)
    if stash != 1:
        raise node.unsupported(f"attribute 'stash_type' is {stash}")


def _statistics(
    build: Builder, x: Value, axis: int, epsilon: float
) -> tuple[Value, Value]:
    """Mean and 1 / standard deviation, in the type they are stashed in."""
    axes = range(axis, len(x.shape))
    wide = cast(build, x, working(x.dtype))
    mean = reduced(build, wide, "mean", axes)
    apart = build.add("subtract", wide, mean)
    variance = reduced(build, build.add("multiply", apart, apart), "mean", axes)
    return mean, build.add("rsqrt", beside(build, "add", variance, epsilon))


def convert_rms_norm(node: OnnxNode, build: Builder) -> Value:
    x, scale = node.input(0), node.input(1)
    axis = as_axis(node, node.attribute("axis", -1), len(x.shape))
    epsilon = node.attribute("epsilon", 1e-5)
    _check_stash(node)
    return build.add("rms_norm", x, scale, axis=axis, epsilon=epsilon)


def convert_group_norm(node: OnnxNode, build: Builder) -> Value:
    x, groups = node.input(0), node.attribute("num_groups")
    epsilon = node.attribute("epsilon", 1e-5)
    if node.opset >= 21:
        _check_stash(node)
    channels = x.shape[1]
    if groups < 1 or channels % groups:
        raise ModelError(str(node), f"{groups} groups of {channels} channels")
    scale, bias = node.input(1), node.input(2)
    if node.opset < 21:  # one number per group
        times = channels // groups
        scale, bias = (
            build.add("repeat", v, repeats=times, axis=0) for v in (scale, bias)
        )
    return build.add("group_norm", x, scale, bias, groups=groups, epsilon=epsilon)


def convert_instance_norm(node: OnnxNode, build: Builder) -> Value:
    if node.opset < 6:
        node.attribute("consumed_inputs", ())
    inputs = [node.input(n) for n in range(3)]
    return build.add("instance_norm", *inputs, epsilon=node.attribute("epsilon", 1e-5))


def convert_lrn(node: OnnxNode, build: Builder) -> Value:
    return build.add(
        "lrn",
        node.input(0),
        alpha=node.attribute("alpha", 1e-4),
        beta=node.attribute("beta", 0.75),
        bias=node.attribute("bias", 1.0),
        size=node.attribute("size"),
    )


def convert_lp_normalization(node: OnnxNode, build: Builder) -> Value:
    x, p = node.input(0), node.attribute("p", 2)
    axis = as_axis(node, node.attribute("axis", -1), len(x.shape))
    if p not in (1, 2):
        raise node.unsupported(f"attribute 'p' is {p}")
    return build.add("lp_normalize", x, axis=axis, p=p)


def convert_dropout(node: OnnxNode, build: Builder) -> tuple[Value, ...]:
    """Nothing is dropped when a model is used; every element is kept."""
    x = node.input(0)
    if node.opset >= 12:
        node.attribute("seed", None)
        _refuse_dropping(node, build)
    else:
        node.attribute("ratio", 0.5)
        node.attribute("is_test", False)
        node.attribute("consumed_inputs", ())
    same = build.add("identity", x)
    if not node.wants(1):
        return (same,)
    one = literal(build, 1, "bool" if node.opset >= 10 else x.dtype)
    return same, build.add("expand", one, shape=x.shape)


def _refuse_dropping(node: OnnxNode, build: Builder) -> None:
    training = node.maybe_known(2, build)
    if training is None or not training.any():
        return
    ratio = node.maybe_known(1, build)
    if ratio is None or float(ratio.reshape(())) != 0.0:
        raise node.unsupported("input 'training_mode' is true")


def convert_mvn(node: OnnxNode, build: Builder) -> Value:
    """(x - mean) / (standard deviation + 1e-9)."""
    x = node.input(0)
    axes = node.attribute("axes", (0, 2, 3))
    places = tuple(as_axis(node, axis, len(x.shape)) for axis in axes)
    wide = cast(build, x, working(x.dtype))
    apart = build.add("subtract", wide, reduced(build, wide, "mean", places))
    squares = reduced(build, build.add("multiply", apart, apart), "mean", places)
    root = beside(build, "add", build.add("sqrt", squares), 1e-9)
    return cast(build, build.add("divide", apart, root), x.dtype)


CONVERTERS: dict[str, Converter] = {
    "Softmax": convert_softmax,
    "LogSoftmax": convert_log_softmax,
    "BatchNormalization": convert_batch_norm,
    "LayerNormalization": convert_layer_norm,
    "RMSNormalization": convert_rms_norm,
    "GroupNormalization": convert_group_norm,
    "InstanceNormalization": convert_instance_norm,
    "LRN": convert_lrn,
    "LpNormalization": convert_lp_normalization,
    "MeanVarianceNormalization": convert_mvn,
    "Dropout": convert_dropout,
}
