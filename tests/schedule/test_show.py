"""Sketches as text: the loop nest with its knobs."""

from random import Random

import pytest

import ansor
from ansor.schedule import (
    Annotate,
    CacheRead,
    CacheWrite,
    ComputeAt,
    Follow,
    Fuse,
    Knob,
    LayoutRewrite,
    Pack,
    Prefetch,
    Reorder,
    RFactor,
    Sketch,
    Split,
)
from ansor.schedule.show import show
from strategies import make_case

N = 512
A = ansor.placeholder((N, N), name="A")
B = ansor.placeholder((N, N), name="B")
W = ansor.placeholder((N, N), name="W", constant=True)
LENGTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def matmul(left, right, rows=N):
    k = ansor.reduce_axis(N, name="k")
    return ansor.compute(
        (rows, N), lambda i, j: ansor.sum(left[i, k] * right[k, j], axis=k), name="C"
    )


def knob(name, *candidates):
    return Knob(f"C.{name}", candidates or LENGTHS)


TILE = (
    Split("C", "i", (knob("i.1"), knob("i.2"), knob("i.3", 1, 2, 4, 6))),
    Split("C", "j", (knob("j.1"), knob("j.2"), 16)),
    Split("C", "k", (knob("k.1"),)),
    Reorder(
        "C",
        ("i.0", "j.0", "i.1", "j.1", "k.0", "i.2", "j.2", "k.1", "i.3", "j.3"),
    ),
)
RUN = (
    Fuse("C", ("i.0", "j.0")),
    Annotate("C", "i.0@j.0", "parallel"),
    Annotate("C", "i.3", "unroll"),
    Annotate("C", "j.3", "vectorize"),
)


def text(tensor, *steps):
    return str(Sketch(ansor.Task(tensor)).then(*steps))


def nests(tensor, *steps):
    return show(Sketch(ansor.Task(tensor)).then(*steps).plan).split("\n")


def test_without_steps(golden):
    assert golden == text(matmul(A, B))


def test_multi_level_tiles(golden):
    assert golden == text(matmul(A, B), *TILE)


def test_packed_operands_and_a_fused_parallel_loop(golden):
    packs = (Pack("B", "C", "k.0"), Pack("A", "C", "k.0"))
    assert golden == text(matmul(A, B), *TILE, *packs, *RUN)


def test_fixed_lengths_are_numbers(golden):
    steps = (
        Split("C", "i", (4, 2, 6)),
        Split("C", "j", (2, 2, 16)),
        Split("C", "k", (64,)),
        TILE[-1],
        Pack("B", "C", "k.0"),
        *RUN,
    )
    assert golden == text(matmul(A, B), *steps)


def test_constant_layout(golden):
    steps = (*TILE, LayoutRewrite("W", "C"), *RUN)
    assert golden == text(matmul(A, W), *steps)


def test_rfactor(golden):
    k = ansor.reduce_axis(1000, name="k")
    total = ansor.compute((8,), lambda i: ansor.sum(A[i, k % N], axis=k), name="S")
    steps = (
        Split("S", "k", (Knob("S.k.1", (8, 16)),)),
        RFactor("S", "k.1"),
        Reorder("S.rf", ("i", "k.0", "k.1")),
        Annotate("S.rf", "k.1", "vectorize"),
    )
    assert golden == text(total, *steps)


def test_an_attached_producer(golden):
    product = matmul(A, B)
    out = ansor.compute(
        (N, N), lambda i, j: ansor.maximum(product[i, j], 0.0), name="D"
    )
    steps = (
        Split("D", "i", (Knob("D.i.1", (4, 8)),)),
        Split("D", "j", (Knob("D.j.1", LENGTHS), 16)),
        Reorder("D", ("i.0", "j.0", "i.1", "j.1", "j.2")),
        ComputeAt("C", "D", "j.0"),
        Split("C", "i", (Follow("D", "i.1"),)),
        Annotate("D", "i.0", "parallel"),
    )
    assert golden == text(out, *steps)


def test_a_padded_window(golden):
    X = ansor.placeholder((1, 16, 16), name="X")
    P = ansor.compute(
        (1, 18, 18),
        lambda n, h, w: ansor.select(
            (h > 0) & (h < 17) & (w > 0) & (w < 17), X[n, h - 1, w - 1], 0.0
        ),
        name="P",
    )
    r, s = ansor.reduce_axis(3, name="r"), ansor.reduce_axis(3, name="s")
    M = ansor.compute(
        (1, 16, 16),
        lambda n, h, w: ansor.max(P[n, h + r, w + s], axis=[r, s]),
        name="M",
    )
    steps = (
        CacheWrite("M"),
        Split("M", "n", (Knob("M.n.1", (1,)),)),
        Split("M", "h", (Knob("M.h.1", (2, 4)),), "equal"),
        ComputeAt("M.local", "M", "h.0"),
        ComputeAt("P", "M", "h.0"),
        Prefetch("P", "w", "X", 8),
        Annotate("M", "n.1", "unroll"),
    )
    assert golden == text(M, *steps)


def test_reducers_have_signs():
    k = ansor.reduce_axis(N, name="k")

    def line(reduce):
        tensor = ansor.compute((N,), lambda i: reduce(A[i, k], axis=k), name="R")
        return nests(tensor)[-1].strip()

    assert line(ansor.prod) == "R[i] *= A[i, k]"
    assert line(ansor.max) == "R[i] max= A[i, k]"
    assert line(ansor.min) == "R[i] min= A[i, k]"
    assert line(ansor.argmax) == "R.value[i], R[i] argmax= A[i, k], k"
    assert line(ansor.argmin) == "R.value[i], R[i] argmin= A[i, k], k"


def test_loops_that_run_once_are_left_out_unless_annotated():
    tensor = matmul(A, B, rows=1)
    once = Split("C", "j", (Knob("one", (1,)), 16))
    assert nests(tensor, once) == [
        "C:",
        "  for j.0 in 32:",
        "    for j.2 in 16:",
        "      for k in 512:  # reduce",
        "        C[i, j] += A[i, k] * B[k, j]",
    ]
    assert nests(tensor, once, Annotate("C", "j.1", "unroll"))[1:3] == [
        "  for j.0 in 32:",
        "    for j.1 in 1:  # unroll",
    ]


def test_a_nest_at_a_loop_that_is_left_out_stands_in_its_place():
    tensor = matmul(A, B, rows=1)
    steps = (CacheRead("A", "C"), ComputeAt("A.local", "C", "i"))
    assert nests(tensor, *steps)[:4] == [
        "C:",
        "  A.local: local at C.i",
        "    for d1 in 512:",
        "      A.local[d0, d1] = A[d0, d1]",
    ]


def test_parts_of_parts_and_lengths_that_follow():
    steps = (
        Split("C", "i", (Knob("a", (4, 8)), 2)),
        Split("C", "i.1", (Knob("b", (1, 2)),)),
        Split("C", "j", (Follow("C", "i.1.0"),)),
    )
    assert [line.strip() for line in nests(matmul(A, B), *steps)[1:6]] == [
        "for i.0 in ceil(512 / (?a*2)):",
        "for i.1.0 in ceil(?a / i.1.1):",
        "for i.1.1 in ?b:",
        "for i.2 in 2:",
        "for j.0 in ceil(512 / j.1):",
    ]


@pytest.mark.parametrize("count", [8, 9])
def test_long_lists_of_candidates_are_abbreviated(count):
    knob = Knob("t", tuple(range(1, count + 1)))
    sketch = Sketch(ansor.Task(matmul(A, B))).then(Split("C", "i", (knob,)))
    shown = {
        8: "  ?t in 1, 2, 3, 4, 5, 6, 7, 8",
        9: "  ?t in 1, 2, 3 … 9 (9 values)",
    }
    assert str(sketch).split("\n")[-2:] == ["knobs:", shown[count]]


def test_random_sketches_show_every_nest_once():
    for seed in range(200):
        sketch = make_case(Random(seed)).program.sketch
        again = Sketch(sketch.task, sketch.steps)
        assert str(sketch) == str(again), f"seed {seed}"
        lines = [line.strip() for line in show(sketch.plan).split("\n")]
        for nest in sketch.plan:
            headers = [line for line in lines if line.startswith(f"{nest.name}:")]
            assert len(headers) == 1, f"seed {seed}, {nest.name}"
