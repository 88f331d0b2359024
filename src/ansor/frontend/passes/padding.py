"""Borders of zeros become the padding of the convolution or pooling that reads them."""

from __future__ import annotations

from typing import cast

from ansor.frontend.graph import Attribute, Graph, Node, Value
from ansor.frontend.passes.facts import Ints, ints, with_attributes
from ansor.frontend.passes.rewriter import Rewriter, rewrite
from ansor.ir.ops import lowest

Pairs = tuple[tuple[int, int], ...]


def merge_padding(graph: Graph) -> Graph:
    """Leave out a pad before conv, max_pool, avg_pool where that is the same."""
    rules = {"conv": _conv, "max_pool": _max_pool, "avg_pool": _avg_pool}
    return rewrite(graph, lambda n: (rules[n.op],) if n.op in rules else ())


def _conv(out: Rewriter, node: Node) -> Value | None:
    pad = _pad(out, node, 0)
    return None if pad is None else _merged(out, node, pad)


def _max_pool(out: Rewriter, node: Node) -> Value | None:
    pad = _pad(out, node, lowest(node.output.dtype))
    return None if pad is None else _merged(out, node, pad)


def _avg_pool(out: Rewriter, node: Node) -> Value | None:
    """Elements of the border count: that is right if all padding does."""
    pad = _pad(out, node, 0)
    if pad is None or any(cast(Ints, node.attributes.get("uncounted", ()))):
        return None
    counted = bool(node.attributes.get("count_include_pad", False))
    if not counted and any(n for pair in _padding(node) for n in pair):
        return None
    return _merged(out, node, pad, count_include_pad=True)


def _pad(out: Rewriter, node: Node, number: float) -> Node | None:
    """The node that pads the input's spatial axes, and only those, with `number`."""
    pad = out.producer(node.inputs[0])
    if pad is None or pad.op != "pad":
        return None
    if pad.attributes.get("mode", "constant") != "constant":
        return None
    value = pad.attributes.get("value", 0)
    channel = _channel(node)
    sizes = list(zip(ints(pad, "before"), ints(pad, "after"), strict=True))
    others = any(n for axis in (0, channel) for n in sizes[axis])
    return None if others or value != number else pad


def _channel(node: Node) -> int:
    return -1 if node.attributes.get("layout", "first") == "last" else 1


def _padding(node: Node) -> Pairs:
    return cast(Pairs, node.attributes["padding"])


def _merged(out: Rewriter, node: Node, pad: Node, **changed: Attribute) -> Value:
    before, after = (_spatial(node, ints(pad, x)) for x in ("before", "after"))
    more = zip(_padding(node), before, after, strict=True)
    padding = tuple((b + p, a + q) for (b, a), p, q in more)
    attributes = with_attributes(node, padding=padding, **changed)
    return out.add(node.op, pad.inputs[0], *node.inputs[1:], **attributes)


def _spatial(node: Node, sizes: Ints) -> Ints:
    return sizes[1:-1] if _channel(node) == -1 else sizes[2:]
