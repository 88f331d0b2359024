"""The error each vector function promises, measured; its limits; no library calls."""

import ctypes
import itertools
import math
import re
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

llvm = pytest.importorskip("llvmlite.binding")

from ansor.codegen import maths  # noqa: E402 (after the skip)
from ansor.errors import CodegenError  # noqa: E402

pytestmark = pytest.mark.llvm

WIDE = np.longdouble
needs_wide = pytest.mark.skipif(
    np.finfo(WIDE).nmant < 60, reason="long double is no wider than float64 here"
)
BOTH = pytest.mark.parametrize("fma", [True, False], ids=["fma", "no-fma"])
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])
INF, NAN = math.inf, math.nan


# A compiled function over arrays ------------------------------------------------


def module_text(
    function: str, dtype: str, lanes: int, fma: bool, tables: bool = False
) -> str:
    """A loop that calls the function on whole vectors."""
    element = maths.ELEMENTS[dtype]
    vector = f"<{lanes} x {element}>" if lanes > 1 else element
    align = np.dtype(dtype).itemsize
    second = f", {vector} %vy" if maths.MATHS[function].arity == 2 else ""
    name = maths.symbol(function, dtype, lanes)
    return "\n".join(
        [
            *maths.declarations(function, dtype, lanes, fma),
            maths.definition(function, dtype, lanes, fma, tables),
            "define void @drive(ptr %x, ptr %y, ptr %out, i64 %n) {",
            "entry:",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [0, %entry], [%next, %loop]",
            f"  %px = getelementptr {element}, ptr %x, i64 %i",
            f"  %py = getelementptr {element}, ptr %y, i64 %i",
            f"  %pout = getelementptr {element}, ptr %out, i64 %i",
            f"  %vx = load {vector}, ptr %px, align {align}",
            f"  %vy = load {vector}, ptr %py, align {align}",
            f"  %r = call {vector} @{name}({vector} %vx{second})",
            f"  store {vector} %r, ptr %pout, align {align}",
            f"  %next = add i64 %i, {lanes}",
            "  %more = icmp ult i64 %next, %n",
            "  br i1 %more, label %loop, label %done",
            "done:",
            "  ret void",
            "}",
        ]
    )


def optimised(text: str, machine):  # type: ignore[no-untyped-def]
    module = llvm.parse_assembly(text)
    module.triple = str(machine.triple)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module


@cache
def compiled(
    function: str,
    dtype: str,
    fma: bool = True,
    lanes: int | None = None,
    tables: bool = False,
) -> Callable[..., np.ndarray]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    size = np.dtype(dtype).itemsize
    lanes = lanes or 16 // size
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
    )
    module = optimised(module_text(function, dtype, lanes, fma, tables), machine)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    address = engine.get_function_address("drive")
    drive = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(address)

    def call(*arguments: np.ndarray, engine=engine) -> np.ndarray:
        n = len(arguments[0])
        padded = [np.ones(-(-n // lanes) * lanes, dtype) for _ in arguments]
        for array, argument in zip(padded, arguments, strict=True):
            array[:n] = argument
        out = np.empty_like(padded[0])
        x, y = padded[0], padded[-1]
        drive(x.ctypes.data, y.ctypes.data, out.ctypes.data, len(out))
        return out[:n]

    return call


# The measure ----------------------------------------------------------------------


def ulps(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """|got - want| in units in the last place of the wider `want`.

    A NaN for a number, a number for a NaN, or the wrong one of infinity and a number
    well inside the range is an infinite error; a rounding across the largest number
    is not.
    """
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        nearest = want.astype(got.dtype)
        exponent = np.maximum(np.frexp(want)[1] - 1, info.minexp) - info.nmant
        error = np.abs(got.astype(want.dtype) - want) / np.ldexp(
            np.ones((), want.dtype), exponent
        )
        edge = np.abs(want) > float(info.max) * (1 - 2.0 ** (2 - info.nmant))
        same = (nearest == got) | (np.isnan(want) & np.isnan(got))
    strange = ~np.isfinite(got) | ~np.isfinite(want)
    error[strange] = np.where(same | edge, 0.0, INF)[strange]
    return error


def worst(got: np.ndarray, want: np.ndarray, *arguments: np.ndarray) -> tuple:
    """The largest error, then where it is, what came out and what should have."""
    error = ulps(got, want)
    at = int(np.argmax(error))
    return float(error[at]), *(a[at] for a in arguments), got[at], want[at]


def sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, np.where(np.isnan(x), x, 1.0)) / (1 + e)


def erf(x: np.ndarray) -> np.ndarray:
    """Right in float64 and in long double; the latter by its Taylor series."""
    result = np.where(np.isnan(x), x, np.sign(x))
    root_pi = np.sqrt(4 * np.arctan(np.ones((), x.dtype)))
    tiny = np.abs(x) < 1e-5
    result[tiny] = x[tiny] * (1 - x[tiny] ** 2 / 3) * 2 / root_pi
    middle = ~tiny & (np.abs(x) < 6.5)
    if x.dtype == np.float64:
        result[middle] = np.fromiter(map(math.erf, x[middle]), np.float64)
    else:
        result[middle] = _erf_series(x[middle]) * 2 / root_pi
    return result


def _erf_series(x: np.ndarray) -> np.ndarray:
    """exp(-x^2) * (x + 2 x^3 / 3 + 4 x^5 / 15 + ...); no term is negative."""
    term, square = x.copy(), 2 * x * x
    total = x.copy()
    for n in range(3, 500, 2):
        term = term * square / n
        total += term
        if np.all(np.abs(term) < np.abs(total) * 1e-22):
            break
    return total * np.exp(-x * x)


REFERENCE: dict[str, Callable[..., np.ndarray]] = {
    "exp": np.exp,
    "log": np.log,
    "log2": np.log2,
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "erf": erf,
    "sin": np.sin,
    "cos": np.cos,
    "pow": np.power,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}


def measure(
    function: str, x: np.ndarray, fma: bool, dtype: str, wide: type, y=None
) -> tuple:
    arguments = (x,) if y is None else (x, y)
    with np.errstate(all="ignore"):
        want = REFERENCE[function](*(a.astype(wide) for a in arguments))
    return worst(compiled(function, dtype, fma)(*arguments), want, *arguments)


def within(function: str, x: np.ndarray) -> np.ndarray:
    """The arguments for which the function promises its error."""
    with np.errstate(invalid="ignore"):
        return x[~(np.abs(x) > maths.MATHS[function].largest)]


# float32, over all bit patterns ----------------------------------------------------


def patterns32(step: int, start: int = 0) -> np.ndarray:
    return np.arange(start, 2**32, step, dtype=np.uint64).astype(np.uint32).view("f4")


def assert_promise32(function: str, step: int, fma: bool) -> None:
    bound = maths.ulp(function, "float32")
    points = within(function, patterns32(step))
    for x in np.array_split(points, max(1, len(points) // 400_000)):
        found = measure(function, x, fma, "float32", np.float64)
        assert found[0] <= bound, found


@pytest.mark.parametrize("function", ["exp", "log", "log2", "tanh", "sigmoid", "erf"])
def test_float32_over_ten_million_bit_patterns(function):
    assert_promise32(function, 401, fma=True)


@pytest.mark.parametrize("function", ["sin", "cos", "rsqrt"])
def test_float32_over_a_million_bit_patterns(function):
    assert_promise32(function, 4001, fma=True)


@pytest.mark.parametrize("function", sorted(set(maths.MATHS) - {"pow"}))
def test_float32_without_fma(function):
    assert_promise32(function, 9001, fma=False)


def power_arguments(dtype: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Bases of all sizes, exponents that keep most results finite."""
    rng = np.random.default_rng(0)
    limit = 155 if dtype == "float32" else 1090
    size = 148 if dtype == "float32" else 1070
    logs = np.concatenate(
        [rng.uniform(-size, size * 0.85, count // 2), rng.uniform(-1, 1, count // 2)]
    )
    x = np.exp2(logs).astype(dtype)
    y = rng.uniform(-limit, limit, len(x)) / np.maximum(np.abs(logs), 1e-3)
    return x, y.astype(dtype)


@BOTH
def test_float32_pow(fma):
    x, y = power_arguments("float32", 1_000_000 if fma else 100_000)
    found = measure("pow", x, fma, "float32", np.float64, y)
    assert found[0] <= maths.ulp("pow", "float32"), found


# float64, against long double -------------------------------------------------------

INTERESTING = {
    "exp": (-750, 712),
    "log": (0.2, 3),
    "log2": (0.2, 3),
    "tanh": (-20, 20),
    "sigmoid": (-750, 750),
    "erf": (-6.5, 6.5),
    "sin": (-maths.LARGEST, maths.LARGEST),
    "cos": (-maths.LARGEST, maths.LARGEST),
    "rsqrt": (0, 10),
}


def points64(function: str, count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    anything = rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    low, high = INTERESTING[function]
    parts = [
        anything,
        rng.uniform(low, high, 8000),
        rng.uniform(-2, 2, 8000),
        np.exp2(rng.uniform(-60, 5, 3000)),
        1 + rng.uniform(-1e-3, 1e-3, 3000),
        np.arange(1, 600_000, 201) * (math.pi / 2),  # where sin or cos vanishes
    ]
    return within(function, np.concatenate(parts))


@needs_wide
@pytest.mark.parametrize("function", sorted(INTERESTING))
def test_float64(function):
    x = points64(function, 200_000)
    found = measure(function, x, True, "float64", WIDE)
    assert found[0] <= maths.ulp(function, "float64"), found


@needs_wide
@pytest.mark.parametrize("function", sorted(INTERESTING))
def test_float64_without_fma(function):
    found = measure(function, points64(function, 10_000), False, "float64", WIDE)
    assert found[0] <= maths.ulp(function, "float64"), found


@needs_wide
@BOTH
def test_float64_pow(fma):
    x, y = power_arguments("float64", 100_000 if fma else 20_000)
    found = measure("pow", x, fma, "float64", WIDE, y)
    assert found[0] <= maths.ulp("pow", "float64"), found


# Limits ------------------------------------------------------------------------------

LIMITS = {  # function: (argument, exact result), the sign of zero included
    "exp": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0.0), (800.0, INF), (-800.0, 0.0)],
    "log": [(1, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1, NAN), (-INF, NAN)],
    "log2": [(1, 0.0), (8, 3), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1, NAN)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (30, 1), (-30, -1)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0.0), (90, 1), (-1e3, 0.0)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (9, 1), (-9, -1)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (4, 0.5), (INF, 0.0), (-1, NAN), (-INF, NAN)],
}


@BOTH
@DTYPES
@pytest.mark.parametrize("function", sorted(LIMITS))
def test_limits(function, dtype, fma):
    x, want = np.array([*LIMITS[function], (NAN, NAN)], dtype).T
    got = compiled(function, dtype, fma)(x)
    assert list(map(str, got)) == list(map(str, want))


@pytest.mark.parametrize("function", sorted(LIMITS))
def test_one_lane_is_a_scalar_function_with_the_same_results(function):
    x = patterns32(1_000_003)
    one = compiled(function, "float32", lanes=1)(x)
    np.testing.assert_array_equal(one, compiled(function, "float32")(x))


@DTYPES
@pytest.mark.parametrize("function", sorted(LIMITS))
def test_constants_in_memory_give_the_same_results(function, dtype):
    with np.errstate(invalid="ignore"):  # some patterns are signalling NaNs
        x = patterns32(1_000_003).astype(dtype)
    x = np.append(x, np.array([0.0, -0.0, INF, -INF, NAN], dtype))
    want = compiled(function, dtype)(x)
    for lanes in (2, 16):
        got = compiled(function, dtype, lanes=lanes, tables=True)(x)
        np.testing.assert_array_equal(got, want)


def test_constants_stay_out_of_memory_unless_asked_for():
    assert "global" in maths.definition("exp", "float32", 4, tables=True)
    assert "global" not in maths.definition("exp", "float32", 4)
    assert "global" not in maths.definition("exp", "float32", 1, tables=True)


@BOTH
@DTYPES
def test_pow_at_its_limits_is_the_pow_of_c(dtype, fma):
    smallest = float(np.finfo(dtype).smallest_subnormal)
    sizes = [0.0, smallest, 0.5, 1.0, 2.0, 3.0, 2.5, 1e30, INF]
    values = [*sizes, *(-v for v in sizes), NAN, 2.0**24 - 1, 1 - 2.0**-24]
    x, y = np.array(list(itertools.product(values, values)), dtype).T
    with np.errstate(all="ignore"):
        want = np.power(x.astype(WIDE), y.astype(WIDE))
    got = compiled("pow", dtype, fma)(x, y)
    found = worst(got, want, x, y)
    assert found[0] <= maths.ulp("pow", dtype), found
    number = ~np.isnan(got)  # the sign of a NaN is up to the processor
    assert np.array_equal(np.signbit(got)[number], np.signbit(want)[number])


@DTYPES
def test_exp_underflows_gradually(dtype):
    info = np.finfo(dtype)
    x = np.linspace(math.log(info.smallest_subnormal) - 1, math.log(info.tiny), 9999)
    got = compiled("exp", dtype)(x.astype(dtype))
    assert np.all(np.diff(got) >= 0)
    assert got[0] == 0
    assert 0 < got[20 + 9999 // 20] < info.tiny


@DTYPES
@pytest.mark.parametrize(
    ("function", "low", "high"),
    [
        ("tanh", -1, 1),
        ("erf", -1, 1),
        ("sigmoid", 0, 1),
        ("sin", -1, 1),
        ("cos", -1, 1),
    ],
)
def test_results_stay_in_range(function, low, high, dtype):
    x = patterns32(5003)
    got = compiled(function, dtype)(x[np.isfinite(x)].astype(dtype))
    assert got.min() >= low
    assert got.max() <= high


# Machine code ------------------------------------------------------------------------

X86, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"


@pytest.mark.parametrize(
    ("triple", "cpu", "bytes_", "fma"),
    [
        (X86, "skylake-avx512", 64, True),
        (X86, "haswell", 32, True),
        (X86, "nehalem", 16, False),
        (ARM, "neoverse-n1", 16, True),
    ],
)
def test_no_target_calls_a_library(triple, cpu, bytes_, fma):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple)
    machine = target.create_target_machine(cpu=cpu, opt=2)
    for function, dtype in itertools.product(maths.MATHS, maths.ELEMENTS):
        for lanes in (1, bytes_ // np.dtype(dtype).itemsize):
            text = module_text(function, dtype, lanes, fma)
            assembly = machine.emit_assembly(optimised(text, machine))
            assert not re.search(r"^\s+(callq?|bl|blr)\s", assembly, re.MULTILINE)
            assert "ret" in assembly


def test_pow_asks_for_fused_products_only_with_fma():
    assert any("@llvm.fma." in d for d in maths.declarations("pow", "float64", 2))
    for function, dtype in itertools.product(maths.MATHS, maths.ELEMENTS):
        without = maths.definition(function, dtype, 4, fma=False)
        assert "@llvm.fm" not in without


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("gamma", "float32", 4),
            "vector function 'gamma' on 4 x float32: no such function\n"
            "  hint: use one of exp, log, log2, tanh, sigmoid, erf, sin, cos, pow, "
            "rsqrt",
        ),
        (
            ("exp", "float16", 8),
            "vector function 'exp' on 8 x float16: it has no code for this type\n"
            "  hint: cast to float32 or float64",
        ),
        (
            ("exp", "float32", 0),
            "vector function 'exp' on 0 x float32: a vector needs at least 1 lane",
        ),
    ],
)
def test_errors(arguments, message):
    with pytest.raises(CodegenError) as caught:
        maths.definition(*arguments)
    assert str(caught.value) == message
