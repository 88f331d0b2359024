"""Local laws: operators that do nothing, and views of views."""

from __future__ import annotations

import numpy as np

from ansor.frontend.graph import Array, Graph, Node, Value
from ansor.frontend.operators import operator
from ansor.frontend.passes.facts import integer, ints, is_uniform
from ansor.frontend.passes.rewriter import Rewriter, Rule, rewrite
from ansor.ir.dtypes import DTYPES


def simplify(graph: Graph) -> Graph:
    """Without nodes that give back an operand, and with views of views as one."""
    return rewrite(graph, lambda node: (_empty, *_RULES.get(node.op, ())))


def _empty(out: Rewriter, node: Node) -> tuple[Value, ...] | None:
    """What is computed from arrays without elements is known."""
    if all(x.size for x in node.inputs):
        return None
    arrays = [_known(out, x) for x in node.inputs]
    given = [array for array in arrays if array is not None]
    if len(given) < len(arrays):
        return None
    made = operator(node.op).values(given, node.attributes)
    return tuple(out.constant(np.asarray(array), node.op) for array in made)


def _known(out: Rewriter, value: Value) -> Array | None:
    if value.size == 0:
        return np.zeros(value.shape, DTYPES[value.dtype].numpy)
    return out.known(value)


def _first(_: Rewriter, node: Node) -> Value:
    return node.inputs[0]


def _same_type(_: Rewriter, node: Node) -> Value | None:
    """Views, casts, repetitions: nothing, if the result is of the operand's type."""
    x, y = node.inputs[0], node.output
    return x if (x.dtype, x.shape) == (y.dtype, y.shape) else None


def _transpose_nothing(out: Rewriter, node: Node) -> Value | None:
    """A transpose that leaves the axes longer than 1 in their order is a reshape."""
    (x,) = node.inputs
    axes = ints(node, "axes")
    long = [axis for axis in axes if x.shape[axis] > 1]
    if long != sorted(long):
        return None
    if x.shape == node.output.shape:
        return x
    return out.add("reshape", x, shape=node.output.shape)


def _merge_transposes(out: Rewriter, node: Node) -> Value | None:
    before = _made_by(out, node.inputs[0], "transpose")
    if before is None:
        return None
    inner = ints(before, "axes")
    axes = tuple(inner[axis] for axis in ints(node, "axes"))
    return out.add("transpose", before.inputs[0], axes=axes)


def _merge_reshapes(out: Rewriter, node: Node) -> Value | None:
    before = _made_by(out, node.inputs[0], "reshape", "identity")
    if before is None:
        return None
    return out.add("reshape", before.inputs[0], shape=node.output.shape)


def _merge_slices(out: Rewriter, node: Node) -> Value | None:
    before = _made_by(out, node.inputs[0], "slice")
    if before is None:
        return None
    pairs = zip(_ranges(before), _ranges(node), strict=True)
    taken = [a[b.start : b.stop if b.stop >= 0 else None : b.step] for a, b in pairs]
    return out.add(
        "slice",
        before.inputs[0],
        starts=tuple(r.start for r in taken),
        stops=tuple(r.stop for r in taken),
        steps=tuple(r.step for r in taken),
    )


def _ranges(node: Node) -> list[range]:
    return list(map(range, *(ints(node, x) for x in ("starts", "stops", "steps"))))


def _made_by(out: Rewriter, value: Value, *ops: str) -> Node | None:
    node = out.producer(value)
    return node if node is not None and node.op in ops else None


def _no_slice(_: Rewriter, node: Node) -> Value | None:
    x = node.inputs[0]
    forward = all(step > 0 for step in ints(node, "steps"))
    return x if forward and x.shape == node.output.shape else None


def _no_reverse(_: Rewriter, node: Node) -> Value | None:
    x = node.inputs[0]
    return x if all(x.shape[axis] == 1 for axis in ints(node, "axes")) else None


def _join(out: Rewriter, node: Node) -> Value | None:
    """Parts without elements are not joined, one part is itself."""
    parts = [x for x in node.inputs if x.size]
    if len(parts) == 1:
        return parts[0]
    if len(parts) == len(node.inputs):
        return None
    return out.add("concat", *parts, **node.attributes)


def _neutral(number: float, right_only: bool = False) -> Rule:
    """x + 0, 1 * x and the like, where x alone decides the shape."""

    def rule(out: Rewriter, node: Node) -> Value | None:
        a, b = node.inputs
        for x, other in ((a, b), (b, a))[: 1 if right_only else 2]:
            if x.shape != node.output.shape or x.dtype != node.output.dtype:
                continue
            if is_uniform(out.known(other), number):
                return x
        return None

    return rule


def _choose(out: Rewriter, node: Node) -> Value | None:
    condition, a, b = node.inputs
    known = out.known(condition)
    if known is None or not (known.all() or not known.any()):
        return None
    chosen = a if known.all() else b
    if chosen.shape == node.output.shape:
        return chosen
    return out.add("expand", chosen, shape=node.output.shape)


def _take_one(out: Rewriter, node: Node) -> Value | None:
    """A gather by a constant run of indices is a slice."""
    x, indices = node.inputs
    known, axis = out.known(indices), integer(node, "axis")
    run = None if known is None else _run(known, x.shape[axis])
    if run is None:
        return None
    whole = [range(n) for n in x.shape]
    whole[axis] = run
    part = out.add(
        "slice",
        x,
        starts=tuple(r.start for r in whole),
        stops=tuple(r.stop for r in whole),
        steps=tuple(r.step for r in whole),
    )
    return out.add("reshape", part, shape=node.output.shape)


def _run(indices: Array, extent: int) -> range | None:
    """The indices as a range, if they are one, and inside."""
    flat = indices.reshape(-1).astype(np.int64)
    flat = np.where(flat < 0, flat + extent, flat)
    if flat.size == 0 or flat.min() < 0 or flat.max() >= extent:
        return None
    first = int(flat[0])
    step = int(flat[1]) - first if flat.size > 1 else 1
    if step == 0 or not np.array_equal(flat, first + step * np.arange(flat.size)):
        return None
    return range(first, first + step * flat.size, step)


def _in_order(out: Rewriter, node: Node) -> Value | None:
    """Operands that may change places: the one computed last first, constants last,
    so that equal computations look equal."""
    a, b = node.inputs
    if _time(out, a) >= _time(out, b):
        return None
    return out.add(node.op, b, a, **node.attributes)


def _time(out: Rewriter, value: Value) -> int:
    if out.known(value) is not None:
        return -2
    node = out.producer(value)
    return -1 if node is None else out.position(node)


def _expanded(out: Rewriter, node: Node) -> Value | None:
    """Operands need not be expanded before an operator that broadcasts."""
    inputs = [_before_expand(out, x) for x in node.inputs]
    if inputs == list(node.inputs):
        return None
    shape = np.broadcast_shapes(*(x.shape for x in inputs))
    if shape != node.output.shape:
        return None
    return out.add(node.op, *inputs, **node.attributes)


def _before_expand(out: Rewriter, value: Value) -> Value:
    node = _made_by(out, value, "expand")
    return value if node is None else node.inputs[0]


_RULES: dict[str, tuple[Rule, ...]] = {
    "identity": (_first,),
    "reshape": (_same_type, _merge_reshapes),
    "cast": (_same_type,),
    "expand": (_same_type,),
    "tile": (_same_type,),
    "repeat": (_same_type,),
    "pad": (_same_type,),
    "transpose": (_transpose_nothing, _merge_transposes),
    "slice": (_no_slice, _merge_slices),
    "reverse": (_no_reverse,),
    "concat": (_join,),
    "where": (_choose, _expanded),
    "gather": (_take_one,),
    "add": (_neutral(0), _expanded, _in_order),
    "subtract": (_neutral(0, right_only=True), _expanded),
    "multiply": (_neutral(1), _expanded, _in_order),
    "divide": (_neutral(1, right_only=True), _expanded),
    "power": (_neutral(1, right_only=True), _expanded),
    "maximum": (_expanded,),
    "minimum": (_expanded,),
}
