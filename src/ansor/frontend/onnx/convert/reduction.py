"""Reductions, running sums and orders."""

from __future__ import annotations

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.onnx.convert.pieces import as_axes, as_axis, literal, reshape
from ansor.frontend.onnx.node import Converter, OnnxNode


def _reduce(kind: str, moved: int = 18) -> Converter:
    """The converter of a reduction whose axes are an input from opset `moved` on."""

    def convert(node: OnnxNode, build: Builder) -> Value:
        x = node.input(0)
        rank = len(x.shape)
        keepdims = node.attribute("keepdims", True)
        if node.opset < moved:
            given = node.attribute("axes", ())
        else:
            known = node.maybe_known(1, build)
            given = () if known is None else tuple(known.reshape(-1).tolist())
        axes = as_axes(node, given, rank)
        noop = node.opset >= moved and node.attribute("noop_with_empty_axes", False)
        if not axes and not noop:
            axes = tuple(range(rank))
        return build.add("reduce", x, kind=kind, axes=axes, keepdims=keepdims)

    return convert


def _place(op: str) -> Converter:
    def convert(node: OnnxNode, build: Builder) -> Value:
        x = node.input(0)
        axis = as_axis(node, node.attribute("axis", 0), len(x.shape))
        last = node.attribute("select_last_index", False)
        keepdims = node.attribute("keepdims", True)
        return build.add(op, x, axis=axis, keepdims=keepdims, last=last)

    return convert


def _running(op: str) -> Converter:
    def convert(node: OnnxNode, build: Builder) -> Value:
        x = node.input(0)
        axis = as_axis(node, int(node.known(1, build).reshape(())), len(x.shape))
        exclusive = node.attribute("exclusive", False)
        reverse = node.attribute("reverse", False)
        return build.add(op, x, axis=axis, exclusive=exclusive, reverse=reverse)

    return convert


def convert_topk(node: OnnxNode, build: Builder) -> tuple[Value, ...]:
    x = node.input(0)
    axis = as_axis(node, node.attribute("axis", -1), len(x.shape))
    k = node.attribute("k") if node.opset < 10 else _one(node, build)
    largest = node.attribute("largest", True)
    ordered = node.attribute("sorted", True)
    if not 0 <= k <= x.shape[axis]:
        raise ModelError(str(node), f"k is {k}, but axis {axis} has {x.shape[axis]}")
    if not k:
        none = {"starts": (0,) * len(x.shape), "steps": (1,) * len(x.shape)}
        stops = tuple(0 if d == axis else n for d, n in enumerate(x.shape))
        values = build.add("slice", x, stops=stops, **none)
        return values, build.add("cast", values, dtype="int64")
    return build.add_all("topk", x, k=k, axis=axis, largest=largest, sorted=ordered)


def _one(node: OnnxNode, build: Builder) -> int:
    known = node.known(1, build)
    if known.size != 1:
        raise ModelError(str(node), f"k has {known.size} elements, not 1")
    return int(known.reshape(()))


def convert_hardmax(node: OnnxNode, build: Builder) -> Value:
    """1 at the first of the greatest elements, else 0."""
    x = node.input(0)
    shape, axis = flattened(node, x)
    matrix = reshape(build, x, shape)
    best = build.add("argmax", matrix, axis=axis, keepdims=False, last=False)
    values = build.add("concat", *(
        reshape(build, literal(build, n, x.dtype), (1,)) for n in (0, 1)
    ), axis=0)  # fmt: skip
    found = build.add("one_hot", best, values, depth=shape[axis], axis=axis)
    return reshape(build, found, x.shape)


def flattened(node: OnnxNode, x: Value) -> tuple[tuple[int, ...], int]:
    """The shape and axis that softmax and its kin work on: before opset 13 all axes
    from `axis` on are one."""
    rank = len(x.shape)
    if node.opset >= 13:
        return x.shape, as_axis(node, node.attribute("axis", -1), rank)
    axis = as_axis(node, node.attribute("axis", 1), rank)
    if axis == rank - 1:
        return x.shape, axis
    size = 1
    for n in x.shape[axis:]:
        size *= n
    return (*x.shape[:axis], size), axis


CONVERTERS: dict[str, Converter] = {
    "ReduceSum": _reduce("sum", 13),
    "ReduceMean": _reduce("mean"),
    "ReduceMax": _reduce("max"),
    "ReduceMin": _reduce("min"),
    "ReduceProd": _reduce("prod"),
    "ReduceL1": _reduce("l1"),
    "ReduceL2": _reduce("l2"),
    "ReduceLogSum": _reduce("log_sum"),
    "ReduceLogSumExp": _reduce("log_sum_exp"),
    "ReduceSumSquare": _reduce("sum_square"),
    "ArgMax": _place("argmax"),
    "ArgMin": _place("argmin"),
    "CumSum": _running("cumsum"),
    "CumProd": _running("cumprod"),
    "TopK": convert_topk,
    "Hardmax": convert_hardmax,
}
