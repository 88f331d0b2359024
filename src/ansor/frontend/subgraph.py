"""What partition makes of a graph: kernels and renames, in the order they run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ansor.frontend.graph import Array, Graph, Node, Value
from ansor.te.task import Task


@dataclass(frozen=True)
class Made:
    """A constant that is computed from one of the graph's, when it is asked for."""

    value: Value
    source: Value
    make: Callable[[Array], Array] = field(repr=False)

    def array(self, constants: Mapping[str, Array]) -> Array:
        return self.make(constants[self.source.name])


@dataclass(frozen=True)
class Subgraph:
    """Nodes that run as one kernel.

    `inputs` are the values from outside in the order of the kernel's arguments, with
    the constants that the task does not have as numbers; the outputs follow. Shapes of
    the arguments are those of the values.

    `alternatives` give the same outputs, up to rounding, in another way: each is a
    subgraph without alternatives. Which is faster has to be measured.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    task: Task
    made: tuple[Made, ...] = ()  # inputs that the graph has only the source of
    alternatives: tuple[Subgraph, ...] = ()

    @property
    def ways(self) -> tuple[Subgraph, ...]:
        """All of them, the plain one first."""
        return (replace(self, alternatives=()), *self.alternatives)

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
class Candidate:
    """A task that may run at a place: a number in `Plan.tasks()`."""

    task: Task
    place: int
    weight: int  # of the place
    operators: str


@dataclass(frozen=True)
class Plan:
    """A graph as steps, producers first. Equal subgraphs share one task object."""

    graph: Graph
    steps: tuple[Subgraph | Alias, ...]

    @property
    def subgraphs(self) -> list[Subgraph]:
        return [step for step in self.steps if isinstance(step, Subgraph)]

    def tasks(self) -> list[tuple[Task, int]]:
        """The distinct tasks and how often each runs, the most work first. They are
        all the work there is: alternatives are not among them."""
        found = {id(step.task): step.task for step in self.subgraphs}
        often = Counter(id(step.task) for step in self.subgraphs)
        pairs = [(task, often[key]) for key, task in found.items()]
        return sorted(pairs, key=lambda pair: -pair[0].flops * pair[1])

    def candidates(self) -> list[Candidate]:
        """The tasks in their order, then the alternatives to them."""
        steps = {id(step.task): step for step in self.subgraphs}
        rows = [
            (at, weight, steps[id(task)].ways)
            for at, (task, weight) in enumerate(self.tasks())
        ]
        first = [(at, weight, ways[0]) for at, weight, ways in rows]
        rest = [(at, weight, way) for at, weight, ways in rows for way in ways[1:]]
        return [
            Candidate(way.task, at, weight, " ".join(node.op for node in way.nodes))
            for at, weight, way in (*first, *rest)
        ]

    def using(self, ways: Sequence[Subgraph]) -> Plan:
        """With one of the ways of each subgraph, in order, in its place."""
        rest = iter(ways)
        steps = tuple(x if isinstance(x, Alias) else next(rest) for x in self.steps)
        return replace(self, steps=steps)

    @property
    def made(self) -> dict[str, Made]:
        """What steps read that is made of constants, by name."""
        return {x.value.name: x for step in self.subgraphs for x in step.made}

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))
