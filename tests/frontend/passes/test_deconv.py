"""Transposed convolutions as convolutions of small images."""

import pytest

from ansor.frontend.interpret import interpret
from ansor.frontend.passes import optimise
from frontend.networks import Layers, assert_same, inputs_of

# Extents, kernel, strides, padding, output padding.
CASES = {
    "dcgan": ((4, 4), (4, 4), (2, 2), ((1, 1), (1, 1)), (0, 0)),
    "no overlap": ((3, 5), (2, 2), (2, 2), ((0, 0), (0, 0)), (0, 0)),
    "kernel 3": ((3, 4), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),
    "uneven": ((3, 4), (5, 2), (3, 1), ((2, 0), (0, 1)), (0, 0)),
    "gaps": ((3,), (2,), (4,), ((0, 1),), (1,)),
    "stride 1": ((5,), (4,), (1,), ((1, 2),), (0,)),
    "volume": ((2, 3, 2), (3, 2, 4), (2, 2, 2), ((1, 0), (0, 0), (1, 1)), (0, 0, 0)),
    "one place": ((1, 1), (4, 3), (1, 2), ((0, 1), (1, 0)), (0, 0)),
    "one place and more": ((1,), (2,), (2,), ((0, 0),), (1,)),
    "much padding": ((5,), (3,), (1,), ((2, 2),), (0,)),
    "too much padding": ((6,), (2,), (1,), ((2, 2),), (0,)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("space", "kernel", "strides", "padding", "more"), CASES.values(), ids=CASES
)
def test_the_result_is_the_same(space, kernel, strides, padding, more):
    net = Layers()
    x = net.input(2, 3, *space)
    y = net.add(
        "conv_transpose", x, net.constant(3, 4, *kernel), strides=strides,
        padding=padding, output_padding=more, dilations=(1,) * len(space), groups=1,
        layout="first",
    )  # fmt: skip
    graph = net.finish(net.add("relu", net.norm(y)))
    made = optimise(graph)
    arrays = inputs_of(graph)
    assert_same(interpret(made, arrays), interpret(graph, arrays))
    left = any(node.op == "conv_transpose" for node in made.nodes)
    assert left == (padding == ((2, 2),) and space == (6,))


@pytest.mark.parametrize(
    ("case", "is_interleaved"),
    {"dcgan": True, "kernel 3": True, "no overlap": False, "uneven": False}.items(),
)
def test_nothing_is_computed_that_padding_cuts_off(case, is_interleaved):
    space, kernel, strides, padding, more = CASES[case]
    net = Layers()
    y = net.add(
        "conv_transpose", net.input(1, 3, *space), net.constant(3, 4, *kernel),
        strides=strides, padding=padding, output_padding=more, dilations=(1, 1),
        groups=1, layout="first",
    )  # fmt: skip
    made = optimise(net.finish(y))
    (product,) = (x for x in made.nodes if x.op in ("conv", "conv_phases", "matmul"))
    assert (product.op == "conv_phases") == is_interleaved
    if is_interleaved:
        assert product.output.size == y.size


def test_images_of_one_place_are_products():
    net = Layers()
    graph = net.finish(net.deconv(net.input(1, 6, 1, 1), 4, 4, 1))
    assert "matmul" in [node.op for node in optimise(graph).nodes]
