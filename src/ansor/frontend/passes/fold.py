"""Constant factors and shifts after a product with constant weights become part of
the weights and one shift.

    conv(x, W) * a + b   ==>   conv(x, W * a) + b
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansor.frontend.graph import Graph, Node, Value
from ansor.frontend.passes.facts import (
    Readers,
    along,
    integer,
    split_operands,
    uniform,
)
from ansor.frontend.passes.rewriter import Rewriter, Rule, rewrite
from ansor.ir.dtypes import DTYPES

Floats = npt.NDArray[np.float64]

# 16-bit weights would lose what a second rounding costs.
_FOLDED = ("float32", "float64")


def fold_scales(graph: Graph) -> Graph:
    """Fold what follows products with constant weights, computed in float64 and
    rounded once. A product stays as it is if its own result is read elsewhere."""
    lifted = _lift_factors(graph)
    return _fold(lifted)


@dataclass(frozen=True)
class _Chain:
    """What happens to a product before anyone else reads it: y = x * scale + shift."""

    scale: Floats
    shift: Floats | None
    nodes: tuple[Node, ...]

    @property
    def pays(self) -> bool:
        return len(self.nodes) > 1 or bool((self.scale != 1).any())

    @property
    def is_finite(self) -> bool:
        known = [x for x in (self.scale, self.shift) if x is not None]
        return all(bool(np.isfinite(x).all()) for x in known)


def _fold(graph: Graph) -> Graph:
    readers = Readers(graph)
    out = Rewriter(graph)
    gone: set[str] = set()
    for old in graph.nodes:
        if old.outputs[0].name in gone:
            continue
        node = out.moved(old)
        places = _channels(node, out)
        chain = None if places is None else _chain(graph, readers, old, places[0])
        if places is None or chain is None or not (chain.pays and chain.is_finite):
            out.keep(node)
            continue
        with out.at(node.source):
            made = _folded(out, node, chain, *places)
        out.stands_for(chain.nodes[-1].output, made)
        gone.update(x.output.name for x in chain.nodes)
    return out.finished() if gone else graph


def _channels(node: Node, out: Rewriter) -> tuple[int, int] | None:
    """The axis of the result, and of the weights, that folded numbers run along; None
    for what is no product with constant weights."""
    if node.op not in ("conv", "conv_transpose", "matmul"):
        return None
    rank, weight = len(node.output.shape), node.inputs[1]
    if out.known(weight) is None or node.output.dtype not in _FOLDED:
        return None
    if node.op == "matmul":
        return (rank - 1, len(weight.shape) - 1) if len(weight.shape) > 1 else None
    if node.attributes.get("layout", "first") == "last":
        found = (rank - 1, rank - 1)
    else:
        found = (1, 0 if node.op == "conv" else 1)
    grouped = node.op == "conv_transpose" and integer(node, "groups") > 1
    return None if grouped else found


def _chain(graph: Graph, readers: Readers, node: Node, axis: int) -> _Chain | None:
    chain = _Chain(np.ones(1), None, ())
    value = node.output
    while True:
        reader = readers.only(value)
        further = None if reader is None else _further(graph, chain, reader, axis)
        if reader is None or further is None:
            return chain if chain.nodes else None
        chain, value = further, reader.output


def _further(graph: Graph, chain: _Chain, node: Node, axis: int) -> _Chain | None:
    """The chain with one more node, if it is of the kind."""
    pair = split_operands(node, graph.constants)
    if pair is None or pair[0].shape != node.output.shape:
        return None
    x, constant = pair
    numbers = along(constant, len(x.shape), axis)
    if numbers is None:
        return None
    c = numbers.astype(np.float64)
    left = node.inputs[0] == x
    made = _applied(node.op, chain.scale, chain.shift, c, left)
    return None if made is None else _Chain(*made, (*chain.nodes, node))


def _applied(
    op: str, scale: Floats, shift: Floats | None, c: Floats, left: bool
) -> tuple[Floats, Floats | None] | None:
    """`scale` and `shift` after one more operator with the numbers c; `left` if c is
    its second operand."""
    old = np.zeros(1) if shift is None else shift
    with np.errstate(all="ignore"):
        if op == "multiply":
            return scale * c, None if shift is None else shift * c
        if op == "divide" and left:
            return scale / c, None if shift is None else shift / c
        if op == "add":
            return scale, old + c
        if op == "subtract":
            return (scale, old - c) if left else (-scale, c - old)
    return None


def _folded(
    out: Rewriter, node: Node, chain: _Chain, axis: int, weight_axis: int
) -> Value:
    x, weight = node.inputs
    dtype = DTYPES[node.output.dtype].numpy
    if (chain.scale != 1).any():
        known = out.known(weight)
        assert known is not None
        shape = [1] * known.ndim
        shape[weight_axis] = -1
        scaled = known.astype(np.float64) * chain.scale.reshape(shape)
        weight = out.constant(scaled.astype(dtype), "weight")
    y = out.add(node.op, x, weight, **node.attributes)
    if chain.shift is None:
        return y
    trailing = (1,) * (len(y.shape) - 1 - axis)
    shift = np.asarray(chain.shift.astype(dtype)).reshape(-1, *trailing)
    return out.add("add", y, out.constant(shift, "bias"))


def _lift_factors(graph: Graph) -> Graph:
    """Multiply before a view instead of after it, so that the factor meets what made
    the elements: scores of attention are scaled in the weights."""
    readers = Readers(graph)

    def lift(out: Rewriter, node: Node) -> Value | None:
        pair = split_operands(node, out.constants)
        number = None if pair is None else uniform(pair[1])
        if pair is None or number is None or pair[0] != node.inputs[0]:
            return None
        view = out.producer(pair[0])
        if view is None or view.op not in ("reshape", "transpose"):
            return None
        if pair[0].shape != node.output.shape or readers.only(pair[0]) is None:
            return None
        factor = out.constant(np.asarray(number), "factor")
        scaled = out.add(node.op, view.inputs[0], factor)
        return out.add(view.op, scaled, **view.attributes)

    rule: Rule = lift
    return rewrite(graph, lambda n: (rule,) if n.op in ("multiply", "divide") else ())
