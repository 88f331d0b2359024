"""The thread pool and the scratch memory, called as kernels call them."""

import ctypes
import itertools
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from ansor.codegen import engine, runtime
from ansor.errors import ArgumentError, CodegenError
from ansor.target.target import Target
from codegen.texts import COUNT

pytestmark = pytest.mark.llvm

I64, PTR = ctypes.c_int64, ctypes.c_void_p


@pytest.fixture(scope="module")
def code():
    return engine.compile_module(COUNT, Target.host())


@pytest.fixture(autouse=True)
def _threads():
    before = runtime.threads()
    yield
    runtime.set_threads(before)


def function(code, name, *types):
    return ctypes.CFUNCTYPE(None, *types)(code.address(name))


def entry(name, result, *types):
    return ctypes.CFUNCTYPE(result, *types)(runtime.addresses()[name])


def count(code, n, guard=8):
    """Hits of [0, n); the elements behind must stay 0."""
    hits = np.zeros(max(n, 0) + guard, np.int32)
    function(code, "count", PTR, I64)(hits.ctypes.data, n)
    assert not hits[max(n, 0) :].any()
    return hits[: max(n, 0)]


@pytest.mark.parametrize("threads", [1, 2, 3, 8, 200, 256])
def test_every_index_runs_once(code, threads):
    runtime.set_threads(threads)
    for n in (-1, 0, 1, 2, 3, 5, 7, 8, 9, 31, 64, 255, 257, 1009, 100_003):
        assert (count(code, n) == 1).all(), n


def test_nested_regions_run_in_their_caller(code):
    hits = np.zeros((37, 53), np.int32)
    nested = function(code, "count_nested", PTR, I64, I64)
    for _ in range(50):
        nested(hits.ctypes.data, *hits.shape)
    assert (hits == 50).all()


@pytest.mark.parametrize("threads", [2, 5])
def test_ten_thousand_regions(code, threads):
    runtime.set_threads(threads)
    often = function(code, "count_often", PTR, I64, I64)
    for n in (2, 17, 1000):
        hits = np.zeros(n, np.int32)
        often(hits.ctypes.data, n, 10_000)
        assert (hits == 10_000).all()


def test_regions_after_pauses(code):
    """Workers park after some microseconds; each pause meets another state."""
    for pause in range(0, 200, 4):
        time.sleep(pause * 1e-6)
        assert (count(code, 1000) == 1).all()


def test_several_threads_call_at_once(code):
    often = function(code, "count_often", PTR, I64, I64)
    arrays = [np.zeros(500 + n, np.int32) for n in range(6)]

    def work(hits):
        for _ in range(20):
            often(hits.ctypes.data, len(hits), 50)

    callers = [threading.Thread(target=work, args=(hits,)) for hits in arrays]
    for caller in callers:
        caller.start()
    for change in (1, 4, 2, 8, 2):
        runtime.set_threads(change)
    for caller in callers:
        caller.join()
    assert all((hits == 1000).all() for hits in arrays)


def in_child(work):
    """The exit status of a forked child that runs `work`; 99 if it raises."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = work()
        finally:
            os._exit(status)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    raise AssertionError("the child hangs")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_works_in_a_forked_child(code):
    runtime.set_threads(3)
    assert (count(code, 1000) == 1).all()

    def child():
        fine = all((count(code, 1000) == 1).all() for _ in range(100))
        grandchild = in_child(lambda: 0 if (count(code, 99) == 1).all() else 1)
        compiled = engine.compile_module(COUNT, Target.host())
        fine = fine and (count(compiled, 10) == 1).all()
        return 0 if fine and grandchild == 0 else 1

    assert in_child(child) == 0
    assert (count(code, 1000) == 1).all()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_works_in_a_child_forked_while_the_pool_is_busy(code):
    often = function(code, "count_often", PTR, I64, I64)
    hits = np.zeros(2000, np.int32)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            often(hits.ctypes.data, len(hits), 100)

    caller = threading.Thread(target=work)
    caller.start()
    try:
        for _ in range(10):
            assert in_child(lambda: 0 if (count(code, 777) == 1).all() else 1) == 0
    finally:
        stop.set()
        caller.join()


def worker_threads():
    return len(os.listdir("/proc/self/task"))


def test_limit_on_threads(code):
    runtime.set_threads(1)
    before = worker_threads()
    assert runtime.threads() == 1
    assert (count(code, 1000) == 1).all()
    assert worker_threads() == before
    runtime.set_threads(2)
    assert runtime.threads() == 2
    assert (count(code, 1000) == 1).all()


@pytest.mark.parametrize("bad", [0, -1, 257, True, 1.5])
def test_limits_that_are_refused(bad):
    with pytest.raises(ArgumentError):
        runtime.set_threads(bad)


def fresh(program, *, shell="", **environment):
    """Exit status, output and errors of a new Python, after `shell` set limits."""
    result = subprocess.run(
        ["bash", "-c", f"{shell} exec '{sys.executable}' -c \"$PROGRAM\""],
        capture_output=True,
        text=True,
        timeout=60,
        env={
            **os.environ,
            "PROGRAM": program,
            "PYTHONPATH": os.pathsep.join(sys.path),
            **environment,
        },
    )
    return result.returncode, result.stdout.strip(), result.stderr


def test_default_is_the_affinity_mask():
    program = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from ansor.codegen import runtime; print(runtime.threads())"
    )
    assert fresh(program, ANSOR_THREADS="")[:2] == (0, "1")


def test_environment_lowers_the_limit():
    program = "from ansor.codegen import runtime; print(runtime.threads())"
    assert fresh(program, ANSOR_THREADS="1")[:2] == (0, "1")


EXIT = """
import ctypes
import numpy as np
from codegen.texts import COUNT
from ansor.codegen import engine, runtime
from ansor.target.target import Target
runtime.set_threads(4)
code = engine.compile_module(COUNT, Target.host())
call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(code.address("count"))
hits = np.zeros(100, np.int32)
call(hits.ctypes.data, 100)
print(hits.sum())
"""


def test_exit_right_after_a_region():
    for _ in range(3):
        assert fresh(EXIT) == (0, "100", "")


def test_runs_alone_where_no_thread_can_be_created():
    """Stacks larger than the address space: no thread finds room for its own."""
    program = EXIT + "import os; print(len(os.listdir('/proc/self/task')))"
    limits = f"ulimit -s {1 << 38} || exit 77;"
    result = fresh(program, shell=limits, OPENBLAS_NUM_THREADS="1")
    if result[0] == 77:
        pytest.skip("the limit of the stack cannot be raised here")
    assert result == (0, "100\n1", "")


def test_an_empty_region_is_cheap(code):
    runtime.set_threads(2)
    regions = function(code, "empty_regions", I64)
    regions(1000)
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        regions(1000)
        seconds.append((time.perf_counter() - start) / 1000)
    assert min(seconds) < 5e-6


def test_scratch_is_aligned_and_reused():
    acquire = entry("ansor_scratch_acquire", PTR, I64)
    release = entry("ansor_scratch_release", None, PTR)
    for size in (0, 1, 64, 4096, 4097, 1 << 20, (3 << 20) + 1):
        first, second = acquire(size), acquire(size)
        assert first % 64 == 0
        assert second % 64 == 0
        assert abs(first - second) >= size
        ctypes.memset(first, 1, size)
        ctypes.memset(second, 2, size)
        assert size == 0 or ctypes.string_at(first, size) == b"\1" * size
        release(first)
        release(second)
        assert {acquire(size), acquire(size)} == {first, second}
        release(first)
        release(second)


def test_scratch_of_many_blocks():
    acquire = entry("ansor_scratch_acquire", PTR, I64)
    release = entry("ansor_scratch_release", None, PTR)
    blocks = sorted(acquire(5000) for _ in range(200))  # more than are kept
    assert min(b - a for a, b in itertools.pairwise(blocks)) >= 8192
    for block in blocks:
        release(block)


def test_scratch_from_several_threads():
    acquire = entry("ansor_scratch_acquire", PTR, I64)
    release = entry("ansor_scratch_release", None, PTR)
    clashes = []

    def work(mark):
        for _ in range(500):
            block = acquire(4096)
            ctypes.memset(block, mark, 64)
            if ctypes.string_at(block, 64) != bytes([mark]) * 64:
                clashes.append(mark)
            release(block)

    callers = [threading.Thread(target=work, args=(n,)) for n in range(1, 9)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not clashes


@pytest.mark.parametrize("cpu", ["x86_64", "aarch64"])
@pytest.mark.parametrize("shared", [False, True])
def test_text_compiles_for(cpu, shared):
    text = runtime.text(cpu, shared=shared)
    assembly = engine.assembly(text, Target(cpu))
    assert all(f"{name}:" in assembly for name in runtime.ENTRIES)
    assert ("pause" if cpu == "x86_64" else "isb") in assembly


def test_text_for_another_machine():
    with pytest.raises(CodegenError, match="riscv64"):
        runtime.text("riscv64")
