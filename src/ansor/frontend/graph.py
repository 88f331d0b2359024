"""The graph of a model: typed values, nodes in order, constants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

import numpy as np
import numpy.typing as npt

from ansor.errors import ModelError
from ansor.ir.dtypes import DTYPES

Array = npt.NDArray[np.generic]
# What an attribute of a node may be: plain data that can be compared and hashed.
Attribute = int | float | bool | str | None | tuple["Attribute", ...]


@dataclass(frozen=True, slots=True)
class Value:
    """An array of a known type that flows through a graph. Its name is unique there."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.size * DTYPES[self.dtype].bytes

    def __str__(self) -> str:
        return f"%{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Node:
    """One application of an operator of `ansor.frontend.operators`.

    `source` says what it was in the model, for messages: "node 'c1' (Conv)".
    """

    op: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    source: str = ""

    @property
    def output(self) -> Value:
        """Of a node that has one."""
        (found,) = self.outputs
        return found

    def __str__(self) -> str:
        gives = ", ".join(map(str, self.outputs))
        takes = [f"%{value.name}" for value in self.inputs]
        takes += [f"{key}={value!r}" for key, value in self.attributes.items()]
        return f"{gives} = {self.op}({', '.join(takes)})"


@dataclass(frozen=True)
class Graph:
    """Nodes in an order where producers come first.

    Every value is an input, a constant or an output of one node. An output of the
    graph may be any value, also an input, and more than once.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[str, Array] = field(default_factory=dict)
    labels: tuple[str, ...] = ()  # what the model calls its outputs, if it does

    @property
    def results(self) -> tuple[Value, ...]:
        """The outputs by the names that the model has for them."""
        labels = self.labels or (value.name for value in self.outputs)
        pairs = zip(self.outputs, labels, strict=True)
        return tuple(replace(value, name=label) for value, label in pairs)

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """The node that makes a value, by the value's name."""
        return {value.name: node for node in self.nodes for value in node.outputs}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read a value, by its name; without those that nobody reads."""
        found: dict[str, dict[int, Node]] = {}
        for node in self.nodes:
            for value in node.inputs:
                found.setdefault(value.name, {})[id(node)] = node
        return {name: tuple(nodes.values()) for name, nodes in found.items()}

    def is_constant(self, value: Value) -> bool:
        return value.name in self.constants

    def with_nodes(
        self,
        nodes: Iterable[Node],
        constants: Mapping[str, Array] | None = None,
        outputs: Iterable[Value] | None = None,
    ) -> Graph:
        """The same inputs, with other nodes (and constants, and outputs)."""
        return replace(
            self,
            nodes=tuple(nodes),
            constants=self.constants if constants is None else constants,
            outputs=self.outputs if outputs is None else tuple(outputs),
        )

    def check(self) -> None:
        """Raise ModelError where a value is read before it is made, made twice, or of
        another type than its constant."""
        made: dict[str, Value] = {}
        for value in self.inputs:
            _make(made, value, "the graph's inputs")
        for name, array in self.constants.items():
            _make(made, Value(name, str(array.dtype), array.shape), "constants")
        for node in self.nodes:
            for value in node.inputs:
                _read(made, value, node.source or str(node))
            for value in node.outputs:
                _make(made, value, node.source or str(node))
        for value in self.outputs:
            _read(made, value, "the graph's outputs")

    def __str__(self) -> str:
        lines = [f"graph {self.name}({', '.join(map(str, self.inputs))})"]
        for name, array in self.constants.items():
            shape = ", ".join(map(str, array.shape))
            lines.append(f"  %{name}: {array.dtype}[{shape}] constant")
        lines += [f"  {node}" for node in self.nodes]
        return "\n".join(
            [*lines, f"  return {', '.join(f'%{v.name}' for v in self.outputs)}"]
        )


def _make(made: dict[str, Value], value: Value, where: str) -> None:
    if value.name in made:
        raise ModelError(where, f"value {value.name!r} is made twice")
    made[value.name] = value


def _read(made: Mapping[str, Value], value: Value, where: str) -> None:
    known = made.get(value.name)
    if known is None:
        raise ModelError(where, f"value {value.name!r} is read before it is made")
    if known != value:
        raise ModelError(where, f"value {value.name!r} is {known}, but read as {value}")
