"""Programs that once came out wrong, as small as they get; found by the oracle."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import ansor
from ansor.errors import ScheduleError
from ansor.ir.dtypes import DTYPES
from ansor.ir.expr import Expr
from ansor.schedule import (
    Annotate,
    CacheRead,
    ComputeAt,
    Fuse,
    Inline,
    LayoutRewrite,
    Pack,
    Prefetch,
    Program,
    Reorder,
    RFactor,
    Sketch,
    Split,
    Step,
)
from ansor.te.tensor import Tensor
from oracle import check
from strategies import Case


def agree(
    outputs: Tensor | Sequence[Tensor],
    *steps: Step,
    inputs: Sequence[np.ndarray] | None = None,
    threads: int = 1,
) -> None:
    """Reference, interpreter and kernel agree on a program."""
    task = ansor.Task(outputs)
    if inputs is None:
        rng = np.random.default_rng(0)
        inputs = [
            rng.integers(0, 4, b.shape).astype(DTYPES[b.dtype].numpy)
            for b in task.dag.inputs
        ]
    check(Case(Program(Sketch(task, steps)), tuple(inputs), threads))


def refused(outputs: Tensor, *steps: Step) -> str:
    """Why the last of some steps is refused."""
    sketch = Sketch(ansor.Task(outputs)).then(*steps[:-1])
    with pytest.raises(ScheduleError) as caught:
        sketch.then(steps[-1])
    return str(caught.value)


def rows(dtype: str = "float32", shape: tuple[int, int] = (5, 7)) -> Tensor:
    """The sums of the rows of an input, of which the last axis is k."""
    A = ansor.placeholder(shape, dtype, name="A")
    k = ansor.reduce_axis(shape[1], name="k")
    return ansor.compute(shape[:1], lambda i: ansor.sum(A[i, k], axis=k), name="S")


@pytest.mark.llvm
def test_an_index_beside_a_gathered_one_is_not_lost():
    A = ansor.placeholder((3, 4), name="A")
    at = ansor.placeholder((2,), "int16", name="at")
    C = ansor.compute((2, 3), lambda i, j: A[j, at[i]], name="C")
    agree(C)


@pytest.mark.llvm
@pytest.mark.parametrize("dtype", ["int64", "float16", "uint8"])
def test_what_an_argmax_compares_is_not_an_output(dtype: str):
    A = ansor.placeholder((3, 5), dtype, name="A")
    k = ansor.reduce_axis(5, name="k")
    C = ansor.compute((3,), lambda i: ansor.argmax(A[i, k], axis=k), name="C")
    agree(C)


@pytest.mark.llvm
@pytest.mark.parametrize("loops", [("k", "i"), ("k.0", "i", "k.1")], ids=str)
@pytest.mark.parametrize("what", ["prefetch", "stage"])
def test_an_argmax_starts_both_its_results(loops: tuple[str, ...], what: str):
    A = ansor.placeholder((8,), name="A")
    at = ansor.placeholder((3, 8), "int16", name="at")
    k = ansor.reduce_axis(8, name="k")
    C = ansor.compute(
        (3,), lambda i: ansor.argmax(A[at[i, k]], axis=k), name="C"
    )  # all of A is needed in each iteration
    order = (Reorder("C", loops), Annotate("C", "i", "unroll"))
    if "k.1" in loops:
        order = (Split("C", "k", (4,)), Reorder("C", loops))
    inside: dict[str, tuple[Step, ...]] = {
        "prefetch": (Prefetch("C", loops[-1], "at", 1),),
        "stage": (CacheRead("A", "C"), ComputeAt("A.local", "C", loops[-1])),
    }
    agree(C, *order, *inside[what])


@pytest.mark.llvm
def test_int64_values_are_compared_without_a_difference():
    A = ansor.placeholder((2, 3), "int64", name="A")
    k = ansor.reduce_axis(3, name="k")
    C = ansor.compute((2,), lambda i: ansor.argmax(A[i, k], axis=k), name="C")
    D = ansor.compute((2,), lambda i: A[i, 0] < A[i, 1], name="D")
    extremes = np.iinfo(np.int64)
    values = np.array([[3, extremes.min, extremes.max], [extremes.min, 1, 1]])
    agree([C, D], inputs=[values])


@pytest.mark.llvm
@pytest.mark.parametrize(
    "formula",
    [
        lambda x: x // 1024 < (1 << 52) + 5,
        lambda x: (ansor.maximum(x, 0) * 8) // 64 < 0,
        lambda x: ansor.minimum((ansor.maximum(x, 0) * x) // 16, 0),
    ],
    ids=["quotient", "multiple", "square"],
)
def test_int64_values_are_bounded_by_their_type_only(formula: Callable[..., Expr]):
    A = ansor.placeholder((4,), "int64", name="A")
    C = ansor.compute((4,), lambda i: formula(A[i]), name="C")
    agree(C, inputs=[np.array([np.iinfo(np.int64).max, 1 << 60, 5, -3])])


@pytest.mark.llvm
def test_a_partial_result_is_fused_with_a_spatial_loop():
    steps = Split("S", "k", (3,)), RFactor("S", "k.1")
    for loops in (("i", "k.1"), ("k.1", "i")):
        order = Reorder("S.rf", (*loops, "k.0"))
        fused = "@".join(loops)
        agree(rows(), *steps, order, Fuse("S.rf", loops), Split("S.rf", fused, (4,)))


@pytest.mark.llvm
def test_a_partial_result_is_split_unevenly():
    agree(
        rows(),
        Split("S", "k", (5,)),
        RFactor("S", "k.1"),
        Split("S.rf", "k.1", (3,)),
    )


@pytest.mark.llvm
@pytest.mark.parametrize("reducer", ["any", "all", "sum"])
def test_partial_results_that_get_no_element_are_initialised(reducer: str):
    A = ansor.placeholder((5, 3), name="A")
    k, q = ansor.reduce_axis(5, name="k"), ansor.reduce_axis(3, name="q")
    reduce = getattr(ansor, reducer)
    S = ansor.compute((4,), lambda i: reduce(A[k, q], axis=(k, q)), name="S")
    agree(S, Split("S", "k", (8,)), RFactor("S", "k.1"))


@pytest.mark.llvm
def test_the_last_of_equal_blocks_may_start_later():
    A = ansor.placeholder((31,), name="A")
    C = ansor.compute((31,), lambda i: A[i] + 1.0, name="C")
    agree(
        C,
        Split("C", "i", (16,), "equal"),
        Reorder("C", ("i.1", "i.0")),
        CacheRead("A", "C"),
        ComputeAt("A.local", "C", "i.1"),
    )


@pytest.mark.llvm
def test_a_copy_of_a_copy_is_read_backwards():
    A = ansor.placeholder((4, 12), name="A")
    k = ansor.reduce_axis(12, name="k")
    S = ansor.compute((4,), lambda i: ansor.max(A[i, 11 - k], axis=k), name="S")
    agree(
        S,
        CacheRead("A", "S", "packed"),
        ComputeAt("A.packed", "S", "i"),
        Pack("A.packed", "S", "k"),
    )


@pytest.mark.llvm
def test_copies_of_a_parallel_loop_have_names_of_their_own():
    A = ansor.placeholder((4, 9), name="A")
    C = ansor.compute((4, 9), lambda i, j: A[i, j] + 1.0, name="C")
    agree(
        C,
        Split("C", "j", (4,)),
        Reorder("C", ("j.0", "i", "j.1")),
        Annotate("C", "i", "parallel"),
        threads=2,
    )


@pytest.mark.llvm
def test_a_vector_under_a_condition():
    A = ansor.placeholder((5, 8), name="A")
    C = ansor.compute((5, 8), lambda i, j: A[i, j] * 2.0, name="C")
    agree(
        C,
        Split("C", "i", (2,)),
        Annotate("C", "i.0", "parallel"),
        Annotate("C", "i.1", "unroll"),
        Annotate("C", "j", "vectorize"),
    )


@pytest.mark.llvm
@pytest.mark.parametrize("reducer", ["sum", "prod", "max"])
def test_a_vector_adds_up_a_term_that_does_not_vary(reducer: str):
    A = ansor.placeholder((3,), name="A")
    k = ansor.reduce_axis(7, name="k")
    reduce = getattr(ansor, reducer)
    S = ansor.compute((3,), lambda i: reduce(A[i], axis=k), name="S")
    agree(S, Annotate("S", "k", "vectorize"))


@pytest.mark.llvm
@pytest.mark.parametrize("reducer", ["sum", "min"])
def test_the_last_lanes_of_an_accumulator_outlive_a_shorter_vector(reducer: str):
    A = ansor.placeholder((3, 11), name="A")
    k = ansor.reduce_axis(11, name="k")
    reduce = getattr(ansor, reducer)
    S = ansor.compute((3,), lambda i: reduce(A[i, k] + 1.0, axis=k), name="S")
    agree(S, Split("S", "k", (4,)), Annotate("S", "k.1", "vectorize"))


@pytest.mark.llvm
@pytest.mark.parametrize("size", [4, 8, 9, 10, 11, 67])
@pytest.mark.parametrize("reducer", ["sum", "prod", "max", "argmin"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
def test_every_lane_has_an_accumulator_of_its_own(reducer: str, size: int, dtype: str):
    A = ansor.placeholder((5, size), dtype, name="A")
    k = ansor.reduce_axis(5, name="k")
    reduce = getattr(ansor, reducer)
    S = ansor.compute((3, size), lambda j, i: reduce(A[k, i], axis=k), name="S")
    agree(S, Annotate("S", "i", "vectorize"))


def test_what_is_allocated_inside_a_vector_has_its_lanes():
    A = ansor.placeholder((5, 10), name="A")
    k = ansor.reduce_axis(5, name="k")
    S = ansor.compute((10,), lambda i: ansor.sum(A[k, i], axis=k), name="S")
    task = ansor.Task(S, ansor.Target("aarch64", cpu="neoverse-n1"))
    program = Program(Sketch(task, (Annotate("S", "i", "vectorize"),)))
    text = str(program.lower("kernel").main)
    assert "S.acc.v4[0 +: 4]" in text
    assert "A[S.k, 8 +: 2]" in text


@pytest.mark.llvm
def test_a_prefetch_in_a_vectorised_loop():
    A = ansor.placeholder((4, 5), name="A")
    C = ansor.compute((12,), lambda i: A[i % 4, i // 3], name="C")
    agree(C, Annotate("C", "i", "vectorize"), Prefetch("C", "i", "A", 2))


@pytest.mark.llvm
@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("function", ["sin", "cos", "exp", "erf"])
def test_functions_that_compute_in_two_types(function: str, lanes: int):
    A = ansor.placeholder((lanes,), name="A")
    body = getattr(ansor, function)
    C = ansor.compute((lanes,), lambda i: body(A[i]), name="C")
    agree(C, Annotate("C", "i", "vectorize"))


@pytest.mark.llvm
def test_bools_that_are_in_doubt_are_compared():
    A = ansor.placeholder((8,), name="A")
    C = ansor.compute(
        (8,), lambda i: (ansor.exp(A[i]) < 2.0) == (ansor.sin(A[i]) < 0.5), name="C"
    )
    agree(C)


@pytest.mark.llvm
def test_a_small_integer_sum_of_rank_0_wraps_around():
    A = ansor.placeholder((9,), "int8", name="A")
    k = ansor.reduce_axis(9, name="k")
    S = ansor.compute((), lambda: ansor.sum(A[k] * A[k], axis=k), name="S")
    agree(S, inputs=[np.full(9, 9, np.int8)])


def test_a_prefetch_of_what_the_loop_itself_computes_is_refused():
    A = ansor.placeholder((8,), name="A")
    B = ansor.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = ansor.compute((8,), lambda i: B[i] * 2.0, name="C")
    message = refused(C, ComputeAt("B", "C", "i"), Prefetch("C", "i", "B", 1))
    assert "computed inside that loop" in message


def test_a_prefetch_at_a_gathered_index_is_refused():
    A = ansor.placeholder((8,), name="A")
    at = ansor.placeholder((8,), "int32", name="at")
    C = ansor.compute((8,), lambda i: A[at[i]], name="C")
    assert "loaded from memory" in refused(C, Prefetch("C", "i", "A", 1))


def test_a_constant_with_two_readers_keeps_its_layout():
    W = ansor.placeholder((8,), name="W", constant=True)
    B = ansor.compute((8,), lambda i: W[i] + 1.0, name="B")
    C = ansor.compute((8,), lambda i: B[i] * W[i], name="C")
    assert "'B' reads 'W' too" in refused(C, LayoutRewrite("W", "C"))


def test_what_is_laid_out_ahead_of_time_stays_outside_the_kernel():
    W = ansor.placeholder((8,), name="W", constant=True)
    C = ansor.compute((8,), lambda i: W[i] + 1.0, name="C")
    ahead = LayoutRewrite("W", "C")
    for step in (ComputeAt("W.packed", "C", "i"), CacheRead("W", "W.packed")):
        assert "ahead of time" in refused(C, ahead, step)


@pytest.mark.parametrize("step", [CacheRead("S.rf", "S"), Pack("S.rf", "S")], ids=str)
def test_partial_results_are_not_copied(step: Step):
    message = refused(rows(), Split("S", "k", (3,)), RFactor("S", "k.1"), step)
    assert "partial results" in message


def test_a_loop_with_stages_inside_stages_is_not_fused_away():
    A = ansor.placeholder((4, 4), name="A")
    B = ansor.compute((4, 4), lambda i, j: A[i, j] + 1.0, name="B")
    C = ansor.compute((4, 4), lambda i, j: B[i, j] + 1.0, name="C")
    D = ansor.compute((4, 4), lambda i, j: C[i, j] + 1.0, name="D")
    message = refused(
        D,
        ComputeAt("C", "D", "i"),
        ComputeAt("B", "D", "i"),
        Fuse("D", ("i", "j")),
    )
    assert "is computed at loop 'i' of 'D'" in message


def test_a_loop_that_a_split_follows_stays():
    message = refused(
        rows(),
        Split("S", "i", (2,)),
        Pack("A", "S"),
        Split("S", "k", (3,)),
        RFactor("S", "k.1"),
    )
    assert "'A.packed' follows loop 'i.1' of 'S'" in message


def test_vectors_inside_vectors_are_refused():
    A = ansor.placeholder((8, 8), name="A")
    B = ansor.compute((8, 8), lambda i, j: A[i, j] + 1.0, name="B")
    C = ansor.compute((8,), lambda i: B[i, 0] * B[i, 5], name="C")
    message = refused(
        C,
        Annotate("C", "i", "vectorize"),
        ComputeAt("B", "C", "i"),
        Annotate("B", "j", "vectorize"),
    )
    assert "inside vectorized loop 'i' of 'C'" in message


def test_formulas_that_double_are_refused():
    """Stored steps may inline a chain of squares: 2^n loads, unless refused."""
    x = ansor.placeholder((4,), name="x")
    for n in range(20):
        y = x
        x = ansor.compute((4,), lambda i, y=y: y[i] * y[i], name=f"s{n}")
    steps = tuple(Inline(f"s{n}") for n in range(19))
    with pytest.raises(ScheduleError, match=r"would read \d+ elements, more than 4096"):
        _ = Sketch(ansor.Task(x), steps).plan
