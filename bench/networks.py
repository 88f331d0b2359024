"""The tasks of some networks at batch 1, with how often each occurs.

They are written down here, layer by layer, so that what schedulers are compared on does
not depend on an importer: convolutions in NHWC with bias and activation, residual sums
in the convolution before them, constant weights.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import ansor
from ansor import Target, Task, Tensor
from ansor.te import ops


@dataclass(frozen=True)
class Layer:
    """A kernel, by its kind and sizes."""

    kind: str
    sizes: tuple[int, ...]
    ending: str = ""  # "relu", "relu6", "gelu", "tanh", "add", "add relu", …


def resnet50() -> Iterator[Layer]:
    yield Layer("conv", (224, 3, 64, 7, 2), "relu")
    yield Layer("max_pool", (112, 64, 3, 2))
    channels, side = 64, 56
    for number, (width, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
        for block in range(blocks):
            stride = 2 if number and not block else 1
            yield Layer("conv", (side, channels, width, 1, 1), "relu")
            yield Layer("conv", (side, width, width, 3, stride), "relu")
            if not block:
                yield Layer("conv", (side, channels, 4 * width, 1, stride))
            side //= stride
            channels = 4 * width
            yield Layer("conv", (side, width, channels, 1, 1), "add relu")
    yield Layer("mean", (7, 2048))
    yield Layer("dense", (1, 2048, 1000))


def mobilenet_v2() -> Iterator[Layer]:
    yield Layer("conv", (224, 3, 32, 3, 2), "relu6")
    channels, side = 32, 112
    settings = [
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
        (6, 160, 3, 2), (6, 320, 1, 1),
    ]  # fmt: skip
    for factor, width, blocks, first in settings:
        for block in range(blocks):
            stride = 1 if block else first
            wide = factor * channels
            if factor > 1:
                yield Layer("conv", (side, channels, wide, 1, 1), "relu6")
            yield Layer("depthwise", (side, wide, 3, stride), "relu6")
            side //= stride
            is_residual = stride == 1 and channels == width
            yield Layer("conv", (side, wide, width, 1, 1), "add" if is_residual else "")
            channels = width
    yield Layer("conv", (7, 320, 1280, 1, 1), "relu6")
    yield Layer("mean", (7, 1280))
    yield Layer("dense", (1, 1280, 1000))


def bert(words: int = 128, width: int = 768, heads: int = 12) -> Iterator[Layer]:
    yield Layer("layer_norm", (words, width))
    for _ in range(12):
        for _ in range(3):
            yield Layer("dense", (words, width, width))
        yield Layer("scores", (heads, words, width // heads))
        yield Layer("softmax", (heads * words, words))
        yield Layer("values", (heads, words, width // heads))
        yield Layer("dense", (words, width, width), "add")
        yield Layer("layer_norm", (words, width))
        yield Layer("dense", (words, width, 4 * width), "gelu")
        yield Layer("dense", (words, 4 * width, width), "add")
        yield Layer("layer_norm", (words, width))
    yield Layer("dense", (1, width, width), "tanh")


NETWORKS: dict[str, Callable[[], Iterator[Layer]]] = {
    "resnet50": resnet50,
    "mobilenet_v2": mobilenet_v2,
    "bert": bert,
}


def layers(name: str) -> Counter[Layer]:
    """The different layers of a network, with how often each occurs.

    >>> counts = layers("resnet50")
    >>> len(counts), sum(counts.values())
    (27, 56)
    """
    return Counter(NETWORKS[name]())


def task(layer: Layer, target: Target, weight: float = 1.0) -> Task:
    """The task of a layer; inputs, weights, then the result."""
    inputs, made = MAKERS[layer.kind](*layer.sizes)
    for word in layer.ending.split():
        if word == "add":
            other = ansor.placeholder(made.shape, name="other")
            inputs.append(other)
            made = ops.add(made, other)
        else:
            made = ENDINGS[word](made)
    return Task([*inputs, made], target, weight)


Made = tuple[list[Tensor], Tensor]

ENDINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": ops.relu,
    "relu6": ops.relu6,
    "gelu": ops.gelu,
    "tanh": ops.tanh,
}


def weights(*shape: int, name: str = "w") -> Tensor:
    return ansor.placeholder(shape, name=name, constant=True)


def conv(side: int, channels: int, out: int, kernel: int, stride: int) -> Made:
    x = ansor.placeholder((1, side, side, channels), name="x")
    w, b = weights(kernel, kernel, channels, out), weights(out, name="b")
    y = ops.conv2d(x, w, stride=stride, padding=kernel // 2, layout="NHWC")
    return [x, w, b], ops.bias_add(y, b)


def depthwise(side: int, channels: int, kernel: int, stride: int) -> Made:
    x = ansor.placeholder((1, side, side, channels), name="x")
    w, b = weights(kernel, kernel, 1, channels), weights(channels, name="b")
    y = ops.depthwise_conv2d(x, w, stride=stride, padding=kernel // 2, layout="NHWC")
    return [x, w, b], ops.bias_add(y, b)


def dense(rows: int, inner: int, out: int) -> Made:
    x = ansor.placeholder((rows, inner), name="x")
    w, b = weights(inner, out), weights(out, name="b")
    return [x, w, b], ops.bias_add(ops.matmul(x, w), b)


def scores(heads: int, words: int, width: int) -> Made:
    q = ansor.placeholder((words, heads, width), name="q")
    k = ansor.placeholder((words, heads, width), name="k")
    return [q, k], ops.einsum("ihd,jhd->hij", q, k)


def values(heads: int, words: int, width: int) -> Made:
    p = ansor.placeholder((heads, words, words), name="p")
    v = ansor.placeholder((words, heads, width), name="v")
    return [p, v], ops.einsum("hij,jhd->ihd", p, v)


def softmax(rows: int, columns: int) -> Made:
    x = ansor.placeholder((rows, columns), name="x")
    return [x], ops.softmax(x)


def layer_norm(rows: int, columns: int) -> Made:
    x = ansor.placeholder((rows, columns), name="x")
    scale, shift = weights(columns, name="scale"), weights(columns, name="shift")
    return [x, scale, shift], ops.layer_norm(x, scale, shift)


def max_pool(side: int, channels: int, kernel: int, stride: int) -> Made:
    x = ansor.placeholder((1, side, side, channels), name="x")
    padding = kernel // 2
    return [x], ops.max_pool(x, kernel, stride, padding, layout="NHWC")


def mean(side: int, channels: int) -> Made:
    x = ansor.placeholder((1, side, side, channels), name="x")
    return [x], ops.global_avg_pool(x, layout="NHWC")


MAKERS: dict[str, Callable[..., Made]] = {
    "conv": conv,
    "depthwise": depthwise,
    "dense": dense,
    "scores": scores,
    "values": values,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "max_pool": max_pool,
    "mean": mean,
}
