"""The standard workloads: the operators that every claim is measured on.

Names with "-nchw" and "-nhwc" are convolutions with the channels before or after the
spatial axes (NCW and NWC, NCDHW and NDHWC for one and three of them). Weights of
convolutions and the vectors of normalisations are constant: their layout may be
rewritten ahead of time. Neither operand of a matrix product is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ansor.te import ops
from ansor.te.ops.window import Layout
from ansor.te.tensor import Tensor, placeholder
from ansor.te.workloads.workload import Outputs, Sizes, Workload, table

Space = tuple[int, ...]


def product(batch: int, m: int, n: int, k: int) -> Tensor:
    """A matrix product; a batch of them where `batch` is more than 1."""
    if batch > 1:
        return batched_product(batch, m, n, k)
    return ops.matmul(placeholder((m, k), name="A"), placeholder((k, n), name="B"))


def batched_product(batch: int, m: int, n: int, k: int) -> Tensor:
    a = placeholder((batch, m, k), name="A")
    return ops.batch_matmul(a, placeholder((batch, k, n), name="B"))


def images(batch: int, c: int, space: Space, last: bool) -> Tensor:
    shape = Layout(last, len(space)).join(batch, c, space)
    return placeholder(shape, name="X")


def weights(o: int, i: int, space: Space, last: bool) -> Tensor:
    shape = Layout(last, len(space)).weight(o, i, space)
    return placeholder(shape, name="W", constant=True)


def vector(size: int, name: str) -> Tensor:
    return placeholder((size,), name=name, constant=True)


def layout_name(rank: int, last: bool) -> str:
    space = "DHW"[3 - rank :]
    return f"N{space}C" if last else f"NC{space}"


def convolution(
    batch: int,
    space: Space,
    c: int,
    o: int,
    kernel: int,
    stride: int = 1,
    padding: int = 0,
    dilation: int = 1,
    last: bool = False,
) -> Tensor:
    """A convolution over one, two or three spatial axes."""
    rank = len(space)
    operator = (ops.conv1d, ops.conv2d, ops.conv3d)[rank - 1]
    x = images(batch, c, space, last)
    w = weights(o, c, (kernel,) * rank, last)
    return operator(x, w, stride, padding, dilation, layout=layout_name(rank, last))


def depthwise(
    batch: int, space: Space, c: int, kernel: int, padding: int, last: bool = False
) -> Tensor:
    x, w = images(batch, c, space, last), weights(c, 1, (kernel, kernel), last)
    return ops.depthwise_conv2d(x, w, padding=padding, layout=layout_name(2, last))


def grouped(
    batch: int,
    space: Space,
    c: int,
    o: int,
    kernel: int,
    stride: int,
    padding: int,
    groups: int,
    last: bool = False,
) -> Tensor:
    """A grouped convolution; `c` and `o` are the channels of one group."""
    x = images(batch, c * groups, space, last)
    w = weights(o * groups, c, (kernel, kernel), last)
    layout = layout_name(2, last)
    return ops.group_conv2d(x, w, groups, stride, padding, layout=layout)


def transposed(
    batch: int,
    space: Space,
    c: int,
    o: int,
    kernel: int,
    stride: int,
    padding: int,
    last: bool = False,
) -> Tensor:
    shape = (kernel, kernel, c, o) if last else (c, o, kernel, kernel)
    w = placeholder(shape, name="W", constant=True)
    x, layout = images(batch, c, space, last), layout_name(2, last)
    return ops.conv2d_transpose(x, w, stride, padding, layout=layout)


def capsules(
    batch: int,
    space: Space,
    c: int,
    o: int,
    capsule: int,
    kernel: int,
    stride: int,
    padding: int,
) -> Tensor:
    x = placeholder((batch, *space, c, capsule, capsule), name="X")
    shape = (kernel, kernel, c, o, capsule, capsule)
    w = placeholder(shape, name="W", constant=True)
    return ops.capsule_conv2d(x, w, stride, padding)


def convolution_norm_relu(
    batch: int,
    space: Space,
    c: int,
    o: int,
    kernel: int,
    stride: int,
    padding: int,
    last: bool = False,
) -> Tensor:
    y = convolution(batch, space, c, o, kernel, stride, padding, last=last)
    names = ("mean", "variance", "gamma", "beta")
    mean, variance, gamma, beta = (vector(o, name) for name in names)
    axis = -1 if last else 1
    return ops.relu(ops.batch_norm(y, mean, variance, gamma, beta, axis))


def transpose_product(batch: int, seq: int, heads: int, dim: int) -> Tensor:
    """Scores of attention from activations that keep the heads of a word together."""
    query = placeholder((batch, seq, heads, dim), name="query")
    key = placeholder((batch, seq, heads, dim), name="key")
    left = ops.transpose(query, (0, 2, 1, 3), name="query_t")
    right = ops.transpose(key, (0, 2, 3, 1), name="key_t")
    return ops.batch_matmul(left, right)


def norm(batch: int, m: int, n: int) -> Tensor:
    return ops.matrix_norm(placeholder((batch, m, n), name="X"))


def softmax(batch: int, m: int, n: int) -> Tensor:
    return ops.softmax(placeholder((batch * m, n), name="X"))


def layer_norm_gelu(batch: int, m: int, n: int) -> Tensor:
    x = placeholder((batch * m, n), name="X")
    return ops.gelu(ops.layer_norm(x, vector(n, "gamma"), vector(n, "beta")))


def attention(batch: int, seq: int, heads: int, dim: int) -> Tensor:
    shape = (batch * heads, seq, dim)
    q, k, v = (placeholder(shape, name=name) for name in ("Q", "K", "V"))
    return ops.attention(q, k, v)


def _products() -> Iterator[Workload]:
    yield Workload(
        "GMM128", "batched matrix product 128x128x128", batched_product,
        {"m": 128, "n": 128, "k": 128}, {"m": 4, "n": 5, "k": 3}, small_batch=2,
    )  # fmt: skip
    for n, tiny in _SQUARE.items():
        text = f"matrix product {n}x{n}x{n}"
        small: Sizes = dict(zip("mnk", tiny, strict=True))
        yield Workload(f"GMM{n}", text, product, {"m": n, "n": n, "k": n}, small)
    for (m, n, k), tiny in _SKINNY.items():
        yield Workload(
            f"GMMsk-{m}x{n}x{k}", f"matrix product {m}x{n}x{k} (M, N, K)", product,
            {"m": m, "n": n, "k": k}, dict(zip("mnk", tiny, strict=True)),
        )  # fmt: skip


# M, N, K and those of the small version.
_SQUARE = {512: (5, 6, 3), 1024: (4, 8, 3), 1009: (3, 7, 5), 2039: (7, 5, 2)}
_SKINNY = {
    (31, 1000, 768): (3, 9, 5),
    (512, 512, 4096): (4, 5, 9),
    (1, 4096, 4096): (1, 11, 9),
    (4, 11008, 4096): (2, 13, 5),
}


def _both(
    name: str,
    text: str,
    expression: Callable[..., Outputs],
    sizes: Sizes,
    tiny: tuple[Sizes, Sizes],
    positive: tuple[str, ...] = (),
) -> Iterator[Workload]:
    """A convolution in its two layouts, which differ in the axis to vectorise: `tiny`
    has the small sizes of either."""
    for suffix, last in (("nchw", False), ("nhwc", True)):
        yield Workload(
            f"{name}-{suffix}", f"{text}, channels {'last' if last else 'first'}",
            partial(expression, last=last), sizes, tiny[last], positive=positive,
        )  # fmt: skip


def _convolutions() -> Iterator[Workload]:
    stem: Sizes = {
        "space": (224, 224), "c": 3, "o": 64, "kernel": 7, "stride": 2, "padding": 3,
    }  # fmt: skip
    line: Sizes = {"space": (9,), "c": 2, "o": 5}
    window: Sizes = {"c": 2, "kernel": 2, "padding": 1}
    yield from _both(
        "C1D", "conv1d 256, 64 to 128, kernel 3, stride 2, padding 1", convolution,
        {"space": (256,), "c": 64, "o": 128, "kernel": 3, "stride": 2, "padding": 1},
        (line, line),
    )  # fmt: skip
    yield from _both(
        "C2D", "conv2d 224x224, 3 to 64, kernel 7, stride 2, padding 3", convolution,
        stem,
        ({**window, "space": (2, 8), "o": 2}, {**window, "space": (2, 2), "o": 5}),
    )  # fmt: skip
    yield from _both(
        "C3D", "conv3d 16x224x224, 3 to 64, kernel 7, stride 2, padding 3",
        convolution, {**stem, "space": (16, 224, 224)},
        ({**window, "space": (2, 1, 8), "o": 2},
         {**window, "space": (2, 1, 2), "o": 5}),
    )  # fmt: skip
    yield from _both(
        "DEP", "depthwise conv2d 112x112, 32, kernel 3, padding 1", depthwise,
        {"space": (112, 112), "c": 32, "kernel": 3, "padding": 1},
        ({"space": (2, 5), "c": 2}, {"space": (2, 2), "c": 5}),
    )  # fmt: skip
    yield from _both(
        "DIL", "conv2d 224x224, 3 to 64, kernel 7, stride 2, padding 3, dilation 2",
        convolution, {**stem, "dilation": 2},
        ({**window, "space": (3, 9), "o": 2}, {**window, "space": (3, 3), "o": 5}),
    )  # fmt: skip
    yield from _both(
        "GRP", "conv2d 56x56, 64 to 128, kernel 3, stride 2, padding 1, 4 groups",
        grouped,
        {"space": (56, 56), "c": 16, "o": 32, "kernel": 3, "stride": 2, "padding": 1,
         "groups": 4},
        ({**window, "space": (2, 8), "o": 1, "groups": 2},
         {**window, "space": (2, 2), "o": 3, "groups": 2}),
    )  # fmt: skip
    yield from _both(
        "T2D", "transposed conv2d 4x4, 512 to 256, kernel 4, stride 2, padding 1",
        transposed,
        {"space": (4, 4), "c": 512, "o": 256, "kernel": 4, "stride": 2, "padding": 1},
        ({**window, "space": (2, 4), "o": 2}, {**window, "space": (2, 2), "o": 5}),
    )  # fmt: skip
    yield Workload(
        "CAP",
        "capsule conv2d 16x16, 32 to 32 of 4x4, kernel 3, stride 2, padding 1, NHWC",
        capsules,
        {"space": (16, 16), "c": 32, "o": 32, "capsule": 4, "kernel": 3, "stride": 2,
         "padding": 1},
        {**window, "space": (1, 2), "o": 2, "capsule": 2},
    )  # fmt: skip


def _layers() -> Iterator[Workload]:
    pair: Sizes = {"space": (2, 3), "c": 5}
    window: Sizes = {"c": 2, "kernel": 2}
    rows: dict[str, tuple[int, int, int, int, tuple[Sizes, Sizes]]] = {
        "R50a": (56, 64, 64, 3, ({**window, "space": (1, 4), "o": 2},
                                 {**window, "space": (1, 1), "o": 5})),
        "R50b": (14, 256, 256, 3, ({**window, "space": (1, 2), "o": 5},
                                   {**window, "space": (1, 4), "o": 2})),
        "R50c": (14, 1024, 256, 1, ({**pair, "o": 5}, {**pair, "o": 6})),
    }  # fmt: skip
    for name, (side, c, o, kernel, tiny) in rows.items():
        yield from _both(
            name, f"ResNet-50 conv2d {side}x{side}, {c} to {o}, kernel {kernel}",
            convolution,
            {"space": (side, side), "c": c, "o": o, "kernel": kernel,
             "padding": kernel // 2},
            tiny,
        )  # fmt: skip
    yield from _both(
        "CBR", "conv2d as C2D, batch norm, relu", convolution_norm_relu,
        {"space": (224, 224), "c": 3, "o": 64, "kernel": 7, "stride": 2, "padding": 3},
        ({**window, "space": (2, 4), "o": 5, "padding": 1},
         {**window, "space": (2, 2), "o": 5, "padding": 1}),
        positive=("variance",),
    )  # fmt: skip


def _others() -> Iterator[Workload]:
    heads: Sizes = {"seq": 128, "heads": 12, "dim": 64}
    yield Workload(
        "TBG", "transpose and batched matrix product, 128 words, 12 heads of 64",
        transpose_product, heads, {"seq": 3, "heads": 2, "dim": 9}, small_batch=2,
    )  # fmt: skip
    yield Workload(
        "NRM", "root of the sum of squares of 256x256 matrices", norm,
        {"m": 256, "n": 256}, {"m": 3, "n": 9}, small_batch=2,
    )  # fmt: skip
    yield Workload(
        "SFM", "softmax of 256 rows of 256", softmax,
        {"m": 256, "n": 256}, {"m": 5, "n": 9},
    )  # fmt: skip
    yield Workload(
        "LNG", "layer norm and GELU of 512 rows of 768", layer_norm_gelu,
        {"m": 512, "n": 768}, {"m": 5, "n": 9},
    )  # fmt: skip
    yield Workload(
        "ATT", "attention, 12 heads of 64, 128 words", attention, heads,
        {"seq": 5, "heads": 2, "dim": 2},
    )  # fmt: skip


WORKLOADS: dict[str, Workload] = table(
    (*_products(), *_convolutions(), *_layers(), *_others())
)
