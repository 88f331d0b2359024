"""Importing ONNX models: shapes, dead parts, functions, branches, loops, sequences."""

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from onnx import helper, numpy_helper, parser

import ansor
from ansor.errors import ModelError, UnsupportedError
from ansor.frontend.interpret import interpret
from ansor.frontend.onnx.model import to_graph
from onnx_mutants import models

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def parsed(body, takes="float[2,3] x", opset=21, functions=""):
    header = f'<ir_version: 10, opset_import: ["": {opset}, "f": 1]>'
    return parser.parse_model(f"{header} g ({takes}) => (y) {{ {body} }} {functions}")


def run(model, *arrays, **options):
    (found,) = interpret(to_graph(model, **options), arrays)
    return found


def test_paths_bytes_and_protos_give_the_same_graph(tmp_path):
    data = models()["convolution"]
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    texts = {
        str(to_graph(x))
        for x in (path, str(path), data, onnx.ModelProto.FromString(data))
    }
    assert len(texts) == 1


def test_from_onnx_gives_a_model_that_runs():
    model = ansor.from_onnx(parsed("y = Relu(x)"))
    assert [str(x) for x in model.inputs] == ["%x: float32[2, 3]"]
    (found,) = model.compile(workers=0)(X)
    assert (found == np.maximum(X, 0)).all()


@pytest.mark.parametrize(
    "shapes", [{"x": (2, 3)}, {"n": 2}, {"n": [2]}, {"x": (2, 3), "n": 2}]
)
def test_open_lengths_are_given_by_input_or_symbol(shapes):
    assert run(parsed("y = Neg(x)", "float[n,3] x"), X, shapes=shapes).shape == (2, 3)


@pytest.mark.parametrize(
    ("shapes", "part"),
    [
        ({}, "axis 0 ('n') is open"),
        ({"x": (2, 4)}, "axis 1 has the length 3, but 4 is given"),
        ({"x": (2,)}, "2 axes, but 1 lengths are given"),
        ({"m": 2, "n": 1}, "no such input or symbol"),
        ({"n": (1, 2)}, "not one length"),
        ({"n": -1}, "-1 is not a length"),
    ],
)
def test_wrong_shapes_are_explained(shapes, part):
    with pytest.raises(ModelError) as caught:
        to_graph(parsed("y = Neg(x)", "float[n,3] x"), shapes=shapes)
    assert part in str(caught.value)


def test_inputs_can_be_fixed():
    model = parsed("y = Reshape(x, s)", "float[2,3] x, int64[2] s")
    with pytest.raises(UnsupportedError, match="'shape' is not constant"):
        to_graph(model)
    assert run(model, X, constants={"s": np.array([3, 2])}).shape == (3, 2)
    with pytest.raises(ModelError, match="no such input"):
        to_graph(model, constants={"t": np.array(1)})


def test_what_no_output_needs_does_not_matter():
    dead = 'z = Frobnicate(x) w = other.Thing(z) v = Cast<to=8>(x) t = Concat(v, "")'
    model = parsed(dead.replace(', ""', "") + " y = Relu(x)")
    assert (run(model, X) == np.maximum(X, 0)).all()


def test_a_branch_that_is_not_taken_does_not_matter():
    body = (
        "z = Frobnicate(x) n = Constant<value_int=0>() c = Cast<to=9>(n) "
        "y = If<then_branch=a() => (p) {p = Relu(z)}, "
        "else_branch=b() => (q) {q = Neg(x)}>(c)"
    )
    assert (run(parsed(body), X) == -X).all()


def test_functions_of_the_model_with_attributes_and_defaults():
    functions = """
        <domain: "f", opset_import: ["": 21, "f": 1]>
        outer <k: float = 3.0> (a) => (b) { c = f.inner<k: float = @k>(a) b = Neg(c) }
        <domain: "f", opset_import: ["": 21]>
        inner <k> (a, s) => (b) {
          w = Constant<value_float: float = @k>() b = Mul(a, w) }"""
    model = parsed("y = f.outer(x)", functions=functions)
    assert (run(model, X) == -3 * X).all()
    model = parsed("y = f.outer<k=2.0>(x)", functions=functions)
    assert (run(model, X) == -2 * X).all()


def test_functions_of_the_standard_are_expanded():
    found = run(parsed("y = MeanVarianceNormalization<axes=[0,1]>(x)"), X)
    assert np.allclose(found, (X - X.mean()) / X.std(), atol=1e-5)


def test_a_loop_is_written_out():
    body = (
        "m = Constant<value_int=3>() n = Constant<value_int=1>() c = Cast<to=9>(n) "
        "z, y = Loop<body=b(int64 i, bool g, float[2,3] u) => (h, v, s) "
        "{h = Identity(g) f = Cast<to=1>(i) v = Add(u, f) s = Mul(v, f)}>(m, c, x)"
    )
    assert np.allclose(run(parsed(body), X), [0 * X, X + 1, 2 * (X + 3)])


def test_a_loop_ends_when_its_condition_does():
    body = (
        "k = Constant<value_int=2>() "
        "y = Loop<body=b(int64 i, bool g, float[2,3] u) => (h, v) "
        "{h = Less(i, k) v = Add(u, u)}>(, , x)"
    )
    assert (run(parsed(body), X) == 8 * X).all()


def test_a_scan_is_written_out():
    body = (
        "s = Constant<value_floats=[0., 0.]>() "
        "t, y = Scan<num_scan_inputs=1, scan_input_axes=[1], scan_input_directions=[1]"
        ", body=b(float[2] a, float[2] e) => (n, o) "
        "{n = Add(a, e) o = Identity(n)}>(s, x)"
    )
    found = run(parsed(body), X)
    assert np.allclose(found, np.cumsum(X[:, ::-1], 1).T)


@pytest.mark.parametrize(
    ("body", "right"),
    [
        ("s = SequenceConstruct(x, z) i = Constant<value_int=-1>() "
         "y = SequenceAt(s, i)", -X),
        ("s = SplitToSequence<axis=1, keepdims=0>(x) "
         "y = ConcatFromSequence<axis=1, new_axis=1>(s)", X),
        ("k = Constant<value_int=2>() s = SplitToSequence<axis=1>(x, k) "
         "e = SequenceErase(s) y = ConcatFromSequence<axis=0>(e)", X[:, :2]),
        ("s = SequenceEmpty() t = SequenceInsert(s, x) i = Constant<value_int=0>() "
         "u = SequenceInsert(t, z, i) y = ConcatFromSequence<axis=0>(u)",
         np.concatenate([-X, X])),
        ("o = Optional(x) b = OptionalHasElement(o) y = Cast<to=1>(b)", np.float32(1)),
        ("s = SequenceConstruct(x, z, x) n = SequenceLength(s) y = Cast<to=1>(n)",
         np.float32(3)),
    ],
)  # fmt: skip
def test_sequences_of_known_length(body, right):
    found = run(parsed(f"z = Neg(x) {body}"), X)
    assert found.shape == right.shape
    assert (found == right).all()


def test_initializers_that_are_also_inputs_are_constants():
    model = parsed("y = Add(x, w)", "float[2,3] x, float[3] w")
    model.graph.initializer.append(numpy_helper.from_array(X[0], "w"))
    assert [x.name for x in to_graph(model).inputs] == ["x"]


def test_sparse_initializers():
    model = parsed("y = Add(x, w)")
    values = numpy_helper.from_array(np.array([5, 7], np.float32), "w")
    for indices in (np.array([1, 5]), np.array([[0, 1], [1, 2]])):
        del model.graph.sparse_initializer[:]
        sparse = helper.make_sparse_tensor(
            values, numpy_helper.from_array(indices, "i"), [2, 3]
        )
        model.graph.sparse_initializer.append(sparse)
        assert (run(model, 0 * X) == [[0, 5, 0], [0, 0, 7]]).all()


def test_aligned_data_in_memory_is_not_copied():
    weights = np.arange(1024, dtype=np.float32)
    model = parsed("y = Add(x, w)", "float[1024] x")
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    for filler in range(4):  # one of four places is aligned
        model.producer_name = "p" * filler
        data = model.SerializeToString()
        found = to_graph(data).constants["w"]
        assert (found == weights).all()
        base = found
        while isinstance(base, np.ndarray) and base.base is not None:
            base = base.base
        if isinstance(base, memoryview):
            return
    pytest.fail("no placement was read in place")


def test_outputs_are_of_the_declared_type():
    model = parsed("y = Shape(x)")
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, [2]))
    with pytest.raises(ModelError, match="declared float32, but computed as int64"):
        to_graph(model)


def test_errors_name_node_operator_and_attribute():
    model = parsed("y = Cast<to=8>(x) ")
    model.graph.node[0].name = "c1"
    with pytest.raises(UnsupportedError) as caught:
        to_graph(model)
    assert str(caught.value) == (
        "node 'c1' (Cast): attribute 'to' is string (opset 21)"
    )
