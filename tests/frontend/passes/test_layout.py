"""Channels last: transposes sink, cancel, and stay away where they do not pay."""

import numpy as np
import pytest

from ansor.frontend.interpret import interpret
from ansor.frontend.passes import optimise
from ansor.frontend.passes.dead import remove_dead
from ansor.frontend.passes.layout import channels_last_layout, moved_inside
from ansor.frontend.passes.siblings import merge_siblings
from ansor.frontend.passes.views import flatten_products, sink_views
from frontend.networks import NETWORKS, Layers, assert_same, inputs_of


def ops(graph):
    return [node.op for node in graph.nodes]


def same(before, after):
    arrays = inputs_of(before)
    assert_same(interpret(after, arrays), interpret(before, arrays))


@pytest.mark.parametrize("name", ["residual", "inverted", "generator", "volume"])
def test_nothing_is_transposed_inside_a_network(name):
    graph = optimise(NETWORKS[name]())
    edge = 0 if name == "generator" else moved_inside(graph)  # its dense layer
    assert edge == 0
    layouts = [n.attributes.get("layout", "last") for n in graph.nodes]
    assert set(layouts) == {"last"}


def test_biases_of_channels_become_vectors():
    graph = optimise(NETWORKS["residual"]())
    adds = [n.inputs[1] for n in graph.nodes if n.op == "add"]
    assert {len(x.shape) for x in adds if graph.is_constant(x)} == {1}


CARELESS = {
    "concat": lambda net, x: net.add("concat", x, net.add("relu", x), axis=1),
    "pad": lambda net, x: net.add(
        "pad", x, before=(0, 1, 0, 2), after=(0, 0, 1, 0), mode="edge"
    ),
    "slice": lambda net, x: net.add(
        "slice", x, starts=(0, 1, 3, 0), stops=(2, 8, 0, 5), steps=(1, 2, -1, 1)
    ),
    "reduce": lambda net, x: net.add(
        "multiply", x, net.add("reduce", x, kind="max", axes=(1,), keepdims=True)
    ),
    "mean": lambda net, x: net.add(
        "reduce", x, kind="mean", axes=(0, 3), keepdims=False
    ),
    "softmax": lambda net, x: net.add("softmax", x, axis=1),
    "argmax": lambda net, x: net.add("argmax", x, axis=1, keepdims=False),
    "cumsum": lambda net, x: net.add(
        "cumsum", x, axis=2, exclusive=False, reverse=True
    ),
    "reverse": lambda net, x: net.add("reverse", x, axes=(1, 3)),
    "tile": lambda net, x: net.add("tile", x, repeats=(1, 2, 1, 3)),
    "repeat": lambda net, x: net.add("repeat", x, repeats=2, axis=1),
    "expand": lambda net, x: net.add(
        "expand", net.add("reduce", x, kind="sum", axes=(2, 3), keepdims=True),
        shape=(2, 8, 3, 3),
    ),
    "gather": lambda net, x: net.add(
        "gather", x, net.build.constant(np.array([0, 0, 3], np.int64)), axis=2
    ),
    "group norm": lambda net, x: net.add(
        "group_norm", x, net.constant(8), net.constant(8), groups=4, epsilon=1e-3
    ),
    "instance norm": lambda net, x: net.add(
        "instance_norm", x, net.constant(8), net.constant(8), epsilon=1e-3
    ),
    "lrn": lambda net, x: net.add("lrn", x, alpha=0.1, beta=0.7, bias=1.0, size=3),
    "prelu": lambda net, x: net.add("prelu", x, net.constant(8, 1, 1)),
    "row": lambda net, x: net.add("add", x, net.constant(5)),
    "reshape": lambda net, x: net.add("reshape", x, shape=(2, 2, 4, 20)),
    "gate": lambda net, x: net.add(
        "multiply", x, net.add("sigmoid", net.input(8, 1, 1, name="gate"))
    ),
}  # fmt: skip


@pytest.mark.parametrize("make", CARELESS.values(), ids=CARELESS)
def test_transposes_sink_through_what_does_not_care(make):
    net = Layers()
    x = net.conv(net.input(2, 3, 4, 5), 8, 3)
    graph = net.finish(make(net, x))
    last = channels_last_layout(graph)
    made = {node.output.name: node for node in last.nodes}
    for node in last.nodes:
        if node.op == "transpose":
            source = made.get(node.inputs[0].name)
            at_output = any(
                node.output == x or made[x.name].inputs[:1] == (node.output,)
                for x in last.outputs
            )
            assert source is None or at_output
    same(graph, last)


def test_weights_that_are_computed_keep_their_layout():
    net = Layers()
    x, w = net.input(1, 2, 4, 4), net.input(3, 2, 3, 3, name="w")
    y = net.add(
        "conv", x, w, strides=(1, 1), padding=((1, 1),) * 2, dilations=(1, 1),
        groups=1, layout="first",
    )  # fmt: skip
    graph = net.finish(y)
    assert ops(channels_last_layout(graph)) == ["conv"]


def test_a_layout_that_moves_more_than_it_brings_is_given_up():
    net = Layers()
    x = net.input(1, 4, 6, 6)
    for _ in range(3):
        x = net.add("reshape", net.conv(x, 4, 1), shape=(1, 144))
        x = net.add("softmax", x, axis=1)
        x = net.add("reshape", x, shape=(1, 4, 6, 6))
    graph = net.finish(x)
    last = channels_last_layout(graph)
    assert "transpose" not in ops(last)
    same(graph, last)


def test_transposes_cancel_without_any_convolution():
    net = Layers()
    x = net.input(2, 3, 4)
    y = net.add("relu", net.add("transpose", x, axes=(2, 0, 1)))
    y = net.add("add", y, net.constant(4, 1, 3))
    graph = net.finish(net.add("transpose", y, axes=(1, 2, 0)))
    last = optimise(graph)
    assert ops(last) == ["relu", "add"]
    same(graph, last)


def test_products_are_made_of_matrices():
    net = Layers()
    graph = net.finish(net.dense(net.input(2, 3, 4), 5))
    flat = remove_dead(sink_views(flatten_products(graph)))
    assert ops(flat) == ["reshape", "matmul", "add", "reshape"]
    same(graph, flat)


def test_reshapes_sink_below_what_is_added():
    net = Layers()
    x = net.input(1, 6, 4)
    y = net.add("reshape", net.dense(net.input(6, 3, name="y"), 4), shape=(1, 6, 4))
    y = net.add("multiply", net.add("add", x, y), net.constant(1, 1, 4))
    y = net.add("multiply", y, net.constant(1, 6, 1))
    graph = net.finish(net.add("relu", y))
    flat = optimise(graph)
    assert ops(flat)[-1] == "reshape"
    assert ops(flat).count("reshape") == 2  # the other one is of an input
    same(graph, flat)


def test_a_reshape_that_would_tear_an_operand_apart_stays():
    net = Layers()
    y = net.add("reshape", net.dense(net.input(6, 3), 4), shape=(2, 12))
    graph = net.finish(net.add("add", y, net.constant(12)))
    assert sink_views(graph) is graph


def test_query_key_and_value_are_one_product():
    graph = NETWORKS["attention"]()
    merged = optimise(graph)
    wide = [n for n in merged.nodes if n.op == "matmul" and n.output.shape[-1] == 24]
    assert len(wide) == 1
    same(graph, merged)


def test_products_read_by_others_stay_apart():
    net = Layers()
    x = net.input(2, 3)
    y = net.add("add", net.dense(x, 4), net.add("tanh", net.dense(x, 4)))
    graph = net.finish(y)
    assert merge_siblings(graph) is graph


def test_heads_stay_apart_in_batches_of_products():
    net = Layers()
    x = net.input(2, 3, 8)
    q, k = (
        net.add("reshape", net.heads(net.dense(x, 8), 2), shape=(4, 3, 4))
        for _ in range(2)
    )
    y = net.add("matmul", q, net.add("transpose", k, axes=(0, 2, 1)))
    graph = net.finish(net.add("reshape", y, shape=(2, 2, 3, 3)))
    made = optimise(graph)
    assert ops(made).count("transpose") == 2
    assert [n.output.shape for n in made.nodes][-1] == (2, 2, 3, 3)
    assert made.nodes[-1].op == "matmul"
    same(graph, made)


def test_mixed_channels_stay_last():
    net = Layers()
    x = net.conv(net.input(1, 8, 16, 16), 64, 3)
    y = net.add("reshape", x, shape=(1, 2, 32, 16, 16))
    y = net.add("transpose", y, axes=(0, 2, 1, 3, 4))
    y = net.add("reshape", y, shape=(1, 64, 16, 16))
    graph = net.finish(net.add("reduce", net.conv(y, 64, 3), kind="sum",
                               axes=(2, 3), keepdims=False))  # fmt: skip
    made = optimise(graph)
    assert ops(made).count("transpose") == 2  # of the input, and the mixing itself
