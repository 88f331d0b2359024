"""Models: from a graph to results, with and without records."""

import numpy as np
import pytest

import ansor
from ansor.errors import CodegenError, ModelError, RecordError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Graph
from ansor.frontend.interpret import interpret
from ansor.frontend.model import Model
from ansor.frontend.workshop import forget
from ansor.measure.identity import versions
from ansor.schedule import Sketch, to_data
from ansor.target import Target

pytestmark = pytest.mark.llvm


def network(seed: int = 0) -> Graph:
    """A residual block of convolutions, a pool and a classifier."""
    rng = np.random.default_rng(seed)
    build = Builder("network")

    def weight(*shape: int):
        return build.constant(rng.standard_normal(shape, dtype=np.float32) / 4, "w")

    def conv(x, channels: int):
        return build.add(
            "conv", x, weight(channels, x.shape[1], 3, 3), strides=(1, 1),
            padding=((1, 1), (1, 1)), dilations=(1, 1), groups=1, layout="first",
        )  # fmt: skip

    x = build.input("x", "float32", (1, 3, 12, 12))
    first = build.add("relu", conv(x, 8))
    second = build.add("relu", conv(first, 8))
    both = build.add("add", build.add("relu", conv(second, 8)), first)
    mean = build.add("reduce", both, kind="mean", axes=(2, 3), keepdims=False)
    scores = build.add("matmul", mean, weight(8, 5))
    return build.finish([build.add("softmax", scores, axis=1), both])


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(network())


@pytest.fixture(scope="module")
def exe(model):
    return model.compile(workers=0)


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((1, 3, 12, 12), dtype=np.float32)


def test_results_agree_with_the_interpreter(model, exe, x):
    for found, right in zip(exe(x), interpret(model.graph, [x]), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)


def test_equal_subgraphs_are_one_task(model):
    weights = sorted(weight for _, weight in model.tasks)
    assert sum(weights) == len(model.plan.subgraphs)
    assert len({task.key for task, _ in model.tasks}) == len(model.tasks)


def test_a_second_compilation_gives_the_same_kernels(model, exe):
    forget()
    again = Model(network()).compile(workers=2)
    assert [(x.unit, x.unit.made.code) for x in again.steps] == [
        (x.unit, x.unit.made.code) for x in exe.steps
    ]


def test_records_decide_which_program_is_compiled(model, tmp_path, x):
    """Loops as they are written are recorded as the best of one task."""
    task = model.tasks[0][0]
    program = to_data(Sketch(task).program())
    record = ansor.Record(
        task.key, task.target.fingerprint, program, ansor.Timed((2e-6, 2e-6)),
        verified="seed 0", versions=versions(),
    )  # fmt: skip
    with ansor.Database(tmp_path / "tuning.db") as database:
        database.add(task, record)
        exe = model.compile(database, workers=0)
    tuned = [step for step in exe.steps if step.unit.is_tuned]
    assert {step.subgraph.task.key for step in tuned} == {task.key}
    assert all(step.unit.program == program for step in tuned)
    assert tuned[0].unit.seconds == 2e-6
    rows = exe.profile(x, repeats=1).rows
    assert [row.is_tuned for row in rows] == [x.unit.is_tuned for x in exe.steps]
    again = model.compile(str(tmp_path / "tuning.db"), workers=0)
    assert [x.unit for x in again.steps] == [x.unit for x in exe.steps]
    for found, right in zip(exe(x), interpret(model.graph, [x]), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5)


def test_a_database_that_is_not_there_is_named(model, tmp_path):
    with pytest.raises(RecordError, match=r"none\.db"):
        model.compile(tmp_path / "none.db")


def test_a_model_is_made_of_a_graph():
    with pytest.raises(ModelError, match="is of type str, not a graph"):
        Model("network.onnx")


def test_code_for_another_machine_is_refused():
    other = "x86_64" if Target.host().arch == "aarch64" else "aarch64"
    with pytest.raises(CodegenError, match="this machine cannot run"):
        Model(network(), other).compile(workers=0)


def test_its_memory_is_planned(exe):
    assert exe.memory.arena <= exe.memory.values
    assert exe.memory.constants > 0
