"""One misuse of a kernel per case, full message compared."""

import numpy as np
import pytest

import ansor
from ansor.search.build import build

pytestmark = pytest.mark.llvm

A = ansor.placeholder((4, 8), name="A")
N = ansor.placeholder((), "int8", name="n")
TWICE = ansor.compute((4, 8), lambda i, j: A[i, j] * 2.0, name="D")
MOVED = ansor.compute((4, 8), lambda i, j: A[i, j] + N[()], name="E")

ONE = build(ansor.Task(TWICE))  # A -> D
TWO = build(ansor.Task([A, N, TWICE, MOVED]))  # A, n -> D, E

a = np.ones((4, 8), np.float32)
d, e = np.empty_like(a), np.empty_like(a)
fixed = np.empty_like(a)
fixed.flags.writeable = False
rows = np.empty((8, 8), np.float32)


CASES = {
    "too few inputs": (
        lambda: TWO(a),
        "call of kernel 'D': 1 inputs, but it takes 2: A, n\n"
        "  hint: outputs are returned, or given as out=…",
    ),
    "too many inputs": (
        lambda: ONE(a, d),
        "call of kernel 'D': 2 inputs, but it takes 1: A\n"
        "  hint: outputs are returned, or given as out=…",
    ),
    "dtype": (
        lambda: ONE(a.astype(np.float64)),
        "argument 'A' of kernel 'D': dtype float64, but it takes float32\n"
        "  hint: convert it, for example A.astype(...)",
    ),
    "dtype of objects": (
        lambda: ONE(a.astype(object)),
        "argument 'A' of kernel 'D': dtype object, but it takes float32\n"
        "  hint: convert it, for example A.astype(...)",
    ),
    "shape": (
        lambda: ONE(a[:3]),
        "argument 'A' of kernel 'D': shape (3, 8), but it takes (4, 8)",
    ),
    "rank": (
        lambda: ONE(a.ravel()),
        "argument 'A' of kernel 'D': shape (32,), but it takes (4, 8)",
    ),
    "column-major array": (
        lambda: ONE(np.asfortranarray(a)),
        "argument 'A' of kernel 'D': not contiguous in row-major order\n"
        "  hint: pass np.ascontiguousarray(A)",
    ),
    "strided array": (
        lambda: ONE(rows[::2]),
        "argument 'A' of kernel 'D': not contiguous in row-major order\n"
        "  hint: pass np.ascontiguousarray(A)",
    ),
    "list": (
        lambda: ONE(a.tolist()),
        "argument 'A' of kernel 'D': list is not an array\n"
        "  hint: pass a NumPy array or anything with __dlpack__",
    ),
    "nothing": (
        lambda: ONE(None),
        "argument 'A' of kernel 'D': NoneType is not an array\n"
        "  hint: pass a NumPy array or anything with __dlpack__",
    ),
    "number for an array": (
        lambda: ONE(2.0),
        "argument 'A' of kernel 'D': 2.0 is a number, but its shape is (4, 8)\n"
        "  hint: pass an array, for example np.full((4, 8), 2.0)",
    ),
    "float for an integer": (
        lambda: TWO(a, 1.5),
        "argument 'n' of kernel 'D': 1.5 is float, but it takes int8",
    ),
    "bool for an integer": (
        lambda: TWO(a, True),
        "argument 'n' of kernel 'D': True is bool, but it takes int8",
    ),
    "number too large": (
        lambda: TWO(a, 300),
        "argument 'n' of kernel 'D': Python integer 300 out of bounds for int8",
    ),
    "bytes of another machine": (
        lambda: ONE(a.astype(">f4")),
        "argument 'A' of kernel 'D': its bytes are in the order of another machine\n"
        "  hint: pass A.astype('float32')",
    ),
    "read-only out": (
        lambda: ONE(a, out=fixed),
        "argument 'D' of kernel 'D': the array is read-only\n"
        "  hint: pass a writable array as out",
    ),
    "shape of out": (
        lambda: ONE(a, out=rows),
        "argument 'D' of kernel 'D': shape (8, 8), but it takes (4, 8)",
    ),
    "dtype of out": (
        lambda: ONE(a, out=np.empty((4, 8))),
        "argument 'D' of kernel 'D': dtype float64, but it takes float32\n"
        "  hint: convert it, for example D.astype(...)",
    ),
    "strided out": (
        lambda: ONE(a, out=rows[::2]),
        "argument 'D' of kernel 'D': not contiguous in row-major order\n"
        "  hint: pass np.ascontiguousarray(D)",
    ),
    "number as out": (
        lambda: ONE(a, out=1.0),
        "argument 'D' of kernel 'D': float cannot be written to\n  hint: pass an array",
    ),
    "text as out": (
        lambda: ONE(a, out="d"),
        "argument 'D' of kernel 'D': str is not an array\n"
        "  hint: pass a NumPy array or anything with __dlpack__",
    ),
    "one out of two": (
        lambda: TWO(a, 1, out=d),
        "out of kernel 'D': 1 arrays, but it has 2 outputs",
    ),
    "three outs of two": (
        lambda: TWO(a, 1, out=(d, e, d)),
        "out of kernel 'D': 3 arrays, but it has 2 outputs",
    ),
    "out twice": (
        lambda: TWO(a, 1, out=(d, d)),
        "argument 'E' of kernel 'D': it overlaps argument 'D' in memory\n"
        "  hint: pass an array of its own as out",
    ),
    "outs that overlap": (
        lambda: TWO(a, 1, out=(rows[:4], rows[3:7])),
        "argument 'E' of kernel 'D': it overlaps argument 'D' in memory\n"
        "  hint: pass an array of its own as out",
    ),
    "out is the input": (
        lambda: ONE(a, out=a),
        "argument 'D' of kernel 'D': it overlaps argument 'A' in memory\n"
        "  hint: pass an array of its own as out",
    ),
    "unknown kind of source": (
        lambda: ONE.source("ptx"),
        "source('ptx') of kernel 'D': no such kind of source\n"
        "  hint: use one of 'loops', 'llvm', 'asm'",
    ),
    "bind an unknown input": (
        lambda: ONE.bind(Z=a),
        "bind(Z=…) of kernel 'D': no such input, or it is bound already\n"
        "  hint: its free inputs are: A",
    ),
    "bind an output": (
        lambda: ONE.bind(D=d),
        "bind(D=…) of kernel 'D': no such input, or it is bound already\n"
        "  hint: its free inputs are: A",
    ),
    "bind twice": (
        lambda: ONE.bind(A=a).bind(A=a),
        "bind(A=…) of kernel 'D': no such input, or it is bound already\n"
        "  hint: its free inputs are: none",
    ),
    "bind another dtype": (
        lambda: ONE.bind(A=a.astype(np.int32)),
        "argument 'A' of kernel 'D': dtype int32, but it takes float32\n"
        "  hint: convert it, for example A.astype(...)",
    ),
    "input that is bound": (
        lambda: ONE.bind(A=a)(a),
        "call of kernel 'D': 1 inputs, but it takes 0: none\n"
        "  hint: outputs are returned, or given as out=…",
    ),
    "time without inputs": (
        lambda: ONE.time(),
        "call of kernel 'D': 0 inputs, but it takes 1: A\n"
        "  hint: outputs are returned, or given as out=…",
    ),
    "time no samples": (
        lambda: ONE.time(a, repeats=0),
        "time(repeats=0, seconds=0.1): both must be positive",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_message(case):
    misuse, message = case
    with pytest.raises(ansor.ArgumentError) as caught:
        misuse()
    assert str(caught.value) == message
