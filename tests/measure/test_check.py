"""What `check` finds, told with kernels that are Python functions."""

import ctypes
import os
import signal
import time

import numpy as np
import pytest

import ansor
from ansor.codegen import runtime
from ansor.codegen.kernel import Prepared
from ansor.ir.dtypes import DTYPES
from ansor.ir.expr import Buffer
from ansor.measure import check
from ansor.measure.problem import Problem, readable
from ansor.search.untuned import untuned
from ansor.te.dag import DAG
from ansor.te.inputs import random_trial
from ansor.te.task import Task
from measure.harness import Candidate, Loaded

pytestmark = pytest.mark.llvm


def scaled(shape=(4, 9), dtype="float32") -> DAG:
    A = ansor.placeholder(shape, dtype, name="A")
    return DAG.build([ansor.compute(shape, lambda *i: A[i] * A[i], name="B")])


def never(entry: str, source: int, block: int) -> None:
    raise AssertionError("nothing has to be packed")


class Case:
    """A problem, the right outputs, and arrays at addresses."""

    def __init__(self, dag: DAG) -> None:
        self.problem = Problem.create(dag, 5)
        self.right = random_trial(dag, np.random.default_rng(5)).values

    def view(self, address: int, at: int = 0) -> np.ndarray:
        buffer = self.problem.dag.outputs[at]
        block = (ctypes.c_uint8 * buffer.bytes).from_address(address)
        return np.frombuffer(block, DTYPES[buffer.dtype].numpy).reshape(buffer.shape)

    def check(self, change=lambda x: None, **options) -> check.Verdict:
        """The verdict of right outputs after `change` of the first."""

        def call(addresses):
            count = len(self.right)
            for at, address in enumerate(addresses[-count:]):
                self.view(address, at)[...] = self.right[at]
            change(self.view(addresses[-count]))

        return check.check(self.problem, call, (), never, **options)


@pytest.fixture(scope="module")
def case():
    return Case(scaled())


@pytest.mark.parametrize("poison", [0, 1])
@pytest.mark.parametrize("at", ["end", "start"])
def test_right_results_pass(case, poison, at):
    verdict = case.check(poison=poison, at=at)
    assert verdict.ok
    assert verdict.message == ""
    assert 0 <= verdict.worst < 1


def test_the_message_says_where_and_what(case):
    def change(x):
        x[2, 3] += 0.5

    verdict = case.check(change)
    y = case.right[0][2, 3]
    assert not verdict.ok
    assert verdict.worst == float("inf")
    assert verdict.message.startswith(
        "output 'B': 1 of 36 elements differ; first at [2, 3]: "
        f"{y + np.float32(0.5):.9g} instead of {y:.9g} (allowed "
    )


@pytest.mark.parametrize("poison", [0, 1])
def test_elements_that_were_not_written_are_counted(case, poison):
    verdict = check.check(case.problem, lambda _: None, (), never, poison)
    assert verdict.message.endswith("36 were never written")


def test_worst_is_the_share_of_what_is_allowed(case):
    low, high = (readable(x, "float32") for x in case.problem.right[0])
    place = np.unravel_index(np.argmax(high - low), (4, 9))
    middle = case.right[0][place]
    most = (high - low).max() / 2

    def change(x):
        x[place] = middle + np.float32(0.75 * most)

    assert case.check(change).worst == pytest.approx(0.75, abs=0.05)


@pytest.mark.parametrize(("at", "offset", "side"), [
    ("end", -4, "before"), ("start", 36 * 4, "behind"),
])  # fmt: skip
def test_a_write_beside_an_output_is_told(case, at, offset, side):
    def call(addresses):
        case.view(addresses[-1])[...] = case.right[0]
        ctypes.c_int32.from_address(addresses[-1] + offset).value = 1

    verdict = check.check(case.problem, call, (), never, at=at)
    assert verdict.message == f"memory {side} output 'B' was written: 4 bytes"


def test_nan_is_right_where_it_is_expected():
    problem = Problem.create(scaled((4,)), 0)
    low, high = (x.copy() for x in problem.right[0])
    right = low.copy()
    right[:2] = np.nan
    low[0] = high[0] = np.nan
    low[1], high[1] = -np.inf, np.inf
    problem.__dict__["right"] = ((low, high),)
    assert check.recheck(problem, [right]).ok
    right[:2] = 1, 5
    verdict = check.recheck(problem, [right])
    assert "1 of 4 elements differ; first at [0]: 1 instead of nan" in verdict.message


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_is_told_apart(dtype):
    A = ansor.placeholder((7, 5), dtype, name="A")
    case = Case(DAG.build([ansor.compute((5, 7), lambda i, j: A[j, i], name="B")]))
    assert case.check().ok
    assert not check.check(case.problem, lambda _: None, (), never).ok

    def flip(x):
        x.reshape(-1).view(np.uint8)[:: x.itemsize] ^= 1

    verdict = case.check(flip)
    assert "35 of 35 elements differ" in verdict.message


def test_no_bool_but_false_and_true_is_right():
    A = ansor.placeholder((3,), "bool", name="A")
    case = Case(DAG.build([ansor.compute((3,), lambda i: A[i], name="B")]))

    def change(x):
        x.view(np.uint8)[:] *= 3

    assert case.check().ok
    assert case.check(change).ok == (not case.right[0].any())


def test_several_outputs_and_none_without_axes():
    A = ansor.placeholder((6,), name="A")
    k = ansor.reduce_axis(6)
    total = ansor.compute((), lambda: ansor.sum(A[k], axis=k), name="total")
    twice = ansor.compute((6,), lambda i: A[i] * 2.0, name="twice")
    case = Case(DAG.build([total, twice]))
    assert case.check().ok

    def change(x):
        x[()] += 1

    message = case.check(change).message
    assert "output 'total': 1 of 1 elements differ; first at its only" in message


def test_recheck_compares_what_is_left(case):
    assert check.recheck(case.problem, case.right).ok
    assert not check.recheck(case.problem, [case.right[0] + 1]).ok


def test_packed_inputs_lie_between_guards(case):
    packed = Buffer("A.packed", (4, 10), "float32")
    row = Prepared("A", packed, "lay_out")
    seen = []

    def pack(entry, source, block):
        assert (entry, block % 64) == ("lay_out", 0)
        assert source == case.problem.input_addresses()[0]
        seen.append(block)
        if len(seen) == 2:
            ctypes.c_int32.from_address(block - 4).value = 1

    def call(addresses):
        assert addresses[0] == seen[-1]
        case.view(addresses[-1])[...] = case.right[0]

    assert check.check(case.problem, call, (row,), pack).ok
    verdict = check.check(case.problem, call, (row,), pack)
    assert "memory before the layout of input 'A' was written" in verdict.message


def test_inputs_and_packed_inputs_cannot_be_written(case):
    row = Prepared("A", Buffer("A.packed", (4, 9), "float32"), "lay_out")

    def write(addresses):
        ctypes.c_int32.from_address(addresses[0]).value = 1

    for prepared in ((), (row,)):
        pid = os.fork()
        if not pid:
            signal.signal(signal.SIGSEGV, signal.SIG_DFL)
            check.check(case.problem, write, prepared, lambda *_: None)
            os._exit(0)
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGSEGV


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
def test_a_million_elements_take_two_milliseconds(dtype):
    case = Case(scaled((1024, 1024), dtype))
    check.recheck(case.problem, case.right)
    spent = []
    for _ in range(15):
        start = time.perf_counter()
        assert check.recheck(case.problem, case.right).ok
        spent.append(time.perf_counter() - start)
    assert min(spent) < 4e-3  # 1.1 to 1.7 ms on a machine that does nothing else


# -- scratch memory --------------------------------------------------------------


def scratch(name, result, *types):
    address = check.checked_imports()[f"ansor_scratch_{name}"]
    return ctypes.CFUNCTYPE(result, *types)(address)


def acquire(nbytes: int) -> int:
    return scratch("acquire", ctypes.c_void_p, ctypes.c_int64)(nbytes)


def release(block: int) -> None:
    scratch("release", None, ctypes.c_void_p)(block)


def ended(work) -> int:
    """How a child that does `work` ends: its status, or minus the signal."""
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        try:
            work()
        finally:
            os._exit(0)
    status = os.waitpid(pid, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def put(address: int) -> None:
    ctypes.c_uint8.from_address(address).value = 1


@pytest.mark.parametrize("nbytes", [64, 4096, 100_032])
def test_scratch_ends_at_a_guard(nbytes):
    assert ended(lambda: put(acquire(nbytes) + nbytes - 1)) == 0
    assert ended(lambda: put(acquire(nbytes) + nbytes)) == -signal.SIGSEGV


def test_scratch_is_nan_each_time(case):
    block = acquire(256)
    values = np.frombuffer((ctypes.c_float * 64).from_address(block), np.float32)
    assert np.isnan(values).all()
    values[:] = 0
    release(block)
    assert acquire(256) == block
    assert np.isnan(values).all()
    release(block)


def test_a_write_before_scratch_is_told(case):
    def call(addresses):
        case.view(addresses[-1])[...] = case.right[0]
        block = acquire(256)
        put(block - 1)
        release(block)

    verdict = check.check(case.problem, call, (), never)
    assert "scratch block was written: 8 bytes" in verdict.message
    assert case.check().ok


def test_no_memory_for_scratch_has_a_status_of_its_own():
    assert ended(lambda: acquire(1 << 60)) == 113


def test_scratch_is_given_back(case):
    def call(addresses):
        case.view(addresses[-1])[...] = case.right[0]
        blocks = [acquire(1 << 20) for _ in range(80)]
        for block in blocks:
            release(block)

    def mapped() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0])

    assert check.check(case.problem, call, (), never).ok
    before = mapped()
    assert check.check(case.problem, call, (), never).ok
    assert mapped() - before < 256  # pages, as many as a block has


def test_kernels_use_checked_scratch():
    """A temporary that is too large for the stack, in a parallel loop or not."""
    A = ansor.placeholder((64, 96), name="A")
    B = ansor.compute((64, 96), lambda i, j: ansor.exp(A[i, j]), name="B")
    k = ansor.reduce_axis(64)
    C = ansor.compute(
        (96, 96), lambda i, j: ansor.sum(B[k, i] * B[k, j], axis=k), name="C"
    )
    task = Task(C)
    lowered = untuned(task).lower("kernel")
    loaded = Loaded(Candidate((lowered.main, *lowered.prepare), task.dag, task.target))
    problem = Problem.create(task.dag, 0)
    for poison, at in ((0, "end"), (1, "start")):
        assert loaded.check(problem, poison, at).ok
    problem.close()


def test_imports_stand_in_for_the_runtime():
    assert set(check.checked_imports()) < {*runtime.ENTRIES, "malloc"}
