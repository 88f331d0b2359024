"""In which orders of axes the values of a graph exist while it is written anew.

An order p of a value v stands for transpose(v, p). Transposes add no nodes: they only
change what an order is called; where an operator needs another one, a transpose is
added then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansor.frontend.graph import Attribute, Graph, Node, Value
from ansor.frontend.passes.facts import Ints
from ansor.frontend.passes.rewriter import Rewriter

Order = tuple[int, ...]


def plain(rank: int) -> Order:
    return tuple(range(rank))


def channels_last(rank: int) -> Order:
    """Of a value whose axis 1 are channels."""
    return (0, *range(2, rank), 1)


def long_axes(order: Sequence[int], shape: Ints) -> Order:
    """The axes longer than 1, in order: what decides where elements are."""
    return tuple(axis for axis in order if shape[axis] > 1)


Runs = tuple[list[int], list[int]]


def equal_runs(old: Ints, new: Ints) -> Iterator[Runs]:
    """Runs of axes, longer than 1, of both shapes that hold equally many elements."""
    before = [axis for axis, n in enumerate(old) if n > 1]
    after = [axis for axis, n in enumerate(new) if n > 1]
    while before and after:
        left, right = [before.pop(0)], [after.pop(0)]
        p, q = old[left[0]], new[right[0]]
        while p != q:
            if p < q:
                left.append(before.pop(0))
                p *= old[left[-1]]
            else:
                right.append(after.pop(0))
                q *= new[right[-1]]
        yield left, right


class Orders:
    """The new graph, and the values of the old one in it, by order."""

    def __init__(self, graph: Graph) -> None:
        self.out = Rewriter(graph)
        self._real: dict[str, dict[Order, Value]] = {}
        for value in graph.inputs:
            self.put(value, plain(len(value.shape)), value)

    def put(self, old: Value, order: Order, new: Value) -> None:
        """`new` is transpose(old, order)."""
        self._real.setdefault(old.name, {})[order] = new

    def all(self, old: Value) -> dict[Order, Value]:
        """What exists of a value, the first made first; constants exist plainly."""
        return self._real.setdefault(old.name, {plain(len(old.shape)): old})

    def first(self, old: Value) -> Order:
        """The order in which a value was made."""
        return next(iter(self.all(old)))

    def cost(self, old: Value, order: Order) -> int:
        """Bytes to move so as to have a value in an order."""
        if self.out.known(old) is not None:
            return 0
        wanted = long_axes(order, old.shape)
        free = any(long_axes(p, old.shape) == wanted for p in self.all(old))
        return 0 if free else old.bytes

    def get(self, old: Value, order: Order) -> Value:
        """A value in an order."""
        known = self.all(old)
        if order in known:
            return known[order]
        wanted = long_axes(order, old.shape)
        cheap = [p for p in known if long_axes(p, old.shape) == wanted]
        source = next(iter(cheap or known))
        if cheap:
            shape = tuple(old.shape[axis] for axis in order)
            made = self.out.add("reshape", known[source], shape=shape)
        else:
            axes = tuple(source.index(axis) for axis in order)
            made = self.out.add("transpose", known[source], axes=axes)
        self.put(old, order, made)
        return made

    def spread(self, old: Value, rank: int, order: Order) -> Value:
        """An operand that broadcasts to `rank` axes, which are in an order; without
        leading axes of extent 1."""
        more = rank - len(old.shape)
        shape = (1,) * more + old.shape
        if not more:
            found = self.get(old, order)
            if self.out.known(old) is None:
                return found
        elif long_axes(order, shape) == long_axes(plain(rank), shape):
            found = self.get(old, plain(len(old.shape)))
        else:
            own = tuple(axis - more for axis in order if axis >= more)
            found = self.get(old, own)
        moved = [shape[axis] for axis in order]
        while len(moved) > 1 and moved[0] == 1:
            del moved[0]
        return self.out.add("reshape", found, shape=tuple(moved))

    def spread_cost(self, old: Value, rank: int, order: Order) -> int:
        more = rank - len(old.shape)
        own = tuple(axis - more for axis in order if axis >= more)
        return self.cost(old, own)

    def add(
        self,
        node: Node,
        inputs: Sequence[Value],
        orders: Sequence[Order],
        **attributes: Attribute,
    ) -> None:
        """A node in the place of an old one: its outputs are in these orders."""
        with self.out.at(node.source):
            made = self.out.add_all(node.op, *inputs, **attributes)
        for old, order, new in zip(node.outputs, orders, made, strict=True):
            self.put(old, order, new)

    def keep(self, node: Node) -> None:
        """A node as it is, with everything in its plain order."""
        inputs = tuple(self.get(x, plain(len(x.shape))) for x in node.inputs)
        kept = Node(node.op, inputs, node.outputs, node.attributes, node.source)
        self.out.keep(kept)
        for value in node.outputs:
            self.put(value, plain(len(value.shape)), value)

    def finished(self) -> Graph:
        outputs = [self.get(x, plain(len(x.shape))) for x in self.out.graph.outputs]
        graph = self.out.graph
        return graph.with_nodes(self.out.nodes, self.out.constants, outputs)
