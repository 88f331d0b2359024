"""Reductions and normalisations of all opsets against onnxruntime."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from ansor.errors import ModelError, UnsupportedError
from onnx_nodes import agree, ours, specified

RNG = np.random.default_rng(0)
KINDS = ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp",
         "SumSquare"]  # fmt: skip


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("opset", [11, 18])
def test_reduce(kind, opset):
    x = np.abs(normal(2, 3, 4)) + 0.1
    if opset < 13:
        agree(f"Reduce{kind}", x, opset=opset, axes=[-1, 0], keepdims=0)
    else:
        agree(f"Reduce{kind}", x, np.array([-1, 0]), constants=[1], opset=opset)
    agree(f"Reduce{kind}", x, opset=opset)


def test_reduce_sum_of_nothing_in_particular():
    x = normal(2, 3)
    (found,) = ours("ReduceSum", x, opset=13, noop_with_empty_axes=1)
    np.testing.assert_array_equal(found, x)


def test_axes_that_are_computed_are_refused():
    with pytest.raises(UnsupportedError, match="'axes' is not constant"):
        ours("ReduceSum", normal(2, 3), np.array([0]), opset=13)


def test_axes_outside_are_refused():
    with pytest.raises(ModelError, match="axis 2"):
        ours("ReduceSum", normal(2, 3), opset=11, axes=[2])


@pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
def test_places(op, last):
    x = RNG.integers(0, 3, (3, 5)).astype(np.float32)
    agree(op, x, opset=13, axis=-1, keepdims=0, select_last_index=last)


def test_running_sums_and_orders():
    x = normal(3, 5)
    agree("CumSum", x, np.array(-1), constants=[1], opset=11, reverse=1, exclusive=1)
    agree("TopK", x, np.array([3]), constants=[1], opset=11, outputs=2, axis=1,
          largest=0)  # fmt: skip
    agree("TopK", x, np.array([2]), constants=[1], opset=10, outputs=2, axis=0)


@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(op, opset, axis):
    agree(op, normal(2, 3, 4), opset=opset, axis=axis)


@pytest.mark.parametrize("opset", [7, 9, 15])
def test_batch_norm(opset):
    x, vectors = normal(2, 3, 4, 5), [normal(3) for _ in range(3)]
    agree("BatchNormalization", x, *vectors, np.abs(normal(3)), opset=opset,
          epsilon=1e-2, constants=[1, 2, 3, 4])  # fmt: skip


def test_training_is_refused():
    x, vectors = normal(2, 3, 4, 5), [normal(3) for _ in range(4)]
    with pytest.raises(UnsupportedError, match="training_mode"):
        ours("BatchNormalization", x, *vectors, opset=15, training_mode=1)


def test_layer_norm_and_its_statistics():
    x, scale, bias = normal(2, 3, 4), normal(3, 4), normal(3, 4)
    specified("LayerNormalization", x, scale, bias, opset=17, axis=1, outputs=3)
    specified("LayerNormalization", x, normal(4), opset=17)


def test_other_norms():
    x, scale, bias = normal(2, 4, 3, 5), normal(4), normal(4)
    agree("InstanceNormalization", x, scale, bias, opset=6, epsilon=1e-3)
    agree("LRN", x, opset=13, size=3, alpha=0.1, beta=0.7, bias=1.2)
    agree("LpNormalization", x, opset=1, axis=1, p=1)
    agree("MeanVarianceNormalization", x, opset=13, axes=[2, 3])
    agree("GroupNormalization", x, normal(2), normal(2), opset=18, num_groups=2)
    agree("GroupNormalization", x, scale, bias, opset=21, num_groups=2)


@pytest.mark.parametrize("opset", [7, 10, 13])
def test_dropout_keeps_everything(opset):
    x = normal(2, 3)
    found, mask = ours("Dropout", x, opset=opset, outputs=2)
    np.testing.assert_array_equal(found, x)
    assert mask.all()
    assert mask.dtype == (np.bool_ if opset >= 10 else np.float32)
