"""Reshapes out of the way: products of matrices, and views behind what follows them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ansor.frontend.graph import Graph, Node, Value
from ansor.frontend.passes.facts import ELEMENTWISE, Ints, Readers
from ansor.frontend.passes.orders import equal_runs
from ansor.frontend.passes.rewriter import Rewriter, Rule, rewrite


def flatten_products(graph: Graph) -> Graph:
    """Rows of all leading axes are rows of one matrix, if the right operand has none;
    so are the places of a convolution whose windows are single elements.

    matmul([b, s, k], [k, n])   ==>   reshape(matmul([b * s, k], [k, n]))
    conv([n, h, w, c], [1, 1, c, o])   ==>   reshape(matmul([n * h * w, c], [c, o]))
    """
    rules: dict[str, tuple[Rule, ...]] = {
        "matmul": (_flat_matmul,),
        "conv": (_flat_conv,),
    }
    return rewrite(graph, lambda n: rules.get(n.op, ()))


def _flat_matmul(out: Rewriter, node: Node) -> Value | None:
    a, b = node.inputs
    if len(a.shape) < 3 or len(b.shape) != 2:
        return None
    return _product(out, a, b, node.output.shape)


def _flat_conv(out: Rewriter, node: Node) -> Value | None:
    x, weight = node.inputs
    rank = len(x.shape) - 2
    wanted = {
        "strides": (1,) * rank,
        "padding": ((0, 0),) * rank,
        "groups": 1,
        "layout": "last",
    }
    same = all(node.attributes.get(name) == value for name, value in wanted.items())
    if not same or prod(weight.shape[:-2]) != 1:
        return None
    matrix = out.add("reshape", weight, shape=weight.shape[-2:])
    return _product(out, x, matrix, node.output.shape)


def _product(out: Rewriter, x: Value, matrix: Value, shape: Ints) -> Value:
    flat = x
    if len(x.shape) != 2:
        flat = out.add("reshape", x, shape=(prod(x.shape[:-1]), x.shape[-1]))
    made = out.add("matmul", flat, matrix)
    return out.add("reshape", made, shape=shape)


def split_batches(graph: Graph) -> Graph:
    """Leading axes stay apart where both operands of a product join the same ones:
    so they can lie apart in memory, as the heads of attention do.

    matmul(reshape([b, h, m, k]), reshape([b, h, k, n]))
    ==>   reshape(matmul([b, h, m, k], [b, h, k, n]))
    """
    rules: tuple[Rule, ...] = (_split_matmul,)
    return rewrite(graph, lambda n: rules if n.op == "matmul" else ())


def _split_matmul(out: Rewriter, node: Node) -> Value | None:
    a, b = (_before_join(out, x) for x in node.inputs)
    if a is None or b is None or _lead(a) != _lead(b):
        return None
    made = out.add("matmul", _led(out, a), _led(out, b))
    return out.add("reshape", made, shape=node.output.shape)


def _lead(value: Value) -> Ints:
    """The axes before the matrices, but for those of extent 1."""
    return tuple(n for n in value.shape[:-2] if n > 1)


def _led(out: Rewriter, value: Value) -> Value:
    shape = (*_lead(value), *value.shape[-2:])
    return value if shape == value.shape else out.add("reshape", value, shape=shape)


def _before_join(out: Rewriter, value: Value) -> Value | None:
    """What a batch of matrices was before leading axes were joined."""
    node = out.producer(value)
    if node is None or len(value.shape) != 3:
        return None
    if node.op == "transpose" and node.attributes["axes"] == (0, 2, 1):
        before = _before_join(out, node.inputs[0])
        return None if before is None else _swapped(out, before)
    if node.op != "reshape":
        return None
    (source,) = node.inputs
    joined = len(_lead(source)) > 1 and source.shape[-2:] == value.shape[-2:]
    return source if joined else None


def _swapped(out: Rewriter, value: Value) -> Value:
    """The last two axes in the other order."""
    *lead, rows, columns = range(len(value.shape))
    return out.add("transpose", value, axes=(*lead, columns, rows))


def sink_views(graph: Graph) -> Graph:
    """Element-wise operators before the reshape of what they read instead of after it,
    so that they follow directly what computed the elements.

    add(reshape(matmul), r)   ==>   reshape(add(matmul, reshape(r)))

    Of several operands the one computed last decides.
    """
    readers = Readers(graph)

    def sink(out: Rewriter, node: Node) -> Value | None:
        owner = _owner(out, node)
        view = None if owner is None else out.producer(owner)
        if owner is None or view is None or view.op != "reshape":
            return None
        (source,) = view.inputs
        if out.producer(source) is None or readers.only(owner) is None:
            return None
        shapes = [_reshaped(x.shape, node.output.shape, source.shape)
                  for x in node.inputs]  # fmt: skip
        inputs = _inputs(out, node.inputs, shapes)
        if inputs is None:
            return None
        made = out.add(node.op, *inputs, **node.attributes)
        return out.add("reshape", made, shape=node.output.shape)

    rules: tuple[Rule, ...] = (sink,)
    return rewrite(graph, lambda n: rules if n.op in ELEMENTWISE else ())


def _inputs(
    out: Rewriter, values: Sequence[Value], shapes: Sequence[Ints | None]
) -> list[Value] | None:
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(values):
        return None
    pairs = zip(values, known, strict=True)
    return [x if x.shape == s else _view(out, x, s) for x, s in pairs]


def _view(out: Rewriter, value: Value, shape: Ints) -> Value:
    """A reshape, without one that it undoes."""
    node = out.producer(value)
    if node is not None and node.op == "reshape" and node.inputs[0].shape == shape:
        return node.inputs[0]
    return out.add("reshape", value, shape=shape)


def _owner(out: Rewriter, node: Node) -> Value | None:
    """The operand of the result's shape that is computed last."""
    whole = [x for x in node.inputs if x.shape == node.output.shape]
    return max(whole, key=lambda x: _time(out, x), default=None)


def _time(out: Rewriter, value: Value) -> int:
    node = out.producer(value)
    while node is not None and node.op in ("reshape", "transpose"):
        value = node.inputs[0]
        node = out.producer(value)
    return -1 if node is None else out.position(node)


def _reshaped(own: Ints, old: Ints, new: Ints) -> Ints | None:
    """What an operand of shape `own`, which broadcasts to `old`, becomes if that is
    reshaped to `new`; None if it would have to repeat parts of an axis."""
    if prod(own) == 1:
        return ()
    whole = (1,) * (len(old) - len(own)) + own
    shape = [1] * len(new)
    for before, after in equal_runs(old, new):
        extents = [whole[d] for d in before]
        if extents == [old[d] for d in before]:
            for d in after:
                shape[d] = new[d]
        elif any(n != 1 for n in extents):
            return None
    while shape[:1] == [1] and prod(own) < prod(old):
        del shape[0]
    return tuple(shape)
