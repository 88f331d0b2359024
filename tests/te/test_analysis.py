"""Access analysis, with the facts that the original's tests assert."""

import pytest

import ansor
from ansor import ops
from ansor.ir.expr import Binary, Const, Load, Var
from ansor.te.analysis import (
    affine,
    count_flops,
    has_branch,
    has_data_reuse,
    is_elementwise_match,
    is_output,
    is_simple_access,
    is_strictly_inlineable,
    num_common_outer_axes,
)
from ansor.te.dag import DAG


def conv_bn_relu():
    x = ansor.placeholder((1, 3, 224, 224), name="x")
    w = ansor.placeholder((64, 3, 7, 7), name="w")
    bias, scale, shift = (ansor.placeholder((64,), name=n) for n in ("b", "s", "t"))
    y = ops.conv2d(x, w, stride=2, padding=3, name="conv")
    y = ops.bias_add(y, bias, axis=1, name="bias")
    column = [
        ansor.compute((64, 1, 1), lambda c, i, j, v=v: v[c]) for v in (scale, shift)
    ]
    y = ops.multiply(y, column[0], name="mul")
    y = ops.add(y, column[1], name="add")
    return DAG.build([ops.relu(y, name="relu")])


def names(dag, predicate):
    found = {stage.name for stage in dag.stages if predicate(dag, stage)}
    return found - {"compute", "compute_1"}


def test_conv_bias_bn_relu():
    dag = conv_bn_relu()
    rest = {"bias", "mul", "add", "relu"}
    assert names(dag, has_data_reuse) == {"conv"}
    assert names(dag, is_simple_access) == rest | {"conv_pad"}
    assert names(dag, is_strictly_inlineable) == rest
    assert names(dag, is_output) == {"relu"}
    assert names(dag, lambda _, stage: has_branch(stage)) == {"conv_pad"}


def test_elementwise_match_and_common_axes():
    dag = conv_bn_relu()
    conv, relu, pad = (dag.stage(n) for n in ("conv", "relu", "conv_pad"))
    assert is_elementwise_match(dag, conv, relu)
    assert not is_elementwise_match(dag, pad, conv)
    assert not is_elementwise_match(dag, relu, conv)
    assert num_common_outer_axes(dag, conv, relu) == 4
    assert num_common_outer_axes(dag, pad, conv) == 1
    assert num_common_outer_axes(dag, relu, conv) == 0


def test_data_reuse_of_other_operators():
    x = ansor.placeholder((8, 16, 10, 10), name="x")
    m = ansor.placeholder((16, 16), name="m")
    soft, pooled = ops.softmax(m), ops.max_pool(x, 2)
    depthwise = ops.depthwise_conv2d(x, ansor.placeholder((16, 1, 3, 3)))
    for tensor, expected in ((soft, set()), (pooled, set()),
                             (depthwise, {"depthwise_conv2d"})):  # fmt: skip
        assert names(DAG.build([tensor]), has_data_reuse) == expected
    outer = ansor.compute((4, 4), lambda i, j: m[i, 0] + x[0, 0, 0, j], name="outer")
    assert names(DAG.build([outer]), has_data_reuse) == {"outer"}


def test_transposes_and_expensive_functions_are_not_strictly_inlineable():
    m = ansor.placeholder((16, 16), name="m")
    turned, powers = ops.transpose(m), ansor.compute((4,), lambda i: ansor.exp(m[i, 0]))
    constant = ansor.compute((4,), lambda i: ansor.select(i < 2, 1.0, 0.0))
    row = ansor.compute((4, 16), lambda i, j: m[0, j])
    flags = [
        is_strictly_inlineable(d := DAG.build([t]), d.stages[0])
        for t in (turned, powers, constant, row)
    ]
    assert flags == [False, False, True, True]


def test_affine():
    i, j = Var("i"), Var("j")
    e = Binary("sub", Binary("mul", i, Const(3)), Binary("sub", j, Const(5)))
    assert affine(e) == ({"i": 3, "j": -1}, 5)
    assert affine(Binary("floordiv", i, Const(2))) is None
    assert affine(Binary("mul", i, j)) is None


@pytest.mark.parametrize("n", [8, 512])
def test_flops_of_matmul_and_relu(n):
    A, B = (ansor.placeholder((n, n), name=x) for x in "AB")
    C = ops.matmul(A, B)
    assert count_flops(DAG.build([C])) == 2 * n**3
    assert count_flops(DAG.build([ops.relu(C)])) == 2 * n**3 + n**2


def test_flops_of_pad_select_and_functions():
    A = ansor.placeholder((8, 8), name="A")
    assert count_flops(DAG.build([ops.pad(A, [(1, 1), (0, 2)])])) == 0
    S = ansor.compute((8, 8), lambda i, j: ansor.select(A[i, j] > 0, A[i, j], 0))
    assert count_flops(DAG.build([S])) == 64
    E = ansor.compute((8, 8), lambda i, j: ansor.exp(A[i, j]) + 1)
    assert count_flops(DAG.build([E])) == 128


def test_index_arithmetic_is_free_for_integers_too():
    A = ansor.placeholder((8,), "int32", name="A")
    B = ansor.compute((4,), lambda i: A[2 * i + 1] * 3)
    P = ops.pad(A, [(1, 1)])
    assert count_flops(DAG.build([B])) == 4
    assert count_flops(DAG.build([P])) == 0


def test_gather_reads_both_tensors():
    dag = DAG.build(
        [ops.embedding(ansor.placeholder((9, 4)), ansor.placeholder((3,), "int32"))]
    )
    (stage,) = dag.stages
    assert list(dag.reads(stage)) == ["input", "input_1"]
    assert not is_simple_access(dag, stage)
    assert isinstance(dag.accesses(stage, "input")[0], Load)
