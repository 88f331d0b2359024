"""From a graph of torch.fx, whose nodes are calls of ATen, to ours."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ansor.errors import UnsupportedError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.operators.operator import Type
from ansor.frontend.torch.call import Argument, Call, Results
from ansor.frontend.torch.convert import CONVERTERS
from ansor.frontend.torch.values import dtype_name

if TYPE_CHECKING:
    from torch.fx import Node

# Nodes of exported programs that only check, and give nothing.
CHECKS = ("aten._assert_tensor_metadata.default", "aten._assert_scalar.default",
          "aten._assert_async.msg", "aten.sym_constrain_range_for_size.default",
          "aten._guards_fn")  # fmt: skip


class Walk:
    """Nodes of a torch.fx graph, converted one by one into a `Builder`.

    `known` holds what every node has become; whoever walks puts the placeholders in.
    """

    def __init__(self, build: Builder) -> None:
        self.build = build
        self.known: dict[Node, Results] = {}

    def convert(self, node: Node) -> None:
        """Add what one call does; raises UnsupportedError, naming the node."""
        if node.target is operator.getitem:
            self.known[node] = self._item(node)
        elif str(node.target) in CHECKS:
            self.known[node] = ()
        else:
            self.known[node] = self._call(node)

    def value(self, node: Node) -> Value:
        """The array that a node has become."""
        found = self.known.get(node)
        if not isinstance(found, Value):
            raise UnsupportedError(f"node {node.name!r}", "is not a tensor")
        return found

    def _item(self, node: Node) -> Value:
        source: Any = node.args[0]
        index: Any = node.args[1]
        found = self.known.get(source)
        item: Value | None = found[index] if isinstance(found, tuple) else None
        if item is None:
            raise UnsupportedError(f"node {node.name!r}", f"result {index} is not made")
        return item

    def _call(self, node: Node) -> Results:
        call = self._read(node)
        converter = CONVERTERS.get(call.op)
        if converter is None:
            raise call.unsupported("this operator is not supported")
        with self.build.at(str(call)):
            found = converter(call, self.build)
        _check(call, node, found)
        return found

    def _read(self, node: Node) -> Call:
        """The call with its arguments by name, as plain data."""
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            raise UnsupportedError(
                f"node {node.name!r} ({node.target})", "is not a call of ATen"
            )
        arguments: dict[str, Argument] = {}
        for number, argument in enumerate(schema.arguments):
            given: Any = argument.default_value
            if argument.name in node.kwargs:
                given = node.kwargs[argument.name]
            elif number < len(node.args):
                given = node.args[number]
            arguments[argument.name] = self._plain(node, given)
        return Call(str(node.target), node.name, arguments, result_types(node))

    def _plain(self, node: Node, given: Any) -> Argument:
        if _is_node(given):
            return self.value(given)
        if isinstance(given, list | tuple):
            return tuple(self._plain(node, x) for x in given)
        if given is None or isinstance(given, bool | int | float | str):
            return given
        name = str(given)
        if name.startswith("torch."):
            return name.removeprefix("torch.")
        if type(given).__name__ == "device":
            return name
        raise UnsupportedError(
            f"node {node.name!r} ({node.target})",
            f"an argument is of type {type(given).__name__}",
        )


def _is_node(given: object) -> bool:
    return type(given).__name__ == "Node" and hasattr(given, "op")


def result_types(node: Node) -> tuple[Type | None, ...]:
    """Types of what a node gives, as torch has inferred them."""
    found = node.meta.get("val")
    each = found if isinstance(found, list | tuple) else (found,)
    return tuple(tensor_type(node, x) for x in each)


def tensor_type(node: Node, tensor: Any) -> Type | None:
    """The type of a tensor, which must be on the CPU, dense, and of known shape."""
    if not hasattr(tensor, "dtype") or not hasattr(tensor, "stride"):
        return None
    where = f"node {node.name!r} ({node.target})"
    if tensor.device.type != "cpu":
        raise UnsupportedError(where, f"is on device {tensor.device}")
    if str(tensor.layout) != "torch.strided":
        raise UnsupportedError(where, f"is of layout {tensor.layout}")
    if not all(type(n) is int for n in tensor.shape):
        raise UnsupportedError(where, f"has the dynamic shape {list(tensor.shape)}")
    return dtype_name(tensor.dtype), tuple(tensor.shape)


def _check(call: Call, node: Node, found: Results) -> None:
    """Results are there where somebody reads them, and of the types torch has."""
    items = found if isinstance(found, tuple) else (found,)
    if len(items) != len(call.results):
        raise call.unsupported(f"has {len(call.results)} results")
    wanted = _wanted(node, len(items)) if isinstance(found, tuple) else [0]
    for number in wanted:
        item, expected = items[number], call.results[number]
        if item is None or expected is None:
            raise call.unsupported(f"result {number} is not supported")
        if (item.dtype, item.shape) != expected:
            dtype, shape = expected
            raise call.unsupported(
                f"result {number} would be {item.dtype}{list(item.shape)}, "
                f"but is {dtype}{list(shape)}"
            )


def is_dead(node: Node) -> bool:
    """Whether leaving a call out changes nothing."""
    return not node.users and not node.is_impure()


def _wanted(node: Node, count: int) -> Iterable[int]:
    """Which of several results are read."""
    found: set[int] = set()
    for user in (x for x in node.users if not is_dead(x)):
        index = user.args[1] if user.target is operator.getitem else None
        found |= {index} if isinstance(index, int) else set(range(count))
    return found


def convert_all(
    build: Builder, nodes: Sequence[Node], given: Mapping[Node, Value]
) -> Walk:
    """All calls, in their order; `given` is what placeholders have become."""
    walk = Walk(build)
    walk.known.update(given)
    for node in nodes:
        if node.op == "call_function" and not is_dead(node):
            walk.convert(node)
    return walk
