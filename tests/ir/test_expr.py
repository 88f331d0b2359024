"""Nodes: what they refuse, what they know of themselves, how they print."""

import pytest

from ansor.errors import IRError
from ansor.ir.expr import (
    Binary,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    Lanes,
    Load,
    Ramp,
    Select,
    Var,
)
from ansor.ir.printer import print_stmt
from ansor.ir.stmt import Allocate, For, Function, If, Prefetch, Seq, Store

A = Buffer("A", (4, 6), "float32")
OUT = Buffer("out", (4,), "float32")
x, y = Var("x"), Var("y")
one, half = Const(1), Const(0.5, "float32")
yes = Const(True, "bool")


def test_buffer_knows_its_layout() -> None:
    assert A.size == 24
    assert A.strides == (6, 1)
    assert A.bytes == 96
    assert Buffer("s", (), "bfloat16").strides == ()
    assert Buffer("s", (), "bfloat16").bytes == 2


@pytest.mark.parametrize(
    ("expr", "dtype", "lanes"),
    [
        (x, "int64", 1),
        (half, "float32", 1),
        (Binary("add", x, one), "int64", 1),
        (Binary("lt", x, one), "bool", 1),
        (Call("isnan", (half,)), "bool", 1),
        (Call("exp", (half,)), "float32", 1),
        (Select(yes, half, half), "float32", 1),
        (Cast(x, "int8"), "int8", 1),
        (Load(A, (x, y)), "float32", 1),
        (Load(A, (x, Ramp(y, 1, 4))), "float32", 4),
        (Ramp(x, 2, 8), "int64", 8),
        (Broadcast(half, 8), "float32", 8),
        (Lanes("add", Broadcast(half, 8), 5), "float32", 1),
        (Binary("eq", Ramp(x, 2, 8), Broadcast(x, 8)), "bool", 8),
    ],
)
def test_dtype_and_lanes(expr: Expr, dtype: str, lanes: int) -> None:
    assert (expr.dtype, expr.lanes) == (dtype, lanes)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Binary("mul", Binary("add", x, one), y), "(x + 1) * y"),
        (Binary("max", Binary("add", x, one), y), "max(x + 1, y)"),
        (Const(3, "int8"), "int8(3)"),
        (Select(Binary("le", x, y), x, y), "select(x <= y, x, y)"),
        (Cast(x, "float32"), "float32(x)"),
        (Call("exp", (Load(A, (x, y)),)), "exp(A[x, y])"),
        (Load(A, (x, Ramp(y, 1, 4)), 3), "A[x, y +: 4]:3"),
        (Ramp(Binary("mul", x, one), 2, 8), "x * 1 +: 8 by 2"),
        (Broadcast(half, 8), "x8(0.5)"),
        (Lanes("add", Broadcast(half, 8), 5), "lanes_add(x8(0.5):5)"),
    ],
)
def test_expressions_print(expr: Expr, text: str) -> None:
    assert str(expr) == text


def test_nodes_are_values() -> None:
    assert Binary("add", x, one) == Binary("add", Var("x"), Const(1))
    assert len({Load(A, (x, y)), Load(A, (x, y)), Load(A, (y, x))}) == 2


def test_function_prints_its_loops() -> None:
    scratch = Buffer("t", (1,), "float32", "local")
    total = Load(scratch, (Const(0),))
    step = Store(scratch, (Const(0),), Binary("add", total, Load(A, (x, y))))
    body = Seq(
        (
            Store(scratch, (Const(0),), Const(0.0, "float32")),
            For(y, 6, Seq((Prefetch(A, (x, y)), step)), reduce=True),
            If(Binary("lt", x, one), Store(OUT, (x,), total), Store(OUT, (x,), half)),
        )
    )
    nest = For(x, 4, Allocate(scratch, body), "parallel")
    assert str(Function("sums", (A, OUT), nest)) == (
        "def sums(A: float32[4, 6]) -> out: float32[4]:\n"
        "  for x in 4:  # parallel\n"
        "    allocate t: float32[1] local\n"
        "    t[0] = 0.0\n"
        "    for y in 6:  # reduce\n"
        "      prefetch A[x, y]\n"
        "      t[0] = t[0] + A[x, y]\n"
        "    if x < 1:\n"
        "      out[x] = t[0]\n"
        "    else:\n"
        "      out[x] = 0.5"
    )


def test_masked_store_prints_its_active_lanes() -> None:
    store = Store(OUT, (Ramp(Const(0), 1, 4),), Broadcast(half, 4), 3)
    assert print_stmt(store) == "out[0 +: 4]:3 = x4(0.5)"


def refusal(make: type, *args: object) -> str:
    with pytest.raises(IRError) as error:
        make(*args)
    return str(error.value)


def test_unknown_dtype() -> None:
    assert refusal(Buffer, "A", (4,), "float8") == (
        "dtype 'float8': unknown\n"
        "  hint: use one of float64, float32, float16, bfloat16, int64, int32, "
        "int16, int8, uint8, bool"
    )
    assert refusal(Cast, x, "half").startswith("dtype 'half': unknown")


def test_empty_axis() -> None:
    text = "buffer 'A': shape (4, 0) has an empty axis"
    assert refusal(Buffer, "A", (4, 0), "float32") == text


def test_operands_of_two_dtypes() -> None:
    assert refusal(Binary, "add", x, half) == (
        "x + 0.5: operands are int64 and float32\n  hint: cast or broadcast one of them"
    )


def test_operands_of_two_lanes() -> None:
    message = refusal(Binary, "mul", Ramp(x, 1, 4), y)
    assert "operands are int64 x4 and int64" in message


def test_unknown_operator_and_function() -> None:
    assert refusal(Binary, "plus", x, y) == "operator 'plus': unknown"
    assert refusal(Call, "gamma", (half,)) == "function 'gamma': unknown"


def test_wrong_number_of_arguments() -> None:
    text = "exp(0.5, 0.5): 2 arguments, but it takes 1"
    assert refusal(Call, "exp", (half, half)) == text


def test_float_function_of_an_integer() -> None:
    assert refusal(Call, "exp", (x,)) == (
        "exp(x): the argument is int64, but it takes floats\n"
        '  hint: cast it first, for example cast(x, "float32")'
    )


def test_select_of_a_number() -> None:
    text = "select(x, 0.5, 0.5): the condition is int64, not bool"
    assert refusal(Select, x, half, half) == text


def test_select_of_two_types() -> None:
    text = "select(True, x, 0.5): branches are int64, float32"
    assert refusal(Select, yes, x, half) == text


def test_select_of_other_lanes() -> None:
    condition = Broadcast(yes, 4)
    assert refusal(Select, condition, x, y) == (
        "select(x4(True), x, y): the condition has 4 lanes"
    )


def test_wrong_rank() -> None:
    text = "load of 'A': 1 indices, but its shape (4, 6) has 2 axes"
    assert refusal(Load, A, (x,)) == text
    assert refusal(Store, A, (x,), half) == text.replace("load", "store")


def test_index_that_is_not_an_index() -> None:
    text = "load of 'out': index 0.5 is float32, not int64"
    assert refusal(Load, OUT, (half,)) == text


def test_store_of_another_dtype() -> None:
    text = "store to 'out': the value is int64, the buffer float32"
    assert refusal(Store, OUT, (x,), x) == text


def test_loop_of_unknown_kind_or_no_iterations() -> None:
    store = Store(OUT, (x,), half)
    assert refusal(For, x, 4, store, "fast") == "loop x: unknown kind 'fast'"
    assert refusal(For, x, 0, store) == "loop x: extent 0 is less than 1"


def test_condition_that_is_not_bool() -> None:
    store = Store(OUT, (x,), half)
    assert refusal(If, x, store) == "if x: the condition is not bool"
