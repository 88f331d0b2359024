"""Which calls of a torch.fx graph become ours, and which stay in torch."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ansor.errors import AnsorError
from ansor.frontend.builder import Builder
from ansor.frontend.torch.region import results
from ansor.frontend.torch.values import memory_order
from ansor.frontend.torch.walk import Walk, tensor_type

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule, Node

KEPT = "ansor_kept"  # in the meta data of nodes that must stay in torch

Reasons = dict["Node", str]


# -- before --------------------------------------------------------------------------


def keep_views(graph: torch.fx.Graph) -> None:
    """Results that are views of inputs, or of what other results are views of, too,
    are made in torch, by nodes of their own.

    Whoever called takes them as views of the same memory, by their strides.
    """
    (last,) = (node for node in graph.nodes if node.op == "output")
    chains = {node: _views(node) for node in results(graph)}
    sources = {node: chain[-1].args[0] if chain else node
               for node, chain in chains.items()}  # fmt: skip
    counts = Counter(sources.values())
    for node, chain in chains.items():
        source: Any = sources[node]
        if not chain or (source.op != "placeholder" and counts[source] == 1):
            continue
        with graph.inserting_before(last):
            for view in reversed(chain):
                source = graph.create_node(
                    "call_function",
                    view.target,
                    (source, *view.args[1:]),
                    dict(view.kwargs),
                )
                source.meta = {**view.meta, KEPT: True}
        last.replace_input_with(node, source)
    graph.eliminate_dead_code()


def _views(node: Node) -> list[Node]:
    """Views from here back to what is none."""
    found = []
    while node.op == "call_function" and _is_view(node):
        found.append(node)
        source: Any = node.args[0]
        node = source
    return found


def _is_view(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    if schema is None or len(schema.returns) != 1:
        return False
    alias = schema.returns[0].alias_info
    return alias is not None and not alias.is_write


def restore_products(graph: torch.fx.Graph) -> None:
    """Products of matrices that were flattened, as products of what was given.

    view(mm(view(x, [m, k]), w), [*x.shape[:-1], n])  ==>  matmul(x, w)
    """
    import torch

    aten = torch.ops.aten
    for node in list(graph.nodes):
        if node.target is aten.addmm.default and not _is_plain_sum(node):
            continue
        is_product = node.target in (aten.mm.default, aten.addmm.default)
        source = _unflattened(node) if is_product else None
        if source is None:
            continue
        users = list(node.users)
        with graph.inserting_before(node):
            made = graph.call_function(aten.matmul.default, (source, node.args[-1]))
            made.meta = dict(users[0].meta)
            if node.target is aten.addmm.default:
                product, meta = made, made.meta
                made = graph.call_function(aten.add.Tensor, (product, node.args[0]))
                made.meta = dict(meta)
        for user in users:
            user.replace_all_uses_with(made)
    graph.eliminate_dead_code()


FLAT = ("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default")


def _unflattened(node: Node) -> Node | None:
    """What the left matrix was before, if the result becomes that again."""
    left: Any = node.args[-2]
    if str(left.target) not in FLAT or not node.users:
        return None
    source: Node = left.args[0]
    before, flat = source.meta["val"].shape, left.meta["val"].shape
    after = (*before[:-1], node.meta["val"].shape[-1])
    is_restored = all(
        str(user.target) in FLAT and tuple(user.meta["val"].shape) == after
        for user in node.users
    )
    return source if is_restored and before[-1:] == flat[-1:] else None


def _is_plain_sum(node: Node) -> bool:
    more: Any = node.args[0]
    return not node.kwargs and len(more.meta["val"].shape) == 1


# -- what is ours --------------------------------------------------------------------


def refused(graph: torch.fx.Graph) -> Reasons:
    """Calls that cannot be converted, each with the reason.

    Found by converting: what follows a refused call takes its results as inputs.
    """
    walk, reasons = Walk(Builder()), {}
    for node in graph.nodes:
        if node.op == "output":
            break
        try:
            if node.op == "call_function" and not node.meta.get(KEPT):
                walk.convert(node)
                continue
            reason = "" if node.op == "placeholder" else "stays in torch"
        except AnsorError as error:
            reason = str(error)
        if reason:
            reasons[node] = reason
        _stand_in(walk, node)
    _keep_apart(graph, reasons)
    return reasons


def _stand_in(walk: Walk, node: Node) -> None:
    """An input in the place of a result, if it is one tensor."""
    try:
        found = tensor_type(node, node.meta.get("val"))
    except AnsorError:
        return  # whatever reads it is refused as well
    if found is not None:
        walk.known[node] = walk.build.input(node.name, *found)


def _keep_apart(graph: torch.fx.Graph, reasons: Reasons) -> None:
    """Refuse, too, what torch would read in a layout that is not dense, and one of
    several results without the others."""
    for node in reversed(list(graph.nodes)):
        if node.op != "call_function" or node in reasons:
            continue
        outside = any(x.op == "output" or x in reasons for x in node.users)
        value = node.meta.get("val")
        if isinstance(value, list | tuple):
            if outside:
                reasons[node] = "a result of it stays in torch"
        elif outside and hasattr(value, "stride") and memory_order(value) is None:
            reasons[node] = "its result is not dense"
    for node in graph.nodes:  # results follow their call
        source: Any = node.args[0] if node.target is operator.getitem else None
        if source is not None and source in reasons and node not in reasons:
            reasons[node] = "its call stays in torch"


# -- partition -----------------------------------------------------------------------


def fused(module: GraphModule, reasons: Mapping[Node, str]) -> GraphModule:
    """The calls that are ours, gathered in submodules, as few as dependences allow."""
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    class Ours(OperatorSupportBase):
        def is_node_supported(self, submodules: Mapping[str, Any], node: Node) -> bool:
            return node.op == "call_function" and node not in reasons

    partitioner = CapabilityBasedPartitioner(
        module, Ours(), allows_single_node_partition=True
    )
    return partitioner.partition_and_fuse()


Make = Callable[[str, "GraphModule", dict["Node", "Node"]], tuple[Any, list["Node"]]]


def substitute(module: GraphModule, make: Make) -> None:
    """Put a callable, which gives a tuple, in the place of every submodule.

    `make(name, submodule, outer)` gets the outer node of every inner placeholder, and
    returns the callable and those outer nodes that it takes.
    """
    graph = module.graph
    for node in list(graph.nodes):
        if node.op != "call_module":
            continue
        inner: Any = module.get_submodule(str(node.target))
        places = [x for x in inner.graph.nodes if x.op == "placeholder"]
        outer: Any = dict(zip(places, node.args, strict=True))
        target, taken = make(node.name, inner, outer)
        with graph.inserting_before(node):
            made = graph.call_function(target, tuple(taken))
            if not isinstance(inner.graph.output_node().args[0], list | tuple):
                made = graph.call_function(operator.getitem, (made, 0))
        node.replace_all_uses_with(made)
        graph.erase_node(node)
    graph.lint()
    module.recompile()
