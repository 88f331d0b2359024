"""Products of one matrix with several constant ones become one product.

x @ A + a, x @ B + b   ==>   y = x @ [A B] + [a b], of which readers take parts
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ansor.frontend.graph import Array, Graph, Node, Value
from ansor.frontend.passes.facts import Readers
from ansor.frontend.passes.rewriter import Rewriter
from ansor.ir.dtypes import DTYPES

_PLACES = ("reshape", "transpose")
LARGEST = 1 << 26  # bytes of the weights that are copied


@dataclass(frozen=True)
class _Sibling:
    """A product, perhaps with a shift, and the value that others read."""

    product: Node
    weight: Array
    shift: Array | None
    result: Value


def merge_siblings(graph: Graph) -> Graph:
    """Join products whose results are read by other products alone, through views:
    query, key and value of attention. Those read parts of the joint result in place;
    anyone else would need a copy."""
    families: dict[str, list[_Sibling]] = {}
    readers = Readers(graph)
    for node in graph.nodes:
        found = _sibling(graph, readers, node)
        if found is not None:
            families.setdefault(node.inputs[0].name, []).append(found)
    joined = [x for x in families.values() if len(x) > 1 and _is_worth(x)]
    return _joined(graph, joined) if joined else graph


def _sibling(graph: Graph, readers: Readers, node: Node) -> _Sibling | None:
    if node.op != "matmul" or len(node.inputs[0].shape) != 2:
        return None
    weight = graph.constants.get(node.inputs[1].name)
    if weight is None or weight.ndim != 2:
        return None
    shift, result = None, node.output
    reader = readers.only(result)
    if reader is not None and reader.op == "add":
        (other,) = [x for x in reader.inputs if x != result] or [result]
        shift, result = graph.constants.get(other.name), reader.output
        if shift is None or shift.shape != weight.shape[1:]:
            return None
    if not _read_by_products(graph, result):
        return None
    return _Sibling(node, weight, shift, result)


def _read_by_products(graph: Graph, value: Value) -> bool:
    """True if all readers are products, directly or through views."""
    if any(value == x for x in graph.outputs):
        return False
    readers = graph.consumers.get(value.name, ())
    return bool(readers) and all(
        node.op == "matmul"
        or (node.op in _PLACES and _read_by_products(graph, node.output))
        for node in readers
    )


def _is_worth(family: list[_Sibling]) -> bool:
    size = sum(x.weight.nbytes for x in family)
    return size <= LARGEST and len({x.weight.dtype for x in family}) == 1


def _joined(graph: Graph, families: list[list[_Sibling]]) -> Graph:
    first = {family[0].product.output.name: family for family in families}
    gone = {x.result.name for family in families for x in family}
    gone |= {x.product.output.name for family in families for x in family}
    out = Rewriter(graph)
    for old in graph.nodes:
        family = first.get(old.outputs[0].name)
        if family is not None:
            with out.at(old.source):
                _join(out, family)
        elif old.outputs[0].name not in gone:
            out.keep(out.moved(old))
    return out.finished()


def _join(out: Rewriter, family: list[_Sibling]) -> None:
    x = out.now(family[0].product.inputs[0])
    weight = np.concatenate([one.weight for one in family], 1)
    y = out.add("matmul", x, out.constant(weight, "weight"))
    if any(one.shift is not None for one in family):
        dtype = DTYPES[y.dtype].numpy
        shifts = [
            np.zeros(one.weight.shape[1], dtype) if one.shift is None else one.shift
            for one in family
        ]
        y = out.add("add", y, out.constant(np.concatenate(shifts), "bias"))
    start = 0
    for one in family:
        rows, columns = one.result.shape
        part = out.add(
            "slice", y, starts=(0, start), stops=(rows, start + columns), steps=(1, 1)
        )
        out.stands_for(one.result, part)
        start += columns
