"""From groups of nodes to steps that share tasks."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ansor.frontend.graph import Graph, Node, Value
from ansor.frontend.operators import operator
from ansor.frontend.operators.operator import Kind
from ansor.frontend.partition.compose import composed
from ansor.frontend.partition.groups import Group, Grouping
from ansor.frontend.partition.methods import USUAL, Method, methods
from ansor.frontend.passes.facts import uniform
from ansor.frontend.subgraph import Alias, Made, Plan, Subgraph
from ansor.target import Target
from ansor.te.dag import DAG
from ansor.te.functions import cast
from ansor.te.task import Task
from ansor.te.tensor import Tensor, compute, placeholder


def partition(
    graph: Graph, target: str | Target = "cpu", alternatives: Iterable[str] = USUAL
) -> Plan:
    """The steps that compute a graph, as `optimise` has left it, on a target.

    Every step has one result (but for nodes that have several), in an order in which
    they can run. Outputs that are inputs or constants have no step. Products that can
    be computed in other ways, by these names, with less arithmetic have alternatives.
    """
    where = target if isinstance(target, Target) else Target(target)
    grouping = Grouping(graph)
    maker = _Maker(grouping, where, methods(alternatives))
    steps: list[tuple[int, Subgraph | Alias]] = []
    for n in grouping.views():
        node = graph.nodes[n]
        steps.append((n, Alias(node.output, node.inputs[0])))
    for group in grouping.groups():
        steps.append((group.tip, maker.subgraph(group)))
    return Plan(graph, tuple(step for _, step in sorted(steps, key=lambda x: x[0])))


@dataclass(frozen=True)
class _Built:
    task: Task
    order: tuple[int, ...]  # of the values read from outside, as the task takes them


class _Maker:
    """Makes tasks, each distinct one once."""

    def __init__(
        self, grouping: Grouping, target: Target, others: Sequence[Method] = ()
    ) -> None:
        self.grouping = grouping
        self.graph = grouping.graph
        self.target = target
        self._methods = others
        self._operators = {x.operator.name: x.operator for x in others}
        self._made: dict[str, Made] = {}  # by name
        self._built: dict[Hashable, _Built] = {}
        self._tasks: dict[str, Task] = {}

    def subgraph(self, group: Group) -> Subgraph:
        numbers = self._with_places(group.nodes)
        nodes = tuple(self.graph.nodes[n] for n in sorted(numbers))
        apart, twins = self._apart(nodes, group.core)
        outputs = self._outputs(group)
        task, inputs = self._task(apart, outputs)
        read = tuple(twins.get(value.name, value) for value in inputs)
        plain = Subgraph(nodes, read, outputs, task)
        if group.core is None or twins:
            return plain
        found = [self._alternative(plain, group.core, x) for x in self._methods]
        return replace(plain, alternatives=tuple(x for x in found if x is not None))

    def _task(
        self, nodes: tuple[Node, ...], outputs: tuple[Value, ...]
    ) -> tuple[Task, tuple[Value, ...]]:
        """The task of nodes, and what it reads."""
        given = _given(nodes)
        key = self._signature(nodes, given, outputs)
        if key not in self._built:
            self._built[key] = self._build(nodes, given, outputs)
        built = self._built[key]
        return built.task, tuple(given[n] for n in built.order)

    def _alternative(
        self, plain: Subgraph, core: int, method: Method
    ) -> Subgraph | None:
        """The subgraph with its product computed by a method; None where that cannot be
        done, or only with more arithmetic."""
        product = self.graph.nodes[core]
        weight = product.inputs[-1]
        if not self.graph.is_constant(weight) or not method.applies(product):
            return None
        if self._number(weight) is not None:
            return None
        made = self._weight(weight, method)
        other = method.instead(product, made.value)
        nodes = tuple(other if node is product else node for node in plain.nodes)
        task, inputs = self._task(nodes, plain.outputs)
        if task.flops >= plain.task.flops:
            return None
        return Subgraph(nodes, inputs, plain.outputs, task, (made,))

    def _weight(self, given: Value, method: Method) -> Made:
        name = f"{given.name}.{method.operator.name}"
        while name in self.grouping.number or name in self.graph.constants:
            name += "_"
        return self._made.setdefault(name, method.weight(given, name))

    def _apart(
        self, nodes: tuple[Node, ...], core: int | None
    ) -> tuple[tuple[Node, ...], dict[str, Value]]:
        """Nodes in which no two operands of a product are the same array: schedules
        treat arguments as a whole. Also what the new names stand for."""
        if core is None or self.grouping.kinds[core] != Kind.ANCHOR:
            return nodes, {}
        twins = Twins({value.name: node for node in nodes for value in node.outputs})
        product = self.graph.nodes[core]
        inputs = tuple(twins.operand(value) for value in product.inputs)
        moved = replace(product, inputs=inputs)
        found = [moved if node is product else node for node in nodes]
        at = found.index(moved)
        return (*found[:at], *twins.nodes, *found[at:]), twins.known

    def _with_places(self, numbers: Iterable[int]) -> set[int]:
        """The nodes, and those before them that are read in place."""
        found: set[int] = set()
        stack = list(numbers)
        while stack:
            n = stack.pop()
            if n in found:
                continue
            found.add(n)
            for value in self.graph.nodes[n].inputs:
                maker = self.grouping.number.get(value.name, -1)
                if maker in self.grouping.inside:
                    stack.append(maker)
        return found

    def _outputs(self, group: Group) -> tuple[Value, ...]:
        """What others read of the last node; one at least."""
        node = self.graph.nodes[group.tip]
        read = {value.name for value in self.graph.outputs} | set(self.graph.consumers)
        return tuple(v for v in node.outputs if v.name in read) or node.outputs[:1]

    def _signature(
        self, nodes: tuple[Node, ...], given: list[Value], outputs: tuple[Value, ...]
    ) -> Hashable:
        """Equal for groups that are computed alike."""
        names = {value.name: n for n, value in enumerate(given)}
        types: list[Hashable] = [
            (v.dtype, v.shape, self._is_constant(v), repr(self._number(v)))
            for v in given
        ]
        rows: list[Hashable] = []
        for node in nodes:
            reads = tuple(names[value.name] for value in node.inputs)
            for value in node.outputs:
                names[value.name] = len(names)
            rows.append((node.op, reads, repr(sorted(node.attributes.items()))))
        ends = tuple(names[value.name] for value in outputs)
        return tuple(types), tuple(rows), ends

    def _is_constant(self, value: Value) -> bool:
        return self.graph.is_constant(value) or value.name in self._made

    def _number(self, value: Value) -> np.generic | None:
        return uniform(self.graph.constants.get(value.name))

    def _build(
        self, nodes: tuple[Node, ...], given: list[Value], outputs: tuple[Value, ...]
    ) -> _Built:
        tensors = {v.name: self._source(n, v) for n, v in enumerate(given)}
        for node in nodes:
            found = self._operators.get(node.op) or operator(node.op)
            inputs = [tensors[value.name] for value in node.inputs]
            made = found.tensors(inputs, node.attributes)
            tensors.update(zip((v.name for v in node.outputs), made, strict=True))
        ends = [tensors[value.name] for value in outputs]
        dag = composed(DAG.build([_computed(x) for x in ends]))
        order = tuple(int(buffer.name[1:]) for buffer in dag.inputs)
        task = Task.from_dag(dag, self.target)
        return _Built(self._tasks.setdefault(task.key, task), order)

    def _source(self, n: int, value: Value) -> Tensor:
        number = self._number(value)
        if number is not None:
            return _filled(value, number)
        constant = self._is_constant(value)
        name = f"{'w' if constant else 'x'}{n}"
        return placeholder(value.shape, value.dtype, name, constant)


@dataclass
class Twins:
    """Second names for what a product reads twice, and copies of the views between."""

    made: dict[str, Node]  # nodes of the group, by what they make
    read: set[str] = field(default_factory=set)  # arrays from outside, so far
    known: dict[str, Value] = field(default_factory=dict)  # by the second name
    nodes: list[Node] = field(default_factory=list)

    def operand(self, value: Value) -> Value:
        """The value, or a twin of it where its source has been read before."""
        source = self._source(value)
        if source.name not in self.read:
            self.read.add(source.name)
            return value
        return self._twin(value)

    def _source(self, value: Value) -> Value:
        while value.name in self.made:
            value = self.made[value.name].inputs[0]
        return value

    def _twin(self, value: Value) -> Value:
        node = self.made.get(value.name)
        twin = replace(value, name=f"{value.name}.{len(self.known)}")
        if node is None:
            self.known[twin.name] = value
        else:
            inputs = (self._twin(node.inputs[0]),)
            self.nodes.append(replace(node, inputs=inputs, outputs=(twin,)))
        return twin


def _given(nodes: Sequence[Node]) -> list[Value]:
    """What nodes read from outside, in the order they do."""
    inside = {value.name for node in nodes for value in node.outputs}
    found = {
        value.name: value
        for node in nodes
        for value in node.inputs
        if value.name not in inside
    }
    return list(found.values())


def _filled(value: Value, number: np.generic) -> Tensor:
    plain = cast(number.item(), value.dtype)
    return compute(value.shape, lambda *_: plain, name="number")


def _computed(x: Tensor) -> Tensor:
    """What is no more than an input has to be copied."""
    return compute(x.shape, lambda *i: x[i], name="copy") if x.is_input else x
