"""Plans compute what their graphs do, in few steps."""

import numpy as np
import pytest
from hypothesis import given, settings

from ansor.frontend.interpret import interpret, interpret_plan
from ansor.frontend.partition import partition
from ansor.frontend.passes import optimise
from ansor.frontend.subgraph import Alias
from ansor.target import Target
from frontend.networks import (
    NETWORKS,
    Layers,
    assert_same,
    attention,
    inputs_of,
)
from frontend.strategies_graph import graphs

TARGET = Target("cpu")


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("passes", [optimise, lambda graph: graph], ids=["", "plain"])
def test_plans_compute_what_graphs_do(network, passes):
    graph = network()
    arrays = inputs_of(graph)
    plan = partition(passes(graph), TARGET)
    made = {x.name for x in (*graph.inputs,)} | set(plan.graph.constants)
    for step in plan.steps:
        reads = [step.input] if isinstance(step, Alias) else step.inputs
        assert {x.name for x in reads} <= made
        gives = [step.output] if isinstance(step, Alias) else step.outputs
        made |= {x.name for x in gives}
    assert_same(interpret_plan(plan, arrays), interpret(graph, arrays))


def steps(graph):
    return [
        " ".join(node.op for node in step.nodes)
        for step in partition(optimise(graph), TARGET).subgraphs
    ]


def test_residual_blocks_are_products_with_what_follows_them():
    assert steps(NETWORKS["residual"]()) == [
        "transpose conv add relu",
        "max_pool",
        "matmul add relu",
        "conv add relu",
        "matmul add",
        "matmul add add relu",
        "reduce",
        "matmul add",
    ]


def test_a_layer_of_bert_is_nine_kernels_without_copies():
    assert steps(attention(128, 12, 768)) == [
        "matmul add",
        "slice slice reshape reshape transpose transpose matmul divide add",
        "softmax",
        "slice reshape transpose matmul transpose",
        "matmul add add",
        "layer_norm",
        "matmul add gelu",
        "matmul add add",
        "layer_norm",
    ]


def test_activations_of_two_operators_stay_with_their_product():
    assert "conv add sigmoid multiply" in steps(NETWORKS["inverted"]())


def test_products_have_one_stage_of_elements_behind_them():
    plan = partition(optimise(NETWORKS["inverted"]()), TARGET)
    for step in plan.subgraphs:
        if any(node.op in ("conv", "matmul") for node in step.nodes):
            names = [stage.name for stage in step.task.dag.stages]
            assert len([x for x in names if "pad" not in x]) <= 2


def test_an_array_that_a_product_reads_twice_is_two_arguments():
    net = Layers()
    x = net.input(16, 16)
    graph = net.finish(net.add("matmul", x, net.add("transpose", x, axes=(1, 0))))
    (step,) = partition(optimise(graph), TARGET).subgraphs
    assert step.inputs == (x, x)
    (stage,) = step.task.dag.stages
    assert str(stage) == "matmul[i, j] = sum(x0[i, k] * x1[j, k]) over k in 16"


def test_equal_subgraphs_share_a_task():
    net = Layers()
    x = net.input(8, 8)
    for _ in range(3):
        x = net.add("relu", net.dense(x, 8))
    plan = partition(optimise(net.finish(net.dense(x, 8))), TARGET)
    assert [weight for _, weight in plan.tasks()] == [3, 1]
    assert len({id(step.task) for step in plan.subgraphs}) == 2


def test_the_order_of_operands_does_not_make_another_task():
    net = Layers()
    x = net.input(8, 8)
    y = net.add("add", net.dense(x, 8), x)
    y = net.add("add", y, net.dense(y, 8))
    assert len(partition(optimise(net.finish(y)), TARGET).tasks()) == 1


def test_equal_elements_become_a_number_and_others_a_constant():
    net = Layers()
    x = net.input(2, 3)
    y = net.add("multiply", x, net.build.constant(np.full((2, 3), 3, np.float32)))
    plan = partition(optimise(net.finish(net.add("add", y, net.constant(3)))), TARGET)
    (task, _), *_ = plan.tasks()
    assert task.dag.constants == {"w2"}
    assert str(task.dag.stages[0]).endswith("x0[i0, i1] * 3.0 + w2[i1]")


def test_costly_functions_are_not_computed_again_and_again():
    net = Layers()
    x = net.input(4, 32, 32)
    y = net.add("exp", net.add("slice", x, starts=(0, 0, 0), stops=(1, 1, 32),
                               steps=(1, 1, 1)))  # fmt: skip
    graph = net.finish(net.add("add", x, y))
    assert steps(graph) == ["slice exp", "add"]


def test_costly_functions_are_not_part_of_a_products_operand():
    net = Layers()
    x = net.input(64, 64)
    y = net.dense(net.add("tanh", x), 64)
    assert steps(net.finish(y)) == ["tanh", "matmul add"]


def test_the_sum_before_a_norm_that_is_needed_again_is_written_once():
    net = Layers()
    x = net.input(4, 16)
    y = net.add("add", net.dense(x, 16), x)
    z = net.add("add", net.dense(net.layer_norm(y), 16), y)
    assert steps(net.finish(z)) == ["matmul add add", "layer_norm", "matmul add add"]


def test_long_chains_are_cut():
    net = Layers()
    x = net.input(4, 5)
    for _ in range(60):
        x = net.add("add", net.add("sin", x), net.constant(5))
    plan = partition(optimise(net.finish(x)), TARGET)
    assert len(plan.subgraphs) < 20
    assert all(len(step.inputs) <= 16 for step in plan.subgraphs)
    assert_same(
        interpret_plan(plan, inputs_of(plan.graph)),
        interpret(plan.graph, inputs_of(plan.graph)),
    )


def test_formulas_do_not_grow_without_bound():
    net = Layers()
    x = net.input(3)
    for _ in range(20):
        x = net.add("multiply", net.add("add", x, net.number(0.1)), x)
    graph = net.finish(x)
    plan = partition(optimise(graph), TARGET)
    arrays = inputs_of(graph)
    assert_same(interpret_plan(plan, arrays), interpret(graph, arrays), 1e-3)


def test_outputs_without_work_have_no_steps():
    net = Layers()
    x, c = net.input(2, 3), net.constant(4)
    view = net.add("reshape", x, shape=(6,))
    plan = partition(optimise(net.finish(x, c, view, view)), TARGET)
    (alias,) = plan.steps
    assert isinstance(alias, Alias)
    assert plan.graph.outputs == (x, c, alias.output, alias.output)


def test_a_result_that_nobody_reads_is_not_an_output():
    net = Layers()
    _, places = net.build.add_all(
        "topk", net.input(2, 5), k=2, axis=1, largest=True, sorted=True
    )
    (step,) = partition(optimise(net.finish(places)), TARGET).subgraphs
    assert step.outputs == (places,)
    assert len(step.task.dag.outputs) == 1


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_random_graphs_stay_the_same(graph):
    arrays = inputs_of(graph)
    wanted = interpret(graph, arrays)
    better = optimise(graph)
    better.check()
    assert_same(interpret(better, arrays), wanted, 1e-4)
    assert_same(interpret_plan(partition(better, TARGET), arrays), wanted, 1e-4)
    assert_same(interpret_plan(partition(graph, TARGET), arrays), wanted, 1e-4)
