"""Pooling."""

from __future__ import annotations

from math import prod

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Attribute, Value
from ansor.frontend.onnx.convert.pieces import beside, reduced, reshape
from ansor.frontend.onnx.convert.spans import Spans, spans
from ansor.frontend.onnx.node import Converter, OnnxNode


def _spans(node: OnnxNode, dilated: bool = True) -> tuple[Spans, dict[str, Attribute]]:
    x = node.input(0)
    kernel = node.attribute("kernel_shape")
    ceil = node.attribute("ceil_mode", False)
    s = spans(node, x.shape[2:], kernel, ceil=ceil, dilated=dilated)
    return s, {
        "kernel": kernel,
        "strides": s.strides,
        "padding": s.padding,
        "dilations": s.dilations,
        "layout": "first",
    }


def convert_max_pool(node: OnnxNode, build: Builder) -> tuple[Value, ...]:
    x = node.input(0)
    _, given = _spans(node)
    by_columns = node.attribute("storage_order", False)
    found = build.add("max_pool", x, **given)
    if not node.wants(1):
        return (found,)
    places = build.add("max_pool_indices", x, **given)
    return found, _global(build, places, x.shape, by_columns)


def _global(
    build: Builder, places: Value, shape: tuple[int, ...], by_columns: bool
) -> Value:
    """Positions within an image as positions within the whole tensor."""
    space = shape[2:]
    if by_columns:
        places = _turned(build, places, space)
    images = np.arange(prod(shape[:2]), dtype=np.int64) * prod(space)
    start = build.constant(images.reshape(*shape[:2], *(1,) * len(space)), "images")
    return build.add("add", places, start)


def _turned(build: Builder, places: Value, space: tuple[int, ...]) -> Value:
    """Row-major positions as column-major ones."""
    total: Value | None = None
    for d, extent in enumerate(space):
        index = beside(build, "floor_divide", places, prod(space[d + 1 :]))
        index = beside(build, "remainder", index, extent)
        term = beside(build, "multiply", index, prod(space[:d]))
        total = term if total is None else build.add("add", total, term)
    assert total is not None
    return total


def convert_avg_pool(node: OnnxNode, build: Builder) -> Value:
    s, given = _spans(node)
    counted = node.attribute("count_include_pad", False)
    return build.add(
        "avg_pool",
        node.input(0),
        **given,
        count_include_pad=counted,
        uncounted=s.uncounted,
    )


def convert_lp_pool(node: OnnxNode, build: Builder) -> Value:
    _, given = _spans(node)
    return build.add("lp_pool", node.input(0), **given, p=node.attribute("p", 2))


def _whole(kind: str) -> Converter:
    def convert(node: OnnxNode, build: Builder) -> Value:
        x = node.input(0)
        if len(x.shape) < 2:
            raise ModelError(str(node), f"its input has shape {x.shape}")
        return reduced(build, x, kind, range(2, len(x.shape)))

    return convert


def convert_global_lp_pool(node: OnnxNode, build: Builder) -> Value:
    x, p = node.input(0), node.attribute("p", 2)
    if p not in (1, 2):
        raise node.unsupported(f"attribute 'p' is {p}")
    return reduced(build, x, f"l{int(p)}", range(2, len(x.shape)))


def convert_max_unpool(node: OnnxNode, build: Builder) -> Value:
    """Elements put back where they came from, zeros around them."""
    x, places = node.input(0), node.input(1)
    kernel = node.attribute("kernel_shape")
    rank = len(kernel)
    strides = node.attribute("strides", (1,) * rank)
    pads = node.attribute("pads", (0,) * (2 * rank))
    space = tuple(
        (n - 1) * s - pads[d] - pads[rank + d] + k
        for d, (n, s, k) in enumerate(zip(x.shape[2:], strides, kernel, strict=True))
    )
    found = _put_back(build, x, places, (*x.shape[:2], *space))
    if node.maybe(2) is None:
        return found
    wanted = tuple(int(n) for n in node.known(2, build))
    after = tuple(n - own for n, own in zip(wanted, found.shape, strict=True))
    return build.add("pad", found, before=(0,) * len(wanted), after=after)


def _put_back(build: Builder, x: Value, places: Value, shape: tuple[int, ...]) -> Value:
    zeros = build.constant(np.zeros(prod(shape), x.dtype), "zeros")
    flat = [reshape(build, v, (v.size,)) for v in (places, x)]
    found = build.add("scatter_elements", zeros, *flat, axis=0, reduction="none")
    return reshape(build, found, shape)


CONVERTERS: dict[str, Converter] = {
    "MaxPool": convert_max_pool,
    "AveragePool": convert_avg_pool,
    "LpPool": convert_lp_pool,
    "GlobalAveragePool": _whole("mean"),
    "GlobalMaxPool": _whole("max"),
    "GlobalLpPool": convert_global_lp_pool,
    "MaxUnpool": convert_max_unpool,
}
