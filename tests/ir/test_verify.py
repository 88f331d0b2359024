"""One malformed program per test, and the message it gets."""

import pytest

from ansor.errors import IRError
from ansor.ir.expr import (
    Binary,
    Broadcast,
    Buffer,
    Cast,
    Const,
    Expr,
    Lanes,
    Load,
    Ramp,
    Select,
    Var,
)
from ansor.ir.stmt import Allocate, For, Function, If, Prefetch, Seq, Stmt, Store
from ansor.ir.verify import verify

A = Buffer("A", (8, 8), "float32")
OUT = Buffer("out", (8,), "float32")
ACC = Buffer("acc", (4,), "float32", "register")
x, y = Var("x"), Var("y")
half = Const(0.5, "float32")
ramp = Ramp(Const(0), 1, 4)


def store(index: Expr, value: Expr = half, active: int | None = None) -> Store:
    return Store(OUT, (index,), value, active)


def check(body: Stmt, stage: str = "lowered") -> None:
    verify(Function("f", (A, OUT), body), stage)


def refusal(body: Stmt, stage: str = "lowered") -> str:
    with pytest.raises(IRError) as error:
        check(body, stage)
    return str(error.value)


def test_well_formed_programs_pass() -> None:
    total = Load(ACC, (Const(0),))
    tile = Seq(
        (
            Store(ACC, (Const(0),), half),
            For(y, 8, Store(ACC, (Const(0),), Binary("add", total, Load(A, (x, y))))),
            Store(ACC, (ramp,), Broadcast(total, 4), 3),
            store(x, Lanes("max", Load(ACC, (ramp,), 3), 3)),
        )
    )
    check(For(x, 8, Allocate(ACC, tile), "parallel"), "final")


def test_siblings_may_reuse_names() -> None:
    loop = For(x, 8, store(x))
    scratch = Buffer("t", (8,), "float32", "local")
    inner = Allocate(scratch, For(x, 8, Store(scratch, (x,), half)))
    check(Seq((loop, loop, inner, inner)))


def test_unbound_variable() -> None:
    assert refusal(For(x, 8, store(y))) == (
        "'out[y] = 0.5' in 'f': no loop around it binds 'y'\n"
        "  hint: put it inside a loop over 'y'"
    )


def test_variable_after_its_loop() -> None:
    body = Seq((For(x, 8, store(x)), store(Const(0), Cast(x, "float32"))))
    assert "'out[0] = float32(x)' in 'f': no loop around it" in refusal(body)


def test_unbound_variable_in_a_condition() -> None:
    body = If(Binary("lt", y, Const(3)), store(Const(0)))
    assert refusal(body).startswith("'if y < 3' in 'f': no loop around it binds 'y'")


def test_shadowed_loop() -> None:
    assert refusal(For(x, 8, For(x, 4, store(x)))) == (
        "'for x in 4' in 'f': an outer loop binds 'x' too\n  hint: rename one of them"
    )


def test_buffer_from_nowhere() -> None:
    stray = Buffer("T", (8,), "float32", "local")
    assert refusal(For(x, 8, store(x, Load(stray, (x,))))) == (
        "'out[x] = T[x]' in 'f': 'T' is neither a parameter nor allocated around it\n"
        "  hint: allocate it, or pass it as a parameter"
    )


def test_buffer_outside_its_allocate() -> None:
    scratch = Buffer("T", (8,), "float32", "local")
    zero = Store(scratch, (Const(0),), half)
    body = Seq((Allocate(scratch, zero), store(Const(0), Load(scratch, (Const(0),)))))
    assert "'T' is neither a parameter nor allocated" in refusal(body)


def test_another_buffer_of_the_same_name() -> None:
    other = Buffer("A", (4, 4), "float32")
    assert refusal(store(Const(0), Load(other, (Const(0), Const(0))))) == (
        "'out[0] = A[0, 0]' in 'f': it uses A: float32[4, 4] global, "
        "but A: float32[8, 8] global is meant by that name"
    )


def test_prefetch_of_an_unknown_buffer() -> None:
    stray = Buffer("T", (8,), "float32", "local")
    assert "'prefetch T[0]' in 'f'" in refusal(Prefetch(stray, (Const(0),)))


def test_prefetch_outside_is_fine() -> None:
    check(Prefetch(A, (Const(0), Const(99))))


@pytest.mark.parametrize(
    ("index", "value"), [(ramp, half), (Const(0), Broadcast(half, 4))]
)
def test_lanes_of_value_and_index_differ(index: Expr, value: Expr) -> None:
    assert refusal(store(index, value)).endswith(
        f"the value has {value.lanes} lanes, the indices {index.lanes}\n"
        "  hint: broadcast the value, or make the index a ramp"
    )


def test_indices_of_different_lanes() -> None:
    load = Load(A, (Ramp(Const(0), 1, 2), ramp))
    assert "indices have 2 and 4 lanes" in refusal(store(ramp, load))


@pytest.mark.parametrize("active", [0, 5])
def test_too_few_or_too_many_active_lanes(active: int) -> None:
    assert refusal(store(ramp, Broadcast(half, 4), active)) == (
        f"'out[0 +: 4]:{active} = x4(0.5)' in 'f': {active} active lanes of out, "
        "which has 4\n  hint: use 1 to 4"
    )
    assert "active lanes of lanes_add" in refusal(
        store(Const(0), Lanes("add", Broadcast(half, 4), active))
    )


def test_active_lanes_of_a_scalar() -> None:
    assert refusal(store(Const(0), half, 1)) == (
        "'out[0]:1 = 0.5' in 'f': active lanes given for out, a scalar\n"
        "  hint: leave it out"
    )


def test_vector_of_a_vector() -> None:
    nested = Ramp(Broadcast(Const(0), 2), 1, 4)
    assert "makes a vector of a vector" in refusal(store(nested, Broadcast(half, 4)))


def test_vector_of_one_lane() -> None:
    assert "x1(0.5) has 1 lanes" in refusal(store(Const(0), Broadcast(half, 1)))


def test_lanes_combined_without_an_order_free_operator() -> None:
    body = store(Const(0), Lanes("sub", Broadcast(half, 4), 4))
    assert "combines with 'sub'" in refusal(body)


def test_vector_condition() -> None:
    condition = Binary("lt", ramp, Broadcast(Const(2), 4))
    assert refusal(If(condition, store(Const(0)))) == (
        "'if (0 +: 4) < x4(2)' in 'f': the condition is bool x4, not a scalar bool\n"
        "  hint: select between values, or mask lanes with active"
    )


def test_parameter_of_another_scope() -> None:
    local = Buffer("T", (8,), "float32", "local")
    with pytest.raises(IRError) as error:
        verify(Function("f", (local, OUT), store(Const(0))))
    assert str(error.value) == (
        "function 'f': parameter 'T' has scope 'local'\n"
        '  hint: parameters have scope "global"; allocate the others'
    )


def test_parameters_of_one_name() -> None:
    with pytest.raises(IRError, match="two parameters are called 'out'"):
        verify(Function("f", (OUT, OUT), store(Const(0))))


def test_more_outputs_than_parameters() -> None:
    with pytest.raises(IRError, match="3 outputs, but 2 parameters"):
        verify(Function("f", (A, OUT), store(Const(0)), outputs=3))


def test_global_allocation() -> None:
    wide = Buffer("T", (8,), "float32")
    assert refusal(Allocate(wide, store(Const(0)))) == (
        "'allocate T: float32[8] global' in 'f': 'T' has scope 'global'\n"
        '  hint: allocate it as "packed", "local", "register" or "shared"'
    )


def test_allocation_of_a_taken_name() -> None:
    again = Buffer("out", (8,), "float32", "local")
    assert "'out' exists already" in refusal(Allocate(again, store(Const(0))))


def test_vectorized_loop_in_a_vectorized_loop() -> None:
    body = For(x, 8, For(y, 4, store(x, Load(A, (x, y))), "vectorize"), "vectorize")
    assert refusal(body) == (
        "'for y in 4:  # vectorize' in 'f': it is directly inside vectorized 'x'\n"
        "  hint: fuse the two, or vectorize one of them"
    )


def test_parallel_loop_anywhere_in_a_parallel_loop() -> None:
    z = Var("z")
    inner = For(z, 2, store(x), "parallel")
    assert refusal(For(x, 8, For(y, 4, inner), "parallel")) == (
        "'for z in 2:  # parallel' in 'f': it is inside parallel 'x'\n"
        "  hint: fuse the two, or make one of them serial"
    )


@pytest.mark.parametrize("kind", ["vectorize", "unroll"])
def test_loops_that_must_be_gone_at_the_final_stage(kind: str) -> None:
    body = For(x, 8, store(x), kind)
    check(body)
    assert refusal(body, "final") == (
        f"'for x in 8:  # {kind}' in 'f': a loop of kind {kind!r} is left at the "
        "final stage\n  hint: run the pass that replaces it first"
    )


def test_unknown_stage() -> None:
    assert refusal(store(Const(0)), "last") == (
        "stage 'last': unknown\n  hint: use one of 'lowered', 'final'"
    )


def test_constant_index_outside() -> None:
    assert refusal(store(Const(8))) == (
        "'out[8] = 0.5' in 'f': index 8 of 'out' is outside axis 0, 0 … 7"
    )
    assert "index -1 of 'out' is outside axis 0, 0 … 7" in refusal(store(Const(-1)))


def test_affine_index_surely_outside() -> None:
    index = Binary("add", Binary("mul", x, Const(2)), Const(9))
    assert refusal(For(x, 3, store(index))) == (
        "'out[x * 2 + 9] = 0.5' in 'f': index x * 2 + 9, in 9 … 13, of 'out' is "
        "outside axis 0, 0 … 7"
    )


def test_index_that_may_be_inside_is_left_alone() -> None:
    check(For(x, 100, store(x)))
    check(For(x, 100, store(Binary("sub", x, Const(50)))))
    check(For(x, 9, store(Binary("floordiv", Const(100), Const(7)))))


def test_guards_protect_indices() -> None:
    never = Binary("lt", Const(9), Const(8))
    check(If(never, store(Const(9))))
    check(store(Const(0), Select(never, Load(OUT, (Const(9),)), half)))
    load = Load(OUT, (Const(9),))
    body = store(Const(0), Select(Binary("lt", load, half), half, half))
    assert "index 9 of 'out'" in refusal(body)
