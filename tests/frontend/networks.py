"""Small networks for tests of passes and partition: built, not imported."""

from collections.abc import Callable

import numpy as np

from ansor.frontend.builder import Builder
from ansor.frontend.graph import Array, Graph, Value


class Layers:
    """Layers as importers spell them: channels first, batch norm as two operators."""

    def __init__(self, seed: int = 0) -> None:
        self.build = Builder()
        self.rng = np.random.default_rng(seed)

    def array(self, *shape: int) -> Array:
        return self.rng.standard_normal(shape).astype(np.float32)

    def constant(self, *shape: int) -> Value:
        return self.build.constant(self.array(*shape))

    def input(self, *shape: int, name: str = "x", dtype: str = "float32") -> Value:
        return self.build.input(name, dtype, shape)

    def add(self, op: str, *inputs: Value, **attributes: object) -> Value:
        return self.build.add(op, *inputs, **attributes)

    def conv(self, x: Value, channels: int, kernel: int, stride: int = 1, *,
             groups: int = 1, padding: int | None = None) -> Value:  # fmt: skip
        rank = len(x.shape) - 2
        around = kernel // 2 if padding is None else padding
        weight = self.constant(channels, x.shape[1] // groups, *(kernel,) * rank)
        return self.add(
            "conv", x, weight, strides=(stride,) * rank,
            padding=((around, around),) * rank, dilations=(1,) * rank, groups=groups,
            layout="first",
        )  # fmt: skip

    def deconv(self, x: Value, channels: int, kernel: int, stride: int) -> Value:
        weight = self.constant(x.shape[1], channels, kernel, kernel)
        return self.add(
            "conv_transpose", x, weight, strides=(stride, stride),
            padding=((1, 1), (1, 1)), output_padding=(0, 0), dilations=(1, 1),
            groups=1, layout="first",
        )  # fmt: skip

    def norm(self, x: Value) -> Value:
        shape = (x.shape[1], *(1,) * (len(x.shape) - 2))
        y = self.add("multiply", x, self.constant(*shape))
        return self.add("add", y, self.constant(*shape))

    def pool(self, op: str, x: Value, kernel: int, stride: int, padding: int = 0,
             **more: object) -> Value:  # fmt: skip
        rank = len(x.shape) - 2
        return self.add(
            op, x, kernel=(kernel,) * rank, strides=(stride,) * rank,
            padding=((padding, padding),) * rank, dilations=(1,) * rank,
            layout="first", **more,
        )  # fmt: skip

    def dense(self, x: Value, size: int) -> Value:
        y = self.add("matmul", x, self.constant(x.shape[-1], size))
        return self.add("add", y, self.constant(size))

    def heads(self, x: Value, heads: int) -> Value:
        batch, words, width = x.shape
        y = self.add("reshape", x, shape=(batch, words, heads, width // heads))
        return self.add("transpose", y, axes=(0, 2, 1, 3))

    def number(self, value: float) -> Value:
        return self.build.constant(np.array(value, np.float32))

    def layer_norm(self, x: Value) -> Value:
        scale, bias = self.constant(x.shape[-1]), self.constant(x.shape[-1])
        axis = len(x.shape) - 1
        return self.add("layer_norm", x, scale, bias, axis=axis, epsilon=1e-5)

    def finish(self, *outputs: Value) -> Graph:
        return self.build.finish(outputs)


def residual() -> Graph:
    net = Layers()
    x = net.input(2, 3, 6, 5)
    y = net.add("relu", net.norm(net.conv(x, 8, 3)))
    y = net.pool("max_pool", y, 3, 2, 1)
    z = net.add("relu", net.norm(net.conv(y, 4, 1)))
    z = net.add("relu", net.norm(net.conv(z, 4, 3)))
    z = net.norm(net.conv(z, 16, 1))
    y = net.add("relu", net.add("add", net.norm(net.conv(y, 16, 1)), z))
    y = net.add("reduce", y, kind="mean", axes=(2, 3), keepdims=True)
    return net.finish(net.dense(net.add("reshape", y, shape=(2, 16)), 7))


def inverted() -> Graph:
    """MobileNet's block with squeeze and excitation."""
    net = Layers(1)
    x = net.input(1, 4, 5, 5)
    y = net.add("clip", net.norm(net.conv(x, 8, 1)), low=0.0, high=6.0)
    y = net.norm(net.conv(y, 8, 3, 2, groups=8))
    y = net.add("multiply", y, net.add("sigmoid", y))
    gate = net.add("reduce", y, kind="mean", axes=(2, 3), keepdims=True)
    gate = net.add("relu", net.norm(net.conv(gate, 2, 1)))
    gate = net.add("sigmoid", net.norm(net.conv(gate, 8, 1)))
    y = net.add("multiply", y, gate)
    return net.finish(net.norm(net.conv(y, 4, 1)))


def attention(words: int = 5, heads: int = 2, width: int = 8) -> Graph:
    """A layer of BERT."""
    net = Layers(2)
    x = net.input(1, words, width)
    mask = net.input(1, 1, 1, words, name="mask")
    q, k, v = (net.heads(net.dense(x, width), heads) for _ in range(3))
    k = net.add("transpose", k, axes=(0, 1, 3, 2))
    scores = net.add("matmul", q, k)
    scores = net.add("divide", scores, net.number((width / heads) ** 0.5))
    scores = net.add("softmax", net.add("add", scores, mask), axis=3)
    y = net.add("transpose", net.add("matmul", scores, v), axes=(0, 2, 1, 3))
    y = net.dense(net.add("reshape", y, shape=(1, words, width)), width)
    x = net.layer_norm(net.add("add", y, x))
    y = net.add("gelu", net.dense(x, 2 * width))
    return net.finish(net.layer_norm(net.add("add", net.dense(y, width), x)))


def dense_block() -> Graph:
    """Concatenations, norms before convolutions, poolings of all kinds."""
    net = Layers(3)
    x = net.input(1, 3, 8, 8)
    y = net.conv(x, 4, 3)
    for _ in range(2):
        z = net.conv(net.add("relu", net.norm(y)), 4, 3)
        y = net.add("concat", y, z, axis=1)
    y = net.pool("avg_pool", net.conv(net.add("relu", net.norm(y)), 6, 1), 2, 2)
    z = net.add("pad", y, before=(0, 0, 1, 1), after=(0, 0, 1, 0))
    z = net.pool("avg_pool", z, 2, 1)
    y = net.add("softmax", z, axis=1)
    return net.finish(net.add("reshape", y, shape=(1, y.size)), z)


def generator() -> Graph:
    net = Layers(4)
    x = net.input(1, 6)
    y = net.add("reshape", x, shape=(1, 6, 1, 1))
    y = net.add("reshape", net.dense(x, 8 * 4), shape=(1, 8, 2, 2))
    y = net.add("relu", net.norm(net.deconv(y, 4, 4, 2)))
    return net.finish(net.add("tanh", net.deconv(y, 3, 4, 2)))


def shuffle() -> Graph:
    """ShuffleNet: halves of the channels, mixed by a reshape and a transpose."""
    net = Layers(5)
    x = net.input(1, 4, 5, 5)
    y = net.add("relu", net.norm(net.conv(x, 8, 3)))
    a, b = (
        net.add("slice", y, starts=(0, at, 0, 0), stops=(1, at + 4, 5, 5),
                steps=(1, 1, 1, 1))
        for at in (0, 4)
    )  # fmt: skip
    b = net.add("relu", net.norm(net.conv(b, 4, 3, groups=4)))
    y = net.add("concat", a, b, axis=1)
    y = net.add("reshape", y, shape=(1, 2, 4, 5, 5))
    y = net.add("transpose", y, axes=(0, 2, 1, 3, 4))
    y = net.add("reshape", y, shape=(1, 8, 5, 5))
    return net.finish(net.norm(net.conv(y, 4, 1)))


def volume() -> Graph:
    net = Layers(6)
    x = net.input(1, 2, 3, 4, 4)
    y = net.add("relu", net.norm(net.conv(x, 4, 3)))
    y = net.add("add", y, net.conv(net.add("relu", y), 4, 3))
    y = net.pool("max_pool", y, 2, 1)
    return net.finish(net.add("reduce", y, kind="max", axes=(2, 3, 4), keepdims=False))


def sequence() -> Graph:
    """Convolutions over time, gates, a product of all rows."""
    net = Layers(7)
    x = net.input(2, 3, 9)
    y = net.conv(net.conv(x, 8, 3), 8, 3)
    a, b = (
        net.add("slice", y, starts=(0, at, 0), stops=(2, at + 4, 9), steps=(1, 1, 1))
        for at in (0, 4)
    )
    y = net.add("multiply", a, net.add("sigmoid", b))
    y = net.add("transpose", y, axes=(0, 2, 1))
    z = net.layer_norm(net.add("gelu", net.dense(y, 4)))
    return net.finish(net.add("transpose", net.add("add", z, y), axes=(0, 2, 1)))


def odd_outputs() -> Graph:
    """Inputs, constants, views and the same value twice as outputs."""
    net = Layers(8)
    x = net.input(2, 3)
    c = net.constant(2, 3)
    y = net.add("add", x, c)
    flat = net.add("reshape", y, shape=(6,))
    top, places = net.build.add_all("topk", y, k=2, axis=1, largest=True, sorted=True)
    view = net.add("reshape", x, shape=(3, 2))
    return net.finish(
        x, c, y, y, flat, places, view, net.add("exp", top), net.add("identity", x)
    )


def patches() -> Graph:
    """ViT's stem: a convolution whose places become words."""
    net = Layers(9)
    x = net.input(1, 3, 8, 8)
    y = net.conv(x, 6, 4, 4, padding=0)
    y = net.add("reshape", y, shape=(1, 6, 4))
    y = net.add("transpose", y, axes=(0, 2, 1))
    y = net.add("concat", net.constant(1, 1, 6), y, axis=1)
    y = net.add("add", y, net.constant(1, 5, 6))
    z = net.add("add", net.dense(net.layer_norm(y), 6), y)
    index = net.build.constant(np.array(0, np.int64))
    return net.finish(net.dense(net.add("gather", z, index, axis=1), 3))


NETWORKS: dict[str, Callable[[], Graph]] = {
    f.__name__: f
    for f in (residual, inverted, attention, dense_block, generator, shuffle, volume,
              sequence, odd_outputs, patches)
}  # fmt: skip


def inputs_of(graph: Graph, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    found: list[Array] = []
    for x in graph.inputs:
        if x.dtype.startswith(("int", "uint")):
            found.append(rng.integers(0, 3, x.shape).astype(x.dtype))
        else:
            found.append(rng.standard_normal(x.shape).astype(x.dtype))
    return found


def assert_same(found: list[Array], wanted: list[Array], tolerance: float = 2e-5):
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        scale = np.abs(b[np.isfinite(b)]).max(initial=1) if b.dtype.kind == "f" else 0
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale)
