"""Losses, whose targets are numbers of classes."""

from __future__ import annotations

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.onnx.convert.pieces import beside, literal, reduced, reshape
from ansor.frontend.onnx.node import Converter, OnnxNode


def convert_nll(node: OnnxNode, build: Builder) -> Value:
    return _loss(node, build, node.input(0))


def convert_cross_entropy(node: OnnxNode, build: Builder) -> tuple[Value, ...]:
    logs = build.add("log_softmax", node.input(0), axis=1)
    return _loss(node, build, logs), logs


def _loss(node: OnnxNode, build: Builder, logs: Value) -> Value:
    target, weight = node.input(1), node.maybe(2)
    ignored = node.attribute("ignore_index", None)
    how = node.attribute("reduction", "mean")
    target = build.add("cast", target, dtype="int64")
    kept: Value | None = None
    if ignored is not None:
        kept = beside(build, "not_equal", target, ignored)
        target = build.add("where", kept, target, literal(build, 0, "int64"))
    place = reshape(build, target, (target.shape[0], 1, *target.shape[1:]))
    picked = build.add("gather_elements", logs, place, axis=1)
    loss = build.add("negative", reshape(build, picked, target.shape))
    factor = _weights(build, target, weight, kept, logs.dtype)
    if factor is not None:
        loss = build.add("multiply", loss, factor)
        if kept is not None:
            loss = build.add("where", kept, loss, literal(build, 0.0, loss.dtype))
    return _reduced(node, build, loss, factor, how)


def _weights(
    build: Builder, target: Value, weight: Value | None, kept: Value | None, dtype: str
) -> Value | None:
    """The weight of every target; 0 where it is ignored."""
    found: Value | None = None
    if weight is not None:
        found = build.add("gather", weight, target, axis=0)
    if kept is None:
        return found
    one = found or build.constant(np.ones((), dtype), "one")
    return build.add("where", kept, one, literal(build, 0.0, dtype))


def _reduced(
    node: OnnxNode, build: Builder, loss: Value, factor: Value | None, how: str
) -> Value:
    axes = range(len(loss.shape))
    if how == "none":
        return loss
    if how not in ("sum", "mean"):
        raise ModelError(str(node), f"attribute 'reduction' is {how!r}")
    if how == "sum" or factor is None:
        return reduced(build, loss, how, axes, keepdims=False)
    total = reduced(build, loss, "sum", axes, keepdims=False)
    return build.add("divide", total, reduced(build, factor, "sum", axes, False))


CONVERTERS: dict[str, Converter] = {
    "NegativeLogLikelihoodLoss": convert_nll,
    "SoftmaxCrossEntropyLoss": convert_cross_entropy,
}
