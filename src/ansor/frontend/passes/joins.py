"""Concatenations that begin with another one: its result is taken as it is."""

from __future__ import annotations

from ansor.frontend.graph import Graph, Node, Value
from ansor.frontend.passes.facts import integer
from ansor.frontend.passes.rewriter import Rewriter, rewrite

Parts = tuple[int, tuple[str, ...]]  # axis, names of the operands


def nest_joins(graph: Graph) -> Graph:
    """concat(a, b), concat(a, b, c)   ==>   y = concat(a, b), concat(y, c)

    Networks that keep all features join the same ones again and again; every part is
    a test for every element.
    """
    known: dict[Parts, Value] = {}

    def nest(out: Rewriter, node: Node) -> Value | None:
        axis = integer(node, "axis")
        made = node.output
        shorter = _longest(known, axis, node)
        if shorter is not None:
            count, first = shorter
            made = out.add("concat", first, *node.inputs[count:], axis=axis)
        known.setdefault((axis, tuple(x.name for x in node.inputs)), made)
        return None if shorter is None else made

    return rewrite(graph, lambda n: (nest,) if n.op == "concat" else ())


def _longest(
    known: dict[Parts, Value], axis: int, node: Node
) -> tuple[int, Value] | None:
    """How many operands another join has, and its result."""
    names = tuple(x.name for x in node.inputs)
    for count in range(len(names) - 1, 1, -1):
        found = known.get((axis, names[:count]))
        if found is not None:
            return count, found
    return None
