"""Workloads beyond the standard ones: other structures, types and shapes.

They show that derivation needs no template, and hold the problems whose spaces the
original system's tests describe. `batch` is a leading axis or multiplies the rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from ansor.te import ops, reduction
from ansor.te.functions import cast, clip, select
from ansor.te.reduction import reduce_axis
from ansor.te.tensor import Tensor, compute, placeholder
from ansor.te.value import Scalar, Value
from ansor.te.workloads.standard import (
    Space,
    convolution,
    product,
    softmax,
    vector,
    weights,
)
from ansor.te.workloads.winograd import winograd
from ansor.te.workloads.workload import Sizes, Workload, table


def matrix(batch: int, m: int, n: int) -> Tensor:
    return placeholder((batch * m, n), name="X")


def stencil(batch: int, m: int, n: int) -> Tensor:
    x = matrix(batch, m, n)

    def body(i: Value, j: Value) -> Scalar:
        sides = x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j] + x[i + 1, j + 2]
        return 0.5 * x[i + 1, j + 1] + 0.125 * sides

    return compute((x.shape[0] - 2, n - 2), body, name="stencil")


def embedding(batch: int, rows: int, width: int, count: int) -> Tensor:
    words = placeholder((rows, width), name="table", constant=True)
    return ops.embedding(words, placeholder((batch * count,), "int64", name="ids"))


def argmax(batch: int, m: int, n: int) -> Tensor:
    x, k = matrix(batch, m, n), reduce_axis(n, "k")
    return compute(
        (x.shape[0],), lambda i: reduction.argmax(x[i, k], axis=k), name="argmax"
    )


def chain(batch: int, m: int, n: int, k: int, p: int) -> Tensor:
    a, b = placeholder((batch * m, k), name="A"), placeholder((k, n), name="B")
    return ops.matmul(ops.matmul(a, b, "AB"), placeholder((n, p), name="C"), "ABC")


def matmul_relu(batch: int, m: int, n: int, k: int) -> Tensor:
    return ops.relu(product(batch, m, n, k))


def matmul_and_relu(batch: int, m: int, n: int, k: int) -> tuple[Tensor, ...]:
    whole = product(batch, m, n, k)
    return whole, ops.relu(whole)


def row_moments(batch: int, m: int, n: int) -> tuple[Tensor, ...]:
    x = matrix(batch, m, n)
    squares = ops.multiply(x, x, name="square")
    return ops.reduce_sum(x, 1, name="total"), ops.reduce_sum(squares, 1, name="power")


def masked_attention(batch: int, heads: int, seq: int, dim: int) -> Tensor:
    shape = (batch * heads, seq, dim)
    q, k, v = (placeholder(shape, name=name) for name in ("Q", "K", "V"))
    return ops.attention(q, k, v, placeholder((seq, seq), name="mask"))


def grouped_attention(batch: int, heads: int, share: int, seq: int, dim: int) -> Tensor:
    """`share` heads of queries read the same keys and values."""
    q = placeholder((batch * heads, share, seq, dim), name="Q")
    one = (batch * heads, 1, seq, dim)
    return ops.attention(q, placeholder(one, name="K"), placeholder(one, name="V"))


def prefix_sum(batch: int, m: int, n: int) -> Tensor:
    x, k = matrix(batch, m, n), reduce_axis(n, "k")
    return compute(
        x.shape,
        lambda i, j: reduction.sum(select(k <= j, x[i, k], 0.0), axis=k),
        name="prefix_sum",
    )


def sliding_sum(batch: int, m: int, n: int, kernel: int) -> Tensor:
    x, k = matrix(batch, m, n), reduce_axis(kernel, "k")
    return compute(
        (x.shape[0], n - kernel + 1),
        lambda i, j: reduction.sum(x[i, j + k], axis=k),
        name="sliding_sum",
    )


def conv4d(batch: int, space: Space, c: int, o: int, kernel: int) -> Tensor:
    """A convolution over four spatial axes: tensors of six."""
    x = placeholder((batch, c, *space), name="X")
    w = weights(o, c, (kernel,) * 4, last=False)
    k = reduce_axis(c, "c")
    inside = [reduce_axis(kernel, f"r{d}") for d in range(4)]

    def body(n: Value, o: Value, *place: Value) -> Scalar:
        at = [p + r for p, r in zip(place, inside, strict=True)]
        return reduction.sum(x[(n, k, *at)] * w[(o, k, *inside)], axis=[k, *inside])

    rest = tuple(extent - kernel + 1 for extent in space)
    axes = ("n", "o", "t", "z", "y", "x")
    return compute((batch, o, *rest), body, name="conv4d", axes=axes)


def grouped_conv3d(
    batch: int, space: Space, c: int, o: int, kernel: int, padding: int, groups: int
) -> Tensor:
    x = placeholder((batch, c * groups, *space), name="X")
    w = weights(o * groups, c, (kernel,) * 3, last=False)
    return ops.conv3d(x, w, padding=padding, groups=groups)


def int8_product(batch: int, m: int, n: int, k: int) -> Tensor:
    a = placeholder((batch * m, k), "int8", name="A")
    return ops.matmul(a, placeholder((k, n), "int8", name="B"), dtype="int32")


def bfloat16_product(batch: int, m: int, n: int, k: int) -> Tensor:
    a = placeholder((batch * m, k), "bfloat16", name="A")
    return ops.matmul(a, placeholder((k, n), "bfloat16", name="B"), dtype="float32")


def quantize(batch: int, m: int, n: int) -> Tensor:
    """float32 to uint8, by a scale that is a tensor without axes."""
    x, scale = matrix(batch, m, n), placeholder((), name="scale")

    def body(i: Value, j: Value) -> Scalar:
        return cast(clip(x[i, j] * scale[()] * 99.0 + 128.0, 0.0, 255.0), "uint8")

    return compute(x.shape, body, name="quantized")


def sum_all(batch: int, m: int, n: int) -> Tensor:
    return ops.reduce_sum(matrix(batch, m, n))


def sum_vector(batch: int, n: int) -> Tensor:
    return ops.reduce_sum(placeholder((batch * n,), name="X"))


def scaled(batch: int, m: int, n: int) -> Tensor:
    x, s = matrix(batch, m, n), placeholder((), name="s")
    return compute(x.shape, lambda i, j: x[i, j] * s[()], name="scaled")


def max_pool(batch: int, space: Space, c: int, kernel: int, padding: int) -> Tensor:
    x = placeholder((batch, c, *space), name="X")
    return ops.max_pool(x, kernel, stride=1, padding=padding)


def min_rows(batch: int, m: int, n: int) -> Tensor:
    return ops.reduce_min(matrix(batch, m, n), -1)


def softmax4d(batch: int, shape: Space) -> Tensor:
    return ops.softmax(placeholder((batch * shape[0], *shape[1:]), name="X"))


def log_softmax(batch: int, m: int, n: int) -> Tensor:
    return ops.log_softmax(matrix(batch, m, n))


def rms_norm(batch: int, m: int, n: int) -> Tensor:
    return ops.rms_norm(matrix(batch, m, n), vector(n, "gamma"))


def transpose(batch: int, m: int, n: int) -> Tensor:
    return ops.transpose(matrix(batch, m, n))


def concat(batch: int, m: int, n: int, p: int) -> Tensor:
    parts = [placeholder((batch * m, x), name=y) for x, y in ((n, "A"), (p, "B"))]
    return ops.concat(parts, axis=1)


def convolution_bias_norm_relu(
    batch: int,
    space: Space,
    c: int,
    o: int,
    kernel: int,
    padding: int,
    stride: int = 1,
) -> Tensor:
    """Bias and norm as separate stages, the norm folded to a factor and a summand."""
    y = convolution(batch, space, c, o, kernel, stride, padding, last=True)
    biased = ops.bias_add(y, vector(o, "bias"))
    normed = ops.multiply(biased, vector(o, "bn_scale"), name="bn_mul")
    return ops.relu(ops.add(normed, vector(o, "bn_offset"), name="bn_add"))


def _products() -> Iterator[Workload]:
    cube: Sizes = {"m": 512, "n": 512, "k": 512}
    odd: Sizes = {"m": 5, "n": 6, "k": 3}
    for k, tiny in ((512, 11), (1024, 13)):
        yield Workload(
            f"matmul-8x8x{k}", f"matrix product 8x8x{k}: few elements, long sums",
            product, {"m": 8, "n": 8, "k": k}, {"m": 2, "n": 5, "k": tiny},
        )  # fmt: skip
    yield Workload(
        "matmul-chain", "two matrix products of 512, one after the other", chain,
        {**cube, "p": 512}, {"m": 4, "n": 5, "k": 3, "p": 6},
    )  # fmt: skip
    yield Workload(
        "matmul-relu", "matrix product of 512 and relu", matmul_relu, cube, odd
    )
    yield Workload(
        "matmul-and-relu", "matrix product and its relu, both outputs",
        matmul_and_relu, cube, odd,
    )  # fmt: skip
    yield Workload(
        "matmul-int8", "int8 matrix product, summed in int32", int8_product, cube, odd
    )
    yield Workload(
        "matmul-bfloat16", "bfloat16 matrix product, summed in float32",
        bfloat16_product, cube, odd,
    )  # fmt: skip
    yield Workload(
        "attention-mask", "attention with an added mask, 12 heads of 64, 128 words",
        masked_attention, {"heads": 12, "seq": 128, "dim": 64},
        {"heads": 2, "seq": 3, "dim": 9},
    )  # fmt: skip
    yield Workload(
        "attention-grouped", "attention, 8 heads of keys for 32 heads of queries",
        grouped_attention, {"heads": 8, "share": 4, "seq": 128, "dim": 64},
        {"heads": 2, "share": 2, "seq": 3, "dim": 2},
    )  # fmt: skip


def _windows() -> Iterator[Workload]:
    yield Workload(
        "stencil5", "five-point stencil on 1024x1024", stencil,
        {"m": 1024, "n": 1024}, {"m": 5, "n": 8},
    )  # fmt: skip
    yield Workload(
        "prefix-sum", "sums of the first 1 to 256 elements of 64 rows", prefix_sum,
        {"m": 64, "n": 256}, {"m": 2, "n": 9},
    )  # fmt: skip
    yield Workload(
        "sliding-sum", "sums of 31 neighbours in 64 rows of 4096", sliding_sum,
        {"m": 64, "n": 4096, "kernel": 31}, {"m": 2, "n": 14, "kernel": 9},
    )  # fmt: skip
    yield Workload(
        "conv4d", "convolution over four axes of 16, 8 to 16, kernel 3", conv4d,
        {"space": (16, 16, 16, 16), "c": 8, "o": 16, "kernel": 3},
        {"space": (3, 2, 2, 4), "c": 2, "o": 2, "kernel": 2},
    )  # fmt: skip
    yield Workload(
        "conv3d-grouped", "conv3d 8x56x56, 64 to 64, kernel 3, padding 1, 4 groups",
        grouped_conv3d,
        {"space": (8, 56, 56), "c": 16, "o": 16, "kernel": 3, "padding": 1,
         "groups": 4},
        {"space": (1, 1, 1), "c": 2, "o": 1, "kernel": 2, "groups": 2},
    )  # fmt: skip
    yield Workload(
        "conv-bias-bn-relu", "conv2d 56x56, 512 to 512, kernel 3, bias, norm, relu",
        convolution_bias_norm_relu,
        {"space": (56, 56), "c": 512, "o": 512, "kernel": 3, "padding": 1},
        {"space": (1, 1), "c": 2, "o": 5, "kernel": 2},
    )  # fmt: skip
    yield Workload(
        "conv7-bias-bn-relu", "conv2d as C2D (channels last), bias, norm, relu",
        convolution_bias_norm_relu,
        {"space": (224, 224), "c": 3, "o": 64, "kernel": 7, "stride": 2, "padding": 3},
        {"space": (3, 3), "c": 2, "o": 5, "kernel": 3, "padding": 1},
    )  # fmt: skip
    yield Workload(
        "conv-winograd", "conv2d 28x28, 128 to 128, kernel 3, by Winograd's F(4, 3)",
        winograd, {"space": (28, 28), "c": 128, "o": 128, "tile": 4},
        {"space": (2, 3), "c": 2, "o": 3, "tile": 2},
    )  # fmt: skip
    yield Workload(
        "max-pool", "max pool 2x2, stride 1, padding 1 of 56x56, 512 channels",
        max_pool, {"space": (56, 56), "c": 512, "kernel": 2, "padding": 1},
        {"space": (2, 5), "c": 2},
    )  # fmt: skip


def _rows() -> Iterator[Workload]:
    rows = (
        ("argmax-rows", "places of the greatest in 256 rows of 1000",
         argmax, 256, 1000),
        ("min-rows", "least of 10 rows of 1024", min_rows, 10, 1024),
        ("row-moments", "sums and sums of squares of 512 rows of 1024, two outputs",
         row_moments, 512, 1024),
        ("sum-all", "sum of 1024x1024 elements, an output without axes", sum_all, 1024,
         1024),
        ("scale", "1024x1024 elements times an input without axes", scaled, 1024, 1024),
        ("quantize", "1024x1024 elements to uint8", quantize, 1024, 1024),
        ("softmax-1x1024", "softmax of 1 row of 1024", softmax, 1, 1024),
        ("softmax-2x1024", "softmax of 2 rows of 1024", softmax, 2, 1024),
        ("log-softmax", "log softmax of 256 rows of 1000", log_softmax, 256, 1000),
        ("rms-norm", "RMS norm of 512 rows of 4096", rms_norm, 512, 4096),
        ("transpose-copy", "transpose of 1024x1024", transpose, 1024, 1024),
    )  # fmt: skip
    for name, text, expression, m, n in rows:
        tiny = {"m": min(m, 5), "n": 19 if name == "quantize" else 9}  # 16 lanes
        yield Workload(name, text, expression, {"m": m, "n": n}, tiny)
    yield Workload("sum-128", "sum of 128 elements", sum_vector, {"n": 128}, {"n": 13})
    yield Workload(
        "softmax-4d", "softmax of 1x12x128x128", softmax4d,
        {"shape": (1, 12, 128, 128)}, {"shape": (1, 2, 3, 9)},
    )  # fmt: skip
    yield Workload(
        "concat", "two matrices side by side, 512x(300 + 724)", concat,
        {"m": 512, "n": 300, "p": 724}, {"m": 3, "n": 5, "p": 6},
    )  # fmt: skip
    yield Workload(
        "gather", "128 rows of 768, picked from 30522", embedding,
        {"rows": 30522, "width": 768, "count": 128},
        {"rows": 7, "width": 6, "count": 5},
    )  # fmt: skip


MORE: dict[str, Workload] = table((*_products(), *_windows(), *_rows()))
