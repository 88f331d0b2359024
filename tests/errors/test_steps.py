"""One misuse of a schedule step per case, full message compared."""

import numpy as np
import pytest

import ansor
from ansor.schedule import (
    Annotate,
    CacheRead,
    CacheWrite,
    ComputeAt,
    ComputeRoot,
    Follow,
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
)

A = ansor.placeholder((37, 53), name="A")
B = ansor.placeholder((53, 29), name="B")
F = ansor.placeholder((40,), name="F")
K = ansor.reduce_axis(53, name="k")


def product(i, j):
    return ansor.sum(A[i, K] * B[K, j], axis=K)


C = ansor.compute((37, 29), product, name="C")
P = ansor.compute((37, 29), lambda i, j: ansor.maximum(C[i, j], 0.0), name="P")
D = ansor.compute((37, 29), lambda i, j: P[i, j] + 1.0, name="D")
E = ansor.compute((37, 29), lambda i, j: P[i, j] * 2.0, name="E")
M = ansor.compute((37,), lambda i: ansor.argmax(A[i, K], axis=K), name="M")
T = ansor.compute((38,), lambda i: F[i] + F[i + 1] * F[i + 2], name="T")

CHAIN = ansor.Task(D)  # C -> P -> D
FORK = ansor.Task([D, E])  # C -> P -> D, E
ARGMAX = ansor.Task(M)
STENCIL = ansor.Task(T)


def long_chain():
    value = F
    for n in range(200):
        value = ansor.compute((40,), lambda i, x=value: x[i] * 0.5 + 1.0, name=f"s{n}")
    Sketch(ansor.Task(value)).then(*(Inline(f"s{n}") for n in range(199)))


def chain(*steps):
    return lambda: Sketch(CHAIN).then(*steps)


def fork(*steps):
    return lambda: Sketch(FORK).then(*steps)


def argmax(*steps):
    return lambda: Sketch(ARGMAX).then(*steps)


def stencil(*steps):
    return lambda: Sketch(STENCIL).then(*steps)


def lowered(*steps):
    return lambda: Program(Sketch(CHAIN, steps)).lower()


CASES = {
    "unknown stage": (
        chain(Split("X", "i", (4,))),
        "split X.i -> [4]: no stage 'X'\n  hint: stages are C, P, D",
    ),
    "unknown loop": (
        chain(Split("C", "z", (4,))),
        "split C.z -> [4]: stage 'C' has no loop 'z'\n  hint: loops are i, j, k",
    ),
    "loop that was split": (
        chain(Split("C", "i", (4,)), Split("C", "i", (4,))),
        "split C.i -> [4]: stage 'C' has no loop 'i'\n  hint: loops are i.0, i.1, j, k",
    ),
    "no length": (
        chain(Split("C", "i", ())),
        "split C.i -> []: no length given\n  hint: for example (8,)",
    ),
    "length 0": (
        chain(Split("C", "i", (0,))),
        "split C.i -> [0]: length 0 is less than 1\n"
        "  hint: lengths are the iterations of the inner loops",
    ),
    "negative length": (
        chain(Split("C", "i", (4, -1))),
        "split C.i -> [4, -1]: length -1 is less than 1\n"
        "  hint: lengths are the iterations of the inner loops",
    ),
    "float length": (
        chain(Split("C", "i", (4.0,))),
        "split C.i -> [4.0]: length 4.0 is of type float\n"
        "  hint: use an int, a Knob or a Follow",
    ),
    "text length": (
        chain(Split("C", "i", ("8",))),
        "split C.i -> [8]: length '8' is of type str\n"
        "  hint: use an int, a Knob or a Follow",
    ),
    "bool length": (
        chain(Split("C", "i", (True,))),
        "split C.i -> [True]: length True is of type bool\n"
        "  hint: use an int, a Knob or a Follow",
    ),
    "numpy length": (
        chain(Split("C", "i", (np.int64(8),))),
        "split C.i -> [8]: length np.int64(8) is of type int64\n"
        "  hint: use an int, a Knob or a Follow",
    ),
    "lengths without a tuple": (
        lambda: Split("C", "i", 8),
        "split C.i: lengths 8 is of type int\n"
        "  hint: pass a tuple, such as (8,) or ('i', 'j')",
    ),
    "list of lengths": (
        lambda: Split("C", "i", [8]),
        "split C.i: lengths [8] is of type list\n"
        "  hint: pass a tuple, such as (8,) or ('i', 'j')",
    ),
    "unknown tail": (
        chain(Split("C", "i", (4,), "mask")),
        "split C.i -> [4], mask: unknown tail 'mask'\n  hint: use peel, equal, shift",
    ),
    "equal with two lengths": (
        chain(Split("C", "i", (4, 2), "equal")),
        'split C.i -> [4, 2], equal: tail "equal" takes one length on an axis of the '
        "stage\n"
        "  hint: split the axis with it first, then split its parts",
    ),
    "equal on a part": (
        chain(Split("C", "i", (4,)), Split("C", "i.1", (2,), "equal")),
        'split C.i.1 -> [2], equal: tail "equal" takes one length on an axis of the '
        "stage\n"
        "  hint: split the axis with it first, then split its parts",
    ),
    "shift of a reduction": (
        chain(Split("C", "i", (4,), "shift")),
        "split C.i -> [4], shift: stage 'C' accumulates, and shifted blocks "
        "overlap\n"
        '  hint: use tail "peel" or "equal"',
    ),
    "split of a parallel loop": (
        chain(Annotate("C", "i", "parallel"), Split("C", "i", (4,))),
        "split C.i -> [4]: loop 'i' is parallel\n  hint: split before annotating",
    ),
    "split of a loop with a prefetch": (
        chain(Prefetch("C", "k", "B", 2), Split("C", "k", (4,))),
        "split C.k -> [4]: 'B' is prefetched in loop 'k' of 'C'\n"
        "  hint: prefetch after this step",
    ),
    "follow an unknown loop": (
        chain(Split("C", "i", (Follow("D", "z"),))),
        "split C.i -> [D.z]: stage 'D' has no loop 'z'\n  hint: loops are i, j",
    ),
    "follow an unknown stage": (
        chain(Split("C", "i", (Follow("Z", "i"),))),
        "split C.i -> [Z.i]: no stage 'Z'\n  hint: stages are C, P, D",
    ),
    "follow in a circle": (
        lowered(Split("D", "i", (Follow("P", "i"),)), ComputeAt("P", "D", "i.0")),
        "extent of loop 'i' of 'P': it follows a loop whose extent depends on it\n"
        "  hint: give one of the lengths as a number or a knob",
    ),
    "fuse one loop": (
        chain(Fuse("C", ("i",))),
        "fuse C [i]: 1 loop given\n  hint: name two or more",
    ),
    "fuse an unknown loop": (
        chain(Fuse("C", ("i", "z"))),
        "fuse C [i, z]: stage 'C' has no loop 'z'\n  hint: loops are i, j, k",
    ),
    "fuse loops apart": (
        chain(Fuse("C", ("i", "k"))),
        "fuse C [i, k]: loops are not adjacent in [i, j, k]\n  hint: reorder first",
    ),
    "fuse in the wrong order": (
        chain(Fuse("C", ("j", "i"))),
        "fuse C [j, i]: loops are not adjacent in [i, j, k]\n  hint: reorder first",
    ),
    "fuse loops of both kinds": (
        chain(Fuse("C", ("j", "k"))),
        "fuse C [j, k]: j is spatial, k is reduction\n"
        "  hint: fuse loops of one kind only",
    ),
    "fuse a text": (
        lambda: Fuse("C", "ij"),
        "fuse C: loops 'ij' is of type str\n"
        "  hint: pass a tuple, such as (8,) or ('i', 'j')",
    ),
    "fuse an annotated loop": (
        chain(Annotate("C", "i", "parallel"), Fuse("C", ("i", "j"))),
        "fuse C [i, j]: loop 'i' is parallel\n  hint: annotate after this step",
    ),
    "fuse a loop with a stage in it": (
        chain(ComputeAt("P", "D", "i"), Fuse("D", ("i", "j"))),
        "fuse D [i, j]: 'P' is computed at loop 'i' of 'D'\n"
        "  hint: do this first, then compute 'P' at a loop that remains",
    ),
    "reorder without a loop": (
        chain(Reorder("C", ("i", "j"))),
        "reorder C [i, j]: stage 'C' has loops [i, j, k]\n  hint: name each once",
    ),
    "reorder with a loop twice": (
        chain(Reorder("C", ("i", "j", "j"))),
        "reorder C [i, j, j]: stage 'C' has loops [i, j, k]\n  hint: name each once",
    ),
    "reorder with a text": (
        lambda: Reorder("C", "kij"),
        "reorder C: loops 'kij' is of type str\n"
        "  hint: pass a tuple, such as (8,) or ('i', 'j')",
    ),
    "reorder a stage inside out": (
        chain(
            ComputeAt("P", "D", "j"), ComputeAt("C", "D", "i"), Reorder("D", ("j", "i"))
        ),
        "reorder D [j, i]: 'P' would read 'C' outside loop 'i' of 'D', where it is "
        "computed\n"
        "  hint: move 'C' first, for example ComputeRoot('C')",
    ),
    "annotate an unknown loop": (
        chain(Annotate("C", "z", "unroll")),
        "unroll C.z: stage 'C' has no loop 'z'\n  hint: loops are i, j, k",
    ),
    "unknown kind of loop": (
        chain(Annotate("C", "i", "vector")),
        "vector C.i: unknown kind 'vector'\n"
        "  hint: use parallel, vectorize, unroll, blockIdx.x, blockIdx.y, "
        "blockIdx.z, vthread, threadIdx.x, threadIdx.y, threadIdx.z",
    ),
    "annotate twice": (
        chain(Annotate("C", "i", "unroll"), Annotate("C", "i", "parallel")),
        "parallel C.i: loop 'i' is already unroll\n"
        "  hint: split it, and annotate the parts",
    ),
    "two parallel loops": (
        chain(Annotate("C", "i", "parallel"), Annotate("C", "j", "parallel")),
        "parallel C.j: loop 'i' of 'C' is already parallel\n"
        "  hint: fuse the two first, or annotate one of them",
    ),
    "two vectorized loops": (
        chain(Annotate("C", "i", "vectorize"), Annotate("C", "j", "vectorize")),
        "vectorize C.j: loop 'i' of 'C' is already vectorize\n"
        "  hint: fuse the two first, or annotate one of them",
    ),
    "parallel reduction": (
        chain(Annotate("C", "k", "parallel")),
        "parallel C.k: loop 'k' accumulates; threads would race\n"
        "  hint: rfactor it first",
    ),
    "parallel inside a loop": (
        chain(ComputeAt("P", "D", "i"), Annotate("P", "j", "parallel")),
        "parallel P.j: 'P' is computed inside loop 'i' of 'D'\n"
        "  hint: run a loop of the stage at the root in parallel",
    ),
    "prefetch distance 0": (
        chain(Prefetch("C", "k", "B", 0)),
        "prefetch B in C.k +0: distance 0 is not a positive integer\n"
        "  hint: say how many iterations ahead",
    ),
    "prefetch distance 1.5": (
        chain(Prefetch("C", "k", "B", 1.5)),
        "prefetch B in C.k +1.5: distance 1.5 is not a positive integer\n"
        "  hint: say how many iterations ahead",
    ),
    "prefetch of a tensor not read": (
        chain(Prefetch("C", "k", "F", 1)),
        "prefetch F in C.k +1: stage 'C' does not read 'F'\n  hint: it reads A, B",
    ),
    "prefetch of a tensor then cached": (
        chain(Prefetch("C", "k", "B", 1), CacheRead("B", "C")),
        "cache-read B for C -> B.local: 'B' is prefetched in loop 'k' of 'C'\n"
        "  hint: prefetch after this step",
    ),
    "compute an unknown stage": (
        chain(ComputeAt("X", "D", "i")),
        "compute X at D.i: no stage 'X'\n  hint: stages are C, P, D",
    ),
    "compute an input": (
        chain(ComputeAt("A", "C", "i")),
        "compute A at C.i: no stage 'A'\n  hint: stages are C, P, D",
    ),
    "compute at an unknown stage": (
        chain(ComputeAt("P", "X", "i")),
        "compute P at X.i: no stage 'X'\n  hint: stages are C, P, D",
    ),
    "compute at an unknown loop": (
        chain(ComputeAt("P", "D", "z")),
        "compute P at D.z: stage 'D' has no loop 'z'\n  hint: loops are i, j",
    ),
    "compute an output at a loop": (
        chain(ComputeAt("D", "P", "i")),
        "compute D at P.i: stage 'D' is an output\n"
        "  hint: cache its writes, CacheWrite('D'), and compute the cache there",
    ),
    "compute in itself": (
        chain(ComputeAt("P", "P", "i")),
        "compute P at P.i: 'P' does not read it\n  hint: its readers are D",
    ),
    "compute in its producer": (
        chain(ComputeAt("P", "C", "i")),
        "compute P at C.i: 'C' does not read it\n  hint: its readers are D",
    ),
    "compute in a stage too far": (
        chain(ComputeAt("C", "D", "i")),
        "compute C at D.i: 'D' does not read it\n  hint: its readers are P",
    ),
    "compute outside another consumer": (
        fork(ComputeAt("P", "D", "i")),
        "compute P at D.i: stage 'E' reads it outside loop 'i' of 'D'\n"
        "  hint: compute 'E' inside that loop first, or leave 'P' at the root",
    ),
    "compute at root what others build on": (
        chain(ComputeAt("P", "D", "i"), ComputeAt("C", "D", "i"), ComputeRoot("P")),
        "compute P at root: 'P' would read 'C' outside loop 'i' of 'D', where it is "
        "computed\n"
        "  hint: move 'C' first, for example ComputeRoot('C')",
    ),
    "compute at root, unknown": (
        chain(ComputeRoot("X")),
        "compute X at root: no stage 'X'\n  hint: stages are C, P, D",
    ),
    "inline an output": (
        chain(Inline("D")),
        "inline D: stage 'D' is an output\n  hint: inline the stages it reads",
    ),
    "inline a reduction": (
        chain(Inline("C")),
        "inline C: stage 'C' is a reduction (sum)\n"
        "  hint: compute it at a loop of its consumer instead",
    ),
    "inline an input": (
        chain(Inline("A")),
        "inline A: no stage 'A'\n  hint: stages are C, P, D",
    ),
    "inline a long chain": (
        long_chain,
        "inline s72: 's73' could get 152 levels of operands, more than 150\n"
        "  hint: leave it a stage of its own",
    ),
    "inline after a split": (
        chain(Split("P", "i", (4,)), Inline("P")),
        "inline P: its loops were changed\n  hint: inline it first",
    ),
    "inline after a reorder": (
        chain(Reorder("P", ("j", "i")), Inline("P")),
        "inline P: its loops were changed\n  hint: inline it first",
    ),
    "inline a stage with another in it": (
        chain(ComputeAt("C", "P", "i"), Inline("P")),
        "inline P: 'C' is computed at loop 'i' of 'P'\n"
        "  hint: do this first, then compute 'C' at a loop that remains",
    ),
    "unknown scope": (
        chain(CacheRead("A", "C", "vtcm")),
        "cache-read A for C -> A.vtcm: unknown scope 'vtcm'\n"
        "  hint: use local, packed, shared",
    ),
    "cache a tensor not read": (
        chain(CacheRead("F", "C")),
        "cache-read F for C -> F.local: stage 'C' does not read 'F'\n"
        "  hint: it reads A, B",
    ),
    "cache for an unknown stage": (
        chain(CacheRead("A", "X")),
        "cache-read A for X -> A.local: no stage 'X'\n  hint: stages are C, P, D",
    ),
    "cache a read twice": (
        fork(CacheRead("P", "D"), CacheRead("P", "E")),
        "cache-read P for E -> P.local: stage 'P.local' exists already\n"
        "  hint: do this once for a stage",
    ),
    "cache writes after a split": (
        chain(Split("C", "i", (4,)), CacheWrite("C")),
        "cache-write C -> C.local: its loops were changed\n  hint: do this first",
    ),
    "cache writes with a stage in it": (
        chain(ComputeAt("C", "P", "i"), CacheWrite("P")),
        "cache-write P -> P.local: 'P.local' would read 'C' outside loop 'i' of 'P', "
        "where it is computed\n"
        "  hint: move 'C' first, for example ComputeRoot('C')",
    ),
    "cache writes twice": (
        chain(CacheWrite("C"), CacheWrite("C")),
        "cache-write C -> C.local: stage 'C.local' exists already\n"
        "  hint: do this once for a stage",
    ),
    "unknown scope of writes": (
        chain(CacheWrite("C", "vtcm")),
        "cache-write C -> C.vtcm: unknown scope 'vtcm'\n"
        "  hint: use local, packed, shared",
    ),
    "cache writes of a pair": (
        argmax(CacheWrite("M")),
        "cache-write M -> M.local: it writes M.value, M\n"
        "  hint: only stages with one output",
    ),
    "pack a tensor not read": (
        chain(Pack("F", "C")),
        "pack F for C at root: stage 'C' does not read 'F'\n  hint: it reads A, B",
    ),
    "pack at an unknown loop": (
        chain(Pack("B", "C", "z")),
        "pack B for C at z: stage 'C' has no loop 'z'\n  hint: loops are i, j, k",
    ),
    "pack for an unknown stage": (
        chain(Pack("B", "X")),
        "pack B for X at root: no stage 'X'\n  hint: stages are C, P, D",
    ),
    "pack several accesses": (
        stencil(Pack("F", "T")),
        "pack F for T at root: 'T' reads 'F' in 3 ways\n  hint: use CacheRead",
    ),
    "pack twice": (
        chain(Pack("B", "C"), Pack("B", "C")),
        "pack B for C at root: stage 'C' does not read 'B'\n"
        "  hint: it reads A, B.packed",
    ),
    "layout of an input that changes": (
        chain(LayoutRewrite("B", "C")),
        "pack B for C ahead of time: 'B' is not a constant input\n"
        "  hint: declare it with placeholder(..., constant=True), or use Pack",
    ),
    "rfactor an unknown loop": (
        chain(RFactor("C", "z")),
        "rfactor C.z -> C.rf: stage 'C' has no loop 'z'\n  hint: loops are i, j, k",
    ),
    "rfactor a spatial loop": (
        chain(Split("C", "i", (4,)), RFactor("C", "i.1")),
        "rfactor C.i.1 -> C.rf: loop 'i.1' is not a reduction\n"
        "  hint: split a reduction axis, and name a part of it",
    ),
    "rfactor a whole axis": (
        chain(RFactor("C", "k")),
        "rfactor C.k -> C.rf: loop 'k' is not part of a split\n  hint: split it first",
    ),
    "rfactor argmax": (
        argmax(Split("M", "k", (4,)), RFactor("M", "k.1")),
        "rfactor M.k.1 -> M.rf: argmax combines pairs of value and index\n"
        "  hint: only reductions of one value",
    ),
    "rfactor partial results": (
        chain(Split("C", "k", (4, 2)), RFactor("C", "k.1"), RFactor("C.rf", "k.2")),
        "rfactor C.rf.k.2 -> C.rf.rf: 'C.rf' holds the partial results of loop "
        "'k.1'\n"
        "  hint: factor once, by a longer loop",
    ),
    "rfactor twice": (
        chain(
            Split("C", "k", (4,)),
            RFactor("C", "k.1"),
            Split("C", "k.1", (2,)),
            RFactor("C", "k.1.1"),
        ),
        "rfactor C.k.1.1 -> C.rf: stage 'C.rf' exists already\n"
        "  hint: do this once for a stage",
    ),
    "rfactor inside a loop": (
        chain(ComputeAt("C", "P", "i"), Split("C", "k", (4,)), RFactor("C", "k.1")),
        "rfactor C.k.1 -> C.rf: 'C' is computed inside loop 'i' of 'P'\n"
        "  hint: rfactor first, then compute both stages there",
    ),
    "rfactor with a stage in it": (
        chain(
            Split("C", "k", (4,)),
            CacheRead("A", "C"),
            ComputeAt("A.local", "C", "k.0"),
            RFactor("C", "k.1"),
        ),
        "rfactor C.k.1 -> C.rf: 'A.local' is computed at loop 'k.0' of 'C'\n"
        "  hint: do this first, then compute 'A.local' at a loop that remains",
    ),
    "not a step": (
        chain("split C.i"),
        "step 'split C.i': is of type str, not a step\n"
        "  hint: use one of Split, Fuse, Reorder, Annotate, Prefetch, ComputeAt, "
        "ComputeRoot, Inline, CacheRead, CacheWrite, Pack, RFactor",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_message(case):
    misuse, message = case
    with pytest.raises(ansor.ScheduleError) as caught:
        misuse()
    assert str(caught.value) == message
