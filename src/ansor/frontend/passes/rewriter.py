"""Writing a graph anew, node by node, with some values replaced by others."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ansor.frontend.builder import Builder
from ansor.frontend.graph import Graph, Node, Value

# What a rule makes of a node: the values that stand for its outputs, or None if the
# node stays. Inputs of the node are values of the new graph already.
Rule = Callable[["Rewriter", Node], "Value | tuple[Value, ...] | None"]


class Rewriter(Builder):
    """A builder that starts with the inputs and constants of a graph.

    Names of the old graph are not given to new values.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.name)
        self.graph = graph
        self.inputs = list(graph.inputs)
        self.constants = dict(graph.constants)
        self._new: dict[str, Value] = {}
        taken = [value.name for value in graph.inputs]
        taken += [value.name for node in graph.nodes for value in node.outputs]
        self._names = dict.fromkeys((*taken, *graph.constants), 0)
        self._makers: dict[str, Node] = {}
        self._places: dict[str, int] = {}
        self._looked = 0

    def now(self, value: Value) -> Value:
        """What stands for a value of the old graph."""
        return self._new.get(value.name, value)

    def moved(self, node: Node) -> Node:
        """A node of the old graph with the inputs of the new one."""
        inputs = tuple(map(self.now, node.inputs))
        if inputs == node.inputs:
            return node
        return Node(node.op, inputs, node.outputs, node.attributes, node.source)

    def producer(self, value: Value) -> Node | None:
        """The node of the new graph that makes a value."""
        self._look()
        return self._makers.get(value.name)

    def position(self, node: Node) -> int:
        """How many nodes of the new graph come before one of them."""
        self._look()
        return self._places[node.outputs[0].name]

    def _look(self) -> None:
        for place in range(self._looked, len(self.nodes)):
            node = self.nodes[place]
            for made in node.outputs:
                self._makers[made.name] = node
                self._places[made.name] = place
        self._looked = len(self.nodes)

    def keep(self, node: Node) -> None:
        """Add a node with the outputs it had."""
        self.nodes.append(node)

    def stands_for(self, old: Value, new: Value) -> None:
        """From now on `new` is read instead of `old`."""
        self._new[old.name] = new

    def finished(self) -> Graph:
        outputs = [self.now(value) for value in self.graph.outputs]
        return self.graph.with_nodes(self.nodes, self.constants, outputs)


def rewrite(graph: Graph, rules: Callable[[Node], Iterable[Rule]]) -> Graph:
    """The graph after the first of the rules that has something to say about a node,
    for all nodes; the same object if none has."""
    out = Rewriter(graph)
    changed = False
    for old in graph.nodes:
        node = out.moved(old)
        made = _first(out, node, rules(node))
        if made is None:
            out.keep(node)
            continue
        changed = True
        values = made if isinstance(made, tuple) else (made,)
        for before, after in zip(old.outputs, values, strict=True):
            out.stands_for(before, after)
    return out.finished() if changed else graph


def _first(
    out: Rewriter, node: Node, rules: Iterable[Rule]
) -> Value | tuple[Value, ...] | None:
    for rule in rules:
        with out.at(node.source):
            made = rule(out, node)
        if made is not None:
            return made
    return None
