"""Factors, shifts and borders become part of products and windows."""

import numpy as np
import pytest

from ansor.frontend.interpret import interpret
from ansor.frontend.passes import settle
from ansor.frontend.passes.fold import fold_scales
from ansor.frontend.passes.padding import merge_padding
from frontend.networks import Layers, assert_same, inputs_of


def ops(graph):
    return [node.op for node in graph.nodes]


def same(before, after):
    arrays = inputs_of(before)
    assert_same(interpret(after, arrays), interpret(before, arrays))


@pytest.mark.parametrize("layer", ["conv", "grouped", "deconv", "dense"])
def test_norms_are_folded_into_weights(layer):
    net = Layers()
    x = net.input(2, 4, 5, 5) if layer != "dense" else net.input(2, 6)
    y = {
        "conv": lambda: net.conv(x, 6, 3),
        "grouped": lambda: net.conv(x, 4, 3, groups=2),
        "deconv": lambda: net.deconv(x, 3, 4, 2),
        "dense": lambda: net.dense(x, 5),
    }[layer]()
    shape = (5,) if layer == "dense" else (y.shape[1], 1, 1)
    y = net.add("subtract", y, net.constant(*shape))
    y = net.add("divide", y, net.build.constant(np.abs(net.array(*shape)) + 1))
    y = net.add("subtract", net.constant(*shape), y)
    graph = net.finish(net.add("relu", y))
    folded = settle(graph)
    assert len(folded.nodes) == 3
    same(graph, folded)


def test_a_product_that_is_read_elsewhere_keeps_its_weights():
    net = Layers()
    y = net.conv(net.input(1, 3, 4, 4), 4, 3)
    graph = net.finish(net.norm(y), y)
    assert fold_scales(graph) is graph


def test_numbers_along_other_axes_are_not_folded():
    net = Layers()
    y = net.conv(net.input(1, 3, 4, 4), 4, 3)
    graph = net.finish(net.add("multiply", y, net.constant(4, 1)))
    assert fold_scales(graph) is graph


def test_numbers_are_rounded_once():
    net = Layers()
    x = net.input(1, 2)
    weight = net.build.constant(np.full((2, 1), 1 / 3, np.float32))
    y = net.add("matmul", x, weight)
    for number in (3.0, 1 / 3, 3.0):
        y = net.add("multiply", y, net.number(number))
    (found,) = [x for x in settle(net.finish(y)).constants.values() if x.ndim == 2]
    exact = np.float64(np.float32(1 / 3)) * np.float64(np.float32(1 / 3)) * 9
    assert found[0, 0] == np.float32(exact)


def test_what_is_not_finite_stays_apart():
    net = Layers()
    y = net.dense(net.input(1, 2), 3)
    graph = net.finish(net.add("multiply", y, net.number(np.inf)))
    assert fold_scales(graph) is graph


def test_half_precision_is_not_folded():
    net = Layers()
    x = net.input(1, 2, dtype="float16")
    weight = net.build.constant(net.array(2, 3).astype(np.float16))
    scale = net.build.constant(net.array(3).astype(np.float16))
    graph = net.finish(net.add("multiply", net.add("matmul", x, weight), scale))
    assert fold_scales(graph) is graph


def test_factors_pass_views_on_their_way_to_weights():
    net = Layers()
    y = net.heads(net.dense(net.input(1, 3, 8), 8), 2)
    graph = net.finish(net.add("multiply", y, net.number(0.25)))
    folded = settle(graph)
    assert ops(folded) == ["matmul", "add", "reshape", "transpose"]
    same(graph, folded)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("padding", [0, 1])
def test_zeros_around_become_padding_only_where_it_is_the_same(counted, padding):
    net = Layers()
    x = net.input(1, 2, 5, 5)
    border = {"before": (0, 0, 1, 0), "after": (0, 0, 1, 1)}
    y = net.add("pad", x, **border)
    conv = net.conv(y, 3, 3, padding=padding)
    mean = net.pool("avg_pool", y, 2, 1, padding, count_include_pad=counted)
    most = net.pool("max_pool", y, 2, 1, padding)
    low = net.add("pad", x, **border, value=-np.inf)
    graph = net.finish(conv, mean, most, net.pool("max_pool", low, 2, 2, padding))
    merged = settle(merge_padding(graph))
    pads = [node for node in merged.nodes if node.op == "pad"]
    assert len(pads) == 1  # of the plain maximum, which zeros would take part in
    readers = {n.op for n in merged.nodes if pads[0].output in n.inputs}
    mixed = padding > 0 and not counted
    assert readers == ({"max_pool", "avg_pool"} if mixed else {"max_pool"})
    same(graph, merged)


def test_borders_of_channels_stay():
    net = Layers()
    x = net.add("pad", net.input(1, 2, 4, 4), before=(0, 1, 0, 0), after=(0, 0, 0, 0))
    graph = net.finish(net.conv(x, 3, 3))
    assert merge_padding(graph) is graph
