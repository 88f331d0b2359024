"""Alternatives of a subgraph: what they compute, when they are taken."""

import ctypes
import shutil
import tracemalloc
from math import inf

import numpy as np
import pytest

import ansor
from ansor.errors import ModelError
from ansor.frontend.executor import Executable
from ansor.frontend.graph import Graph
from ansor.frontend.interpret import interpret, interpret_plan
from ansor.frontend.model import Model
from ansor.frontend.partition import partition
from ansor.frontend.partition import winograd as method
from ansor.frontend.passes import optimise
from ansor.frontend.subgraph import Plan
from ansor.frontend.torch.options import Options
from ansor.frontend.units import Choice, choose_all
from ansor.frontend.workshop import compile_all
from ansor.measure.identity import versions
from ansor.schedule import Sketch, to_data
from ansor.te.dag import DAG
from ansor.te.reference import agrees, expected, reference
from ansor.te.workloads.winograd import A, B, G
from frontend.networks import Layers, inputs_of

BOUND = 1e-5  # of the largest element
CHANNELS = 64


def layer(
    space=(8, 8), batch=1, channels=CHANNELS, *, stride=1, groups=1, dtype="float32",
    padding=((1, 1), (1, 1)), is_residual=False,
) -> Graph:  # fmt: skip
    """conv, bias, perhaps plus the input, relu."""
    net = Layers()
    x = net.input(batch, channels, *space, dtype=dtype)
    kernels = net.array(channels, channels // groups, 3, 3).astype(dtype)
    y = net.add(
        "conv", x, net.build.constant(kernels), strides=(stride, stride),
        padding=padding, dilations=(1, 1), groups=groups, layout="first",
    )  # fmt: skip
    bias = net.array(channels, 1, 1).astype(dtype)
    y = net.add("add", y, net.build.constant(bias))
    if is_residual:
        y = net.add("add", y, x)
    return net.finish(net.add("relu", y))


def other(plan: Plan) -> Plan:
    """With the last alternative of every subgraph."""
    return plan.using([step.ways[-1] for step in plan.subgraphs])


def taken(plan: Plan) -> list[str]:
    ops = [node.op for step in plan.subgraphs for node in step.nodes]
    return [op for op in ops if op == "conv" or op.startswith("winograd")]


def error(found, right) -> float:
    return max(
        float(np.abs(a - b).max() / np.abs(b).max())
        for a, b in zip(found, right, strict=True)
    )


# -- what there is ---------------------------------------------------------------------


def count(graph: Graph, alternatives=("winograd",)) -> int:
    plan = partition(optimise(graph), alternatives=alternatives)
    return sum(len(step.alternatives) for step in plan.subgraphs)


def test_convolutions_over_all_places_have_an_alternative():
    assert count(layer()) == 1
    assert count(layer(), ()) == 0
    assert count(layer(stride=2)) == 0
    assert count(layer(groups=2)) == 0
    assert count(layer(dtype="float64")) == 0


def test_not_where_it_needs_more_arithmetic():
    assert count(layer(channels=8)) == 0


def test_equal_alternatives_share_a_task_and_count_for_no_work():
    net = Layers()
    y = net.input(1, CHANNELS, 8, 8)
    for _ in range(3):
        y = net.add("relu", net.norm(net.conv(y, CHANNELS, 3)))
    plan = partition(optimise(net.finish(y)), alternatives=("winograd",))
    _, *steps = (step for step in plan.subgraphs if step.alternatives)
    assert len({id(step.alternatives[0].task) for step in steps}) == 1
    assert plan.tasks()[0] == (steps[0].task, 2)
    assert sum(weight for _, weight in plan.tasks()) == len(plan.subgraphs)
    *usual, one, _ = plan.candidates()
    assert [(x.task, x.weight) for x in usual] == plan.tasks()
    assert (one.place, one.weight, one.operators) == (0, 2, "winograd add relu")
    assert one.task is steps[0].alternatives[0].task


def test_names_are_checked():
    with pytest.raises(ModelError, match="alternatives are 'winograd'"):
        Model(layer(), alternatives=["magic"])
    assert Model(layer(), alternatives="winograd").alternatives == ("winograd",)


def test_several_methods_are_several_ways():
    model = Model(layer())
    ways = [one.operators for one in model.candidates_within(inf) if one.place == 0]
    assert [("winograd " in x, "winograd4 " in x) for x in ways] == [
        (False, False), (True, False), (False, True)
    ]  # fmt: skip


# -- what they compute -----------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(
    ("space", "padding"),
    [
        ((7, 7), ((1, 1), (1, 1))),
        ((13, 9), ((1, 1), (1, 1))),
        ((8, 6), ((0, 0), (0, 0))),
        ((5, 8), ((2, 0), (0, 1))),
        ((3, 4), ((1, 1), (2, 2))),
    ],
)
@pytest.mark.parametrize(("name", "times"), [("winograd", 1), ("winograd4", 10)])
def test_the_result_is_the_same_up_to_rounding(space, padding, batch, name, times):
    graph = layer(space, batch, padding=padding)
    plan = partition(optimise(graph), alternatives=(name,))
    assert taken(other(plan)) == [name]
    arrays = inputs_of(graph)
    right = interpret(graph, arrays)
    assert error(interpret_plan(other(plan), arrays), right) < times * BOUND


def volume(space, depth, padding, batch=1, step=1, channels=CHANNELS) -> Graph:
    """conv over three axes, relu."""
    net = Layers()
    x = net.input(batch, channels, *space)
    y = net.add(
        "conv", x, net.constant(channels, channels, depth, 3, 3), strides=(step, 1, 1),
        padding=padding, dilations=(1, 1, 1), groups=1, layout="first",
    )  # fmt: skip
    return net.finish(net.add("relu", y))


@pytest.mark.parametrize(("name", "times"), [("winograd", 1), ("winograd4", 10)])
@pytest.mark.parametrize(
    ("space", "depth", "padding", "batch", "step"),
    [
        ((4, 7, 7), 3, ((1, 1), (1, 1), (1, 1)), 1, 1),
        ((5, 8, 6), 3, ((1, 1), (1, 1), (1, 1)), 2, 2),
        ((3, 5, 8), 1, ((0, 0), (2, 0), (0, 1)), 2, 1),
        ((6, 9, 5), 4, ((2, 1), (0, 0), (1, 1)), 1, 3),
    ],
)
def test_images_may_have_depth(space, depth, padding, batch, step, name, times):
    graph = volume(space, depth, padding, batch, step)
    plan = partition(optimise(graph), alternatives=(name,))
    assert taken(other(plan)) == [name]
    arrays = inputs_of(graph)
    right = interpret(graph, arrays)
    assert error(interpret_plan(other(plan), arrays), right) < times * BOUND


@pytest.mark.llvm
def test_images_with_depth_are_compiled():
    graph = volume((4, 12, 12), 3, ((1, 1),) * 3)
    exe = compiled(Model(graph, alternatives=("winograd4",)))
    arrays = inputs_of(graph)
    assert error(exe(*arrays), interpret(graph, arrays)) < 10 * BOUND


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("inputs", [2, 700])
def test_kernels_are_transformed_in_double_precision(tile, inputs):
    rng = np.random.default_rng(0)
    kernels = rng.standard_normal((5, inputs, 3, 3), dtype=np.float32)
    g = np.array(G[tile])
    right = np.einsum("ur,vs,ocrs->uvco", g, g, kernels.astype(np.float64))
    found = method.transformed(kernels.transpose(2, 3, 1, 0), G[tile])
    assert found.dtype == np.float32
    np.testing.assert_array_max_ulp(found, right.astype(np.float32), maxulp=1)


@pytest.mark.parametrize("rows", [A[2], B[2], A[4], B[4]])
def test_matrices_have_their_numbers(rows):
    dag = DAG.build([method._matrix(rows, "M")])
    np.testing.assert_array_equal(reference(dag, [])[0], np.array(rows, np.float32))


def test_kernels_are_transformed_in_little_memory():
    kernels = np.ones((3, 3, 256, 128), np.float32)
    tracemalloc.start()
    try:
        size = method.transformed(kernels, G[4]).nbytes
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < size + 3 * 8 * method.SLICE


def compiled(model: Model) -> Executable:
    plan = other(model.plan)
    units = compile_all([Choice(step.task) for step in plan.subgraphs], 0)
    return Executable.link(plan, units, model.target)


@pytest.mark.llvm
@pytest.mark.parametrize(
    ("name", "times", "is_residual"),
    [("winograd", 1, False), ("winograd", 1, True), ("winograd4", 10, True)],
)
def test_compiled_it_agrees_with_the_plain_way(name, times, is_residual):
    graph = layer((7, 9), 2, is_residual=is_residual)
    model = Model(graph, alternatives=(name,))
    arrays = inputs_of(graph)
    exe = compiled(model)
    assert name in [node.op for x in exe.steps for node in x.subgraph.nodes]
    right = interpret(graph, arrays)
    assert error(exe(*arrays), right) < times * BOUND
    assert error(Model(graph, alternatives=()).compile(workers=0)(*arrays), right) < (
        BOUND
    )
    rows = exe.profile(*arrays, repeats=1).rows
    assert any(name in row.operators for row in rows)


@pytest.mark.llvm
@pytest.mark.parametrize("name", ["winograd", "winograd4"])
def test_what_tuning_allows_is_enough_and_not_much_more(name):
    plan = partition(optimise(layer((14, 14))), alternatives=(name,))
    (task,) = (x.task for step in plan.subgraphs for x in step.alternatives)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(x.shape, dtype=np.float32) for x in task.dag.inputs]
    (right,), (allowed,) = expected(task.dag, arrays)
    found = ansor.build(task)(*arrays)
    assert agrees(found, right, allowed).all()
    assert allowed.max() < 1e-3 * np.abs(right).max()


@pytest.mark.llvm
@pytest.mark.parametrize(("name", "times"), [("winograd", 1), ("winograd4", 10)])
def test_it_agrees_with_torch(name, times):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
        torch.nn.BatchNorm2d(CHANNELS),
        torch.nn.ReLU(),
    ).eval()
    x = torch.randn(2, CHANNELS, 13, 9)
    with torch.no_grad():
        right = module(x).numpy()
    exe = compiled(ansor.from_torch(module, (x,), alternatives=name))
    assert error([np.asarray(exe(x)[0])], [right]) < times * BOUND
    assert not ansor.from_torch(module, (x,), alternatives=()).plan.made


@pytest.mark.llvm
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_it_can_be_exported(tmp_path):
    graph = layer((7, 7))
    exe = compiled(Model(graph, alternatives="winograd"))
    exe.export(tmp_path, "layer")
    library = ctypes.CDLL(str(tmp_path / "liblayer.so"))
    library.layer_workspace_size.restype = ctypes.c_size_t
    (x,) = inputs_of(graph)
    y = np.empty_like(x)
    block = np.empty(library.layer_workspace_size() + 64, np.uint8)
    start = block.ctypes.data + -block.ctypes.data % 64
    arguments = [(ctypes.c_void_p * 1)(a.ctypes.data) for a in (x, y)]
    assert library.layer_run(*arguments, ctypes.c_void_p(start)) == 0
    np.testing.assert_array_equal(y, exe(x)[0])
    assert '"winograd"' in (tmp_path / "layer.json").read_text()


# -- which one is taken ----------------------------------------------------------------


def known(database: ansor.Database, task: ansor.Task, seconds: float) -> None:
    record = ansor.Record(
        task.key, task.target.fingerprint, to_data(Sketch(task).program()),
        ansor.Timed((seconds, seconds)), verified="seed 0", versions=versions(),
    )  # fmt: skip
    database.add(task, record)


@pytest.mark.parametrize(
    ("plain", "winograd", "right"),
    [
        (3e-3, 2e-3, "winograd"),
        (2e-3, 3e-3, "conv"),
        (3e-3, None, "conv"),
        (None, 3e-3, "winograd"),
    ],
)
def test_the_fastest_that_was_measured_is_taken(tmp_path, plain, winograd, right):
    plan = partition(optimise(layer()), alternatives=("winograd",))
    (step,) = (x for x in plan.subgraphs if x.alternatives)
    with ansor.Database(tmp_path / "tuning.db") as database:
        for way, seconds in zip(step.ways, (plain, winograd), strict=True):
            if seconds is not None:
                known(database, way.task, seconds)
        chosen, choices = choose_all(plan, database, inf)
        again, _ = choose_all(plan, str(tmp_path / "tuning.db"), None)
    assert taken(chosen) == taken(again) == [right]
    assert bool(chosen.made) == (right == "winograd")
    assert [x.seconds for x in choices if x.seconds] == [
        min(x for x in (plain, winograd) if x)
    ]


@pytest.mark.parametrize(("ratio", "right"), [(0.79, "winograd"), (0.9, "conv")])
def test_untuned_it_has_to_be_clearly_faster_in_belief(monkeypatch, ratio, right):
    plan = partition(optimise(layer()), alternatives=("winograd",))
    (step,) = (x for x in plan.subgraphs if x.alternatives)
    beliefs = {step.task.key: 1e-3, step.alternatives[0].task.key: ratio * 1e-3}
    monkeypatch.setattr(
        "ansor.search.estimate.estimate", lambda task: beliefs[task.key]
    )
    assert taken(choose_all(plan, None, inf)[0]) == [right]


@pytest.mark.llvm
def test_what_is_not_taken_is_not_made(tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("made")

    monkeypatch.setattr(method, "transformed", refuse)
    model = Model(layer(), alternatives="winograd")
    (step,) = (x for x in model.plan.subgraphs if x.alternatives)
    with ansor.Database(tmp_path / "tuning.db") as database:
        known(database, step.task, 1e-3)
        exe = model.compile(database, memory=inf, workers=0)
        sizes = {x.nbytes for x in exe.constants.values()}
        assert max(sizes) == 9 * 4 * CHANNELS**2
        known(database, step.alternatives[0].task, 1e-4)
        with pytest.raises(AssertionError, match="made"):
            model.compile(database, memory=inf, workers=0)


def test_the_backend_of_torch_has_an_option():
    options = Options.read({"alternatives": []})
    assert options.alternatives == []
    with pytest.raises(ModelError, match="'alternatives': 3 is of the wrong type"):
        Options.read({"alternatives": 3})
