"""One misuse of the tensor language per case, full message compared."""

import math

import numpy as np
import pytest

import ansor
from ansor import ops

A = ansor.placeholder((4, 8), name="A")
F = ansor.placeholder((4,), name="F")
I = ansor.placeholder((4,), "int32", name="I")  # noqa: E741
U = ansor.placeholder((4,), "uint8", name="U")
H = ansor.placeholder((4,), "float16", name="H")
T = ansor.placeholder((4,), "bool", name="T")
K = ansor.reduce_axis(8, name="k")
S = ansor.compute((4,), lambda i: F[i] + 1, name="S")
DTYPES = "float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8, bool"

INSIDE = (
    "sum(A[i, k], axis=k) inside a larger expression: a reduction is the whole body of "
    "a compute\n  hint: make two computes: one for the reduction, one that reads its "
    "result"
)


def each(function, shape=(4,), name="B"):
    return lambda: ansor.compute(shape, function, name=name)


def foreign_axis():
    seen = []
    ansor.compute((4,), lambda i: (seen.append(i), F[i])[1])
    ansor.compute((4,), lambda j: F[seen[0]], name="B")


def deep(x, levels):
    value = x + 1.0
    for _ in range(levels):
        value = value * 0.5
    return value


def convolution(**how):
    x, w = ansor.placeholder((1, 2, 5, 5)), ansor.placeholder((3, 2, 3, 3))
    return lambda: ops.conv2d(x, w, **how)


CASES = {
    "arithmetic on tensors": (
        lambda: F + F,
        "arithmetic on tensor 'F': operators work on elements\n"
        "  hint: write it inside compute, F[i] + 1, or use ansor.ops.add",
    ),
    "function of math": (
        each(lambda i: math.exp(F[i])),
        "float(F[i]): its value is not known while the computation is described\n"
        "  hint: use the functions of ansor: ansor.exp(x), not math.exp(x)",
    ),
    "deep formula": (
        each(lambda i: deep(F[i], 400)),
        "compute 'B': the formula has 403 levels of operands, more than 150\n"
        "  hint: make two computes of it",
    ),
    "padding by name": (
        convolution(padding="same"),
        "conv2d: padding 'same': is not 2 sizes or (before, after) pairs from 0 up",
    ),
    "stride as a float": (
        convolution(stride=1.5),
        "conv2d: stride 1.5: is neither a positive integer nor 2 of them",
    ),
    "truth": (
        each(lambda i: F[i] if F[i] > 0 else 0),
        "truth of 0.0 < F[i]: known only when the kernel runs\n"
        "  hint: use ansor.select(condition, a, b)",
    ),
    "constant for uint8": (
        each(lambda i: U[i] + 300),
        "constant 300: does not fit uint8, which holds 0 to 255\n"
        "  hint: cast the other operand to a wider type",
    ),
    "negative constant for uint8": (
        each(lambda i: U[i] + -1),
        "constant -1: does not fit uint8, which holds 0 to 255\n"
        "  hint: cast the other operand to a wider type",
    ),
    "constant for float16": (
        each(lambda i: H[i] * 1e6),
        "constant 1000000.0: does not fit float16, which ends at 65504",
    ),
    "cast of a constant": (
        each(lambda i: ansor.cast(2**40, "int32")),
        "constant 1099511627776: does not fit int32, which holds -2147483648 to "
        "2147483647\n  hint: cast the other operand to a wider type",
    ),
    "cast of a constant without an integer": (
        each(lambda i: ansor.cast(float("nan"), "int32")),
        "cast of nan to int32: not a finite number",
    ),
    "huge constant": (
        each(lambda i: F[i] * 10**39),
        f"constant {10**39}: does not fit float32, which ends at 3.40282e+38",
    ),
    "rank": (
        each(lambda i: A[i]),
        "A[i]: 1 indices, but shape (4, 8) has 2 axes",
    ),
    "constant index": (
        each(lambda i: A[i, 8]),
        "A[i, 8]: index 8 of axis 1 is outside 0 to 7",
    ),
    "negative constant index": (
        each(lambda i: A[i, -1]),
        "A[i, -1]: index -1 of axis 1 is outside 0 to 7",
    ),
    "affine index": (
        each(lambda i: A[i, 2 * i + 2]),
        "compute 'B': A[i, 2 * i + 2]: index 2 * i + 2 of axis 1 runs from 2 to 8, "
        "outside 0 to 7\n  hint: guard it: ansor.select(condition, element, 0)",
    ),
    "float index": (
        each(lambda i: F[F[i]]),
        "F[F[i]]: index F[i]: is float32, but an index is an integer\n"
        '  hint: round it and cast it: cast(floor(x), "int64")',
    ),
    "slice": (
        each(lambda i: A[i, 0:2]),
        "A[i, slice(0, 2, None)]: slices are not elements\n  hint: use ansor.ops.slice",
    ),
    "whole tensor": (
        each(lambda i: F[i] + S),
        "operand 'S': is a whole tensor, not one element\n  hint: index it: S[i]",
    ),
    "string operand": (
        each(lambda i: F[i] + "1"),
        "operand '1': is of type str, not a tensor element, index or number",
    ),
    "no result": (
        each(lambda i: None),
        "compute 'B': result None: is of type NoneType, not a tensor element, index "
        "or number",
    ),
    "reduction inside": (
        each(lambda i: ansor.sum(A[i, K], axis=K) * 2),
        INSIDE,
    ),
    "nested reduction": (
        each(lambda i: ansor.max(ansor.sum(A[i, K], axis=K), axis=K)),
        INSIDE,
    ),
    "reduce axis outside": (
        each(lambda i: A[i, K]),
        "compute 'B': reduce axis 'k' is used outside its reduction\n"
        "  hint: wrap the formula: ansor.sum(…, axis=k)",
    ),
    "axis of another compute": (
        foreign_axis,
        "compute 'B': axis 'i' belongs to another compute\n  hint: use this one's axes",
    ),
    "reduction over nothing": (
        each(lambda i: ansor.sum(F[i], axis=())),
        "sum over nothing: no axis is given\n  hint: pass axis=reduce_axis(n)",
    ),
    "reduction over a spatial axis": (
        each(lambda i: ansor.sum(F[i], axis=i)),
        "sum over i: not a reduce axis\n  hint: make one with ansor.reduce_axis(n)",
    ),
    "axis twice": (
        each(lambda i: ansor.sum(A[i, K], axis=[K, K])),
        "sum over k: the axis is given twice",
    ),
    "sum of bool": (
        each(lambda i: ansor.sum(A[i, K] > 0, axis=K)),
        "sum(0.0 < A[i, k]): the operand is bool\n"
        '  hint: use any or all, or cast it: cast(x, "int32")',
    ),
    "duplicate axis names": (
        each(lambda k: ansor.sum(A[k, K], axis=K)),
        "compute 'B': two axes are called 'k'\n  hint: rename one of them",
    ),
    "empty reduce axis": (
        lambda: ansor.reduce_axis(0, name="k"),
        "reduce axis 'k': extent 0 is less than 1",
    ),
    "reduce range": (
        lambda: ansor.reduce_axis((1, 5)),
        "reduce axis over (1, 5): a range is (0, extent)\n  hint: start it at 0",
    ),
    "zero-size axis": (
        lambda: ansor.placeholder((4, 0), name="Z"),
        "placeholder 'Z': shape (4, 0): extent 0 is less than 1",
    ),
    "negative extent": (
        lambda: ansor.placeholder((4, -1), name="Z"),
        "placeholder 'Z': shape (4, -1): extent -1 is less than 1",
    ),
    "float extent": (
        lambda: ansor.placeholder((4.0,), name="Z"),
        "placeholder 'Z': shape (4.0,): extent 4.0 is not an integer\n"
        "  hint: extents are static",
    ),
    "string shape": (
        lambda: ansor.placeholder("44", name="Z"),
        "placeholder 'Z': shape '44' is not a tuple of integers",
    ),
    "dtype": (
        lambda: ansor.placeholder((4,), dtype="float8", name="Z"),
        f"placeholder 'Z': unknown dtype 'float8'\n  hint: use one of {DTYPES}",
    ),
    "cast dtype": (
        each(lambda i: ansor.cast(F[i], "complex64")),
        f"cast to 'complex64': unknown dtype\n  hint: use one of {DTYPES}",
    ),
    "name": (
        lambda: ansor.placeholder((4,), name="my tensor"),
        "placeholder: name 'my tensor' is not a plain identifier\n"
        "  hint: use letters, digits, _",
    ),
    "bitwise and of floats": (
        each(lambda i: F[i] & 1.0),
        "F[i] & 1.0: the operand is float32, but bitwise operators take integers and "
        "bool\n  hint: compare first (x != 0), or cast to an integer "
        '(cast(x, "int32"))',
    ),
    "not of a float": (
        each(lambda i: ~F[i]),
        "~(F[i]): the operand is float32, but bitwise operators take integers and "
        "bool\n  hint: compare first (x != 0), or cast to an integer "
        '(cast(x, "int32"))',
    ),
    "sum of two bools": (
        each(lambda i: T[i] + T[i]),
        "T[i] + T[i]: both operands are bool\n"
        '  hint: use & | ^ ~, or cast them: cast(x, "int32")',
    ),
    "minus a bool": (
        each(lambda i: -T[i]),
        "-(T[i]): the operand is bool\n"
        '  hint: use ~x for "not", or cast it: cast(x, "int32")',
    ),
    "exp of an integer": (
        each(lambda i: ansor.exp(I[i])),
        "exp(I[i]): the operand is int32, but it takes floats\n"
        '  hint: cast it first, for example cast(x, "float32")',
    ),
    "pow of an integer": (
        each(lambda i: I[i] ** 5),
        "pow(I[i], int32(5)): operands are int32, but it takes floats unless the "
        "exponent is a constant from 1 to 4\n"
        '  hint: cast the base first, for example cast(x, "float32")',
    ),
    "condition": (
        each(lambda i: ansor.select(I[i], 1.0, 0.0)),
        "select(I[i], …): the condition is int32, not bool\n  hint: compare it: x != 0",
    ),
    "too few parameters": (
        each(lambda i: F[i], shape=(4, 4)),
        "compute 'B': the function takes 1 axes, but the shape has 2",
    ),
    "not a function": (
        lambda: ansor.compute((4,), 3.0, name="B"),
        "compute 'B': 3.0 is not a function of the axes",
    ),
    "iteration": (
        lambda: list(F),
        "iteration over 'F': its elements exist only in a kernel",
    ),
    "placeholder as output": (
        lambda: ansor.Task(A),
        "output 'A': is a placeholder: there is nothing to compute\n"
        "  hint: copy it with ansor.compute if you need a copy",
    ),
    "placeholders as outputs": (
        lambda: ansor.Task([A, F]),
        "output 'A': is a placeholder: there is nothing to compute\n"
        "  hint: copy it with ansor.compute if you need a copy",
    ),
    "no outputs": (
        lambda: ansor.Task([]),
        "a task without outputs: there is nothing to compute",
    ),
    "output twice": (
        lambda: ansor.Task([S, S]),
        "output 'S': is given twice",
    ),
    "output is no tensor": (
        lambda: ansor.Task([S, 1]),
        "output 1: is of type int, not a tensor\n"
        "  hint: pass what ansor.compute returned",
    ),
    "task of a number": (
        lambda: ansor.Task(3),
        "task of 3: is of type int, not a tensor or a list of tensors",
    ),
    "missing argument": (
        lambda: ansor.Task([A, ops.matmul(A, ansor.placeholder((8, 2), name="B"))]),
        "arguments of the task: the outputs read 'B', which the list lacks\n"
        "  hint: name every input, or none",
    ),
    "unused argument": (
        lambda: ansor.Task([F, A, S]),
        "argument 'A': no output reads it",
    ),
    "argument twice": (
        lambda: ansor.Task([F, F, S]),
        "argument 'F': is given twice",
    ),
    "output before an input": (
        lambda: ansor.Task([S, F]),
        "arguments of the task: an output stands before an input\n"
        "  hint: list the inputs first, then the outputs",
    ),
    "weight": (
        lambda: ansor.Task(S, weight=0),
        "weight 0: is not a positive number\n"
        "  hint: say how often the computation occurs",
    ),
    "weight of text": (
        lambda: ansor.Task(S, weight="3"),
        "weight '3': is not a positive number\n"
        "  hint: say how often the computation occurs",
    ),
    "matmul rank": (
        lambda: ops.matmul(A, F),
        "matmul: 'F' of shape (4,) has 1 axes, not 2",
    ),
    "matmul inner": (
        lambda: ops.matmul(A, A),
        "matmul: inner extents 8 of (4, 8) and 4 of (4, 8) differ",
    ),
    "einsum operands": (
        lambda: ansor.einsum("ij,jk->ik", A),
        "einsum 'ij,jk->ik': 2 operands named, 1 given",
    ),
    "einsum extents": (
        lambda: ansor.einsum("ij,jk->ik", A, A),
        "einsum 'ij,jk->ik': axis 'j' is both 8 and 4 long",
    ),
    "broadcast": (
        lambda: ops.add(A, F),
        "add: shapes (4, 8) and (4,) do not broadcast",
    ),
    "reshape": (
        lambda: ops.reshape(A, (5, 5)),
        "reshape: (4, 8) has 32 elements, (5, 5) has 25",
    ),
    "conv channels": (
        lambda: ops.conv2d(
            ansor.placeholder((1, 3, 8, 8)), ansor.placeholder((4, 2, 3, 3))
        ),
        "conv2d: the weight takes 2 channels in each of 1 groups, but the input has 3",
    ),
    "conv layout": (
        lambda: ops.conv2d(A, A, layout="CHWN"),
        "conv2d: unknown layout 'CHWN'\n  hint: use 'NCHW' or 'NHWC'",
    ),
    "conv window": (
        lambda: ops.conv2d(
            ansor.placeholder((1, 1, 2, 8)), ansor.placeholder((1, 1, 3, 3))
        ),
        "conv2d: a window over 3 elements does not fit 2 elements padded by 0 and 0",
    ),
    "bias": (
        lambda: ops.bias_add(A, F),
        "bias_add: bias of shape (4,), but axis 1 of (4, 8) needs (8,)",
    ),
    "numpy array operand": (
        each(lambda i: ansor.maximum(F[i], np.zeros(2))),
        "operand array([0., 0.]): is of type ndarray, not a tensor element, index or "
        "number",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_message(case):
    misuse, message = case
    with pytest.raises(ansor.ExpressionError) as caught:
        misuse()
    assert str(caught.value) == message
