"""Calling kernels with arrays."""

import copy
import sys
import threading
import warnings

import ml_dtypes
import numpy as np
import pytest

import ansor
from ansor.codegen import arrays, dlpack
from ansor.codegen.kernel import Prepared, make_kernel
from ansor.errors import ArgumentError, CodegenError
from ansor.ir.expr import Buffer
from ansor.search.build import build
from ansor.target.target import Target
from codegen.texts import ADD, COPY16, DOUBLE, PACKED, TWO

pytestmark = pytest.mark.llvm

HOST = Target.host()
MOST_ENTERED = 12  # Python functions, by a call with plain arrays
A, B, C = (Buffer(name, (3, 4), "float32") for name in "ABC")


@pytest.fixture(scope="module")
def add():
    return make_kernel("add", ADD, HOST, (A, B, C), loops="for i: C = A + B")


@pytest.fixture
def ab():
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    return a, np.full((3, 4), 0.5, np.float32)


def packed_kernel():
    shape = [Buffer(name, (4,), "float32") for name in "AWC"]
    rows = [Prepared("W", Buffer("W.packed", (4,), "float32", "packed"), "rotate")]
    return make_kernel("sum", PACKED, HOST, shape, prepared=rows)


def message(kernel, *inputs, **options):
    with pytest.raises(ArgumentError) as error:
        kernel(*inputs, **options)
    return str(error.value)


def test_returns_the_output(add, ab):
    result = add(*ab)
    assert type(result) is np.ndarray
    assert np.array_equal(result, ab[0] + 0.5)
    assert result.ctypes.data % 64 == 0


def test_writes_into_out(add, ab):
    out = np.zeros((3, 4), np.float32)
    assert add(*ab, out=out) is out
    assert add(*ab, out=(out,))[0] is out
    assert np.array_equal(out, ab[0] + 0.5)


def test_several_outputs_and_numbers():
    shape = [Buffer(name, (), "float32") for name in "ABC"]
    two = make_kernel("two", TWO, HOST, shape, outputs=2)
    assert [float(x) for x in two(1.5)] == [-1.5, 3.0]
    assert [float(x) for x in two(2)] == [-2.0, 4.0]
    assert [float(x) for x in two(np.float32(3))] == [-3.0, 6.0]
    out = np.zeros((), np.float32), np.zeros((), np.float32)
    assert two(1.0, out=out) is out
    assert out == (-1.0, 2.0)
    assert message(two, 1.0, out=out[0]) == (
        "out of kernel 'two': 1 arrays, but it has 2 outputs"
    )
    assert message(two, 1.0, out=(out[0], out[0])) == (
        "argument 'C' of kernel 'two': it overlaps argument 'B' in memory\n"
        "  hint: pass an array of its own as out"
    )
    assert message(two, True) == (
        "argument 'A' of kernel 'two': True is bool, but it takes float32"
    )


def test_wrong_number_of_inputs(add, ab):
    assert message(add, *ab, ab[0]) == (
        "call of kernel 'add': 3 inputs, but it takes 2: A, B\n"
        "  hint: outputs are returned, or given as out=…"
    )


def test_wrong_dtype(add, ab):
    assert message(add, ab[0].astype(np.float64), ab[1]) == (
        "argument 'A' of kernel 'add': dtype float64, but it takes float32\n"
        "  hint: convert it, for example A.astype(...)"
    )


def test_wrong_shape(add, ab):
    assert message(add, ab[0], ab[1].T.copy()) == (
        "argument 'B' of kernel 'add': shape (4, 3), but it takes (3, 4)"
    )


def test_not_contiguous(add, ab):
    assert message(add, np.asfortranarray(ab[0]), ab[1]) == (
        "argument 'A' of kernel 'add': not contiguous in row-major order\n"
        "  hint: pass np.ascontiguousarray(A)"
    )


def test_not_aligned(add, ab):
    raw = np.zeros(49, np.uint8)[1:].view(np.float32).reshape(3, 4)
    assert "is not a multiple of 4 bytes\n  hint: pass A.copy()" in message(
        add, raw, ab[1]
    )


def test_other_byte_order(add, ab):
    assert "the order of another machine" in message(add, ab[0].astype(">f4"), ab[1])


@pytest.mark.parametrize("bad", [None, "text", [[1.0]], object()])
def test_not_an_array(add, ab, bad):
    assert message(add, bad, ab[1]) == (
        f"argument 'A' of kernel 'add': {type(bad).__name__} is not an array\n"
        "  hint: pass a NumPy array or anything with __dlpack__"
    )


def test_number_for_an_array(add, ab):
    assert message(add, 1.0, ab[1]) == (
        "argument 'A' of kernel 'add': 1.0 is a number, but its shape is (3, 4)\n"
        "  hint: pass an array, for example np.full((3, 4), 1.0)"
    )


def test_read_only_output(add, ab):
    out = np.zeros((3, 4), np.float32)
    out.flags.writeable = False
    assert message(add, *ab, out=out) == (
        "argument 'C' of kernel 'add': the array is read-only\n"
        "  hint: pass a writable array as out"
    )


def test_output_over_an_input(add, ab):
    assert message(add, *ab, out=ab[1]) == (
        "argument 'C' of kernel 'add': it overlaps argument 'B' in memory\n"
        "  hint: pass an array of its own as out"
    )
    block = np.zeros(20, np.float32)
    a, out = block[:12].reshape(3, 4), block[8:].reshape(3, 4)
    assert "overlaps argument 'A'" in message(add, a, ab[1], out=out)
    add(a, ab[1], out=np.zeros((3, 4), np.float32))


def test_read_only_inputs_are_fine(add, ab):
    ab[0].flags.writeable = False
    assert np.array_equal(add(*ab), ab[0] + 0.5)


def test_one_array_as_two_inputs(add, ab):
    assert np.array_equal(add(ab[0], ab[0]), 2 * ab[0])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int16"])
def test_sixteen_bit_types(dtype):
    shape = [Buffer(name, (4,), dtype) for name in "AB"]
    copy = make_kernel("copy16", COPY16, HOST, shape)
    numpy_dtype = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    given = np.array([1, -2, 3, 4], numpy_dtype)
    assert np.array_equal(copy(given), given)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "int16"])
def test_torch_in_and_out(dtype):
    torch = pytest.importorskip("torch")
    shape = [Buffer(name, (4,), dtype) for name in "AB"]
    copy = make_kernel("copy16", COPY16, HOST, shape)
    given = torch.tensor([1, -2, 3, 4], dtype=getattr(torch, dtype))
    result = copy(given)
    assert isinstance(result, torch.Tensor)
    assert torch.equal(result, given)
    out = torch.zeros_like(given)
    assert copy(given, out=out) is out
    assert torch.equal(out, given)


def test_torch_misuse(add):
    torch = pytest.importorskip("torch")
    a = torch.ones(3, 4)
    assert "not contiguous" in message(add, torch.ones(4, 3).T, a)
    assert "dtype float64" in message(add, a.double(), a)
    assert "hint: detach it" in message(add, torch.ones(3, 4, requires_grad=True), a)
    assert "overlaps argument 'B'" in message(add, a.clone(), a, out=a)
    assert torch.equal(add(a, a[:1].expand(1, 4).repeat(3, 1)), 2 * a)


def test_torch_tensors_that_are_not_what_they_point_to(add):
    torch = pytest.importorskip("torch")
    fake = pytest.importorskip("torch._subclasses.fake_tensor")
    a = torch.ones(3, 4)
    assert "hint: pass A.resolve_neg()" in message(add, torch._neg_view(a), a)
    with fake.FakeTensorMode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "no memory" in message(add, torch.empty(3, 4), a)
    assert "meta" in message(add, a.to("meta"), a)


def test_torch_hints_are_of_torch(add):
    torch = pytest.importorskip("torch")
    a = torch.ones(3, 4)
    assert "hint: pass A.contiguous()" in message(add, torch.ones(4, 3).T, a)
    assert "example A.to(torch.float32)" in message(add, a.double(), a)


def test_a_copy_of_a_kernel_is_the_kernel(add):
    assert copy.copy(add) is add
    assert copy.deepcopy(add) is add


def test_bind_takes_every_name():
    inputs = [ansor.placeholder((4,), name=name) for name in ("self", "name")]
    total = ansor.compute((4,), lambda i: inputs[0][i] + inputs[1][i])
    kernel = build(ansor.Task([*inputs, total]))
    a = np.ones(4, np.float32)
    assert kernel.bind(**{"self": a, "name": a})().tolist() == [2.0] * 4


def test_numbers_too_wide_for_int64_are_floats():
    x = ansor.placeholder((), "bfloat16", name="x")
    kernel = build(ansor.Task(ansor.compute((), lambda: x[()], name="y")))
    assert float(kernel(2**70)) == 2.0**70


class Wrapped:
    """An array of another library: DLPack without versions, on some device."""

    def __init__(self, array, device=1):
        self.array, self.device = array, device

    def __dlpack_device__(self):
        return self.device, 0

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


def test_dlpack_without_versions(add, ab):
    tensor = dlpack.read(Wrapped(ab[0]))
    assert (tensor.shape, tensor.dtype, tensor.is_dense) == ((3, 4), "float32", True)
    assert not dlpack.read(Wrapped(ab[0].T)).is_dense
    assert np.array_equal(add(Wrapped(ab[0]), ab[1]), ab[0] + 0.5)
    out = np.zeros((3, 4), np.float32)
    add(*ab, out=Wrapped(out))
    assert np.array_equal(out, ab[0] + 0.5)


def test_wrong_device(add, ab):
    assert message(add, Wrapped(ab[0], device=2), ab[1]) == (
        "argument 'A' of kernel 'add': Wrapped on cuda: the kernel runs on the CPU\n"
        "  hint: copy it to the CPU first"
    )


def test_read_only_dlpack_output(add, ab):
    class Frozen(Wrapped):
        def __dlpack__(self, *, max_version=None):
            return self.array.__dlpack__(max_version=max_version)

    out = np.zeros((3, 4), np.float32)
    out.flags.writeable = False
    assert "the array is read-only" in message(add, *ab, out=Frozen(out))


def test_bound_input(add, ab):
    fixed = add.bind(B=ab[1])
    assert [x.name for x in fixed.parameters] == ["A", "C"]
    assert np.array_equal(fixed(ab[0]), ab[0] + 0.5)
    assert "overlaps argument 'B'" in message(fixed, ab[0], out=ab[1])
    both = fixed.bind(A=ab[0])
    del ab
    assert np.array_equal(
        both(), add.bind(A=both.bound["A"].owner)(np.full((3, 4), 0.5, "f"))
    )


def test_bound_inputs_misuse(add, ab):
    with pytest.raises(ArgumentError) as error:
        add.bind(X=ab[0])
    assert str(error.value) == (
        "bind(X=…) of kernel 'add': no such input, or it is bound already\n"
        "  hint: its free inputs are: A, B"
    )
    with pytest.raises(ArgumentError, match="shape"):
        add.bind(A=np.zeros(3, np.float32))


def test_packed_constants():
    kernel = packed_kernel()
    a, w = np.arange(4, dtype=np.float32), np.array([10, 20, 30, 40], np.float32)
    assert kernel(a, w).tolist() == [10, 21, 32, 43]
    bound = kernel.bind(W=w)
    w[:] = 0  # it was copied
    assert bound(a).tolist() == [10, 21, 32, 43]
    assert kernel(a, w).tolist() == [0, 1, 2, 3]
    out = np.zeros(4, np.float32)
    assert bound(a, out=out).tolist() == [10, 21, 32, 43]
    assert bound.time(a, seconds=0.001) > 0


def test_prepared_input_that_is_none():
    shape = [Buffer(name, (4,), "float32") for name in "AWC"]
    with pytest.raises(CodegenError, match="not an input"):
        make_kernel("sum", PACKED, HOST, shape, prepared=[Prepared("C", A, "rotate")])


def test_sources(add):
    assert add.source("loops") == "for i: C = A + B"
    assert "define void @add" in add.source("llvm")
    assert "add:" in add.source("asm")
    with pytest.raises(ArgumentError) as error:
        add.source("ptx")
    assert str(error.value) == (
        "source('ptx') of kernel 'add': no such kind of source\n"
        "  hint: use one of 'loops', 'llvm', 'asm'"
    )


def test_repr(add, ab):
    assert repr(add) == (
        "<Kernel add(A: float32[3, 4], B: float32[3, 4]) -> C: float32[3, 4]>"
    )
    assert repr(add.bind(B=ab[1])) == (
        "<Kernel add(A: float32[3, 4]) -> C: float32[3, 4], bound: B>"
    )


def test_time(add, ab):
    assert 0 < add.time(*ab, repeats=3, seconds=0.003) < 1e-3
    with pytest.raises(ArgumentError, match="positive"):
        add.time(*ab, repeats=0)


def test_several_threads_call(add, ab):
    shape = [Buffer(name, (1000,), "float32") for name in "AC"]
    text = DOUBLE.replace("NAME", "double_it")
    double = make_kernel("double_it", text, HOST, shape)
    wrong = []

    def work(x):
        a = np.full(1000, x, np.float32)
        for _ in range(200):
            if not (double(a) == 2 * x).all():
                wrong.append(x)

    callers = [threading.Thread(target=work, args=(x,)) for x in range(5)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def entered(function):
    """The Python functions that a call enters, in order."""
    names = []

    def note(frame, event, argument):
        if event == "call":
            names.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return names


def test_a_call_is_cheap(add, ab, monkeypatch):
    out = np.zeros((3, 4), np.float32)
    add(*ab, out=out)  # what is made once
    assert len(entered(lambda: add(*ab))) <= MOST_ENTERED
    assert len(entered(lambda: add(*ab, out=out))) <= MOST_ENTERED

    def refuse(*given):
        raise AssertionError("a call with plain arrays looks no closer, makes nothing")

    for name in ("empty", "empty_like", "read", "write"):
        monkeypatch.setattr(arrays, name, refuse)
    assert add(*ab, out=out) is out


def test_addresses_by_both_ways(ab):
    for array in (ab[0], ab[0][1:], ab[0][::-1], np.zeros(()), np.zeros(0)):
        assert arrays.address(array) == array.__array_interface__["data"][0]
        assert arrays._by_interface(array) == arrays.address(array)
