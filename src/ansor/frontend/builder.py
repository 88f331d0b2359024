"""Building a graph node by node: types are inferred, constants folded as they come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isqrt, prod

import numpy as np

from ansor.errors import AnsorError, ModelError, UnsupportedError
from ansor.frontend.graph import Array, Attribute, Graph, Node, Value
from ansor.frontend.operators import operator
from ansor.frontend.operators.operator import Kind, Operator, Type
from ansor.ir.dtypes import DTYPES

FOLDED = 1 << 28  # bytes of one constant that is computed ahead of time
FOLDED_ALL = 1 << 27  # and of all of them, besides twice the bytes that were given
FOLDED_WORK = 1 << 31  # operations of one constant that the reference computes
FOLDED_WORK_ALL = 1 << 32  # and of all of them
LARGEST = 1 << 34  # bytes of one value
MOST_NODES = 200_000


class Builder:
    """A graph that grows.

    `add("multiply", x, y)` returns the product's value. What depends on constants
    alone becomes a constant, unless it is large, so that importers can ask with
    `known` for the numbers that shapes and axes are made of.
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self._names: dict[str, int] = {}
        self._source = ""
        self._given = 0  # bytes of constants that are not computed
        self._folded = 0  # bytes of those that are
        self._work = 0
        self._types: dict[object, list[Type]] = {}

    @contextmanager
    def at(self, source: str) -> Iterator[None]:
        """Nodes added inside come from `source`; errors name it."""
        before, self._source = self._source, source
        try:
            yield
        finally:
            self._source = before

    def input(self, name: str, dtype: str, shape: Sequence[int]) -> Value:
        value = self._value(name, dtype, tuple(shape))
        self.inputs.append(value)
        return value

    def constant(self, array: Array, name: str = "constant") -> Value:
        """A constant. The array is not copied, and must not change; nobody can write
        to it by way of the graph."""
        if str(array.dtype) not in DTYPES:
            raise UnsupportedError(
                self._source or f"constant {name!r}",
                f"dtype {array.dtype}",
                f"dtypes are {', '.join(DTYPES)}",
            )
        self._given += array.nbytes
        return self._constant(array, name)

    def _constant(self, array: Array, name: str) -> Value:
        value = self._value(name, str(array.dtype), array.shape)
        self.constants[value.name] = _read_only(array)
        return value

    def known(self, value: Value) -> Array | None:
        """The elements of a constant; None for what is computed when the graph runs."""
        return self.constants.get(value.name)

    def add(self, op: str, *inputs: Value, **attributes: Attribute) -> Value:
        """Apply an operator with one output."""
        (found,) = self.add_all(op, *inputs, **attributes)
        return found

    def add_all(
        self, op: str, *inputs: Value, **attributes: Attribute
    ) -> tuple[Value, ...]:
        """Apply an operator."""
        found = operator(op)
        types = self._infer(found, inputs, attributes)
        folded = self._fold(found, inputs, attributes, types)
        if folded is not None:
            return folded
        if len(self.nodes) >= MOST_NODES:
            raise ModelError(
                self._source or self.name, f"more than {MOST_NODES:,} nodes"
            )
        outputs = tuple(self._value(op, *one) for one in types)
        self.nodes.append(Node(op, inputs, outputs, attributes, self._source))
        return outputs

    def finish(self, outputs: Sequence[Value], labels: Sequence[str] = ()) -> Graph:
        """The graph; constants and nodes that no output needs are left out later, by
        `passes`. `labels` are what the model calls its outputs."""
        return Graph(
            self.name,
            tuple(self.inputs),
            tuple(outputs),
            tuple(self.nodes),
            dict(self.constants),
            tuple(labels),
        )

    def _infer(
        self,
        found: Operator,
        inputs: Sequence[Value],
        attributes: dict[str, Attribute],
    ) -> list[Type]:
        key = (
            found.name,
            tuple((x.dtype, x.shape) for x in inputs),
            tuple(attributes.items()),
        )
        if key not in self._types:
            with self._blamed(found):
                self._types[key] = found.types(inputs, attributes)
        for dtype, shape in self._types[key]:
            self._check_size(found.name, dtype, shape)
        return self._types[key]

    def _fold(
        self,
        found: Operator,
        inputs: Sequence[Value],
        attributes: dict[str, Attribute],
        types: Sequence[Type],
    ) -> tuple[Value, ...] | None:
        """The outputs as constants, if they can be."""
        if not any(prod(shape) for _, shape in types):
            empty = [np.zeros(shape, DTYPES[dtype].numpy) for dtype, shape in types]
            return tuple(self._constant(array, found.name) for array in empty)
        size = sum(prod(shape) * DTYPES[dtype].bytes for dtype, shape in types)
        arrays = [self._elements(x) for x in inputs]
        if size > FOLDED or self._folded + size > FOLDED_ALL + 2 * self._given:
            return None
        given = [array for array in arrays if array is not None]
        if len(given) < len(arrays):
            return None
        work = self._work_of(found, inputs, attributes, types)
        if work > FOLDED_WORK or self._work + work > FOLDED_WORK_ALL:
            return None
        with self._blamed(found):
            results = found.values(given, attributes)
        self._folded += size
        self._work += work
        return tuple(
            self._constant(_kept(array, given).reshape(shape), found.name)
            for array, (_, shape) in zip(results, types, strict=True)
        )

    def _work_of(
        self,
        found: Operator,
        inputs: Sequence[Value],
        attributes: dict[str, Attribute],
        types: Sequence[Type],
    ) -> int:
        """Operations of folding, roughly: what is read, made, and reduced over."""
        sizes = [x.size for x in inputs] + [prod(shape) for _, shape in types]
        if found.kind is Kind.ANCHOR:  # exact for a product of matrices
            return isqrt(prod(sizes))
        return sum(sizes) + found.work(inputs, attributes)

    def _elements(self, value: Value) -> Array | None:
        """Known of a constant, and of what has none."""
        if not value.size:
            return np.zeros(value.shape, DTYPES[value.dtype].numpy)
        return self.constants.get(value.name)

    @contextmanager
    def _blamed(self, found: Operator) -> Iterator[None]:
        """Errors of an operator's definition name the node."""
        try:
            yield
        except ModelError:
            raise
        except AnsorError as error:
            what, reason, hint = error.args
            where = self._source or f"operator {found.name!r}"
            raise ModelError(where, f"{what}: {reason}", hint) from error

    def _check_size(self, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        size = prod(shape) * DTYPES[dtype].bytes
        if size > LARGEST:
            raise ModelError(
                self._source or f"operator {name!r}",
                f"its result {dtype}{list(shape)} has {size:,} bytes, the limit is "
                f"{LARGEST:,}",
            )

    def _value(self, name: str, dtype: str, shape: tuple[int, ...]) -> Value:
        unique = name
        while unique in self._names:
            self._names[name] += 1
            unique = f"{name}_{self._names[name]}"
        self._names[unique] = 0
        return Value(unique, dtype, tuple(map(int, shape)))


def _kept(result: Array, given: Sequence[Array]) -> Array:
    """A view of what was given as it is, which costs nothing; anything else dense."""
    if any(np.may_share_memory(result, array) for array in given):
        return np.asarray(result)
    return np.ascontiguousarray(result)


def _read_only(array: Array) -> Array:
    if not array.flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view
