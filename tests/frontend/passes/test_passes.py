"""Every pass leaves a valid graph that computes the same."""

import numpy as np
import pytest

from ansor.frontend import passes
from ansor.frontend.interpret import interpret
from ansor.frontend.passes import LOCAL, SHAPES, optimise
from ansor.frontend.passes.layout import channels_last_layout, moved_inside
from frontend.networks import NETWORKS, assert_same, inputs_of

ALL = (*LOCAL, channels_last_layout, *SHAPES, optimise)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_passes_compute_the_same(network):
    graph = network()
    arrays = inputs_of(graph)
    wanted = interpret(graph, arrays)
    for one in ALL:
        made = one(graph)
        made.check()
        assert made.inputs == graph.inputs
        assert_same(interpret(made, arrays), wanted)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_optimised_graphs_are_a_fixed_point(network):
    graph = optimise(network())
    assert str(passes.settle(graph, (*LOCAL, *SHAPES))) == str(graph)
    again = optimise(graph)
    assert len(again.nodes) <= len(graph.nodes)
    assert moved_inside(again) <= moved_inside(graph)


def test_passes_change_no_array_in_place():
    graph = NETWORKS["residual"]()
    before = {name: np.array(array) for name, array in graph.constants.items()}
    optimise(graph)
    assert all(np.array_equal(before[n], a) for n, a in graph.constants.items())
