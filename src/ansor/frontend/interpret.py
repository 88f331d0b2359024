"""Run a graph node by node in NumPy: slow, and the reference for everything else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ansor.errors import ArgumentError
from ansor.frontend.graph import Array, Graph, Node, Value
from ansor.frontend.operators import operator
from ansor.frontend.pages import check_unchanged
from ansor.frontend.subgraph import Alias, Plan
from ansor.ir.dtypes import DTYPES
from ansor.te.reference import reference


def interpret(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a graph for these inputs, which stand in its order.

    Values are dropped after their last use.

    >>> from ansor.frontend.builder import Builder
    >>> build = Builder()
    >>> x = build.input("x", "float32", (2,))
    >>> interpret(build.finish([build.add("negative", x)]), [np.ones(2, np.float32)])
    [array([-1., -1.], dtype=float32)]
    """
    known = _given(graph, inputs)
    last = _last_uses(graph)
    for number, node in enumerate(graph.nodes):
        for value, array in apply(node, [known[x.name] for x in node.inputs]):
            known[value.name] = array
        for value in (*node.inputs, *node.outputs):
            if last.get(value.name) == number:
                known.pop(value.name, None)
    return [known[value.name] for value in graph.outputs]


def interpret_plan(plan: Plan, inputs: Sequence[Array]) -> list[Array]:
    """The outputs of a plan for these inputs: each task by its reference."""
    known = _given(plan.graph, inputs)
    known |= {name: x.array(plan.graph.constants) for name, x in plan.made.items()}
    for step in plan.steps:
        if isinstance(step, Alias):
            known[step.output.name] = known[step.input.name].reshape(step.output.shape)
            continue
        arrays = [known[value.name] for value in step.inputs]
        results = reference(step.task.dag, arrays)
        known.update(zip((x.name for x in step.outputs), results, strict=True))
    return [known[value.name] for value in plan.graph.outputs]


def apply(node: Node, arrays: Sequence[Array]) -> Iterator[tuple[Value, Array]]:
    """The outputs of one node."""
    results = operator(node.op).values(arrays, node.attributes)
    for value, array in zip(node.outputs, results, strict=True):
        whole = np.asarray(array, DTYPES[value.dtype].numpy).reshape(value.shape)
        yield value, whole


def _given(graph: Graph, inputs: Sequence[Array]) -> dict[str, Array]:
    if len(inputs) != len(graph.inputs):
        raise ArgumentError(
            f"{len(inputs)} arrays", f"graph {graph.name!r} has {len(graph.inputs)}"
        )
    check_unchanged(graph.constants)
    known = dict(graph.constants)
    for value, array in zip(graph.inputs, inputs, strict=True):
        if array.shape != value.shape or str(array.dtype) != value.dtype:
            shape = list(array.shape)
            raise ArgumentError(f"{array.dtype}{shape}", f"the graph takes {value}")
        known[value.name] = array
    return known


def _last_uses(graph: Graph) -> dict[str, int]:
    """The number of the last node that reads (or makes) a value; outputs stay."""
    last = {
        value.name: number
        for number, node in enumerate(graph.nodes)
        for value in (*node.outputs, *node.inputs)
    }
    for value in graph.outputs:
        last.pop(value.name, None)
    return last
