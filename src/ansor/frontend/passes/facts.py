"""What passes ask about values and nodes: constants, channels, sole readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from ansor.frontend.graph import Array, Attribute, Graph, Node, Value
from ansor.frontend.operators import elementwise

ELEMENTWISE = frozenset(x.name for x in elementwise.OPERATORS)
VIEWS = frozenset(("reshape", "identity"))

Ints = tuple[int, ...]


def ints(node: Node, name: str) -> Ints:
    """An attribute that is a tuple of integers."""
    return cast(Ints, node.attributes[name])


def integer(node: Node, name: str) -> int:
    return cast(int, node.attributes[name])


def uniform(array: Array | None) -> np.generic | None:
    """The one number that all elements of an array are; None if they differ."""
    if array is None or array.size == 0:
        return None
    first = array.flat[0]
    if array.size > 1 and array.flat[array.size - 1] != first:
        return None
    bits = f"u{array.dtype.itemsize}"
    same = np.ascontiguousarray(array).view(bits)
    return first if bool((same == same.flat[0]).all()) else None


def is_uniform(array: Array | None, number: float) -> bool:
    """True if all elements are `number`; 0.0 and -0.0 are both zero."""
    found = uniform(array)
    return found is not None and bool(found == number)


def split_operands(
    node: Node, constants: Mapping[str, Array]
) -> tuple[Value, Array] | None:
    """The computed and the constant operand of a node with one of each."""
    if len(node.inputs) != 2:
        return None
    a, b = node.inputs
    if (a.name in constants) == (b.name in constants):
        return None
    return (b, constants[a.name]) if a.name in constants else (a, constants[b.name])


def along(array: Array, rank: int, axis: int) -> Array | None:
    """A constant that broadcasts to `rank` axes as the numbers it has along one of
    them; None if it differs along another."""
    if array.ndim > rank:
        return None
    shape = (1,) * (rank - array.ndim) + array.shape
    if any(n != 1 for d, n in enumerate(shape) if d != axis):
        return None
    return array.reshape(-1)


class Readers:
    """Who reads a value of a graph, counting its outputs."""

    def __init__(self, graph: Graph) -> None:
        self._consumers = graph.consumers
        self._outputs = {value.name for value in graph.outputs}

    def only(self, value: Value) -> Node | None:
        """The one node that reads a value; None if there are others, or an output."""
        nodes = self._consumers.get(value.name, ())
        if len(nodes) != 1 or value.name in self._outputs:
            return None
        return nodes[0]


def with_attributes(node: Node, **changed: Attribute) -> dict[str, Attribute]:
    return {**node.attributes, **changed}
