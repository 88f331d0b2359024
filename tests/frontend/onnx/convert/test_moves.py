"""Arithmetic, movement, indexing and resizing of old and new opsets."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from ansor.errors import ModelError, UnsupportedError
from onnx_nodes import agree, ours, specified

RNG = np.random.default_rng(0)


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


X = normal(2, 3, 4)


# Arithmetic.


def test_operands_lined_up_with_an_axis():
    a, b = normal(2, 3, 4, 5), normal(3, 4)
    (found,) = ours("Add", a, b, opset=6, broadcast=1, axis=1)
    np.testing.assert_allclose(found, a + b[:, :, None], rtol=1e-6)
    (found,) = ours("Mul", a, normal(5) * 0 + 2, opset=1, broadcast=1)
    np.testing.assert_allclose(found, a * 2, rtol=1e-6)
    with pytest.raises(UnsupportedError, match="without broadcast"):
        ours("Add", a, b, opset=6)


@pytest.mark.parametrize("exponent", [-1, 0, 0.5, 1, 2, 3, 4, 2.5])
def test_pow(exponent):
    x, e = np.abs(X) + 0.1, np.array(exponent, np.float32)
    agree("Pow", x, e, constants=[1], opset=13)
    agree("Pow", x, e, opset=13)


def test_pow_of_integers():
    x = RNG.integers(-5, 5, (3, 4))
    agree("Pow", x, np.array([0, 1, 2, 5]), opset=13)
    agree("Pow", np.abs(x), np.array([0.5], np.float32), opset=13)


def test_mod_and_division():
    a = RNG.integers(-20, 20, (4, 5)).astype(np.int32)
    b = RNG.choice([-3, -2, 2, 5], 5).astype(np.int32)
    agree("Mod", a, b, opset=13)
    agree("Mod", a, b, opset=13, fmod=1)
    agree("Mod", a.astype("f4"), b.astype("f4") / 2, opset=13, fmod=1)
    agree("Div", a, b, opset=14)


@pytest.mark.parametrize("opset", [6, 11, 13])
def test_clip(opset):
    if opset < 11:
        (found,) = ours("Clip", X, opset=opset, min=-0.5)
        np.testing.assert_array_equal(found, np.maximum(X, -0.5))
        return
    low, high = np.array(-0.5, np.float32), np.array(0.3, np.float32)
    agree("Clip", X, low, high, opset=opset)
    agree("Clip", X, None, high, constants=[2], opset=opset)
    agree("Clip", X, low, high, constants=[1, 2], opset=opset)
    agree("Clip", X, high, low, constants=[1, 2], opset=opset)


def test_old_parametric_relu():
    x, slope = normal(2, 3, 4, 4), normal(3)
    (found,) = ours("PRelu", x, slope, opset=6)
    want = np.where(x < 0, x * slope[:, None, None], x)
    np.testing.assert_allclose(found, want, rtol=1e-6)


@pytest.mark.parametrize("op", ["Sum", "Mean", "Max", "Min"])
def test_any_number_of_operands(op):
    agree(op, X, normal(4), normal(3, 1), opset=13)
    agree(op, X, opset=13)


def test_activations_with_attributes():
    agree("HardSigmoid", X, opset=6, alpha=0.3, beta=0.6)
    agree("LeakyRelu", X, opset=16, alpha=0.2)
    agree("Selu", X, opset=6)
    agree("Celu", X, opset=12, alpha=0.7)
    agree("Shrink", X, opset=9, bias=0.2, lambd=0.4)
    agree("ThresholdedRelu", X, opset=10, alpha=0.3)
    agree("Gelu", X, opset=20, approximate="tanh")
    infinite = np.array([np.inf, -np.inf, np.nan, 1], np.float32)
    agree("IsInf", infinite, opset=10, detect_negative=0)


def test_casts_by_name():
    (found,) = ours("Cast", X, opset=1, to="DOUBLE")
    assert found.dtype == np.float64
    with pytest.raises(UnsupportedError, match="'to' is uint64"):
        ours("Cast", X, opset=13, to=13)


# Movement.


@pytest.mark.parametrize("shape", [[0, -1], [4, 3, 2], [-1], [0, 3, 2, 2]])
def test_reshape(shape):
    agree("Reshape", X, np.array(shape), constants=[1], opset=13)


def test_reshape_without_elements():
    (found,) = ours("Reshape", np.zeros((0, 3), "f4"), np.array([3, 0]), constants=[1],
                    opset=14, allowzero=1)  # fmt: skip
    assert found.shape == (3, 0)
    (found,) = ours("Reshape", X, opset=1, shape=[6, -1])
    assert found.shape == (6, 4)
    with pytest.raises(ModelError, match="24 elements"):
        ours("Reshape", X, np.array([5, -1]), constants=[1], opset=13)


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([1], [3], [1], [1]),
        ([0, -1], [2**62, -5], [0, 2], [1, -1]),
        ([-100, 3], [100, -100], [1, 2], [2, -2]),
        ([2], [1], [0], [1]),
    ],
)
def test_slice(starts, ends, axes, steps):
    parts = [np.array(x) for x in (starts, ends, axes, steps)]
    agree("Slice", X, *parts, constants=[1, 2, 3, 4], opset=13)
    if min(steps) == max(steps) == 1:
        (found,) = ours("Slice", X, opset=1, starts=starts, ends=ends, axes=axes)
        (other,) = ours("Slice", X, *parts, constants=[1, 2, 3, 4], opset=13)
        np.testing.assert_array_equal(found, other)


def test_squeeze_and_unsqueeze():
    x = normal(1, 3, 1, 4)
    agree("Squeeze", x, opset=11)
    agree("Squeeze", x, opset=11, axes=[-2])
    agree("Squeeze", x, np.array([0]), constants=[1], opset=13)
    agree("Unsqueeze", x, opset=11, axes=[0, 3])
    agree("Unsqueeze", x, np.array([-1, 2]), constants=[1], opset=13)
    agree("Flatten", x, opset=13, axis=-1)
    agree("Flatten", x, opset=13, axis=0)


def test_split():
    agree("Split", X, opset=11, axis=2, outputs=2, split=[1, 3])
    agree("Split", X, np.array([1, 0, 3]), constants=[1], opset=13, axis=-1, outputs=3)
    agree("Split", X, opset=18, axis=1, outputs=2, num_outputs=2)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad(mode):
    agree("Pad", X, opset=2, mode=mode, pads=[0, 1, 2, 0, 0, 1])
    widths = np.array([0, 1, -1, 0, 1, 2])
    fill = np.array(3, np.float32)
    agree("Pad", X, widths, fill, constants=[1, 2], opset=13, mode=mode)


def test_pad_with_a_value_that_is_computed():
    widths = np.array([0, 1, 0, 0, 1, 2])
    agree("Pad", X, widths, np.array(3, np.float32), constants=[1], opset=13)
    agree("Pad", X, np.array([1, 2]), np.array(3, np.float32), np.array([-1]),
          constants=[1, 2, 3], opset=18)  # fmt: skip
    empty = np.zeros((0, 3), np.float32)
    agree("Pad", empty, np.array([1, 0, 1, 0]), np.array(3, "f4"), constants=[1, 2],
          opset=13)  # fmt: skip


def test_joins_and_repetitions():
    agree("Concat", X, normal(2, 0, 4), X, opset=13, axis=-2)
    agree("Tile", X, np.array([1, 2, 1]), constants=[1], opset=13)
    agree("Expand", X, np.array([5, 1, 1, 1]), constants=[1], opset=13)
    agree("Expand", normal(3, 1), np.array([2, 1, 6]), constants=[1], opset=13)
    agree("Trilu", X, np.array(-1), constants=[1], opset=14, upper=0)
    agree("DepthToSpace", normal(1, 8, 2, 3), opset=11, blocksize=2, mode="CRD")
    agree("SpaceToDepth", normal(1, 2, 4, 6), opset=13, blocksize=2)


# Indexing.


def test_gathers():
    agree("Gather", X, np.array(-1), constants=[1], opset=13, axis=2)
    agree("Gather", X, np.array([[0], [-2]]), opset=13, axis=1)
    agree("GatherND", X, np.array([[[1]], [[-1]]]), opset=13, batch_dims=1)
    with pytest.raises(ModelError, match="index 4 is outside an axis of 4"):
        ours("Gather", X, np.array([4]), constants=[1], opset=13, axis=2)


@pytest.mark.parametrize("constants", [[], [1]])
def test_scatter_nd(constants):
    places = np.array([[0, 2], [1, -1], [0, 0]])
    agree("ScatterND", X, places, normal(3, 4), constants=constants, opset=13)
    agree("ScatterND", X, places, normal(3, 4), constants=constants, opset=18,
          reduction="add")  # fmt: skip


def test_the_last_update_wins():
    twice, updates = np.array([[1, 1], [1, 1]]), normal(2, 4)
    for constants in ([], [1]):
        (found,) = ours("ScatterND", X, twice, updates, constants=constants, opset=13)
        np.testing.assert_array_equal(found[1, 1], updates[1])


def test_the_rest_of_indexing():
    agree("OneHot", np.array([0, -1, 9]), np.array(4), np.array([2.0, 5.0], "f4"),
          constants=[1], opset=11, axis=0)  # fmt: skip
    agree("ReverseSequence", normal(4, 3, 2), np.array([1, 4, 2]), opset=10)
    agree("ReverseSequence", normal(3, 4), np.array([1, 4, 2]), opset=10, batch_axis=0,
          time_axis=1)  # fmt: skip
    agree("Compress", X, np.array([True, False, True]), constants=[1], opset=11, axis=1)
    agree("NonZero", X.round(), constants=[0], opset=13)
    agree("EyeLike", normal(3, 4), opset=9, k=-1, dtype=7)
    agree("Range", *(np.array(v, np.float32) for v in (1, 3, 0.3)), constants=[0, 1, 2],
          opset=11)  # fmt: skip


def test_what_depends_on_data_is_refused():
    with pytest.raises(UnsupportedError, match="'condition' is not constant"):
        ours("Compress", X, np.array([True, False, True]), opset=11, axis=1)
    with pytest.raises(UnsupportedError, match="it is random"):
        ours("RandomNormalLike", X, opset=13)


# Resizing.


@pytest.mark.parametrize("scale", [2.0, 0.5, 1.5, 0.3])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_resize_of_opset_10(mode, scale):
    x, scales = normal(1, 1, 6, 7), np.array([1, 1, scale, 2.0], np.float32)
    agree("Resize", x, scales, constants=[1], opset=10, mode=mode)
    if scale > 1:
        agree("Upsample", x, scales, constants=[1], opset=9, mode=mode)
        agree("Upsample", x, opset=7, mode=mode, scales=scales.tolist())


@pytest.mark.parametrize("kind", ["half_pixel", "pytorch_half_pixel", "align_corners",
                                  "asymmetric", "half_pixel_symmetric"])  # fmt: skip
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize(mode, kind):
    x = normal(1, 1, 6, 7)
    given = {"mode": mode, "coordinate_transformation_mode": kind, "opset": 19}
    for sizes in ([1, 1, 9, 5], [1, 1, 3, 14]):
        agree("Resize", x, None, None, np.array(sizes), constants=[3], **given)
    scales = np.array([1, 1, 0.8, 1.7], np.float32)
    # With corners the standard's own cases do not round the length, which ort does.
    check = specified if kind == "align_corners" else agree
    check("Resize", x, None, scales, constants=[2], **given)


def test_resize_of_integers_is_refused_where_it_would_round():
    x = RNG.integers(0, 255, (1, 1, 4, 4)).astype(np.uint8)
    sizes = np.array([1, 1, 8, 8])
    agree("Resize", x, None, None, sizes, constants=[3], opset=13, mode="nearest")
    with pytest.raises(ModelError, match="mode 'linear' of uint8"):
        ours("Resize", x, None, None, sizes, constants=[3], opset=13, mode="linear")


def test_attributes_that_nobody_knows_are_refused():
    with pytest.raises(UnsupportedError, match="'mode' is 'mirror'"):
        ours("Pad", X, np.zeros(6, np.int64), constants=[1], opset=13, mode="mirror")
