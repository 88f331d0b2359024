"""Operators that do nothing go, and views of views become one."""

import numpy as np
import pytest

from ansor.frontend.builder import Builder
from ansor.frontend.interpret import interpret
from ansor.frontend.passes import settle
from ansor.frontend.passes.algebra import simplify
from ansor.frontend.passes.common import merge_common
from ansor.frontend.passes.dead import remove_dead
from frontend.networks import Layers, assert_same, inputs_of

NOTHING = {
    "identity": ("identity", (), {}),
    "reshape": ("reshape", (), {"shape": (2, 1, 3)}),
    "transpose": ("transpose", (), {"axes": (0, 1, 2)}),
    "cast": ("cast", (), {"dtype": "float32"}),
    "expand": ("expand", (), {"shape": (2, 1, 3)}),
    "pad": ("pad", (), {"before": (0, 0, 0), "after": (0, 0, 0)}),
    "slice": (
        "slice", (), {"starts": (0, 0, 0), "stops": (2, 1, 3), "steps": (1, 1, 1)}
    ),
    "concat": ("concat", (), {"axis": 0}),
    "times one": ("multiply", (np.ones(3, np.float32),), {}),
    "plus zero": ("add", (np.zeros((2, 1, 3), np.float32),), {}),
    "minus zero": ("subtract", (np.zeros((), np.float32),), {}),
    "over one": ("divide", (np.ones(1, np.float32),), {}),
    "reverse": ("reverse", (), {"axes": (1,)}),
}  # fmt: skip


@pytest.mark.parametrize(("op", "more", "attributes"), NOTHING.values(), ids=NOTHING)
def test_what_does_nothing_goes(op, more, attributes):
    build = Builder()
    x = build.input("x", "float32", (2, 1, 3))
    y = build.add(op, x, *map(build.constant, more), **attributes)
    graph = simplify(build.finish([build.add("negative", y)]))
    assert [node.op for node in graph.nodes] == ["negative"]
    assert graph.nodes[0].inputs == (x,)


def test_neutral_operands_that_broadcast_stay():
    build = Builder()
    x = build.input("x", "float32", (3,))
    y = build.add("add", x, build.constant(np.zeros((2, 3), np.float32)))
    assert [node.op for node in simplify(build.finish([y])).nodes] == ["add"]


def test_zero_minus_x_stays():
    build = Builder()
    x = build.input("x", "float32", (3,))
    y = build.add("subtract", build.constant(np.zeros(3, np.float32)), x)
    assert len(simplify(build.finish([y])).nodes) == 1


def test_views_of_views_are_one():
    build = Builder()
    x = build.input("x", "float32", (2, 3, 4))
    y = build.add("transpose", x, axes=(2, 0, 1))
    y = build.add("transpose", y, axes=(2, 1, 0))
    y = build.add("reshape", build.add("reshape", y, shape=(6, 4)), shape=(24,))
    graph = settle(build.finish([y]))
    assert [node.op for node in graph.nodes] == ["transpose", "reshape"]
    assert graph.nodes[0].attributes["axes"] == (1, 0, 2)


def test_transposes_of_unit_axes_are_reshapes():
    build = Builder()
    x = build.input("x", "float32", (1, 5, 1, 3))
    y = build.add("transpose", x, axes=(0, 2, 1, 3))
    graph = settle(build.finish([y]))
    assert [node.op for node in graph.nodes] == ["reshape"]


def test_slices_of_slices_are_one():
    build = Builder()
    x = build.input("x", "float32", (20,))
    y = build.add("slice", x, starts=(18,), stops=(1,), steps=(-3,))
    y = build.add("slice", y, starts=(1,), stops=(6,), steps=(2,))
    graph = settle(build.finish([y]))
    assert len(graph.nodes) == 1
    (found,) = interpret(graph, [np.arange(20, dtype=np.float32)])
    assert found.tolist() == [15, 9, 3]


def test_gathers_of_known_runs_are_slices():
    build = Builder()
    x = build.input("x", "float32", (2, 6, 3))
    index = build.constant(np.array([-1, 3, 1], np.int64))
    graph = settle(build.finish([build.add("gather", x, index, axis=1)]))
    assert [node.op for node in graph.nodes] == ["slice"]
    arrays = inputs_of(graph)
    assert_same(interpret(graph, arrays), [arrays[0][:, [5, 3, 1]]])


def test_gathers_outside_stay_as_they_are():
    build = Builder()
    x = build.input("x", "float32", (4,))
    index = build.constant(np.array(9, np.int64))
    graph = settle(build.finish([build.add("gather", x, index, axis=0)]))
    assert [node.op for node in graph.nodes] == ["gather"]


def test_known_conditions_choose():
    build = Builder()
    x = build.input("x", "float32", (3,))
    yes = build.constant(np.ones((2, 3), bool))
    y = build.add("where", yes, x, build.constant(np.zeros(3, np.float32)))
    graph = settle(build.finish([y]))
    assert [node.op for node in graph.nodes] == ["expand"]


def test_arrays_without_elements_are_known():
    build = Builder()
    x = build.input("x", "float32", (0, 3))
    y = build.input("y", "float32", (2, 3))
    joined = build.add("concat", x, y, axis=0)
    total = build.add("reduce", x, kind="sum", axes=(0,), keepdims=False)
    graph = settle(build.finish([build.add("relu", joined), total]))
    assert [node.op for node in graph.nodes] == ["relu"]


def test_dead_nodes_and_constants_go_and_inputs_stay():
    net = Layers()
    x, _ = net.input(2, 3), net.input(2, name="unused")
    net.dense(x, 4)
    graph = remove_dead(net.finish(net.add("relu", x)))
    assert len(graph.inputs) == 2
    assert [node.op for node in graph.nodes] == ["relu"]
    assert not graph.constants


def test_equal_nodes_and_equal_constants_are_one():
    net = Layers()
    x = net.input(2, 3)
    weight = net.array(3, 3)
    a, b = (
        net.add("relu", net.add("matmul", x, net.build.constant(weight.copy())))
        for _ in range(2)
    )
    graph = merge_common(net.finish(net.add("multiply", a, b)))
    assert [node.op for node in graph.nodes] == ["matmul", "relu", "multiply"]
    assert len(remove_dead(graph).constants) == 1


def test_constants_are_compared_by_bits():
    build = Builder()
    x = build.input("x", "float32", (2,))
    nan, zero, other = (
        build.constant(np.array(row, np.float32))
        for row in ([np.nan, 0], [0.0, 0.0], [-0.0, 0.0])
    )
    parts = [build.add("divide", x, c) for c in (nan, zero, other)]
    assert len(merge_common(build.finish(parts)).nodes) == 3


def test_attributes_of_another_type_are_another_node():
    build = Builder()
    x = build.input("x", "int64", (2,))
    low = [build.add("clip", x, low=value) for value in (1, 1.0)]
    assert len(merge_common(build.finish(low)).nodes) == 2


def test_joins_that_begin_with_another_one_are_nested():
    net = Layers()
    parts = [net.input(2, n, name=f"x{n}") for n in range(1, 6)]
    joins = [net.add("concat", *parts[:n], axis=1) for n in range(2, 6)]
    graph = net.finish(*(net.add("relu", x) for x in joins))
    nested = settle(graph)
    assert all(len(n.inputs) == 2 for n in nested.nodes if n.op == "concat")
    arrays = inputs_of(graph)
    assert_same(interpret(nested, arrays), interpret(graph, arrays))
