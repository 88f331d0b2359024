"""One ONNX node, run as a graph of ours in NumPy and by onnxruntime."""

import numpy as np
import onnx
from onnx import helper

from ansor.frontend.interpret import interpret
from ansor.frontend.onnx.model import to_graph


def model_of(op, arrays, opset, constants=(), outputs=1, **attributes):
    """A model of one node; None is an input left out, `constants` are positions of
    inputs that are initializers."""
    names = ["" if x is None else f"x{n}" for n, x in enumerate(arrays)]
    results = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(op, names, results, **attributes)
    code = helper.np_dtype_to_tensor_dtype
    given = {f"x{n}": x for n, x in enumerate(arrays) if x is not None}
    fixed = {f"x{n}" for n in constants}
    graph = helper.make_graph(
        [node],
        op,
        [
            helper.make_tensor_value_info(n, code(x.dtype), x.shape)
            for n, x in given.items()
            if n not in fixed
        ],
        [helper.make_empty_tensor_value_info(n) for n in results],
        [onnx.numpy_helper.from_array(given[n], n) for n in sorted(fixed)],
    )
    version = helper.make_opsetid("", opset)
    return helper.make_model(graph, opset_imports=[version], ir_version=8)


def ours(op, *arrays, opset, constants=(), outputs=1, **attributes):
    """What our graph of the node gives."""
    model = model_of(op, arrays, opset, constants, outputs, **attributes)
    graph = to_graph(model)
    fed = [x for n, x in enumerate(arrays) if x is not None and n not in constants]
    return interpret(graph, fed)


def theirs(op, *arrays, opset, constants=(), outputs=1, **attributes):
    """What onnxruntime gives."""
    import onnxruntime

    model = model_of(op, arrays, opset, constants, outputs, **attributes)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    names = [x.name for x in session.get_inputs()]
    return session.run(None, {name: arrays[int(name[1:])] for name in names})


def agree(op, *arrays, rtol=1e-4, atol=1e-5, **rest):
    """Both give the same."""
    for mine, other in zip(
        ours(op, *arrays, **rest), theirs(op, *arrays, **rest), strict=True
    ):
        assert mine.dtype == other.dtype
        assert mine.shape == other.shape
        if mine.dtype.kind == "f":
            np.testing.assert_allclose(mine, other, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(mine, other)


def specified(op, *arrays, rtol=1e-4, atol=1e-6, **rest):
    """Ours and the standard's own reference agree."""
    from onnx.reference import ReferenceEvaluator

    constants, outputs = rest.pop("constants", ()), rest.pop("outputs", 1)
    opset = rest.pop("opset")
    model = model_of(op, arrays, opset, constants, outputs, **rest)
    fed = {
        f"x{n}": x for n, x in enumerate(arrays) if x is not None and n not in constants
    }
    wanted = ReferenceEvaluator(model).run(None, fed)
    found = ours(op, *arrays, opset=opset, constants=constants, outputs=outputs, **rest)
    for mine, want in zip(found, wanted, strict=True):
        assert mine.shape == want.shape
        np.testing.assert_allclose(mine, want, rtol=rtol, atol=atol)
