"""Every converter against torch, call by call, in NumPy."""
# ruff: noqa: E402  (torch may be missing)

import itertools
from functools import cache

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx

from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.interpret import interpret
from ansor.frontend.torch.call import promoted, wider
from ansor.frontend.torch.convert import CONVERTERS
from ansor.frontend.torch.values import to_array
from ansor.frontend.torch.walk import convert_all, tensor_type
from frontend.torch.cases_sums import CASES

TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 2e-5}


def graph_of(function, tensors):
    """The calls of a function of tensors, as a graph, and their operators."""
    traced = make_fx(function, tracing_mode="fake")(*tensors).graph
    build = Builder()
    given = {
        node: build.input(node.name, *tensor_type(node, node.meta["val"]))
        for node in traced.nodes
        if node.op == "placeholder"
    }
    walk = convert_all(build, list(traced.nodes), given)
    (last,) = (node for node in traced.nodes if node.op == "output")
    outputs = torch.utils._pytree.tree_leaves(last.args[0])
    ops = {str(node.target) for node in traced.nodes if node.op == "call_function"}
    return build.finish([walk.value(node) for node in outputs]), ops


def split(arguments):
    """Tensors, and a function of them that puts the other arguments in."""
    places = [n for n, x in enumerate(arguments) if isinstance(x, torch.Tensor)]

    def whole(tensors):
        found = list(arguments)
        for place, tensor in zip(places, tensors, strict=True):
            found[place] = tensor
        return found

    return [arguments[n] for n in places], whole


@cache
def converted(name):
    function, arguments = CASES[name]
    tensors, whole = split(arguments)
    return graph_of(lambda *given: function(*whole(given)), tensors)


@pytest.mark.parametrize("name", CASES)
def test_call_gives_what_torch_gives(name):
    function, arguments = CASES[name]
    tensors, _ = split(arguments)
    graph, _ = converted(name)
    graph.check()
    inputs = [to_array(x.contiguous()) for x in tensors]
    found = interpret(graph, inputs)
    expected = torch.utils._pytree.tree_leaves(function(*arguments))
    assert len(found) == len(expected)
    for array, tensor in zip(found, expected, strict=True):
        near(array, tensor)


def near(array, tensor):
    expected = to_array(tensor.contiguous())
    assert array.dtype == expected.dtype
    assert array.shape == expected.shape
    allowed = TOLERANCE.get(tensor.dtype, 1e-12)
    wide = np.float64 if tensor.is_floating_point() else array.dtype
    np.testing.assert_allclose(
        array.astype(wide), expected.astype(wide), rtol=allowed, atol=allowed
    )


# Core operators that no converter has: results whose shape depends on data, random
# numbers, gradients, complex numbers, numbers outside of tensors, writing in place.
REFUSED = {
    "_adaptive_avg_pool2d_backward.default",
    "_embedding_bag.default",
    "_fft_c2r.default",
    "_fft_r2c.default",
    "_local_scalar_dense.default",
    "atan2.out",
    "avg_pool2d_backward.default",
    "convolution_backward.default",
    "embedding_dense_backward.default",
    "max_pool2d_with_indices_backward.default",
    "native_group_norm_backward.default",
    "native_layer_norm_backward.default",
    "nonzero.default",
    "rand.default",
    "randn.default",
    "randperm.default",
    "resize_.default",
    "sym_is_contiguous.default",
    "sym_numel.default",
    "sym_size.int",
    "sym_storage_offset.default",
    "sym_stride.int",
}


@cache
def overloads():
    """Every overload of ATen, by its name."""
    found = {}
    for full in torch._C._dispatch_get_all_op_names():
        space, _, name = full.partition("::")
        base, _, overload = name.partition(".")
        packet = getattr(torch.ops.aten, base, None) if space == "aten" else None
        op = getattr(packet, overload or "default", None)
        if op is not None:
            found[f"{base}.{overload or 'default'}"] = op
    return found


def test_all_of_core_aten_is_converted_or_refused():
    core = {name for name, op in overloads().items() if torch.Tag.core in op.tags}
    assert {x for x in core if f"aten.{x}" not in CONVERTERS} == REFUSED


def test_converters_are_of_operators_that_exist():
    assert set(CONVERTERS) <= {f"aten.{name}" for name in overloads()}


@pytest.mark.slow
def test_cases_cover_all_of_core_aten():
    covered = {op for name in CASES for op in converted(name)[1]}
    covered |= {
        "aten.empty.memory_format",  # elements are arbitrary
        "aten.empty_strided.default",
        "aten._native_batch_norm_legit.default",  # writes in place
        "aten.adaptive_avg_pool1d.default",  # tracing takes these apart
        "aten.avg_pool1d.default",
        "aten.upsample_bilinear2d.vec",
        "aten.upsample_nearest2d.vec",
        "aten.var.dim",
    }
    core = {
        f"aten.{name}" for name, op in overloads().items() if torch.Tag.core in op.tags
    }
    assert (core & set(CONVERTERS)) - covered == set()


DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
]


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, DTYPES)))
def test_promotion_is_that_of_torch(a, b):
    first, second = getattr(torch, a), getattr(torch, b)
    assert wider(a, b) == name(torch.promote_types(first, second))
    for one, other in (((2,), (2,)), ((2,), ()), ((), (2,)), ((), ())):
        x, y = torch.zeros(one, dtype=first), torch.zeros(other, dtype=second)
        values = [Value("x", a, one), Value("y", b, other)]
        assert promoted(values) == name(torch.result_type(x, y))


@pytest.mark.parametrize("number", [True, 2, 2.5])
@pytest.mark.parametrize("dtype", DTYPES)
def test_promotion_with_numbers_is_that_of_torch(dtype, number):
    tensor = torch.zeros(2, dtype=getattr(torch, dtype))
    expected = name(torch.result_type(tensor, number))
    assert promoted([Value("x", dtype, (2,)), number]) == expected


def name(dtype):
    return str(dtype).removeprefix("torch.")
