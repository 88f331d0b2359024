"""Matrix products, einsum and convolutions against NumPy and torch."""

import ml_dtypes
import numpy as np
import pytest

from ansor.errors import ExpressionError
from ansor.frontend.graph import Value
from ansor.frontend.operators import operator
from applied import applied, check

pytestmark = pytest.mark.llvm
RNG = np.random.default_rng(0)


def normal(*shape, dtype="float32"):
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 4), (4, 5)),
        ((1, 6, 4), (4, 5)),
        ((2, 3, 4), (1, 4, 5)),
        ((2, 1, 3, 4), (5, 4, 2)),
        ((4,), (4, 5)),
        ((3, 4), (4,)),
        ((4,), (4,)),
        ((2, 3, 4), (4,)),
    ],
)
def test_matmul(a, b):
    x, y = normal(*a), normal(*b)
    check("matmul", x, y, expected=np.matmul(x, y), compiles=len(a) != len(b))


def test_matmul_adds_halves_in_float32():
    x, y = np.full((1, 4096), 1, np.float16), np.full((4096, 1), 1, np.float16)
    check("matmul", x, y, expected=np.full((1, 1), 4096, np.float16))
    z = normal(3, 8).astype(ml_dtypes.bfloat16)
    want = (z.astype("float32") @ z.astype("float32").T).astype(ml_dtypes.bfloat16)
    check("matmul", z, np.ascontiguousarray(z.T), expected=want, rtol=1e-2)


def test_matmul_of_bytes_gives_int32():
    x = RNG.integers(0, 255, (3, 40)).astype(np.uint8)
    y = RNG.integers(-128, 127, (40, 2)).astype(np.int8)
    check("matmul", x, y, expected=x.astype(np.int32) @ y.astype(np.int32))


def test_matmul_of_integers_is_exact():
    x = RNG.integers(-(2**40), 2**40, (2, 3))
    check("matmul", x, x.T, expected=x @ x.T)


@pytest.mark.parametrize(
    ("types", "shapes"),
    [
        (("float32", "float64"), ((2, 2), (2, 2))),
        (("float32", "float32"), ((2, 3), (2, 3))),
        (("float32", "float32"), ((), (2, 3))),
    ],
)
def test_matmul_refuses(types, shapes):
    values = [Value("x", t, s) for t, s in zip(types, shapes, strict=True)]
    with pytest.raises(ExpressionError):
        operator("matmul").types(values, {})


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bij,bjk", [(2, 3, 4), (2, 4, 5)]),
        ("...ij,...jk->...ik", [(2, 3, 4), (4, 5)]),
        ("...ii->...i", [(2, 3, 3)]),
        ("ij->", [(2, 3)]),
        ("ij->ji", [(2, 3)]),
        ("i,i", [(5,), (5,)]),
        ("bhid,bhjd->bhij", [(1, 2, 3, 4), (1, 2, 5, 4)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]),
        ("i,j->ij", [(2,), (3,)]),
    ],
)
def test_einsum(equation, shapes):
    arrays = [normal(*shape) for shape in shapes]
    want = np.einsum(equation, *arrays)
    check("einsum", *arrays, equation=equation, expected=np.asarray(want),
          compiles="..." in equation or len(arrays) > 2)  # fmt: skip


@pytest.mark.parametrize(
    "equation", ["ij,jk->iz", "ij->ijk", "i->i", "ij->ii", "i1->i"]
)
def test_einsum_refuses(equation):
    with pytest.raises(ExpressionError, match="einsum"):
        operator("einsum").types(
            [Value("x", "float32", (2, 2))], {"equation": equation}
        )


CONVS = [
    # spatial, kernel, stride, padding, dilation, groups, channels, outputs
    ((9,), (3,), (2,), ((1, 1),), (1,), 1, 4, 6),
    ((9, 8), (3, 2), (2, 1), ((1, 1), (0, 1)), (1, 1), 1, 4, 6),
    ((9, 8), (3, 3), (1, 1), ((2, 2), (2, 2)), (2, 2), 2, 4, 6),
    ((9, 8), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 4, 4, 4),
    ((9, 8), (3, 3), (2, 2), ((0, 1), (0, 1)), (1, 1), 4, 4, 8),
    ((4, 5, 6), (2, 3, 2), (1, 2, 1), ((0, 0), (1, 1), (1, 0)), (1, 1, 1), 1, 2, 3),
]


@pytest.mark.parametrize("layout", ["first", "last"])
@pytest.mark.parametrize("case", CONVS)
def test_conv(case, layout):
    torch = pytest.importorskip("torch")
    space, kernel, stride, padding, dilation, groups, channels, outputs = case
    x, w = normal(2, channels, *space), normal(outputs, channels // groups, *kernel)
    flat = [n for pair in reversed(padding) for n in pair]
    function = getattr(torch.nn.functional, f"conv{len(space)}d")
    given = torch.nn.functional.pad(torch.from_numpy(x), flat)
    want = function(given, torch.from_numpy(w), None, stride, 0, dilation, groups)
    arrays, want = _moved(layout, x, w, want.numpy())
    check("conv", *arrays, strides=stride, padding=padding, dilations=dilation,
          groups=groups, layout=layout, expected=want, atol=1e-5,
          compiles=(CONVS.index(case) % 2 == 0) == (layout == "first"))  # fmt: skip


def _moved(layout, x, w, want):
    if layout == "first":
        return (x, w), want
    weight = np.moveaxis(np.moveaxis(w, 0, -1), 0, -2)
    return (_last(x), np.ascontiguousarray(weight)), _last(want)


def _last(x):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


TRANSPOSED = [
    # spatial, kernel, stride, padding, output padding, dilation, groups, in, out
    ((5,), (3,), (2,), (1,), (1,), (1,), 1, 4, 3),
    ((4, 5), (4, 3), (2, 3), (1, 0), (0, 1), (1, 1), 1, 4, 3),
    ((4, 5), (3, 3), (2, 1), (1, 1), (1, 0), (2, 2), 2, 4, 6),
    ((4, 5), (3, 3), (2, 2), (0, 0), (0, 0), (1, 1), 4, 4, 4),
    ((2, 3, 2), (2, 3, 2), (1, 2, 2), (0, 1, 0), (0, 0, 1), (1, 1, 1), 1, 2, 2),
]


@pytest.mark.parametrize("layout", ["first", "last"])
@pytest.mark.parametrize("case", TRANSPOSED)
def test_conv_transpose(case, layout):
    torch = pytest.importorskip("torch")
    space, kernel, stride, padding, more, dilation, groups, channels, outputs = case
    x, w = normal(2, channels, *space), normal(channels, outputs // groups, *kernel)
    function = getattr(torch.nn.functional, f"conv_transpose{len(space)}d")
    want = function(torch.from_numpy(x), torch.from_numpy(w), None, stride, padding,
                    more, groups, dilation).numpy()  # fmt: skip
    if layout == "last":
        weight = np.ascontiguousarray(np.moveaxis(w, (0, 1), (-2, -1)))
        x, w, want = _last(x), weight, _last(want)
    pairs = tuple((n, n) for n in padding)
    check("conv_transpose", x, w, strides=stride, padding=pairs,
          output_padding=more, dilations=dilation, groups=groups, layout=layout,
          expected=want, atol=1e-5,
          compiles=layout == "first" and len(space) == 2)  # fmt: skip


def test_conv_of_bytes_gives_int32():
    x = RNG.integers(0, 255, (1, 3, 5, 5)).astype(np.uint8)
    w = RNG.integers(-128, 127, (2, 3, 2, 2)).astype(np.int8)
    rest = {"strides": (1, 1), "padding": ((0, 0), (0, 0)), "dilations": (1, 1)}
    wide = applied("conv", x.astype("int64"), w.astype("int64"), **rest, groups=1)
    check("conv", x, w, **rest, groups=1, expected=wide[0].astype(np.int32))
