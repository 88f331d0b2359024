"""Random graphs, against onnxruntime."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnxruntime

from ansor.frontend.interpret import interpret
from ansor.frontend.model import Model
from ansor.frontend.onnx.model import to_graph
from ansor.frontend.passes import optimise
from onnx_graphs import random_model

onnxruntime.set_default_logger_severity(3)


def expected(model, inputs):
    """What onnxruntime says; None where its results are too large to compare."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found = session.run(None, inputs)
    is_fit = all(np.isfinite(x).all() and abs(x).max(initial=0) < 1e4 for x in found)
    return found if is_fit else None


def check(found, right, seed):
    """Errors are small beside the largest element: sums cancel."""
    assert len(found) == len(right)
    for number, (mine, theirs) in enumerate(zip(found, right, strict=True)):
        assert mine.shape == theirs.shape, (seed, number)
        bound = 2e-4 * max(1.0, float(abs(theirs).max(initial=0)))
        worst = float(abs(np.asarray(mine) - theirs).max(initial=0))
        assert worst <= bound, (seed, number, worst)


def run(seed, is_compiled):
    model, inputs = random_model(seed)
    right = expected(model, inputs)
    graph = to_graph(model)
    arrays = [inputs[x.name] for x in graph.inputs]
    if right is None:
        return False
    if is_compiled:
        check(Model(graph).compile(workers=0)(*arrays), right, seed)
    else:
        check(interpret(graph, arrays), right, seed)
        check(interpret(optimise(graph), arrays), right, seed)
    return True


def test_random_graphs_agree_with_onnxruntime():
    assert sum(run(seed, False) for seed in range(25)) >= 23


@pytest.mark.llvm
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_compiled_random_graphs_agree_with_onnxruntime(seed):
    run(seed, True)


@pytest.mark.slow
@pytest.mark.llvm
@pytest.mark.timeout(0)
def test_a_thousand_compiled_random_graphs_agree_with_onnxruntime():
    assert sum(run(seed, True) for seed in range(1000, 2000)) >= 950
