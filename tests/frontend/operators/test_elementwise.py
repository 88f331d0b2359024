"""Operators on elements against NumPy in float64, as reference and as kernels."""

import math

import numpy as np
import pytest

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.operators import operator
from ansor.ir.dtypes import DTYPES
from ansor.ir.numpy_functions import erf
from ansor.search.build import build
from ansor.te.task import Task
from ansor.te.tensor import placeholder
from applied import applied, check, compiled, same

pytestmark = pytest.mark.llvm
RNG = np.random.default_rng(0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0, x)


# name, what it is in float64, attributes
REAL = [
    ("negative", np.negative, {}),
    ("abs", np.abs, {}),
    ("sign", np.sign, {}),
    ("floor", np.floor, {}),
    ("ceil", np.ceil, {}),
    ("round", np.rint, {}),
    ("trunc", np.trunc, {}),
    ("sqrt", np.sqrt, {}),
    ("rsqrt", lambda x: 1 / np.sqrt(x), {}),
    ("reciprocal", lambda x: 1 / x, {}),
    ("exp", np.exp, {}),
    ("exp2", np.exp2, {}),
    ("expm1", np.expm1, {}),
    ("log", np.log, {}),
    ("log2", np.log2, {}),
    ("log10", np.log10, {}),
    ("log1p", np.log1p, {}),
    ("sin", np.sin, {}),
    ("cos", np.cos, {}),
    ("tan", np.tan, {}),
    ("asin", np.arcsin, {}),
    ("acos", np.arccos, {}),
    ("atan", np.arctan, {}),
    ("sinh", np.sinh, {}),
    ("cosh", np.cosh, {}),
    ("tanh", np.tanh, {}),
    ("asinh", np.arcsinh, {}),
    ("acosh", np.arccosh, {}),
    ("atanh", np.arctanh, {}),
    ("erf", erf, {}),
    ("sigmoid", sigmoid, {}),
    ("log_sigmoid", lambda x: -softplus(-x), {}),
    ("relu", lambda x: np.maximum(x, 0), {}),
    ("softplus", softplus, {}),
    ("softsign", lambda x: x / (1 + abs(x)), {}),
    ("mish", lambda x: x * np.tanh(softplus(x)), {}),
    ("silu", lambda x: x * sigmoid(x), {}),
    ("hard_swish", lambda x: x * np.clip(x / 6 + 0.5, 0, 1), {}),
    ("gelu", lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), {"approximate": "none"}),
    (
        "gelu",
        lambda x: x * sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)),
        {"approximate": "tanh"},
    ),
    (
        "hard_sigmoid",
        lambda x: np.clip(0.3 * x + 0.4, 0, 1),
        {"alpha": 0.3, "beta": 0.4},
    ),
    ("elu", lambda x: np.where(x < 0, 2 * np.expm1(x), x), {"alpha": 2.0}),
    (
        "selu",
        lambda x: 1.5 * np.where(x < 0, 2 * np.expm1(x), x),
        {"alpha": 2.0, "gamma": 1.5},
    ),
    ("celu", lambda x: np.where(x < 0, 2 * np.expm1(x / 2), x), {"alpha": 2.0}),
    ("leaky_relu", lambda x: np.where(x < 0, 0.1 * x, x), {"alpha": 0.1}),
    ("thresholded_relu", lambda x: np.where(x > 0.5, x, 0), {"alpha": 0.5}),
    ("clip", lambda x: np.clip(x, -1, 0.5), {"low": -1, "high": 0.5}),
    ("clip", lambda x: np.maximum(x, -1), {"low": -1, "high": None}),
    (
        "shrink",
        lambda x: np.where(x < -1, x + 0.5, np.where(x > 1, x - 0.5, 0)),
        {"bias": 0.5, "lambd": 1.0},
    ),
]
CANCELLING = ("gelu", "hard_sigmoid", "hard_swish")  # near their zeros
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 1e-3, -1e-3, math.inf, -math.inf,
           math.nan]  # fmt: skip
UNITS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10,
         "bfloat16": 2.0**-7}  # fmt: skip


def samples(dtype):
    rng = np.random.default_rng(1)
    wide = rng.uniform(-4, 4, 40)
    near = rng.uniform(-1, 1, 40)
    tiny = rng.uniform(-1, 1, 20) * 10.0 ** rng.uniform(-4, 0, 20)
    values = np.concatenate([SPECIAL, wide, near, tiny])
    return values.astype(DTYPES[dtype].numpy)


def together(rows, *arrays):
    """Many operators of the same inputs in one kernel: building costs most."""
    tensors = [
        placeholder(x.shape, str(x.dtype), f"x{n}") for n, x in enumerate(arrays)
    ]
    outputs = [operator(name).tensors(tensors, given)[0] for name, given in rows]
    return build(Task([*tensors, *outputs]))(*arrays)


def off(result, want, dtype, least=1e-4):
    """How far a result is off, in units in the last place of numbers from `least`."""
    wide, exact = result.astype(np.float64), want.astype(np.float64)
    size = np.maximum(np.abs(exact), least)
    with np.errstate(all="ignore"):
        far = np.abs(wide - exact) / (size * UNITS[dtype])
    same_kind = (wide == exact) | (np.isnan(wide) & np.isnan(exact))
    return np.where(same_kind, 0, far)


@pytest.mark.parametrize("dtype", UNITS)
def test_functions_of_real_numbers(dtype):
    x = samples(dtype)
    rows = [(name, given) for name, _, given in REAL]
    if dtype == "bfloat16":  # as float16, which is compiled
        kernels = [applied(name, x, **given)[0] for name, given in rows]
    else:
        kernels = together(rows, x)
    with np.errstate(all="ignore"):
        for (name, function, given), result in zip(REAL, kernels, strict=True):
            want = function(x.astype(np.float64)).astype(x.dtype)
            (known,) = applied(name, x, **given)
            least = 1.0 if name in CANCELLING else 1e-4
            for found in (known, result):
                worst = np.nanmax(off(found, want, dtype, least))
                assert worst <= 16, (name, given, worst)


def test_far_from_zero():
    x = np.array([30, 88.9, -88.9, 100, -100, 1e4, -1e4, 1e18, -1e18], np.float32)
    rows = [
        "sinh",
        "cosh",
        "asinh",
        "acosh",
        "atan",
        "softplus",
        "mish",
        "expm1",
        "log1p",
    ]
    found = together([(name, {}) for name in rows], x)
    with np.errstate(all="ignore"):
        for name, result in zip(rows, found, strict=True):
            function = {name: row for name, row, _ in REAL}[name]
            want = function(x.astype(np.float64)).astype(np.float32)
            assert np.nanmax(off(result, want, "float32")) <= 64, name


def test_classes_of_numbers():
    x = samples("float32")
    rows = [
        ("isnan", {}),
        ("isfinite", {}),
        ("isinf", {"positive": True, "negative": True}),
        ("isinf", {"positive": True, "negative": False}),
        ("isinf", {"positive": False, "negative": True}),
    ]
    wants = [np.isnan(x), np.isfinite(x), np.isinf(x), x == np.inf, x == -np.inf]
    for (name, given), result, want in zip(rows, together(rows, x), wants, strict=True):
        same(result, want, 0, 0)
        same(applied(name, x, **given)[0], want, 0, 0)
    empty = applied("isinf", x, positive=False, negative=False)[0]
    assert not empty.any()
    assert not applied("isnan", np.arange(3))[0].any()


# Two operands.

NUMBERS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "remainder": np.mod,
    "fmod": np.fmod,
}
INTEGERS = {
    "divide": lambda a, b: np.trunc(a.astype(np.float64) / b).astype(a.dtype),
    "floor_divide": np.floor_divide,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}


def pairs(dtype):
    kind = DTYPES[dtype].kind
    if kind == "float":
        a, b = RNG.uniform(-9, 9, (2, 5, 7)), RNG.uniform(0.5, 3, 7)
        return a.astype(DTYPES[dtype].numpy), (-b).astype(DTYPES[dtype].numpy)
    low = 0 if kind == "uint" else -100
    b = RNG.integers(low, 100, 7)
    return (
        RNG.integers(low, 100, (2, 5, 7)).astype(dtype),
        np.where(b == 0, 3, b).astype(dtype),
    )


@pytest.mark.parametrize("dtype", ["float32", "int64", "int8", "uint8"])
def test_operators_of_two_numbers(dtype):
    a, b = pairs(dtype)
    table = dict(NUMBERS)
    if DTYPES[dtype].kind != "float":
        table |= INTEGERS
    else:
        table["divide"] = np.true_divide
        table["atan2"] = np.arctan2
        table["prelu"] = lambda x, slope: np.where(x < 0, x * slope, x)
    found = together([(name, {}) for name in table], a, b)
    with np.errstate(all="ignore"):
        for (name, function), result in zip(table.items(), found, strict=True):
            want = np.asarray(function(a, b))
            want = want if want.dtype == bool else want.astype(a.dtype)
            same(result, want, 2e-6, 2e-6)
            same(applied(name, a, b)[0], want, 2e-6, 2e-6)


def test_shifts_and_logic():
    a, b = RNG.integers(-128, 127, (5, 7)).astype(np.int8), np.arange(7, dtype=np.int8)
    found = together([("shift_left", {}), ("shift_right", {})], a, b)
    same(found[0], a << b, 0, 0)
    same(found[1], a >> b, 0, 0)
    p, q = RNG.integers(0, 2, (2, 5, 7)).astype(bool)
    rows = {"logical_and": p & q, "logical_or": p | q, "logical_xor": p ^ q,
            "maximum": p | q, "minimum": p & q, "less": ~p & q}  # fmt: skip
    results = together([(name, {}) for name in rows], p, q)
    for result, want in zip(results, rows.values(), strict=True):
        same(result, want, 0, 0)
    check("logical_not", p, expected=~p)
    check("bitwise_not", a, expected=~a)


def test_atan2_knows_quadrants_and_zeros():
    edges = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf], np.float32)
    y, x = (part.reshape(-1).copy() for part in np.meshgrid(edges, edges))
    check("atan2", y, x, expected=np.arctan2(y, x))


def test_division_of_integers_truncates():
    a = np.array([7, -7, 7, -7, 5, -128], np.int8)
    b = np.array([2, 2, -2, -2, 0, -1], np.int8)
    check("divide", a, b, expected=np.array([3, -3, -3, 3, 0, -128], np.int8))


def test_powers():
    x = np.abs(RNG.standard_normal((3, 5))).astype(np.float32)
    y = RNG.standard_normal(5).astype(np.float32)
    check("power", x, y, expected=(x.astype("f8") ** y).astype("f4"))
    base = np.array([2, -3, 0, 1, -1, 7], np.int64)
    exponent = np.array([62, 5, 0, -3, -3, -1], np.int64)
    want = np.array([2**62, -243, 1, 1, -1, 0], np.int64)
    check("power", base, exponent, expected=want)
    check("power", np.array([4, 9]), np.array([0.5, 0.5], "f4"), expected=[2, 3])


@pytest.mark.parametrize("source", ["float32", "int64", "bool", "bfloat16"])
def test_casts(source):
    numpy = DTYPES[source].numpy
    x = np.array([0, 1, 0.5, 2.75, 100, 3]).astype(numpy)
    rows = [("cast", {"dtype": dtype}) for dtype in DTYPES]
    for (_, given), result in zip(rows, together(rows, x), strict=True):
        target = DTYPES[given["dtype"]].numpy
        want = x != 0 if given["dtype"] == "bool" else x.astype(target)
        same(result, want, 0, 0)
        same(applied("cast", x, **given)[0], want, 0, 0)


def test_where():
    condition = RNG.integers(0, 2, (4, 1)).astype(bool)
    a, b = RNG.standard_normal((2, 3)).astype(np.float32)
    check("where", condition, a, b, expected=np.where(condition, a, b))


def test_types_that_do_not_fit():
    real, whole = Value("x", "float32", (2,)), Value("y", "int64", (2,))
    for name, inputs in (
        ("add", (real, whole)),
        ("sin", (whole,)),
        ("bitwise_and", (real, real)),
        ("where", (real, real, real)),
        ("add", (real, Value("z", "float32", (3,)))),
    ):
        with pytest.raises(ModelError):
            operator(name).types(inputs, {})


def test_results_without_elements_are_constants():
    build = Builder()
    x, y = build.input("x", "float32", (0, 3)), build.input("y", "float32", (4, 1, 1))
    total = build.add("add", x, y)
    assert total.shape == (4, 0, 3)
    assert build.known(total).shape == (4, 0, 3)


def test_clip_keeps_within_the_type():
    x = np.array([-128, 5, 127], np.int8)
    check("clip", x, low=-1000, high=2.5, expected=np.array([-128, 2, 2], np.int8))
    y = np.array([1e4, -1e4], np.float16)
    check("clip", y, low=-1e30, high=1e30, expected=y, compiles=False)


def test_compiled_gives_what_the_reference_gives_for_large_arrays():
    x = RNG.standard_normal((33, 65)).astype(np.float32)
    same(compiled("tan", x)[0], np.tan(x), 1e-5, 1e-6)
