"""Graphs of ATen whose sizes are symbols, with numbers in their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.fx import Graph, GraphModule, Node

SYMBOLS = ("SymInt", "SymFloat", "SymBool")


def has_symbols(graph: Graph) -> bool:
    """Whether what a graph takes has sizes that are not known."""
    places = [x for x in graph.nodes if x.op == "placeholder"]
    return any(_is_symbolic(x.meta.get("val")) for x in places)


def _is_symbolic(value: Any) -> bool:
    sizes = [*value.shape, *value.stride()] if hasattr(value, "stride") else [value]
    return any(type(size).__name__ in SYMBOLS for size in sizes)


def with_numbers(module: GraphModule, given: Sequence[Any]) -> GraphModule:
    """The graph for the sizes of these inputs; every node knows what it gives.

    Nothing is traced, which would disturb other threads that run compiled code.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    fake = FakeTensorMode(shape_env=ShapeEnv(), static_shapes=True)
    known = _Known(torch.fx.Graph(), module)
    places = iter(given)
    with fake:
        for node in module.graph.nodes:
            if node.op == "placeholder":
                value = next(places)
                is_tensor = isinstance(value, torch.Tensor)
                known.add(node, fake.from_tensor(value) if is_tensor else value)
            else:
                known.add(node, known.result(node))
    return torch.fx.GraphModule(module, known.graph)


class _Known:
    """A graph in the making, and what its nodes would give."""

    def __init__(self, graph: Graph, module: GraphModule) -> None:
        self.graph = graph
        self._module = module
        self._copies: dict[Node, Any] = {}  # nodes, or numbers
        self._values: dict[Node, Any] = {}

    def result(self, node: Node) -> Any:
        from torch.fx.node import map_arg

        if node.op == "output":
            return None
        if node.op == "get_attr":
            found = self._module
            for part in str(node.target).split("."):
                found = getattr(found, part)
            return found
        arguments, named = map_arg((node.args, node.kwargs), self._values.get)
        return node.target(*arguments, **named)  # type: ignore[operator]

    def add(self, node: Node, value: Any) -> None:
        copied = self.graph.node_copy(node, lambda x: self._copies[x])
        copied.meta = {**node.meta, "val": value}
        is_number = isinstance(value, int | float)
        self._copies[node] = value if is_number else copied
        self._values[node] = value
        if is_number and node.op != "placeholder":
            self.graph.erase_node(copied)
