"""Which loops are proven to have independent iterations, and which are not."""

import pytest

from ansor.ir.dependence import accumulation, distribute, independent, reduction_over
from ansor.ir.expr import Binary, Buffer, Call, Const, Expr, Load, Ramp, Select, Var
from ansor.ir.stmt import Allocate, For, If, Prefetch, Seq, Stmt, Store

OUT = Buffer("out", (1000,), "int64")
GRID = Buffer("grid", (100, 100), "int64")
v, w, o = Var("v"), Var("w"), Var("o")


def add(a: Expr, b: Expr | int) -> Expr:
    return Binary("add", a, Const(b) if isinstance(b, int) else b)


def mul(a: Expr, b: int) -> Expr:
    return Binary("mul", a, Const(b))


def div(a: Expr, b: int) -> Expr:
    return Binary("floordiv", a, Const(b))


def mod(a: Expr, b: int) -> Expr:
    return Binary("mod", a, Const(b))


def twice(*index: Expr) -> Store:
    """Read and write one element."""
    buffer = OUT if len(index) == 1 else GRID
    return Store(buffer, index, Call("neg", (Load(buffer, index),)))


@pytest.mark.parametrize(
    ("index", "proven"),
    [
        ((v,), True),
        ((add(mul(v, 4), w),), True),  # w < 4
        ((add(mul(v, 3), w),), False),  # windows overlap
        ((add(mul(w, 12), v),), True),  # v < 12
        ((add(mul(w, 11), v),), False),
        ((add(mul(o, 5), v),), True),  # o is the same for all iterations
        ((add(v, mul(v, -1)),), False),
        ((w,), False),
        ((Ramp(mul(v, 4), 1, 4),), True),
        ((Ramp(mul(v, 4), 1, 5),), False),
        ((Ramp(mul(v, 4), 2, 2),), True),
        ((div(v, 3), mod(v, 3)), True),
        ((add(mul(div(v, 3), 3), mod(v, 3)),), True),
        ((div(v, 4), mod(v, 3)), False),
        ((mod(v, 6), div(v, 4)), False),
        ((mod(v, 12),), True),
        ((mod(v, 11),), False),
        ((div(v, 6), add(mul(mod(div(v, 2), 3), 2), mod(v, 2))), True),
        ((div(v, 6), add(mul(div(mod(v, 6), 2), 2), mod(v, 2))), True),
        ((Binary("min", v, Const(50)),), False),  # not understood
        ((v, Binary("min", w, Const(50))), True),
    ],
)
def test_an_index_that_tells_iterations_apart(
    index: tuple[Expr, ...], proven: bool
) -> None:
    assert independent(For(v, 12, For(w, 4, twice(*index)))) is proven


def test_all_accesses_count() -> None:
    shifted = Store(OUT, (v,), Load(OUT, (add(v, 1),)))
    assert not independent(For(v, 12, shifted))
    guarded = If(Binary("lt", Load(OUT, (Const(0),)), v), twice(v))
    assert not independent(For(v, 12, guarded))
    assert independent(For(v, 12, Seq((Prefetch(OUT, (add(v, 1),)), twice(v)))))


def test_scratch_inside_the_loop_is_private() -> None:
    scratch = Buffer("t", (1,), "int64", "local")
    body = Seq((Store(scratch, (Const(0),), v), twice(v)))
    assert independent(For(v, 12, Allocate(scratch, body)))
    assert not independent(For(v, 12, body))


def test_accumulations_in_either_order() -> None:
    old, new = Load(OUT, (w,)), Load(GRID, (v, w))
    for value in (Binary("add", old, new), Binary("add", new, old)):
        store = Store(OUT, (w,), value)
        assert accumulation(store) == ("add", new)
        assert reduction_over(For(v, 12, For(w, 4, store))) == ("add", new)
        assert reduction_over(For(w, 4, For(v, 12, store))) is None
    assert accumulation(Store(OUT, (w,), Binary("sub", old, new))) is None


@pytest.mark.parametrize(
    "store",
    [
        Store(OUT, (w,), Binary("add", Load(OUT, (w,)), Load(OUT, (v,)))),
        Store(OUT, (v,), Binary("add", Load(OUT, (v,)), w)),
        If(
            Binary("lt", Load(OUT, (w,)), v),
            Store(OUT, (w,), Binary("add", Load(OUT, (w,)), v)),
        ),
    ],
)
def test_what_is_no_reduction(store: Stmt) -> None:
    assert reduction_over(For(v, 12, store)) is None


def test_statements_on_other_elements_are_distributed() -> None:
    first, second = (Store(OUT, (Const(i),), add(v, i)) for i in range(2))
    guard = Binary("lt", v, Const(3))
    loop = For(v, 12, If(guard, Seq((first, second))))
    assert distribute(loop) == (
        For(v, 12, If(guard, first)),
        For(v, 12, If(guard, second)),
    )


def test_statements_that_may_meet_stay_together() -> None:
    first = Store(OUT, (Const(3),), v)
    for index in (Const(3), w, Binary("min", w, Const(1))):
        second = For(w, 4, Store(OUT, (index,), v))
        loop = For(v, 12, Seq((first, second)))
        assert distribute(loop) == (loop,)
    reading = Store(GRID, (v, v), Select(Binary("lt", v, w), v, Load(OUT, (Const(3),))))
    loop = For(v, 12, Seq((first, reading)))
    assert distribute(loop) == (loop,)
