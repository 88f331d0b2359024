"""Plans without a partition: one kernel for each node."""

from ansor.frontend.graph import Graph, Node
from ansor.frontend.operators import operator
from ansor.frontend.operators.operator import Kind
from ansor.frontend.subgraph import Alias, Plan, Subgraph
from ansor.target import Target
from ansor.te.task import Task
from ansor.te.tensor import placeholder


def one_by_one(graph: Graph, target: Target | None = None) -> Plan:
    """Every node is a subgraph of its own; views are aliases."""
    where, tasks = target or Target.host(), {}
    steps = []
    for node in graph.nodes:
        if operator(node.op).kind is Kind.VIEW:
            steps.append(Alias(node.output, node.inputs[0]))
            continue
        made = _task(graph, node, where)
        task = tasks.setdefault(made.key, made)
        inputs = tuple(dict.fromkeys(node.inputs))
        steps.append(Subgraph((node,), inputs, node.outputs, task))
    return Plan(graph, tuple(steps))


def _task(graph: Graph, node: Node, target: Target) -> Task:
    distinct = dict.fromkeys(node.inputs)
    stand_ins = {
        x: placeholder(x.shape, x.dtype, f"x{n}", constant=graph.is_constant(x))
        for n, x in enumerate(distinct)
    }
    inputs = [stand_ins[x] for x in node.inputs]
    outputs = operator(node.op).tensors(inputs, node.attributes)
    return Task([*stand_ins.values(), *outputs], target)
