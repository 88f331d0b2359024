"""`ansor.onnx_backend`, the interface of ONNX."""

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import helper, parser

import ansor
from ansor.errors import ArgumentError, UnsupportedError

MODEL = parser.parse_model(
    '<ir_version: 10, opset_import: ["": 21]> '
    "g (float[2,3] x, int64[2] s) => (float[a,b] y) { r = Relu(x) y = Reshape(r, s) }"
)
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def test_the_module_is_exported():
    assert ansor.onnx_backend.supports_device("CPU")
    assert not ansor.onnx_backend.supports_device("CUDA:0")


def test_a_model_with_a_shape_as_input_is_specialised():
    prepared = ansor.onnx_backend.prepare(MODEL)
    for shape in ([3, 2], [1, 6], [3, 2]):
        (found,) = prepared.run([X, np.array(shape)])
        assert found.tolist() == np.maximum(X, 0).reshape(shape).tolist()
    assert prepared.fixed == {"s"}
    (found,) = prepared.run({"x": X, "s": np.array([6, 1])})
    assert found.shape == (6, 1)


def test_compatible_is_what_converts_with_the_shapes_in_the_file():
    assert not ansor.onnx_backend.is_compatible(MODEL)
    plain = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]> g (float[2] x) => (y) {y = Abs(x)}'
    )
    assert ansor.onnx_backend.is_compatible(plain)
    (found,) = ansor.onnx_backend.run_model(plain, [np.array([-1, 2], np.float32)])
    assert found.tolist() == [1, 2]


def test_one_node():
    node = helper.make_node("Gemm", ["a", "b", ""], ["y"], transB=1)
    a, b = X, np.ones((4, 3), np.float32)
    (found,) = ansor.onnx_backend.run_node(node, [a, b])
    assert np.allclose(found, a @ b.T)


def test_what_is_not_supported_is_refused():
    with pytest.raises(UnsupportedError, match="'CUDA'"):
        ansor.onnx_backend.prepare(MODEL, "CUDA")
    with pytest.raises(ArgumentError, match="1 inputs"):
        ansor.onnx_backend.prepare(MODEL).run([X])
