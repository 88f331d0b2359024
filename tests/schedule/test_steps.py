"""Each step: the nest before and after it, as its docstring promises."""

from textwrap import dedent

import pytest

import ansor
from ansor.schedule import (
    STEPS,
    Annotate,
    CacheRead,
    CacheWrite,
    ComputeAt,
    ComputeRoot,
    Follow,
    Fuse,
    Inline,
    Knob,
    LayoutRewrite,
    Pack,
    Prefetch,
    Program,
    Reorder,
    RFactor,
    Sketch,
    Split,
)

TARGET = ansor.Target("cpu", cpu="skylake-avx512")
A = ansor.placeholder((31,), name="A")
B = ansor.placeholder((4, 8), name="B")
X = ansor.placeholder((4, 6), name="X")
Y = ansor.placeholder((6, 8), name="Y")
W = ansor.placeholder((6, 8), name="W", constant=True)
P = ansor.compute((16,), lambda i: A[i] * 2.0, name="P")

SCALE = ansor.compute((31,), lambda i: A[i] * 2.0, name="C")
PLUS = ansor.compute((4, 8), lambda i, j: B[i, j] + 1.0, name="C")
CHAIN = ansor.compute((16,), lambda j: P[j] + 1.0, name="C")


def matmul(left, right):
    k = ansor.reduce_axis(6, name="k")

    def product(i, j):
        return ansor.sum(left[i, k] * right[k, j], axis=k)

    return ansor.compute((4, 8), product, name="C")


def total():
    k = ansor.reduce_axis(24, name="k")
    return ansor.compute((), lambda: ansor.sum(A[k], axis=k), name="S")


def loops(tensor, *steps, after="nest"):
    """The printed functions after one pass, without their first lines."""
    found = []

    def dump(name, function):
        if name == after:
            found.append(dedent(str(function).partition("\n")[2]))

    Program(Sketch(ansor.Task(tensor, TARGET), steps)).lower(dump=dump)
    return "\n\n".join(found)


def text(lines):
    return dedent(lines).strip("\n")


def test_split_rounds_the_outermost_extent_up():
    assert loops(SCALE) == text("""
        for C.i in 31:
          C[C.i] = A[C.i] * 2.0
        """)
    assert loops(SCALE, Split("C", "i", (12,))) == text("""
        for C.i.0 in 3:
          for C.i.1 in 12:
            if C.i.0 * 12 + C.i.1 < 31:
              C[C.i.0 * 12 + C.i.1] = A[C.i.0 * 12 + C.i.1] * 2.0
        """)


def test_split_makes_several_levels_at_once():
    assert loops(PLUS, Split("C", "j", (2, 2))) == text("""
        for C.i in 4:
          for C.j.0 in 2:
            for C.j.1 in 2:
              for C.j.2 in 2:
                C[C.i, C.j.0 * 4 + C.j.1 * 2 + C.j.2] = """
        """B[C.i, C.j.0 * 4 + C.j.1 * 2 + C.j.2] + 1.0
        """)  # fmt: skip


def test_a_length_may_follow_a_loop_of_another_stage():
    steps = (Split("C", "j", (8,)), Split("P", "i", (Follow("C", "j.1"),)))
    assert loops(CHAIN, *steps) == text("""
        allocate P: float32[16] packed
        for P.i.0 in 2:
          for P.i.1 in 8:
            P[P.i.0 * 8 + P.i.1] = A[P.i.0 * 8 + P.i.1] * 2.0
        for C.j.0 in 2:
          for C.j.1 in 8:
            C[C.j.0 * 8 + C.j.1] = P[C.j.0 * 8 + C.j.1] + 1.0
        """)


TAILS = {
    "peel": """
        for C.i.0 in 2:
          for C.i.1 in 12:
            C[C.i.0 * 12 + C.i.1] = A[C.i.0 * 12 + C.i.1] * 2.0
        for C.i.1 in 7:
          C[C.i.1 + 24] = A[C.i.1 + 24] * 2.0
        """,
    "equal": """
        for C.i.1 in 11:
          C[C.i.1] = A[C.i.1] * 2.0
        for C.i.0 in 2:
          for C.i.1 in 10:
            C[C.i.0 * 10 + C.i.1 + 11] = A[C.i.0 * 10 + C.i.1 + 11] * 2.0
        """,
    "shift": """
        for C.i.0 in 2:
          for C.i.1 in 12:
            C[C.i.0 * 12 + C.i.1] = A[C.i.0 * 12 + C.i.1] * 2.0
        for C.i.1 in 12:
          C[C.i.1 + 19] = A[C.i.1 + 19] * 2.0
        """,
}


@pytest.mark.parametrize("tail", TAILS)
def test_31_elements_in_blocks_of_12(tail):
    """12 + 12 + 7, or 11 + 10 + 10, or 12 + 12 + the last 12; no test is left."""
    steps = (Split("C", "i", (12,), tail),)
    assert loops(SCALE, *steps, after="partition") == text(TAILS[tail])


def test_fuse_makes_one_loop():
    assert loops(PLUS, Fuse("C", ("i", "j"))) == text("""
        for C.i@j in 32:
          C[C.i@j // 8, C.i@j % 8] = B[C.i@j // 8, C.i@j % 8] + 1.0
        """)


def test_reorder_moves_the_initial_value_out_with_the_reduction():
    assert loops(matmul(X, Y)) == text("""
        for C.i in 4:
          for C.j in 8:
            C[C.i, C.j] = 0
            for C.k in 6:  # reduce
              C[C.i, C.j] = C[C.i, C.j] + X[C.i, C.k] * Y[C.k, C.j]
        """)
    assert loops(matmul(X, Y), Reorder("C", ("k", "i", "j"))) == text("""
        for C.i in 4:
          for C.j in 8:
            C[C.i, C.j] = 0
        for C.k in 6:  # reduce
          for C.i in 4:
            for C.j in 8:
              C[C.i, C.j] = C[C.i, C.j] + X[C.i, C.k] * Y[C.k, C.j]
        """)


def test_annotate_says_how_a_loop_runs():
    steps = (Annotate("C", "i", "parallel"), Annotate("C", "j", "vectorize"))
    assert loops(PLUS, *steps) == text("""
        for C.i in 4:  # parallel
          for C.j in 8:  # vectorize
            C[C.i, C.j] = B[C.i, C.j] + 1.0
        """)


def test_prefetch_touches_what_later_iterations_read():
    assert loops(PLUS, Prefetch("C", "i", "B", 2)) == text("""
        for C.i in 4:
          prefetch B[C.i + 2, 0]
          for C.j in 8:
            C[C.i, C.j] = B[C.i, C.j] + 1.0
        """)


def test_compute_at_makes_only_the_part_that_is_needed():
    steps = (Split("C", "j", (8,)), ComputeAt("P", "C", "j.0"))
    assert loops(CHAIN, *steps) == text("""
        for C.j.0 in 2:
          allocate P: float32[8] packed
          for P.i in 8:
            P[P.i] = A[C.j.0 * 8 + P.i] * 2.0
          for C.j.1 in 8:
            C[C.j.0 * 8 + C.j.1] = P[C.j.1] + 1.0
        """)


def test_compute_root_undoes_compute_at():
    split = Split("C", "j", (8,))
    steps = (split, ComputeAt("P", "C", "j.0"), ComputeRoot("P"))
    assert (
        loops(CHAIN, *steps)
        == loops(CHAIN, split)
        == text("""
        allocate P: float32[16] packed
        for P.i in 16:
          P[P.i] = A[P.i] * 2.0
        for C.j.0 in 2:
          for C.j.1 in 8:
            C[C.j.0 * 8 + C.j.1] = P[C.j.0 * 8 + C.j.1] + 1.0
        """)
    )


def test_inline_removes_the_stage():
    assert loops(CHAIN, Inline("P")) == text("""
        for C.j in 16:
          C[C.j] = A[C.j] * 2.0 + 1.0
        """)


def test_cache_read_goes_through_a_copy():
    assert loops(CHAIN, Inline("P"), CacheRead("A", "C", "local")) == text("""
        allocate A.local: float32[31] local
        for A.local.d0 in 31:
          A.local[A.local.d0] = A[A.local.d0]
        for C.j in 16:
          C[C.j] = A.local[C.j] * 2.0 + 1.0
        """)


def test_cache_write_copies_out():
    assert loops(SCALE, CacheWrite("C", "local")) == text("""
        allocate C.local: float32[31] local
        for C.local.i in 31:
          C.local[C.local.i] = A[C.local.i] * 2.0
        for C.i in 31:
          C[C.i] = C.local[C.i]
        """)


TILES = (
    Split("C", "j", (4,)),
    Split("C", "k", (3,)),
    Reorder("C", ("k.0", "i", "j.0", "k.1", "j.1")),
)


def test_pack_lays_a_block_out_in_loop_order():
    packed = loops(matmul(X, Y), *TILES, Pack("Y", "C", "k.0")).partition("for C.k.0")
    assert packed[1] + packed[2] == text("""
        for C.k.0 in 2:  # reduce
          allocate Y.packed: float32[2, 3, 4] packed
          for Y.packed.d1.0 in 2:
            for Y.packed.d0 in 3:
              for Y.packed.d1.1 in 4:
                Y.packed[Y.packed.d1.0, Y.packed.d0, Y.packed.d1.1] = """
        """Y[C.k.0 * 3 + Y.packed.d0, Y.packed.d1.0 * 4 + Y.packed.d1.1]
          for C.i in 4:
            for C.j.0 in 2:
              for C.k.1 in 3:  # reduce
                for C.j.1 in 4:
                  C[C.i, C.j.0 * 4 + C.j.1] = C[C.i, C.j.0 * 4 + C.j.1] + """
        """X[C.i, C.k.0 * 3 + C.k.1] * Y.packed[C.j.0, C.k.1, C.j.1]
        """)  # fmt: skip


def test_layout_rewrite_packs_a_constant_ahead_of_time():
    main, _, prepare = loops(
        matmul(X, W), Split("C", "j", (4,)), LayoutRewrite("W", "C")
    ).partition("\n\n")
    assert "X[C.i, C.k] * W.packed[C.j.0, C.j.1, C.k]" in main
    assert prepare == text("""
        for W.packed.d1.0 in 2:
          for W.packed.d1.1 in 4:
            for W.packed.d0 in 6:
              W.packed[W.packed.d1.0, W.packed.d1.1, W.packed.d0] = """
        """W[W.packed.d0, W.packed.d1.0 * 4 + W.packed.d1.1]
        """)  # fmt: skip


def test_rfactor_makes_partial_results():
    steps = (Split("S", "k", (8,)), RFactor("S", "k.1"))
    assert loops(total(), *steps) == text("""
        allocate S.rf: float32[8] local
        for S.rf.k.1 in 8:
          S.rf[S.rf.k.1] = 0
          for S.rf.k.0 in 3:  # reduce
            S.rf[S.rf.k.1] = S.rf[S.rf.k.1] + A[S.rf.k.0 * 8 + S.rf.k.1]
        S[] = 0
        for S.k.1 in 8:  # reduce
          S[] = S[] + S.rf[S.k.1]
        """)


EXAMPLES = {
    "split": Split("C", "i", (Knob("t", (4, 8)), 2), "equal"),
    "fuse": Fuse("C", ("i", "j")),
    "reorder": Reorder("C", ("j", "i")),
    "annotate": Annotate("C", "i", "parallel"),
    "prefetch": Prefetch("C", "i", "B", 2),
    "compute-at": ComputeAt("P", "C", "j.0"),
    "compute-root": ComputeRoot("P"),
    "inline": Inline("P"),
    "cache-read": CacheRead("A", "C"),
    "cache-write": CacheWrite("C"),
    "pack": Pack("Y", "C", "k.0"),
    "rfactor": RFactor("S", "k.1"),
}


def test_the_table_lists_every_step():
    assert {name: type(step) for name, step in EXAMPLES.items()} == STEPS


def test_steps_print_as_one_line(golden):
    assert golden == "\n".join(map(str, EXAMPLES.values()))


@pytest.mark.parametrize("name", EXAMPLES)
def test_steps_are_values(name):
    step = EXAMPLES[name]
    again = type(step)(*(getattr(step, field) for field in step.__slots__))
    assert (again, hash(again)) == (step, hash(step))


def test_knobs_are_filled_in_the_printed_steps():
    tile = Knob("tile", (4, 8))
    sketch = Sketch(ansor.Task(SCALE, TARGET)).then(Split("C", "i", (tile,)))
    assert [str(step) for step in sketch.steps] == ["split C.i -> [?tile]"]
    assert sketch.program((8,)).steps == ("split C.i -> [8]",)
