"""Recurrent networks, quantisation, losses, attention: compositions of many operators,
against onnxruntime or, where that is too old, the standard's own reference."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from ansor.errors import UnsupportedError
from onnx_nodes import agree, ours, specified

RNG = np.random.default_rng(0)


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@pytest.mark.parametrize("way", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", GATES)
def test_recurrent(op, way):
    ways, gates, width = (2 if way == "bidirectional" else 1), GATES[op], 3
    x, w = normal(4, 2, 5), normal(ways, gates * width, 5)
    r, b = normal(ways, gates * width, width), normal(ways, 2 * gates * width)
    lengths, h = np.array([4, 2], np.int32), normal(ways, 2, width)
    states = [h, normal(ways, 2, width)] if op == "LSTM" else [h]
    outputs = 3 if op == "LSTM" else 2
    agree(op, x, w, r, b, lengths, *states, opset=14, outputs=outputs,
          direction=way, hidden_size=width, clip=3.0)  # fmt: skip


def test_recurrent_activations_and_peepholes():
    x, w, r = normal(3, 2, 4), normal(1, 12, 4), normal(1, 12, 3)
    agree("GRU", x, w[:, :9], r[:, :9], opset=14, outputs=2, hidden_size=3,
          linear_before_reset=1, activations=["HardSigmoid", "LeakyRelu"],
          activation_alpha=[0.3, 0.1], activation_beta=[0.4])  # fmt: skip
    agree("LSTM", x, w, r, None, None, None, None, normal(1, 9), opset=14, outputs=3,
          hidden_size=3)  # fmt: skip


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_quantize(dtype):
    x, scale = normal(3, 4) * 100, np.abs(normal(4)) + 0.1
    zero = RNG.integers(0, 20, 4).astype(dtype)
    agree("QuantizeLinear", x, scale, zero, opset=13, axis=1)
    q = RNG.integers(0, 100, (3, 4)).astype(dtype)
    agree("DequantizeLinear", q, scale, zero, opset=13, axis=1)


def test_quantize_without_a_zero_point_gives_uint8():
    x = np.array([-1, 0.5, 1.5, 300], np.float32)
    (found,) = ours("QuantizeLinear", x, np.array(1, np.float32), opset=13)
    assert found.dtype == np.uint8
    assert found.tolist() == [0, 0, 2, 255]


def test_products_of_bytes():
    a = RNG.integers(0, 255, (3, 4)).astype(np.uint8)
    b = RNG.integers(-128, 127, (4, 2)).astype(np.int8)
    zeros = [np.array(7, np.uint8), np.array(-3, np.int8)]
    agree("MatMulInteger", a, b, *zeros, opset=10)
    x = RNG.integers(0, 255, (1, 2, 5, 5)).astype(np.uint8)
    w = RNG.integers(0, 255, (3, 2, 3, 3)).astype(np.uint8)
    agree("ConvInteger", x, w, zeros[0], opset=10, pads=[1, 1, 1, 1])
    agree("DynamicQuantizeLinear", normal(3, 4), opset=11, outputs=3)


def test_quantized_products():
    one = np.array(0.02, np.float32)
    a, b = (RNG.integers(0, 255, s).astype(np.uint8) for s in ((3, 4), (4, 2)))
    zero = np.array(120, np.uint8)
    agree("QLinearMatMul", a, one, zero, b, one, zero, one, zero, opset=10)
    x, w = (
        RNG.integers(0, 255, s).astype(np.uint8) for s in ((1, 2, 5, 5), (3, 2, 3, 3))
    )
    bias = RNG.integers(-500, 500, 3).astype(np.int32)
    big = np.array(0.1, np.float32)
    agree("QLinearConv", x, one, zero, w, one, zero, big, zero, bias, opset=10,
          constants=[1, 2, 3, 4, 5, 6, 7, 8])  # fmt: skip


@pytest.mark.parametrize("how", ["none", "sum", "mean"])
@pytest.mark.parametrize("ignored", [None, 1, -5])
def test_losses(how, ignored):
    x, target = normal(4, 3, 2), RNG.integers(0, 3, (4, 2))
    if ignored is not None:
        target[0, 0] = ignored
    rest = {"reduction": how} | ({} if ignored is None else {"ignore_index": ignored})
    weight = np.abs(normal(3))
    for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
        specified(op, x, target, weight, opset=13, **rest)
        specified(op, x, target, opset=13, **rest)


@pytest.mark.parametrize(
    "rest",
    [
        {},
        {"is_causal": 1},
        {"softcap": 2.0, "scale": 0.3, "qk_matmul_output_mode": 1},
        {"is_causal": 1, "qk_matmul_output_mode": 2},
    ],
)
@pytest.mark.parametrize("mask", [None, "float", "bool"])
def test_attention(rest, mask):
    q, k, v = normal(2, 4, 3, 8), normal(2, 2, 5, 8), normal(2, 2, 5, 6)
    given = {"float": normal(3, 5), "bool": RNG.random((2, 1, 3, 5)) > 0.3}.get(mask)
    specified("Attention", q, k, v, given, opset=23, outputs=4, **rest)


def test_attention_with_a_cache_and_flat_heads():
    q, k, v = normal(2, 3, 8), normal(2, 3, 8), normal(2, 3, 8)
    past = [normal(2, 2, 4, 4), normal(2, 2, 4, 4)]
    specified("Attention", q, k, v, None, *past, opset=23, outputs=3, is_causal=1,
              q_num_heads=2, kv_num_heads=2)  # fmt: skip


@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary(interleaved):
    x, cos, sin = normal(2, 3, 4, 8), normal(10, 2), normal(10, 2)
    places = RNG.integers(0, 10, (2, 4))
    specified("RotaryEmbedding", x, cos, sin, places, opset=23, rotary_embedding_dim=4,
              interleaved=interleaved)  # fmt: skip


def test_transforms():
    x = normal(2, 9, 2)
    specified("DFT", x, np.array(12), constants=[1], opset=17, axis=1)
    specified("DFT", normal(2, 9, 1), opset=17, axis=1, onesided=1)
    with pytest.raises(UnsupportedError, match="inverse"):
        ours("DFT", x, opset=17, axis=1, inverse=1)
    window = np.abs(normal(6))
    specified("STFT", normal(2, 20, 1), np.array(4), window, np.array(6), opset=17,
              constants=[1, 3])  # fmt: skip


def test_determinants():
    x = normal(3, 4, 4)
    (found,) = ours("Det", x, opset=11)
    np.testing.assert_allclose(found, np.linalg.det(x), rtol=1e-4)
    singular = np.zeros((1, 3, 3), np.float32)
    assert ours("Det", singular, opset=11)[0].tolist() == [0]
