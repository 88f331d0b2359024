"""Which nodes of a graph its outputs need: the others cannot fail a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ansor.frontend.onnx.attributes import subgraphs
from ansor.frontend.onnx.messages import GraphData, NodeData
from ansor.frontend.onnx.scope import Scope


@dataclass(frozen=True)
class Need:
    """A node that is needed."""

    node: NodeData
    wanted: tuple[str, ...]  # its outputs; "" for those that nobody reads


def needs(
    nodes: Sequence[NodeData], outputs: Iterable[str], scope: Scope
) -> list[Need]:
    """The nodes that some output depends on, in their order."""
    read = set(outputs)
    found = []
    for node in reversed(nodes):
        wanted = tuple(x if x in read else "" for x in node.outputs)
        if not any(wanted):
            continue
        found.append(Need(node, wanted))
        read.update(node.inputs)
        for sub in subgraphs(node, scope):
            read |= captured(sub.graph, sub.scope.inside())
    return found[::-1]


def captured(graph: GraphData, scope: Scope) -> set[str]:
    """The names that a subgraph reads from around it."""
    own = {x.name for x in graph.inputs} | {x.name for x in graph.initializers}
    found = {x.name for x in graph.outputs}
    for node in graph.nodes:
        found.update(node.inputs)
        own.update(node.outputs)
        for sub in subgraphs(node, scope):
            found |= captured(sub.graph, sub.scope.inside())
    return found - own
