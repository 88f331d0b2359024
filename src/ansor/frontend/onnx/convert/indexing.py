"""Gathers and scatters, and what picks elements by constants."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Array, Value
from ansor.frontend.onnx.convert.movement import sliced, transposed
from ansor.frontend.onnx.convert.pieces import as_axis, reshape
from ansor.frontend.onnx.node import Converter, OnnxNode
from ansor.ir.dtypes import is_int


def convert_gather(node: OnnxNode, build: Builder) -> Value:
    x, indices = node.input(0), node.input(1)
    axis = as_axis(node, node.attribute("axis", 0), len(x.shape))
    known = build.known(indices)
    if known is None or known.size != 1:
        return build.add("gather", x, indices, axis=axis)
    place, extent = int(known.reshape(-1)[0]), x.shape[axis]
    if not -extent <= place < extent:
        raise ModelError(str(node), f"index {place} is outside an axis of {extent}")
    bounds = [(0, n, 1) for n in x.shape]
    bounds[axis] = (place % extent, place % extent + 1, 1)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    return reshape(build, sliced(build, x, bounds), shape)


def convert_gather_elements(node: OnnxNode, build: Builder) -> Value:
    x = node.input(0)
    axis = as_axis(node, node.attribute("axis", 0), len(x.shape))
    return build.add("gather_elements", x, node.input(1), axis=axis)


def convert_gather_nd(node: OnnxNode, build: Builder) -> Value:
    batch_dims = node.attribute("batch_dims", 0)
    return build.add("gather_nd", node.input(0), node.input(1), batch_dims=batch_dims)


def convert_scatter_elements(node: OnnxNode, build: Builder) -> Value:
    x, indices, updates = node.input(0), node.input(1), node.input(2)
    axis = as_axis(node, node.attribute("axis", 0), len(x.shape))
    reduction = node.attribute("reduction", "none")
    if indices.size == 0:
        return x
    return build.add(
        "scatter_elements", x, indices, updates, axis=axis, reduction=reduction
    )


def convert_scatter_nd(node: OnnxNode, build: Builder) -> Value:
    x, indices, updates = node.input(0), node.input(1), node.input(2)
    reduction = node.attribute("reduction", "none")
    if updates.size == 0:
        return x
    known = build.known(indices)
    if known is not None and reduction == "none" and known.shape[-1] > 0:
        return _placed(node, build, x, known, updates)
    return build.add("scatter_nd", x, indices, updates, reduction=reduction)


def _placed(
    node: OnnxNode, build: Builder, x: Value, indices: Array, updates: Value
) -> Value:
    """A scatter to places that are known: each block of `x` knows its update."""
    depth = indices.shape[-1]
    head, tail = x.shape[:depth], x.shape[depth:]
    tuples = indices.reshape(-1, depth).astype(np.int64)
    places = np.where(tuples < 0, tuples + np.array(head), tuples)
    if ((places < 0) | (places >= np.array(head))).any():
        raise ModelError(str(node), f"an index is outside {head}")
    source = np.full(head, -1, np.int64)
    source[tuple(places.T)] = np.arange(len(places))  # the last one wins
    blocks = reshape(build, updates, (len(places), *tail))
    chosen = build.add("gather", blocks, build.constant(np.maximum(source, 0)), axis=0)
    if (source >= 0).all():
        return chosen
    hit = build.constant((source >= 0).reshape(*head, *(1,) * len(tail)))
    return build.add("where", hit, chosen, x)


def convert_one_hot(node: OnnxNode, build: Builder) -> Value:
    indices, values = node.input(0), node.input(2)
    depth = int(node.known(1, build).reshape(-1)[0])
    axis = as_axis(node, node.attribute("axis", -1), len(indices.shape) + 1)
    if not is_int(indices.dtype):
        indices = build.add("cast", indices, dtype="int64")
    return build.add("one_hot", indices, values, depth=depth, axis=axis)


def convert_reverse_sequence(node: OnnxNode, build: Builder) -> Value:
    x, lengths = node.input(0), node.input(1)
    batch = as_axis(node, node.attribute("batch_axis", 1), len(x.shape))
    time = as_axis(node, node.attribute("time_axis", 0), len(x.shape))
    order = [batch, time, *(d for d in range(len(x.shape)) if d not in (batch, time))]
    steps = build.constant(np.arange(x.shape[time], dtype=np.int64))
    counts = build.add("cast", lengths, dtype="int64")
    ends = reshape(build, counts, (x.shape[batch], 1))
    one = build.constant(np.array(1, np.int64))
    mirrored = build.add("subtract", build.add("subtract", ends, one), steps)
    inside = build.add("less", steps, ends)
    places = build.add("where", inside, mirrored, steps)
    rows = reshape(build, places, (*places.shape, 1))
    found = build.add("gather_nd", transposed(build, x, order), rows, batch_dims=1)
    return transposed(build, found, [order.index(d) for d in range(len(order))])


def convert_compress(node: OnnxNode, build: Builder) -> Value:
    x, kept = node.input(0), np.flatnonzero(node.known(1, build))
    axis = node.attribute("axis", None)
    if axis is None:
        x, axis = reshape(build, x, (x.size,)), 0
    at = as_axis(node, axis, len(x.shape))
    return build.add("gather", x, build.constant(kept.astype(np.int64)), axis=at)


def convert_non_zero(node: OnnxNode, build: Builder) -> Value:
    found = np.nonzero(node.known(0, build))
    return build.constant(np.array(found, np.int64).reshape(len(found), -1))


def convert_unique(node: OnnxNode, build: Builder) -> tuple[Value, ...]:
    x, axis = node.known(0, build), node.attribute("axis", None)
    found, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not node.attribute("sorted", True):
        order = np.argsort(first)
        found = np.take(found, order, axis or 0)
        first, counts = first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    parts = (found, *(part.astype(np.int64) for part in (first, inverse, counts)))
    return tuple(build.constant(part) for part in parts)


CONVERTERS: Mapping[str, Converter] = {
    "Compress": convert_compress,
    "Gather": convert_gather,
    "GatherElements": convert_gather_elements,
    "GatherND": convert_gather_nd,
    "NonZero": convert_non_zero,
    "OneHot": convert_one_hot,
    "ReverseSequence": convert_reverse_sequence,
    "Scatter": convert_scatter_elements,
    "ScatterElements": convert_scatter_elements,
    "ScatterND": convert_scatter_nd,
    "Unique": convert_unique,
}
