"""Values of expressions: dtypes, rounding, masks, and the table of functions."""

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from ansor.ir.dtypes import DTYPES
from ansor.ir.expr import (
    Binary,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Load,
    Ramp,
    Select,
    Var,
)
from ansor.ir.interp import evaluate
from ansor.ir.numpy_functions import NUMPY_FUNCTIONS, erf
from ansor.ir.ops import BINARY, FUNCTIONS

I, J, K = Var("i"), Var("j"), Var("k")  # noqa: E741


def mul(a: Expr, b: Expr | int) -> Expr:
    return Binary("mul", a, Const(b) if isinstance(b, int) else b)


def at(buffer: Buffer, *indices: Expr | int) -> Load:
    return Load(buffer, tuple(Const(i) if isinstance(i, int) else i for i in indices))


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def number(op: str, a: float, b: float, dtype: str) -> np.ndarray:
    return evaluate(Binary(op, Const(a, dtype), Const(b, dtype)), {}, {})


@pytest.mark.parametrize("dtype", [n for n, row in DTYPES.items() if "int" in row.kind])
def test_integers_wrap_and_division_floors(dtype: str) -> None:
    top = int(np.iinfo(DTYPES[dtype].numpy).max)
    low = int(np.iinfo(DTYPES[dtype].numpy).min)
    assert number("add", top, 1, dtype) == low
    assert number("floordiv", 7, 0, dtype) == 0
    assert number("mod", 7, 0, dtype) == 0
    assert number("div", 7, 2, dtype) == 3
    assert number("pow", 3, 3, dtype) == 27
    if low < 0:
        assert number("floordiv", -7, 2, dtype) == -4
        assert number("mod", -7, 2, dtype) == 1
        assert number("pow", -1, -3, dtype) == -1
        assert number("pow", 2, -1, dtype) == 0


@pytest.mark.parametrize("op", list(BINARY))
def test_every_operator_has_the_dtype_of_its_expression(op: str) -> None:
    for dtype, row in DTYPES.items():
        bits = op in ("and", "or", "xor", "shl", "shr")
        if (bits and row.kind == "float") or row.kind == "bool":
            continue
        assert (
            number(op, 3, 2, dtype).dtype == row.numpy
            if BINARY[op].result == "same"
            else np.bool_
        )


def test_half_precision_rounds_at_casts() -> None:
    for dtype, numpy in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)):
        third = evaluate(Cast(Const(1 / 3, "float32"), dtype), {}, {})
        assert third.dtype == numpy
        assert third == numpy(1 / 3)
    wide = Cast(Cast(Const(1 + 2**-20, "float32"), "float16"), "float32")
    assert evaluate(wide, {}, {}) == 1


def test_not_is_logical_for_bool_and_bitwise_for_integers() -> None:
    assert not evaluate(Call("not", (Const(True, "bool"),)), {}, {})
    assert evaluate(Call("not", (Const(5, "int32"),)), {}, {}) == -6


def test_evaluate_broadcasts_its_grid() -> None:
    a = Buffer("A", (3, 4), "float32")
    x = floats(3, 4)
    rows, columns = np.arange(3)[:, None], np.arange(4)
    got = evaluate(at(a, I, J), {"i": rows, "j": columns}, {"A": x})
    np.testing.assert_array_equal(got, x)
    assert evaluate(I, {"i": rows, "j": columns}, {}).shape == (3, 4)
    lanes = evaluate(Ramp(mul(I, 2), 3, 4), {"i": rows}, {})
    assert lanes.shape == (3, 1, 4)
    np.testing.assert_array_equal(lanes[2, 0], [4, 7, 10, 13])


def test_select_evaluates_only_the_chosen_lanes() -> None:
    a = Buffer("A", (3,), "float32")
    index = Ramp(Const(0), 1, 5)
    few = Binary("lt", index, Broadcast(Const(3), 5))
    e = Select(few, Load(a, (index,)), Broadcast(Const(9.0, "float32"), 5))
    got = evaluate(e, {}, {"A": np.arange(3, dtype=np.float32)})
    np.testing.assert_array_equal(got, [0, 1, 2, 9, 9])


def test_every_function_has_a_numpy_value() -> None:
    assert set(NUMPY_FUNCTIONS) == set(FUNCTIONS)


def test_erf_is_accurate() -> None:
    x = np.concatenate([np.linspace(-7, 7, 10_001), np.logspace(-300, 0, 1000)])
    want = np.array([math.erf(v) for v in x])
    error = np.abs(erf(x) - want) / np.where(want == 0, 1, np.abs(want))
    assert error.max() < 1e-15
    special = erf(np.array([np.inf, -np.inf, np.nan, -0.0]))
    np.testing.assert_array_equal(special, [1, -1, np.nan, 0])
    assert np.signbit(special[3])


REFERENCE: dict[str, Callable[[float], float]] = {
    "exp": math.exp, "log": math.log, "log2": math.log2, "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x), "tanh": math.tanh, "erf": math.erf,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "sin": math.sin, "cos": math.cos,
    "floor": math.floor, "ceil": math.ceil, "round": round, "abs": abs,
    "neg": lambda x: -x,
}  # fmt: skip


@pytest.mark.parametrize("name", list(REFERENCE))
def test_functions_round_once(name: str) -> None:
    for x in (0.5, 1.5, 2.5, 0.1, 3.75):
        x = float(np.float32(x))
        got = evaluate(Call(name, (Const(x, "float32"),)), {}, {})
        assert got.dtype == np.float32
        assert got == np.float32(REFERENCE[name](x))
