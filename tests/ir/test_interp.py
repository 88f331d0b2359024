"""Programs as lowering makes them, run by the interpreter and by NumPy."""

import time

import numpy as np
import pytest

from ansor.errors import ArgumentError, IRError
from ansor.ir import interp
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
from ansor.ir.interp import run
from ansor.ir.stmt import Allocate, For, Function, If, Prefetch, Seq, Stmt, Store
from ansor.ir.verify import verify

I, J, K = Var("i"), Var("j"), Var("k")  # noqa: E741
ZERO = Const(0.0, "float32")


def add(a: Expr, b: Expr | int) -> Expr:
    return Binary("add", a, Const(b) if isinstance(b, int) else b)


def mul(a: Expr, b: Expr | int) -> Expr:
    return Binary("mul", a, Const(b) if isinstance(b, int) else b)


def less(a: Expr, b: int) -> Expr:
    return Binary("lt", a, Const(b))


def at(buffer: Buffer, *indices: Expr | int) -> Load:
    return Load(buffer, tuple(Const(i) if isinstance(i, int) else i for i in indices))


def put(target: Load, value: Expr) -> Store:
    return Store(target.buffer, target.indices, value, target.active)


def update(target: Load, value: Expr, op: str = "add") -> Store:
    return put(target, Binary(op, target, value))


def loops(body: Stmt, **extents: int) -> Stmt:
    """`loops(body, i=2, j=3)`: i outside."""
    for name, extent in reversed(extents.items()):
        body = For(Var(name), extent, body)
    return body


def execute(body: Stmt, *arguments: tuple[Buffer, np.ndarray]) -> np.ndarray:
    """Verify and run; gives back the last argument."""
    function = Function("f", tuple(buffer for buffer, _ in arguments), body)
    verify(function)
    run(function, [array for _, array in arguments])
    return arguments[-1][1]


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def test_tiled_matmul_with_guards() -> None:
    n, m, depth = 7, 10, 13
    a, b, c = (
        Buffer("A", (n, depth), "float32"),
        Buffer("B", (depth, m), "float32"),
        Buffer("C", (n, m), "float32"),
    )
    row = add(mul(Var("i0"), 4), Var("i1"))
    column = add(mul(Var("j0"), 3), Var("j1"))
    inside = Binary("and", less(row, n), less(column, m))
    tile = Seq(
        (
            loops(If(inside, put(at(c, row, column), ZERO)), i1=4, j1=3),
            loops(
                If(
                    inside,
                    update(at(c, row, column), mul(at(a, row, K), at(b, K, column))),
                ),
                k=depth, i1=4, j1=3,
            ),
        )
    )  # fmt: skip
    x, y = floats(n, depth), floats(depth, m, seed=1)
    out = np.full((n, m), np.nan, np.float32)
    execute(loops(tile, i0=2, j0=4), (a, x), (b, y), (c, out))
    np.testing.assert_allclose(out, x @ y, rtol=1e-5, atol=1e-5)


def test_softmax_with_scratch_inside_the_loop() -> None:
    n, m = 50, 33
    a, out = Buffer("A", (n, m), "float32"), Buffer("out", (n, m), "float32")
    top = Buffer("top", (), "float32", "local")
    total = Buffer("total", (1,), "float32", "local")
    e = Call("exp", (Binary("sub", at(a, I, K), at(top)),))
    body = Seq(
        (
            put(at(top), Const(-np.inf, "float32")),
            loops(update(at(top), at(a, I, K), "max"), k=m),
            put(at(total, 0), ZERO),
            loops(update(at(total, 0), e), k=m),
            loops(put(at(out, I, K), Binary("div", e, at(total, 0))), k=m),
        )
    )
    x = floats(n, m)
    nest = loops(Allocate(top, Allocate(total, body)), i=n)
    got = execute(nest, (a, x), (out, np.zeros_like(x)))
    want = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(got, want / want.sum(1, keepdims=True), rtol=1e-5)


def test_argmax_with_two_buffers() -> None:
    n, m = 9, 21
    a = Buffer("A", (n, m), "float32")
    best, where = Buffer("best", (n,), "float32"), Buffer("where", (n,), "int64")
    better = Binary("lt", at(best, I), at(a, I, K))
    step = Seq(
        (
            put(at(where, I), Select(better, K, at(where, I))),
            put(at(best, I), Select(better, at(a, I, K), at(best, I))),
        )
    )
    x = floats(n, m)
    low = np.full(n, -np.inf, np.float32)
    got = execute(
        loops(step, i=n, k=m), (a, x), (best, low), (where, np.zeros(n, np.int64))
    )
    np.testing.assert_array_equal(got, x.argmax(1))
    np.testing.assert_array_equal(low, x.max(1))


def test_convolution_with_padding_select() -> None:
    size, taps = 17, 5
    a, w, out = (
        Buffer("A", (size,), "float32"),
        Buffer("W", (taps,), "float32"),
        Buffer("out", (size,), "float32"),
    )
    position = Binary("sub", add(I, K), Const(2))
    inside = Binary("and", Binary("le", Const(0), position), less(position, size))
    padded = Select(inside, at(a, position), ZERO)
    body = Seq(
        (
            loops(put(at(out, I), ZERO), i=size),
            loops(update(at(out, I), mul(padded, at(w, K))), i=size, k=taps),
        )
    )
    x, y = floats(size), floats(taps, seed=1)
    got = execute(body, (a, x), (w, y), (out, np.zeros_like(x)))
    want = np.convolve(x, y[::-1], "same")
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_vector_loop_with_masked_tail() -> None:
    n, lanes = 21, 8
    a, out = Buffer("A", (n,), "float32"), Buffer("out", (n,), "float32")

    def block(base: Expr, active: int | None) -> Store:
        index = Ramp(base, 1, lanes)
        load = Load(a, (index,), active)
        value = Binary("mul", load, Broadcast(Const(2.0, "float32"), lanes))
        return Store(out, (index,), value, active)

    tail = n % lanes
    body = Seq((loops(block(mul(I, lanes), None), i=2), block(Const(16), tail)))
    x = floats(n)
    np.testing.assert_array_equal(execute(body, (a, x), (out, x * 0)), x * 2)


def test_inactive_lanes_load_zero_and_are_not_reduced() -> None:
    a, out = Buffer("A", (5,), "float32"), Buffer("out", (3,), "float32")
    vector = Load(a, (Ramp(Const(0), 1, 8),), 5)
    body = Seq(
        (
            put(at(out, 0), Lanes("add", vector, 8)),
            put(at(out, 1), Lanes("max", vector, 5)),
            put(at(out, 2), Lanes("min", vector, 2)),
        )
    )
    x = -np.arange(1, 6, dtype=np.float32)
    got = execute(body, (a, x), (out, np.zeros(3, np.float32)))
    np.testing.assert_array_equal(got, [-15, -1, -2])


def test_unrolled_register_tile_with_vectors() -> None:
    """What the compiler is given last: accumulators by constant, lanes by ramp."""
    n, m, depth, rows, lanes = 12, 16, 9, 3, 4
    a, b, c = (
        Buffer("A", (n, depth), "float32"),
        Buffer("B", (depth, m), "float32"),
        Buffer("C", (n, m), "float32"),
    )
    acc = Buffer("acc", (rows, lanes), "float32", "register")
    column = Ramp(mul(J, lanes), 1, lanes)

    def register(r: int) -> Load:
        return Load(acc, (Const(r), Ramp(Const(0), 1, lanes)))

    def product(r: int) -> Expr:
        left = Broadcast(at(a, add(mul(I, rows), r), K), lanes)
        return Binary("mul", left, Load(b, (K, column)))

    zeros = [put(register(r), Broadcast(ZERO, lanes)) for r in range(rows)]
    steps = Seq(tuple(update(register(r), product(r)) for r in range(rows)))
    stores = [
        Store(c, (add(mul(I, rows), r), column), register(r)) for r in range(rows)
    ]
    tile = Allocate(acc, Seq((*zeros, loops(steps, k=depth), *stores)))
    x, y = floats(n, depth), floats(depth, m, seed=1)
    out = np.zeros((n, m), np.float32)
    execute(loops(tile, i=n // rows, j=m // lanes), (a, x), (b, y), (c, out))
    np.testing.assert_allclose(out, x @ y, rtol=1e-5, atol=1e-5)


def test_scan_reads_what_it_wrote() -> None:
    a = Buffer("A", (3, 20), "int32")
    step = If(
        Binary("lt", Const(0), J),
        update(at(a, I, J), at(a, I, Binary("sub", J, Const(1)))),
    )
    x = np.arange(60, dtype=np.int32).reshape(3, 20)
    want = x.cumsum(1, dtype=np.int32)
    np.testing.assert_array_equal(execute(loops(step, i=3, j=20), (a, x)), want)


def test_the_last_of_several_stores_wins() -> None:
    idx, out = Buffer("idx", (1000,), "int64"), Buffer("out", (7,), "int64")
    where = np.random.default_rng(0).integers(0, 7, 1000)
    target = Load(out, (at(idx, I),))
    got = execute(loops(put(target, I), i=1000), (idx, where), (out, np.zeros(7, int)))
    np.testing.assert_array_equal(
        got, [np.flatnonzero(where == v)[-1] for v in range(7)]
    )


def test_the_last_store_wins_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interp, "LARGEST", 8)
    out = Buffer("out", (64,), "int64")
    target = at(out, Binary("mod", add(mul(I, 3), J), Const(5)))
    body = loops(put(target, add(mul(I, 100), J)), i=6, j=7)
    want = np.zeros(64, np.int64)
    for i in range(6):
        for j in range(7):
            want[(i * 3 + j) % 5] = i * 100 + j
    np.testing.assert_array_equal(execute(body, (out, np.zeros(64, np.int64))), want)


def test_histogram_accumulates_duplicates() -> None:
    idx, out = Buffer("idx", (50,), "int64"), Buffer("out", (4,), "int32")
    where = np.random.default_rng(0).integers(0, 4, 50)
    body = loops(update(Load(out, (at(idx, I),)), Const(1, "int32")), i=50)
    got = execute(body, (idx, where), (out, np.zeros(4, np.int32)))
    np.testing.assert_array_equal(got, np.bincount(where, minlength=4))


def test_fused_loop_is_still_a_grid() -> None:
    n, m = 300, 400
    a, out = Buffer("A", (n, m), "float32"), Buffer("out", (n, m), "float32")
    row, column = Binary("floordiv", I, Const(m)), Binary("mod", I, Const(m))
    scratch = Buffer("t", (1,), "float32", "local")
    body = Seq(
        (
            put(at(scratch, 0), mul(at(a, row, column), at(a, row, column))),
            put(at(out, row, column), at(scratch, 0)),
        )
    )
    x = floats(n, m)
    start = time.perf_counter()
    nest = For(I, n * m, Allocate(scratch, body), "parallel")
    np.testing.assert_array_equal(execute(nest, (a, x), (out, x * 0)), x * x)
    assert time.perf_counter() - start < 2


def test_sixteen_million_iterations_take_seconds() -> None:
    n = 256
    a, b, c = (Buffer(name, (n, n), "float32") for name in "ABC")
    body = loops(update(at(c, I, J), mul(at(a, I, K), at(b, K, J))), i=n, j=n, k=n)
    x, y = floats(n, n), floats(n, n, seed=1)
    start = time.perf_counter()
    got = execute(body, (a, x), (b, y), (c, np.zeros((n, n), np.float32)))
    assert time.perf_counter() - start < 10
    np.testing.assert_allclose(got, x @ y, rtol=1e-4, atol=1e-4)


def test_large_elementwise_nest_takes_seconds() -> None:
    n, m = 1 << 20, 16
    out = Buffer("out", (n, m), "int32")
    value = Cast(add(mul(I, m), J), "int32")
    start = time.perf_counter()
    got = execute(
        loops(put(at(out, I, J), value), i=n, j=m), (out, np.zeros((n, m), np.int32))
    )
    assert time.perf_counter() - start < 10
    np.testing.assert_array_equal(got.reshape(-1), np.arange(n * m))


def test_fully_guarded_reduction_leaves_the_element_alone() -> None:
    a, out = Buffer("A", (4, 6), "float32"), Buffer("out", (4,), "float32")
    wanted = Binary("and", less(I, 2), less(K, 3))
    body = loops(If(wanted, update(at(out, I), at(a, I, K))), i=4, k=6)
    x = floats(4, 6)
    got = execute(body, (a, x), (out, np.full(4, np.nan, np.float32)))
    assert np.isnan(got).all()  # nan + x where wanted, untouched nan elsewhere
    got = execute(body, (a, x), (out, np.full(4, -0.0, np.float32)))
    np.testing.assert_allclose(got[:2], x[:2, :3].sum(1), rtol=1e-6)
    assert np.signbit(got[2:]).all()


@pytest.mark.parametrize("op", ["max", "min"])
def test_max_and_min_propagate_nan(op: str) -> None:
    a, out = Buffer("A", (5,), "float32"), Buffer("out", (), "float32")
    x = np.array([1, np.nan, 3, 4, 5], np.float32)
    got = execute(
        loops(update(at(out), at(a, K), op), k=5), (a, x), (out, np.array(2, "f4"))
    )
    assert np.isnan(got)


def test_if_else_takes_one_side_per_element() -> None:
    a, out = Buffer("A", (3,), "int32"), Buffer("out", (8,), "int32")
    body = If(
        less(I, 3), put(at(out, I), at(a, I)), put(at(out, I), Const(-1, "int32"))
    )
    x = np.arange(10, 13, dtype=np.int32)
    got = execute(loops(body, i=8), (a, x), (out, np.zeros(8, np.int32)))
    np.testing.assert_array_equal(got, [10, 11, 12] + [-1] * 5)


def test_fresh_memory_is_poisoned() -> None:
    out = Buffer("out", (2,), "float32")
    scratch = Buffer("t", (2,), "float32", "local")
    nest = Allocate(scratch, loops(put(at(out, I), at(scratch, I)), i=2))
    assert np.isnan(execute(nest, (out, np.zeros(2, np.float32)))).all()
    whole, count = Buffer("out", (2,), "int8"), Buffer("t", (2,), "int8", "local")
    nest = Allocate(count, loops(put(at(whole, I), at(count, I)), i=2))
    assert (execute(nest, (whole, np.zeros(2, np.int8))) != 0).all()


def test_prefetch_may_point_outside() -> None:
    out = Buffer("out", (4,), "int64")
    body = Seq((Prefetch(out, (add(I, 100),)), put(at(out, I), I)))
    got = execute(loops(body, i=4), (out, np.zeros(4, np.int64)))
    np.testing.assert_array_equal(got, range(4))


def test_arguments_may_be_strided() -> None:
    a, out = Buffer("A", (3, 4), "float32"), Buffer("out", (3, 4), "float32")
    x, whole = floats(4, 3).T, np.zeros((3, 8), np.float32)
    execute(
        loops(put(at(out, I, J), at(a, I, J)), i=3, j=4), (a, x), (out, whole[:, ::2])
    )
    np.testing.assert_array_equal(whole[:, ::2], x)
    assert not whole[:, 1::2].any()


def test_unguarded_load_outside_is_an_error() -> None:
    a, out = Buffer("A", (3,), "float32"), Buffer("out", (4,), "float32")
    body = loops(put(at(out, I), at(a, I)), i=4)
    with pytest.raises(IRError) as error:
        execute(body, (a, floats(3)), (out, floats(4)))
    assert str(error.value) == (
        "A[i]: index 3 of axis 0 is outside 0 … 2\n"
        "  hint: guard the access, or clamp the index"
    )


def test_unguarded_store_outside_is_an_error() -> None:
    out = Buffer("out", (3, 3), "int64")
    body = loops(put(at(out, I, Binary("sub", J, I)), I), i=3, j=3)
    with pytest.raises(IRError, match=r"out\[i, j - i\]: index -1 of axis 1"):
        execute(body, (out, np.zeros((3, 3), np.int64)))


def test_wrong_arguments_are_refused() -> None:
    a = Buffer("A", (3,), "float32")
    function = Function("f", (a,), put(at(a, 0), ZERO))
    with pytest.raises(ArgumentError, match="2 arguments, but it takes 1"):
        run(function, [floats(3), floats(3)])
    with pytest.raises(
        ArgumentError, match=r"float32\[4\] given, but it is float32\[3"
    ):
        run(function, [floats(4)])
    with pytest.raises(ArgumentError, match=r"float64\[3\] given"):
        run(function, [np.zeros(3)])
