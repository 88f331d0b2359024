"""The simplifier against evaluating every point of the variables' ranges."""

from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansor.ir.affine import UNBOUNDED, interval, linear
from ansor.ir.evaluate import evaluate
from ansor.ir.expr import Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var
from ansor.ir.simplify import FALSE, TRUE, simplify, simplify_stmt
from ansor.ir.stmt import Allocate, For, If, Seq, Store

i, j = Var("i"), Var("j")
RANGES = {"i": (0, 7), "j": (0, 7)}
A = Buffer("A", (16,), "int64")


def add(a: Expr, b: Expr | int) -> Expr:
    return Binary("add", a, Const(b) if isinstance(b, int) else b)


def mul(a: Expr, b: int) -> Expr:
    return Binary("mul", a, Const(b))


def less(a: Expr, b: Expr | int) -> Expr:
    return Binary("lt", a, Const(b) if isinstance(b, int) else b)


def divide(a: Expr, b: int) -> Expr:
    return Binary("floordiv", a, Const(b))


def modulo(a: Expr, b: int) -> Expr:
    return Binary("mod", a, Const(b))


ROW = add(mul(i, 8), j)  # i*8 + j


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (divide(ROW, 8), "i"),
        (modulo(ROW, 8), "j"),
        (modulo(ROW, 64), "i * 8 + j"),
        (divide(ROW, 64), "0"),
        (divide(ROW, 16), "i // 2"),
        (divide(add(mul(i, 16), mul(j, 2)), 4), "i * 4 + j // 2"),
        (modulo(add(mul(i, 12), j), 4), "j % 4"),
        (less(ROW, 64), "True"),
        (less(ROW, 0), "False"),
        (less(ROW, 63), "i * 8 + j < 63"),
        (Binary("le", Const(0), ROW), "True"),
        (Binary("eq", i, add(i, 1)), "False"),
        (Binary("ne", i, add(i, 1)), "True"),
        (Binary("min", mul(i, 4), Const(28)), "i * 4"),
        (Binary("max", mul(i, 4), Const(28)), "28"),
        (Binary("min", mul(i, 4), Const(20)), "min(i * 4, 20)"),
        (Binary("sub", add(i, j), i), "j"),
        (Call("neg", (Call("neg", (i,)),)), "i"),
        (Select(less(i, 8), Const(1.5, "float32"), Const(2.5, "float32")), "1.5"),
        (Binary("and", less(i, 8), less(j, 3)), "j < 3"),
        (Binary("or", less(i, 8), less(j, 3)), "True"),
        (Call("not", (less(i, 8),)), "False"),
        (Cast(Const(3, "int32"), "int64"), "3"),
    ],
    ids=str,
)
def test_examples(before: Expr, after: str) -> None:
    assert str(simplify(before, RANGES)) == after


def test_float_arithmetic_is_left_as_written():
    x = Load(Buffer("X", (8,), "float32"), (i,))
    zero = Const(0.0, "float32")
    kept = Binary("add", Binary("mul", x, zero), zero)
    assert simplify(kept, RANGES) == kept


def test_an_index_inside_a_load_is_simplified():
    assert simplify(Load(A, (divide(ROW, 8),)), RANGES) == Load(A, (i,))


@pytest.mark.parametrize("op", ["lt", "le", "eq", "ne"])
@pytest.mark.parametrize("x", [-(2**63), -1, 0, 5, 2**63 - 1])
@pytest.mark.parametrize("y", [-(2**63), 2**62 + 1, 2**63 - 1])
def test_data_of_any_size_is_compared_as_it_is(op: str, x: int, y: int):
    """A difference of two loaded int64 values may overflow."""
    compared = Binary(op, add(Load(A, (Const(0),)), 0), Load(A, (Const(1),)))
    memory = {"A": np.array([x, y], np.int64)}
    want = evaluate(compared, {}, memory)
    assert evaluate(simplify(compared, {}), {}, memory) == want


@pytest.mark.parametrize("op", ["floordiv", "mod", "min", "max"])
def test_data_that_wraps_around_is_divided_after_it_wrapped(op: str):
    e = Binary(op, mul(Load(A, (Const(0),)), 6), Const(3))
    memory = {"A": np.array([2**62 + 5], np.int64)}
    with np.errstate(over="ignore"):
        assert evaluate(simplify(e, {}), {}, memory) == evaluate(e, {}, memory)


class Expressions:
    """Random index expressions and conditions over a few variables."""

    def __init__(self, r: Random, names: list[str]) -> None:
        self.r, self.names = r, names

    def index(self, depth: int) -> Expr:
        if depth == 0:
            constant = Const(self.r.randint(-9, 9))
            return self.r.choice((constant, *(Var(name) for name in self.names)))
        a = self.index(depth - 1)
        match self.r.randrange(9):
            case 0 | 1:
                return Binary(self.r.choice(("add", "sub")), a, self.index(depth - 1))
            case 2 | 3:
                return mul(a, self.r.choice((-8, -3, -1, 0, 1, 2, 3, 4, 8, 12)))
            case 4 | 5:
                op = self.r.choice(("floordiv", "mod"))
                return Binary(op, a, Const(self.r.choice((1, 2, 3, 4, 5, 8, 12, 16))))
            case 6:
                return Binary(self.r.choice(("min", "max")), a, self.index(depth - 1))
            case 7:
                return Select(self.condition(depth - 1), a, self.index(depth - 1))
        return self.r.choice((Call("neg", (a,)), Binary("mul", a, self.index(0))))

    def condition(self, depth: int) -> Expr:
        if depth > 0 and self.r.random() < 0.4:
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            return self.r.choice((Binary("and", a, b), Binary("or", a, b)))
        op = self.r.choice(("lt", "le", "eq", "ne"))
        return Binary(op, self.index(depth), self.index(max(depth - 1, 0)))


def points(ranges: dict[str, tuple[int, int]]) -> dict[str, np.ndarray]:
    """Every combination of the values of some variables."""
    values = list(product(*(range(low, high + 1) for low, high in ranges.values())))
    columns = np.array(values, np.int64).reshape(len(values), len(ranges))
    return {name: columns[:, n] for n, name in enumerate(ranges)}


def draw(r: Random) -> tuple[Expressions, dict[str, tuple[int, int]]]:
    names = ["i", "j", "k"][: r.randint(1, 3)]
    ranges = {}
    for name in names:
        low = r.choice((0, 0, 0, -3, 5))
        ranges[name] = (low, low + r.randint(0, 8))
    return Expressions(r, names), ranges


@given(st.randoms(use_true_random=False))
def test_a_simplified_expression_has_the_same_value_everywhere(r: Random):
    make, ranges = draw(r)
    env = points(ranges)
    for before in (make.index(3), make.condition(2)):
        after = simplify(before, ranges)
        want, got = evaluate(before, env, {}), evaluate(after, env, {})
        np.testing.assert_array_equal(got, want, f"{before}  ==>  {after}")
        assert simplify(after, ranges) == after, "not done in one go"


@given(st.randoms(use_true_random=False))
def test_intervals_hold_every_value(r: Random):
    make, ranges = draw(r)
    e = make.index(3)
    low, high = interval(e, ranges)
    values = evaluate(e, points(ranges), {})
    assert low <= values.min(), f"{e} in {ranges}"
    assert values.max() <= high, f"{e} in {ranges}"


@given(st.randoms(use_true_random=False))
def test_sums_keep_the_value(r: Random):
    make, ranges = draw(r)
    e = make.index(3)
    env = points(ranges)
    want = evaluate(e, env, {})
    np.testing.assert_array_equal(evaluate(linear(e).expr(), env, {}), want, str(e))


@given(st.randoms(use_true_random=False))
def test_a_condition_that_always_holds_is_dropped(r: Random):
    """Sums of variables, each once: intervals are exact, so all are decided."""
    names = ["i", "j", "k"][: r.randint(1, 3)]
    ranges = {name: (0, r.randint(0, 6)) for name in names}
    total: Expr = Const(r.randint(-5, 5))
    for name in names:
        total = add(total, mul(Var(name), r.choice((-2, -1, 1, 3, 8))))
    guard = less(total, r.randint(-10, 30))
    truth = evaluate(guard, points(ranges), {})
    after = simplify(guard, ranges)
    if truth.all():
        assert after == TRUE
    elif not truth.any():
        assert after == FALSE
    else:
        assert not isinstance(after, Const)


def test_guards_in_statements_are_dropped_and_empty_loops_disappear():
    store = Store(A, (i,), j)
    kept = If(less(add(i, j), 9), store)
    body = Seq((If(less(i, 4), store), If(less(i, 0), store), kept))
    loops = For(j, 8, For(i, 4, body))
    wanted = For(j, 8, For(i, 4, Seq((store, kept))))
    assert simplify_stmt(loops) == wanted
    assert simplify_stmt(For(i, 4, If(less(i, 0), store))) == Seq(())


def test_a_decided_condition_keeps_the_side_it_chooses():
    first, second = Store(A, (i,), Const(1)), Store(A, (i,), Const(2))
    test = less(j, 3)
    for value, chosen in ((0, first), (5, second)):
        stmt = simplify_stmt(If(test, first, second), {"j": (value, value)})
        assert stmt == chosen


def test_the_range_of_a_loop_ends_with_the_loop():
    store = Store(A, (Const(0),), i)
    inner = For(i, 2, If(less(i, 2), store))
    outer = For(i, 8, If(less(i, 2), store))
    assert simplify_stmt(Seq((inner, outer))) == Seq((For(i, 2, store), outer))


def test_an_allocation_is_kept_with_its_body():
    local = Buffer("L", (4,), "int64", "local")
    stmt = Allocate(local, For(i, 4, Store(local, (add(i, 0),), i)))
    assert simplify_stmt(stmt) == Allocate(local, For(i, 4, Store(local, (i,), i)))


def test_what_is_loaded_has_no_bounds_but_those_of_its_type():
    assert interval(Load(A, (i,)), RANGES) == UNBOUNDED
    small = Cast(Load(Buffer("B", (8,), "int8"), (i,)), "int64")
    assert interval(small, RANGES) == (-128, 127)
    truth = Cast(Load(Buffer("B", (8,), "bool"), (i,)), "int64")
    assert interval(truth, RANGES) == (0, 1)
