"""What is done to a graph before it is cut into tasks: pure functions from a graph to
one that computes the same."""

from __future__ import annotations

from collections.abc import Callable

from ansor.frontend.graph import Graph
from ansor.frontend.pages import check_unchanged
from ansor.frontend.passes.algebra import simplify
from ansor.frontend.passes.common import merge_common
from ansor.frontend.passes.dead import remove_dead
from ansor.frontend.passes.deconv import split_transposed
from ansor.frontend.passes.fold import fold_scales
from ansor.frontend.passes.joins import nest_joins
from ansor.frontend.passes.layout import channels_last_layout
from ansor.frontend.passes.padding import merge_padding
from ansor.frontend.passes.siblings import merge_siblings
from ansor.frontend.passes.views import (
    flatten_products,
    sink_views,
    split_batches,
)

Pass = Callable[[Graph], Graph]

# Repeated until nothing changes, in this order.
LOCAL: tuple[Pass, ...] = (
    remove_dead,
    simplify,
    merge_common,
    nest_joins,
    split_batches,
    merge_padding,
    fold_scales,
)
SHAPES: tuple[Pass, ...] = (split_transposed, flatten_products, sink_views)

ROUNDS = 16  # far more than any graph has needed


def optimise(graph: Graph) -> Graph:
    """The graph as it is partitioned: local laws to a fixed point, then channels last,
    then local laws again, with reshapes out of
    the way; last, products that share an operand."""
    check_unchanged(graph.constants)
    graph = settle(graph)
    graph = settle(channels_last_layout(graph), (*LOCAL, *SHAPES))
    return settle(merge_siblings(graph))


def settle(graph: Graph, passes: tuple[Pass, ...] = LOCAL) -> Graph:
    """Apply passes in turn until none changes anything."""
    for _ in range(ROUNDS):
        before = graph
        for one in passes:
            graph = one(graph)
        if graph is before:
            break
    return remove_dead(graph)
