"""Channels last: convolutions and poolings with their channels as the last axis.

Each operator runs in the order that its operands are in; transposes sink through
everything that does not care, and meet others, which they cancel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod

from ansor.frontend.graph import Graph, Node, Value
from ansor.frontend.passes.facts import ELEMENTWISE, Ints, integer, ints
from ansor.frontend.passes.orders import (
    Order,
    Orders,
    Runs,
    channels_last,
    equal_runs,
    long_axes,
    plain,
)

WORTH = 80  # floating-point operations of convolutions for a byte that is moved

Handler = Callable[[Orders, Node], bool]  # False: the node stays as it is


def channels_last_layout(graph: Graph) -> Graph:
    """The graph with convolutions in layout "last". If that takes more moving of data
    inside than it can bring, only transposes that cancel without it are taken out."""
    full = _ordered(graph, _CONVOLUTIONS | _OTHERS)
    extra = moved_inside(full) - moved_inside(graph)
    if extra <= 0 or extra * WORTH <= _work(graph):
        return full
    return _ordered(graph, _OTHERS)


def _ordered(graph: Graph, handlers: dict[str, Handler]) -> Graph:
    orders = Orders(graph)
    for node in graph.nodes:
        handler = handlers.get(node.op)
        with orders.out.at(node.source):
            if handler is None or not handler(orders, node):
                orders.keep(node)
    return orders.finished()


def moved_inside(graph: Graph) -> int:
    """Bytes that transposes move, but for those of inputs and outputs."""
    edge = {value.name for value in (*graph.inputs, *graph.outputs)}
    views = [node for node in graph.nodes if node.op == "reshape"]
    for node in views:
        if node.inputs[0].name in edge:
            edge.add(node.output.name)
    for node in reversed(views):
        if node.output.name in edge:
            edge.add(node.inputs[0].name)
    return sum(
        node.output.bytes
        for node in graph.nodes
        if node.op == "transpose"
        and node.inputs[0].name not in edge
        and node.output.name not in edge
    )


def _work(graph: Graph) -> int:
    """Floating-point operations of the convolutions that may change their layout."""
    total = 0
    for node in graph.nodes:
        if node.op in _CONVOLUTIONS and len(node.inputs) == 2:
            total += 2 * node.output.size * _per_element(node)
    return total


def _per_element(node: Node) -> int:
    return prod(node.inputs[1].shape[1:])


def _last(node: Node) -> Order:
    return channels_last(len(node.inputs[0].shape))


def _is_first(node: Node) -> bool:
    return node.attributes.get("layout", "first") == "first"


def _convolution(orders: Orders, node: Node) -> bool:
    x, weight = node.inputs
    if not _is_first(node) or orders.out.known(weight) is None:
        return False
    space = tuple(range(2, len(weight.shape)))
    order = (*space, 1, 0) if node.op == "conv" else (*space, 0, 1)
    inputs = (orders.get(x, _last(node)), orders.get(weight, order))
    attributes = {**node.attributes, "layout": "last"}
    orders.add(node, inputs, [_last(node)], **attributes)
    return True


def _channelwise(orders: Orders, node: Node) -> bool:
    """Poolings and norms of channels follow what they read."""
    x, *others = node.inputs
    last = _last(node)
    cheap = orders.cost(x, last) <= orders.cost(x, plain(len(x.shape)))
    if not _is_first(node) or not cheap or orders.first(x) == plain(len(x.shape)):
        return False
    more = [orders.get(other, plain(len(other.shape))) for other in others]
    attributes = {**node.attributes, "layout": "last"}
    orders.add(node, [orders.get(x, last), *more], [last], **attributes)
    return True


def _elementwise(orders: Orders, node: Node) -> bool:
    rank = len(node.output.shape)
    order = _cheapest(orders, node.inputs, rank)
    if order == plain(rank):
        return False
    inputs = [orders.spread(x, rank, order) for x in node.inputs]
    orders.add(node, inputs, [order], **node.attributes)
    return True


def _cheapest(orders: Orders, inputs: Iterable[Value], rank: int) -> Order:
    """The order of the result for which the least has to be moved."""
    found = {
        order: None
        for x in sorted(inputs, key=lambda x: -x.size)
        if len(x.shape) == rank and orders.out.known(x) is None
        for order in orders.all(x)
    }
    costs = {
        order: sum(orders.spread_cost(x, rank, order) for x in inputs)
        for order in (*found, plain(rank))
    }
    return min(costs, key=lambda order: costs[order])


def _transpose(orders: Orders, node: Node) -> bool:
    """No node: axes are called something else."""
    (x,) = node.inputs
    axes = ints(node, "axes")
    for order, value in orders.all(x).items():
        orders.put(node.output, tuple(map(axes.index, order)), value)
    return True


def _reshape(orders: Orders, node: Node) -> bool:
    """A reshape in the order of its operand, where it joins only what lies together;
    else in one that leaves channels last, or plainly."""
    (x,) = node.inputs
    shape = node.output.shape
    groups = list(equal_runs(x.shape, shape))
    last = long_axes(channels_last(len(shape)), shape) if len(shape) > 2 else None
    for order in orders.all(x):
        found = _regrouped(long_axes(order, x.shape), groups)
        if found is not None:
            _reshaped(orders, node, order, found)
            return True
    order = _gathered(orders.first(x), x.shape, groups)
    found = _regrouped(long_axes(order, x.shape), groups)
    if found is None or found != last:
        return False
    _reshaped(orders, node, order, found)
    return True


def _reshaped(orders: Orders, node: Node, order: Order, long: Order) -> None:
    """Reshape the operand in an order, which gives the long axes in another one."""
    shape = node.output.shape
    after = (*(axis for axis, n in enumerate(shape) if n == 1), *long)
    if long == long_axes(plain(len(shape)), shape):
        after = plain(len(shape))
    source = orders.get(node.inputs[0], order)
    extents = tuple(shape[axis] for axis in after)
    orders.put(node.output, after, orders.out.add("reshape", source, shape=extents))


def _gathered(order: Order, shape: Ints, groups: list[Runs]) -> Order:
    """The order with the axes of each group together, where its last one stands: what
    lies side by side stays so."""
    member = {axis: left for left, _ in groups for axis in left}
    found: list[int] = []
    for axis in reversed(long_axes(order, shape)):
        found += [other for other in reversed(member[axis]) if other not in found]
    short = (axis for axis in order if shape[axis] == 1)
    return (*short, *reversed(found))


def _regrouped(order: Order, groups: list[Runs]) -> Order | None:
    """The new axes in the order of the old ones; None where a group is torn apart."""
    starts = {left[0]: (left, right) for left, right in groups}
    rest, found = list(order), []
    while rest:
        left, right = starts.get(rest[0], ([], []))
        if not left or rest[: len(left)] != left:
            return None
        del rest[: len(left)]
        found += right
    return tuple(found)


def _per_axis(*names: str) -> Handler:
    """Operators with a number for every axis."""

    def handler(orders: Orders, node: Node) -> bool:
        (x,) = node.inputs
        order = orders.first(x)
        if len(node.output.shape) != len(x.shape) or order == plain(len(order)):
            return False
        attributes = dict(node.attributes)
        for name in names:
            given = ints(node, name)
            attributes[name] = tuple(given[axis] for axis in order)
        orders.add(node, [orders.get(x, order)], [order], **attributes)
        return True

    return handler


def _along(orders: Orders, node: Node) -> bool:
    """Operators along one axis of their first operand, which keep it or, without
    `keepdims`, do not."""
    x, *others = node.inputs
    order = orders.first(x)
    joined = node.op == "gather" and len(others[0].shape) != 1
    if order == plain(len(order)) or joined:
        return False
    axis = integer(node, "axis")
    attributes = {**node.attributes, "axis": order.index(axis)}
    gone = () if node.attributes.get("keepdims", True) else (axis,)
    after = [_without(order, gone)] * len(node.outputs)
    more = [orders.get(other, plain(len(other.shape))) for other in others]
    orders.add(node, [orders.get(x, order), *more], after, **attributes)
    return True


def _without(order: Order, gone: Ints) -> Order:
    """The order of a result that lacks some axes."""
    kept = [axis for axis in sorted(order) if axis not in gone]
    return tuple(kept.index(axis) for axis in order if axis in kept)


def _reduce(orders: Orders, node: Node) -> bool:
    (x,) = node.inputs
    order = orders.first(x)
    if order == plain(len(order)):
        return False
    axes = ints(node, "axes")
    gone = () if node.attributes["keepdims"] else axes
    attributes = dict(node.attributes)
    attributes["axes"] = tuple(sorted(order.index(axis) for axis in axes))
    after = _without(order, gone)
    orders.add(node, [orders.get(x, order)], [after], **attributes)
    return True


def _reverse(orders: Orders, node: Node) -> bool:
    (x,) = node.inputs
    order = orders.first(x)
    axes = tuple(sorted(order.index(axis) for axis in ints(node, "axes")))
    orders.add(node, [orders.get(x, order)], [order], axes=axes)
    return True


def _concat(orders: Orders, node: Node) -> bool:
    order = _cheapest(orders, node.inputs, len(node.output.shape))
    inputs = [orders.get(x, order) for x in node.inputs]
    orders.add(node, inputs, [order], axis=order.index(integer(node, "axis")))
    return True


_CONVOLUTIONS: dict[str, Handler] = {
    "conv": _convolution,
    "conv_transpose": _convolution,
}

_OTHERS: dict[str, Handler] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    **dict.fromkeys(
        ("max_pool", "avg_pool", "lp_pool", "max_pool_indices", "group_norm",
         "instance_norm", "lrn"),
        _channelwise,
    ),
    **dict.fromkeys(
        ("softmax", "log_softmax", "lp_normalize", "argmax", "argmin", "cumsum",
         "cumprod", "topk", "repeat", "gather", "interpolate", "resample"),
        _along,
    ),
    "transpose": _transpose,
    "reshape": _reshape,
    "reduce": _reduce,
    "reverse": _reverse,
    "concat": _concat,
    "pad": _per_axis("before", "after"),
    "slice": _per_axis("starts", "stops", "steps"),
    "expand": _per_axis("shape"),
    "tile": _per_axis("repeats"),
}  # fmt: skip
