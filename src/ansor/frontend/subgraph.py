"""What partition makes of a graph: kernels and renames, in the order they run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ansor.frontend.graph import Graph, Node, Value
from ansor.te.task import Task


@dataclass(frozen=True)
class Subgraph:
    """Nodes that run as one kernel.

    `inputs` are the values from outside in the order of the kernel's arguments, with
    the constants that the task does not have as numbers; the outputs follow. Shapes of
    the arguments are those of the values.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    task: Task

    def __str__(self) -> str:
        ops = " ".join(node.op for node in self.nodes)
        gives = ", ".join(map(str, self.outputs))
        return f"{gives} = {ops} ({', '.join(f'%{x.name}' for x in self.inputs)})"


@dataclass(frozen=True)
class Alias:
    """`output` is `input` under another name, perhaps of another shape: the same
    elements in the same order. The input may be an input of the graph or a constant."""

    output: Value
    input: Value

    def __str__(self) -> str:
        return f"{self.output} = %{self.input.name}"


@dataclass(frozen=True)
class Plan:
    """A graph as steps, producers first. Equal subgraphs share one task object."""

    graph: Graph
    steps: tuple[Subgraph | Alias, ...]

    @property
    def subgraphs(self) -> list[Subgraph]:
        return [step for step in self.steps if isinstance(step, Subgraph)]

    def tasks(self) -> list[tuple[Task, int]]:
        """The distinct tasks and how often each runs, the most work first."""
        found = {id(step.task): step.task for step in self.subgraphs}
        often = Counter(id(step.task) for step in self.subgraphs)
        pairs = [(task, often[key]) for key, task in found.items()]
        return sorted(pairs, key=lambda pair: -pair[0].flops * pair[1])

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))
