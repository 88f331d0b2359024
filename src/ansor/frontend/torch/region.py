"""A part of a torch.fx graph as machine code that takes and gives tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ansor.errors import UnsupportedError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Graph, Value
from ansor.frontend.torch.call import transposed
from ansor.frontend.torch.values import inverse, memory_order, to_array, to_tensor
from ansor.frontend.torch.walk import convert_all, tensor_type

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from torch.fx import Node

    from ansor.frontend.executor import Executable

Order = tuple[int, ...]  # of the axes of a tensor, as they lie in memory


@dataclass(frozen=True)
class Lowered:
    """A graph over memory: inputs and outputs have their axes in the order in which
    they lie there, so that tensors of any dense layout need no copy."""

    graph: Graph
    inputs: tuple[Order, ...]
    outputs: tuple[Order, ...]


def lower(
    graph: torch.fx.Graph, constants: Mapping[Node, Tensor], name: str
) -> Lowered:
    """All calls of a torch.fx graph; placeholders in `constants`, and those that
    nobody reads, are no inputs."""
    build, given = Builder(name), {}
    nodes, inputs = list(graph.nodes), []
    for node in (x for x in nodes if x.op == "placeholder" and x.users):
        if node in constants:
            array = to_array(constants[node].contiguous())
            given[node] = build.constant(array, node.name)
        else:
            given[node], order = _input(build, node)
            inputs.append(order)
    walk = convert_all(build, nodes, given)
    outputs, orders = [], []
    for node in results(graph):
        value = walk.value(node)
        order = memory_order(node.meta["val"]) or tuple(range(len(value.shape)))
        outputs.append(transposed(build, value, order))
        orders.append(order)
    return Lowered(build.finish(outputs), tuple(inputs), tuple(orders))


def _input(build: Builder, node: Node) -> tuple[Value, Order]:
    """An input as it lies in memory, turned into what the graph takes."""
    found = tensor_type(node, node.meta.get("val"))
    if found is None:
        raise UnsupportedError(f"input {node.name!r}", "is not a tensor")
    dtype, shape = found
    order = memory_order(node.meta["val"]) or tuple(range(len(shape)))
    laid = build.input(node.name, dtype, [shape[axis] for axis in order])
    return transposed(build, laid, inverse(order)), order


def results(graph: torch.fx.Graph) -> list[Node]:
    """What a graph gives, in order; things that are no nodes are left out."""
    (last,) = (node for node in graph.nodes if node.op == "output")
    found: Any = last.args[0]
    each = found if isinstance(found, list | tuple) else [found]
    return [x for x in each if hasattr(x, "meta")]


class Region:
    """An executable that takes tensors, without copies where they lie as expected."""

    def __init__(self, exe: Executable, lowered: Lowered) -> None:
        self.exe = exe
        self._inputs = [_unless_plain(order) for order in lowered.inputs]
        self._outputs = [_unless_plain(inverse(order)) for order in lowered.outputs]
        self.__name__ = exe.name  # torch.fx prints it

    def __call__(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        arrays = []
        for tensor, order in zip(tensors, self._inputs, strict=True):
            laid = tensor if order is None else tensor.permute(order)
            arrays.append(to_array(laid.contiguous()))
        found: Sequence[Any] = self.exe(*arrays)
        given = map(to_tensor, found)
        return tuple(
            x if order is None else x.permute(order)
            for x, order in zip(given, self._outputs, strict=True)
        )


def _unless_plain(order: Order) -> Order | None:
    return None if order == tuple(range(len(order))) else order
