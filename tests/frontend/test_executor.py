"""Compiled models: results, arguments, threads, constants, profiles."""

import threading

import numpy as np
import pytest

from ansor.errors import ArgumentError
from ansor.frontend.builder import Builder
from ansor.frontend.executor import Executable
from ansor.frontend.graph import Graph
from ansor.frontend.interpret import interpret
from ansor.frontend.units import choose
from ansor.frontend.workshop import compile_all, forget
from ansor.target import Target
from frontend.plans import one_by_one

pytestmark = pytest.mark.llvm


def compiled(graph: Graph, workers: int = 0) -> Executable:
    target = Target.host()
    plan = one_by_one(graph, target)
    distinct = {x.task.key: x.task for x in plan.subgraphs}
    units = compile_all(choose(list(distinct.values()), None), workers)
    of_task = dict(zip(distinct, units, strict=True))
    return Executable.link(plan, [of_task[x.task.key] for x in plan.subgraphs], target)


def perceptron(seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    build = Builder("perceptron")
    x = build.input("x", "float32", (4, 32))
    for n, width in enumerate((32, 32, 16)):
        shape = (x.shape[1], width)
        w = build.constant(rng.standard_normal(shape, dtype=np.float32), f"w{n}")
        x = build.add("relu", build.add("matmul", x, w))
    return build.finish([build.add("softmax", x, axis=1)])


@pytest.fixture(scope="module")
def exe() -> Executable:
    return compiled(perceptron())


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((4, 32), dtype=np.float32)


def test_results_agree_with_the_interpreter(exe, x):
    (found,) = exe(x)
    (expected,) = interpret(perceptron(), [x])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_inputs_are_given_by_place_or_by_name():
    build = Builder("difference")
    one, other = (build.input(name, "float32", (2,)) for name in ("a", "b.1"))
    call = compiled(build.finish([build.add("subtract", one, other)]))
    a, b = np.array([5, 7], "float32"), np.array([1, 2], "float32")
    for found in (call(a, b), call(a, **{"b.1": b}), call(**{"b.1": b, "a": a})):
        assert found[0].tolist() == [4, 5]
    with pytest.raises(ArgumentError, match=r"takes 2: a, b\.1"):
        call(**{"b.1": b})
    with pytest.raises(ArgumentError, match=r"that are left are b\.1"):
        call(a, a=a)


def test_equal_tasks_are_one_kernel(exe):
    symbols = [step.unit.symbol for step in exe.steps]
    assert (len(symbols), len(set(symbols))) == (7, 5)


def test_workers_make_the_same_code(exe):
    forget()
    other = compiled(perceptron(), workers=2)
    for one, two in zip(exe.steps, other.steps, strict=True):
        assert (one.unit, one.unit.made.code) == (two.unit, two.unit.made.code)


def test_outputs_that_are_inputs_or_constants_or_come_twice():
    build = Builder()
    x = build.input("x", "float32", (6,))
    w = build.constant(np.arange(6, dtype=np.float32), "w")
    y = build.add("add", x, w)
    exe = compiled(build.finish([y, x, w, build.add("reshape", y, shape=(2, 3)), y]))
    given = np.full(6, 2, np.float32)
    results = exe(given)
    total = given + np.arange(6)
    expected = (total, given, np.arange(6), total.reshape(2, 3), total)
    for found, right in zip(results, expected, strict=True):
        np.testing.assert_array_equal(found, right)
    addresses = {x.ctypes.data for x in (*results, given)}
    assert len(addresses) == 6


def test_a_model_without_kernels_copies():
    build = Builder()
    x = build.input("x", "int32", (3,))
    (y,) = compiled(build.finish([x]))(np.arange(3, dtype=np.int32))
    np.testing.assert_array_equal(y, np.arange(3))


def test_arrays_without_elements():
    build = Builder()
    x = build.input("x", "float32", (0, 3))
    y = build.input("y", "float32", (2,))
    exe = compiled(build.finish([x, build.add("negative", y)]))
    empty, negative = exe(np.zeros((0, 3), np.float32), np.ones(2, np.float32))
    assert empty.shape == (0, 3)
    np.testing.assert_array_equal(negative, [-1, -1])


def test_tensors_of_torch_are_read_in_place(exe, x):
    torch = pytest.importorskip("torch")
    (found,) = exe(torch.from_numpy(x))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), exe(x)[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "call of model 'perceptron': 0 inputs, but it takes 1: x"),
        (
            (np.zeros((4, 31), np.float32),),
            "input 'x' of model 'perceptron': shape (4, 31), but it takes (4, 32)",
        ),
        (
            (np.zeros((4, 32)),),
            "input 'x' of model 'perceptron': dtype float64, but it takes float32\n"
            "  hint: convert it, for example x.astype(...)",
        ),
        (
            (np.zeros((32, 4), np.float32).T,),
            "input 'x' of model 'perceptron': not contiguous in row-major order\n"
            "  hint: pass np.ascontiguousarray(x)",
        ),
        (
            ("x",),
            "input 'x' of model 'perceptron': str is not an array\n"
            "  hint: pass a NumPy array or anything with __dlpack__",
        ),
    ],
)
def test_wrong_arguments_are_named(exe, arguments, message):
    with pytest.raises(ArgumentError) as caught:
        exe(*arguments)
    assert str(caught.value) == message


def test_calls_from_threads_have_arenas_of_their_own(exe):
    rng = np.random.default_rng(2)
    inputs = [rng.standard_normal((4, 32), dtype=np.float32) for _ in range(8)]
    expected = [exe(x)[0] for x in inputs]
    wrong = []

    def work(at: int) -> None:
        for _ in range(200):
            if not np.array_equal(exe(inputs[at])[0], expected[at]):
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_weight_that_is_used_twice_is_stored_once():
    rng = np.random.default_rng(3)
    build = Builder()
    x = build.input("x", "float32", (64, 64))
    w = build.constant(rng.standard_normal((64, 64), dtype=np.float32), "w")
    once = build.add("matmul", x, w)
    twice = build.add("matmul", build.add("negative", once), w)
    exe = compiled(build.finish([twice]))
    assert len(exe.constants) == 1
    assert exe.memory.constants >= 64 * 64 * 4
    given = rng.standard_normal((64, 64), dtype=np.float32)
    array = next(iter(build.constants.values()))
    np.testing.assert_allclose(exe(given)[0], -given @ array @ array, rtol=1e-3)


def test_profile_has_a_row_for_every_step(exe, x):
    profile = exe.profile(x, repeats=3)
    assert [row.operators for row in profile.rows] == [("matmul",), ("relu",)] * 3 + [
        ("softmax",)
    ]
    assert sum(row.share for row in profile.rows) == pytest.approx(1)
    assert all(row.seconds > 0 and not row.is_tuned for row in profile.rows)
    assert profile.kernels == pytest.approx(sum(row.seconds for row in profile.rows))
    assert str(profile).splitlines()[0].split() == [
        *("step", "us", "share", "GFLOP/s", "tuned", "task", "operators")
    ]
    assert profile.slowest(1)[0].seconds == max(row.seconds for row in profile.rows)


def test_a_call_costs_little_more_than_its_kernels(exe, x):
    """5 microseconds a step are allowed; the best of several, as others compute."""
    overheads = [exe.profile(x, repeats=50).overhead for _ in range(5)]
    assert min(overheads) < 5e-6 * len(exe.steps)


def test_memory_is_shared_between_steps(exe):
    sizes = [value.bytes for step in exe.steps for value in step.subgraph.outputs]
    assert exe.memory.arena == 2 * max(sizes)
    assert exe.memory.arena < exe.memory.values
