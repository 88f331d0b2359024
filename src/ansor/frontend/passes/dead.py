"""Leave out what no output needs."""

from __future__ import annotations

from ansor.frontend.graph import Graph


def remove_dead(graph: Graph) -> Graph:
    """Without nodes and constants that no output depends on; inputs all stay."""
    needed = {value.name for value in graph.outputs}
    kept = []
    for node in reversed(graph.nodes):
        if any(value.name in needed for value in node.outputs):
            kept.append(node)
            needed.update(value.name for value in node.inputs)
    constants = {n: array for n, array in graph.constants.items() if n in needed}
    if len(kept) == len(graph.nodes) and len(constants) == len(graph.constants):
        return graph
    return graph.with_nodes(reversed(kept), constants)
