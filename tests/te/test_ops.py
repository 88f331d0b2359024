"""The operator library against torch, through the NumPy reference."""

import numpy as np
import pytest

import ansor
from ansor import ops
from ansor.te.dag import DAG
from ansor.te.reference import agrees, reference, tolerance

torch = pytest.importorskip("torch")
F = torch.nn.functional
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _same_numbers_in_any_order():
    """Each test draws from the start, whichever tests ran before it."""
    RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state


def tensors(*shapes):
    names = "ABCDEFG"
    return [ansor.placeholder(s, name=n) for s, n in zip(shapes, names, strict=False)]


def check(op, expected, *shapes, positive=False):
    """`op` of placeholders equals `expected` of torch tensors."""
    arrays = [RNG.standard_normal(s).astype("float32") for s in shapes]
    if positive:
        arrays = [np.abs(a) + 0.1 for a in arrays]
    inputs = tensors(*shapes)
    dag = DAG.build([op(*inputs)], inputs)
    (actual,) = reference(dag, arrays)
    (allowed,) = tolerance(dag, arrays, [actual])
    wanted = expected(*(torch.from_numpy(a) for a in arrays)).numpy()
    assert actual.shape == wanted.shape
    assert np.isfinite(allowed).all()
    assert agrees(wanted, actual, allowed).all(), np.abs(wanted - actual).max()
    np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-4)


def nhwc(function):
    """A torch function on NCHW and OIHW, as one on NHWC and HWIO."""

    def wrapped(x, w):
        rank = x.ndim - 2
        first = (0, rank + 1, *range(1, rank + 1))
        last = (0, *range(2, rank + 2), 1)
        y = function(x.permute(first), w.permute(rank + 1, rank, *range(rank)))
        return y.permute(last).contiguous()

    return wrapped


MATMULS = {
    "matmul": (ops.matmul, lambda a, b: a @ b, (7, 5), (5, 9)),
    "transposed": (
        lambda a, b: ops.matmul(a, b, transpose_a=True, transpose_b=True),
        lambda a, b: a.T @ b.T, (5, 7), (9, 5)),
    "dense": (ops.dense, F.linear, (4, 6), (3, 6), (3,)),
    "batch": (ops.batch_matmul, torch.matmul, (3, 4, 5), (3, 5, 2)),
    "broadcast": (ops.batch_matmul, torch.matmul, (2, 1, 4, 5), (3, 5, 2)),
    "batch_transposed": (
        lambda a, b: ops.batch_matmul(a, b, transpose_b=True),
        lambda a, b: a @ b.mT, (3, 4, 5), (3, 2, 5)),
    "einsum": (
        lambda a, b: ops.einsum("bij,bjk->bik", a, b),
        lambda a, b: torch.einsum("bij,bjk->bik", a, b), (2, 3, 4), (2, 4, 5)),
    "einsum_implicit": (
        lambda a, b: ops.einsum("zj,jk", a, b),
        lambda a, b: torch.einsum("zj,jk", a, b), (3, 4), (4, 5)),
    "einsum_trace": (
        lambda a: ops.einsum("ii->", a), lambda a: torch.einsum("ii->", a), (4, 4)),
    "einsum_outer": (
        lambda a, b: ops.einsum("i,j->ji", a, b),
        lambda a, b: torch.einsum("i,j->ji", a, b), (4,), (3,)),
}  # fmt: skip


@pytest.mark.parametrize("case", MATMULS.values(), ids=MATMULS)
def test_matmul_family(case):
    op, expected, *shapes = case
    check(op, expected, *shapes)


CONVS = [
    {"stride": 1, "padding": 0},
    {"stride": 2, "padding": 1},
    {"stride": 1, "padding": 2, "dilation": 2},
    {"stride": 2, "padding": 3, "dilation": 2},
]


@pytest.mark.parametrize("how", CONVS)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_conv(rank, how):
    op = (ops.conv1d, ops.conv2d, ops.conv3d)[rank - 1]
    expected = (F.conv1d, F.conv2d, F.conv3d)[rank - 1]
    x, w = (2, 3, *(7, 8, 6)[:rank]), (4, 3, *(3, 2, 3)[:rank])
    check(lambda a, b: op(a, b, **how), lambda a, b: expected(a, b, **how), x, w)
    last = ("NWC", "NHWC", "NDHWC")[rank - 1]
    x, w = (2, *(7, 8, 6)[:rank], 3), (*(3, 2, 3)[:rank], 3, 4)
    other = nhwc(lambda a, b: expected(a, b, **how))
    check(lambda a, b: op(a, b, layout=last, **how), other, x, w)


def test_conv_with_unequal_padding():
    def expected(x, w):
        return F.conv2d(F.pad(x, (0, 1, 2, 0)), w)

    check(
        lambda x, w: ops.conv2d(x, w, padding=[(2, 0), (0, 1)]),
        expected, (1, 2, 5, 5), (3, 2, 3, 3),
    )  # fmt: skip


def test_conv_without_padding_has_no_pad_stage():
    x, w = tensors((1, 2, 5, 5), (3, 2, 3, 3))
    assert len(DAG.build([ops.conv2d(x, w)]).stages) == 1
    assert len(DAG.build([ops.conv2d(x, w, padding=1)]).stages) == 2


@pytest.mark.parametrize("groups", [2, 4])
def test_group_conv(groups):
    check(
        lambda x, w: ops.group_conv2d(x, w, groups, stride=2, padding=1),
        lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=groups),
        (2, 8, 7, 7), (12, 8 // groups, 3, 3),
    )  # fmt: skip


@pytest.mark.parametrize("multiplier", [1, 2])
def test_depthwise_conv(multiplier):
    check(
        lambda x, w: ops.depthwise_conv2d(x, w, padding=1),
        lambda x, w: F.conv2d(x, w, padding=1, groups=5),
        (1, 5, 7, 7), (5 * multiplier, 1, 3, 3),
    )  # fmt: skip
    check(
        lambda x, w: ops.depthwise_conv2d(x, w, padding=1, layout="NHWC"),
        nhwc(lambda x, w: F.conv2d(x, w, padding=1, groups=5)),
        (1, 7, 7, 5), (3, 3, 1, 5 * multiplier),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stride", "padding", "extra"),
    [(1, 0, 0), (2, 1, 0), (2, 1, 1), (3, 2, 0), (1, 3, 0)],
)
def test_conv2d_transpose(stride, padding, extra):
    def expected(x, w):
        return F.conv_transpose2d(x, w, None, stride, padding, extra)

    check(
        lambda x, w: ops.conv2d_transpose(x, w, stride, padding, extra),
        expected, (2, 4, 5, 6), (4, 3, 4, 4),
    )  # fmt: skip

    def expected_last(x, w):
        y = expected(x.permute(0, 3, 1, 2), w.permute(2, 3, 0, 1))
        return y.permute(0, 2, 3, 1).contiguous()

    check(
        lambda x, w: ops.conv2d_transpose(x, w, stride, padding, extra, "NHWC"),
        expected_last, (2, 5, 6, 4), (4, 4, 4, 3),
    )  # fmt: skip


def test_capsule_conv2d():
    def expected(x, w):
        x = F.pad(x, (0, 0) * 3 + (1, 1) * 2)
        patches = x.unfold(1, 3, 2).unfold(2, 3, 2)  # n y x c a b ry rx
        return torch.einsum("nyxcabuv,uvcobd->nyxoad", patches, w)

    check(
        lambda x, w: ops.capsule_conv2d(x, w, stride=2, padding=1),
        expected, (1, 7, 7, 3, 4, 4), (3, 3, 3, 2, 4, 4),
    )  # fmt: skip


POOLS = {
    "max": (lambda x: ops.max_pool(x, 3, 2, 1), lambda x: F.max_pool2d(x, 3, 2, 1)),
    "avg": (
        lambda x: ops.avg_pool(x, 3, 2, 1),
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    ),
    "avg_all": (
        lambda x: ops.avg_pool(x, 3, 2, 1, count_padding=True),
        lambda x: F.avg_pool2d(x, 3, 2, 1),
    ),
    "plain": (lambda x: ops.avg_pool(x, 2), lambda x: F.avg_pool2d(x, 2)),
    "global_avg": (ops.global_avg_pool, lambda x: x.mean((2, 3))),
    "global_max": (ops.global_max_pool, lambda x: x.amax((2, 3))),
    "nhwc": (
        lambda x: ops.max_pool(x, 2, layout="NHWC"),
        lambda x: (
            F.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1).contiguous()
        ),
    ),
}


@pytest.mark.parametrize("case", POOLS.values(), ids=POOLS)
def test_pool(case):
    check(*case, (2, 3, 8, 6))


def test_pool_over_one_and_three_axes():
    check(
        lambda x: ops.pool(x, "max", 3, 2, layout="NCW"),
        lambda x: F.max_pool1d(x, 3, 2), (2, 3, 9),
    )  # fmt: skip
    check(
        lambda x: ops.pool(x, "avg", 2, layout="NCDHW"),
        lambda x: F.avg_pool3d(x, 2), (1, 2, 4, 4, 4),
    )  # fmt: skip


NORMS = {
    "softmax": (ops.softmax, lambda x: x.softmax(-1)),
    "softmax_middle": (lambda x: ops.softmax(x, 1), lambda x: x.softmax(1)),
    "log_softmax": (ops.log_softmax, lambda x: x.log_softmax(-1)),
    "layer_norm": (ops.layer_norm, lambda x: F.layer_norm(x, (8,))),
    "layer_norm_2": (
        lambda x: ops.layer_norm(x, axes=2), lambda x: F.layer_norm(x, (5, 8))),
    "rms_norm": (ops.rms_norm, lambda x: F.rms_norm(x, (8,), eps=1e-6)),
    "matrix_norm": (ops.matrix_norm, torch.linalg.matrix_norm),
    "reduce_sum": (
        lambda x: ops.reduce_sum(x, (0, 2)), lambda x: x.sum((0, 2))),
    "reduce_mean": (ops.reduce_mean, torch.mean),
    "reduce_max": (
        lambda x: ops.reduce_max(x, 1, keepdims=True), lambda x: x.amax(1, True)),
    "reduce_min": (lambda x: ops.reduce_min(x, -1), lambda x: x.amin(-1)),
    "transpose": (
        lambda x: ops.transpose(x, (2, 0, 1)), lambda x: x.permute(2, 0, 1)),
    "reverse": (ops.transpose, lambda x: x.permute(2, 1, 0)),
    "flatten": (ops.flatten, lambda x: x.flatten(1)),
    "slice": (
        lambda x: ops.slice(x, (1, 0, 1), (3, 5, 8), (1, 2, 3)),
        lambda x: x[1:3, 0:5:2, 1:8:3]),
    "split": (lambda x: ops.split(x, [3, 5], 2)[1], lambda x: x[:, :, 3:]),
    "split_equal": (lambda x: ops.split(x, 3)[1], lambda x: x[1:2]),
    "pad": (
        lambda x: ops.pad(x, [(0, 0), (1, 0), (2, 3)], 1.5),
        lambda x: F.pad(x, (2, 3, 1, 0), value=1.5)),
    "concat": (
        lambda x: ops.concat([x, x, x], 1), lambda x: torch.cat([x, x, x], 1)),
}  # fmt: skip


@pytest.mark.parametrize("case", NORMS.values(), ids=NORMS)
def test_norms_reductions_and_shapes(case):
    check(*case, (3, 5, 8))


@pytest.mark.parametrize(
    ("old", "new"),
    [((2, 3, 4), (6, 4)), ((6, 4), (2, 3, 4)), ((6, 4), (8, 3)), ((4, 1, 3), (12,)),
     ((1,), (1, 1)), ((1, 5), (5,)), ((2, 3, 4), (4, 3, 2)), ((5,), (1, 5, 1))],
)  # fmt: skip
def test_reshape(old, new):
    check(lambda x: ops.reshape(x, new), lambda x: x.reshape(new), old)


def test_layer_norm_and_rms_norm_scale():
    check(
        lambda x, g, b: ops.layer_norm(x, g, b),
        lambda x, g, b: F.layer_norm(x, (8,), g, b), (3, 8), (8,), (8,),
    )  # fmt: skip
    check(ops.rms_norm, lambda x, g: F.rms_norm(x, (8,), g, 1e-6), (3, 8), (8,))


@pytest.mark.parametrize("axis", [1, -1])
def test_batch_norm(axis):
    def expected(x, m, v, g, b):
        y = F.batch_norm(x if axis == 1 else x.permute(0, 3, 1, 2), m, v, g, b)
        return y if axis == 1 else y.permute(0, 2, 3, 1).contiguous()

    check(
        lambda *a: ops.batch_norm(*a, axis=axis),
        expected, (2, 4, 5, 4), (4,), (4,), (4,), (4,), positive=True,
    )  # fmt: skip


ACTIVATIONS = {
    "relu": (ops.relu, F.relu),
    "relu6": (ops.relu6, F.relu6),
    "gelu": (ops.gelu, F.gelu),
    "gelu_tanh": (
        lambda x: ops.gelu(x, approximate=True),
        lambda x: F.gelu(x, approximate="tanh"),
    ),
    "silu": (ops.silu, F.silu),
    "sigmoid": (ops.sigmoid, torch.sigmoid),
    "tanh": (ops.tanh, torch.tanh),
    "leaky_relu": (ops.leaky_relu, F.leaky_relu),
    "hard_swish": (ops.hard_swish, F.hardswish),
    "elu": (ops.elu, F.elu),
}


@pytest.mark.parametrize("case", ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_activations(case):
    check(*case, (40, 8))


BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum"]


@pytest.mark.parametrize("name", BINARY)
def test_broadcasting(name):
    check(getattr(ops, name), getattr(torch, name), (4, 1, 3), (5, 1))


def test_bias_add():
    check(
        lambda x, b: ops.bias_add(x, b, axis=1),
        lambda x, b: x + b[:, None], (2, 3, 4), (3,),
    )  # fmt: skip


def test_attention():
    shapes = [(2, 4, 6, 8)] * 3
    check(ops.attention, F.scaled_dot_product_attention, *shapes)
    check(
        lambda q, k, v, m: ops.attention(q, k, v, mask=m),
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
        *shapes, (6, 6),
    )  # fmt: skip


def test_embedding():
    table = ansor.placeholder((10, 4), name="table")
    ids = ansor.placeholder((2, 3), "int32", name="ids")
    dag = DAG.build([ops.embedding(table, ids)])
    assert [b.name for b in dag.inputs] == ["table", "ids"]
    t = RNG.standard_normal((10, 4)).astype("float32")
    i = RNG.integers(0, 10, (2, 3)).astype("int32")
    np.testing.assert_array_equal(reference(dag, [t, i])[0], t[i])


def test_integer_matmul_accumulates_wider():
    a, b = (ansor.placeholder((8, 8), "int8", name=n) for n in "AB")
    dag = DAG.build([ops.matmul(a, b, dtype="int32")])
    x, y = (RNG.integers(-128, 128, (8, 8)).astype("int8") for _ in "AB")
    (out,) = reference(dag, [x, y])
    assert out.dtype == np.int32
    np.testing.assert_array_equal(out, x.astype("int32") @ y.astype("int32"))
