"""Gemm, convolutions and pools of all opsets against onnxruntime."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from ansor.errors import ModelError
from onnx_nodes import agree, ours

RNG = np.random.default_rng(0)


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("opset", [7, 11, 13])
def test_gemm(opset):
    a, b, c = normal(4, 3), normal(5, 4), normal(5)
    agree("Gemm", a, b, c, opset=opset, alpha=0.5, beta=2.0, transA=1, transB=1)


def test_matmul_and_einsum():
    agree("MatMul", normal(2, 1, 3, 4), normal(5, 4, 2), opset=13)
    agree("Einsum", normal(2, 3, 4), normal(2, 4), opset=12, equation="b...j,bj->b...")


@pytest.mark.parametrize("pad", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_automatic_padding(pad, stride):
    x, w, b = normal(1, 2, 8, 9), normal(3, 2, 3, 4), normal(3)
    rest = {"auto_pad": pad, "strides": [stride, stride], "opset": 11}
    agree("Conv", x, w, b, **rest)
    for op in ("MaxPool", "AveragePool"):
        agree(op, x, kernel_shape=[3, 4], **rest)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_conv(groups):
    x, w = normal(2, 4, 7, 6), normal(8, 4 // groups, 3, 2)
    agree("Conv", x, w, opset=11, group=groups, pads=[1, 0, 2, 1], dilations=[2, 1],
          kernel_shape=[3, 2])  # fmt: skip


@pytest.mark.parametrize(
    "rest",
    [
        {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 2]},
        {"strides": [2, 2], "output_shape": [9, 12]},
        {"strides": [3, 2], "auto_pad": "SAME_UPPER"},
        {"strides": [2, 2], "auto_pad": "SAME_LOWER", "dilations": [2, 1]},
        {"strides": [2, 2], "group": 2},
    ],
)
def test_conv_transpose(rest):
    channels = 2 if "group" in rest else 3
    x, w = normal(1, 4, 4, 5), normal(4, channels, 3, 4)
    bias = normal(channels * rest.get("group", 1))
    agree("ConvTranspose", x, w, bias, opset=11, **rest)


@pytest.mark.parametrize("op", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("extent", [5, 6, 7, 8])
@pytest.mark.parametrize("pads", [0, 1])
def test_rounding_up(op, extent, pads):
    x = normal(1, 2, extent, extent + 1)
    rest = {"count_include_pad": 1} if op == "AveragePool" and pads else {}
    agree(op, x, opset=19, kernel_shape=[3, 2], strides=[2, 3], ceil_mode=1,
          pads=[pads] * 4, **rest)  # fmt: skip


@pytest.mark.parametrize("order", [0, 1])
def test_places_of_the_greatest(order):
    x = normal(2, 3, 6, 5)
    agree("MaxPool", x, opset=12, outputs=2, kernel_shape=[3, 2], strides=[2, 1],
          pads=[1, 0, 1, 1], storage_order=order)  # fmt: skip


def test_other_pools():
    x = normal(2, 3, 6, 5)
    agree("LpPool", x, opset=11, kernel_shape=[2, 2], strides=[2, 1], p=3)
    agree("GlobalAveragePool", x, opset=11)
    agree("GlobalMaxPool", x, opset=11)
    agree("GlobalLpPool", x, opset=11, p=1)


@pytest.mark.parametrize(
    "rest", [{"strides": [1]}, {"kernel_shape": [2, 2]}, {"pads": [-1, 0, 0, 0]}]
)
def test_convolutions_that_contradict_themselves(rest):
    with pytest.raises(ModelError, match="Conv"):
        ours("Conv", normal(1, 1, 5, 5), normal(1, 1, 3, 3), opset=11, **rest)
