"""Programs given by explicit steps, for the kernels that `kernels.py` measures.

They double as examples of the schedule API: each function returns the steps of one
operator, with the tile sizes that suit the vector registers of a target.
"""

from dataclasses import dataclass

from ansor import Target, Task, compute, ops, placeholder, reduce_axis
from ansor import sum as total
from ansor.schedule import (
    Annotate,
    CacheRead,
    ComputeAt,
    Fuse,
    Inline,
    LayoutRewrite,
    Pack,
    Program,
    Reorder,
    RFactor,
    Sketch,
    Split,
    Step,
)


@dataclass(frozen=True)
class Tile:
    """A register tile, rows by columns, and the depth of a block in cache."""

    rows: int
    columns: int
    depth: int


# 32 registers hold the accumulators, one row of B and one element of A; with 16
# registers (AVX2) 6 rows of 2 vectors do.
MATMUL = {128: Tile(8, 12, 256), 256: Tile(6, 16, 256), 512: Tile(8, 48, 384)}
CONV = {128: Tile(14, 8, 0), 256: Tile(6, 16, 0), 512: Tile(14, 32, 0)}


def matmul_task(m: int, n: int, k: int, target: Target, constant: bool = False) -> Task:
    a = placeholder((m, k), name="A")
    b = placeholder((k, n), name="B", constant=constant)
    r = reduce_axis(k, name="k")
    c = compute((m, n), lambda i, j: total(a[i, r] * b[r, j], axis=r), name="C")
    return Task(c, target)


def matmul(task: Task, rows: int = 128, columns: int = 1024) -> Program:
    """Blocks of B and A packed in loop order around a register tile."""
    tile = MATMUL[task.target.vector_bits]
    m, n = task.dag.outputs[0].shape
    constant = "B" in task.dag.constants
    panels = max(1, min(columns, n) // tile.columns)
    parallel = task.target.cores > 1
    if parallel:
        panels = -(-n // (tile.columns * task.target.cores))
    steps: list[Step] = [
        Split("C", "i", (max(1, rows // tile.rows), tile.rows)),
        Split("C", "j", (panels, tile.columns)),
        Split("C", "k", (tile.depth,)),
        Reorder("C", ("j.0", "k.0", "i.0", "i.1", "j.1", "k.1", "i.2", "j.2")),
    ]
    if constant:
        steps += [LayoutRewrite("B", "C"), Annotate("B.packed", "d1.2", "vectorize")]
    else:
        steps += [Pack("B", "C", "k.0"), Annotate("B.packed", "d1.1", "vectorize")]
    if m > tile.rows:
        steps += [Pack("A", "C", "i.0"), Annotate("A.packed", "d0.1", "unroll")]
    if parallel:
        steps += [Annotate("C", "j.0", "parallel")]
    steps += [Annotate("C", "i.2", "unroll"), Annotate("C", "j.2", "vectorize")]
    return Program(Sketch(task, tuple(steps)))


def vector_matrix(task: Task, depth: int = 8) -> Program:
    """One row: B is read once, `depth` of its rows side by side."""
    lanes = task.target.lanes("float32")
    steps: tuple[Step, ...] = (
        Split("C", "k", (depth,)),
        Split("C", "j", (2 * lanes,)),
        Reorder("C", ("k.0", "j.0", "i", "k.1", "j.1")),
        Annotate("C", "k.1", "unroll"),
        Annotate("C", "j.1", "vectorize"),
    )
    return Program(Sketch(task, steps))


def conv2d_task(
    size: int, inputs: int, outputs: int, kernel: int, padding: int, target: Target
) -> Task:
    x = placeholder((1, size, size, inputs), name="X")
    w = placeholder((kernel, kernel, inputs, outputs), name="W", constant=True)
    return Task(ops.conv2d(x, w, padding=padding, layout="NHWC", name="O"), target)


def conv2d(task: Task, lines: int = 4) -> Program:
    """Pixels of a line by output channels in registers; weights packed ahead."""
    tile = CONV[task.target.vector_bits]
    has_pad = len(task.dag.stages) > 1
    steps: list[Step] = [
        Split("O", "y", (lines,)),
        Split("O", "x", (tile.rows,)),
        Split("O", "o", (tile.columns,)),
        Reorder(
            "O",
            ("n", "y.0", "o.0", "y.1", "x.0", "ry", "rx", "c", "x.1", "o.1"),
        ),
        LayoutRewrite("W", "O"),
        Annotate("W.packed", "d3.1", "vectorize"),
        Annotate("O", "x.1", "unroll"),
        Annotate("O", "o.1", "vectorize"),
    ]
    if has_pad:
        steps += [ComputeAt("O_pad", "O", "y.0"), Annotate("O_pad", "c", "vectorize")]
    return Program(Sketch(task, tuple(steps)))


def depthwise_task(size: int, channels: int, target: Target) -> Task:
    x = placeholder((1, size, size, channels), name="X")
    w = placeholder((3, 3, 1, channels), name="W", constant=True)
    out = ops.depthwise_conv2d(x, w, padding=1, layout="NHWC", name="O")
    return Task(out, target)


def depthwise(task: Task, pixels: int = 4) -> Program:
    """Weights of a few channels stay in registers while a line is swept."""
    lanes = task.target.lanes("float32")
    steps: tuple[Step, ...] = (
        Split("O", "x", (pixels,)),
        Split("O", "o", (lanes,)),
        Reorder("O", ("n", "y", "o.0", "x.0", "ry", "rx", "x.1", "o.1")),
        ComputeAt("O_pad", "O", "y"),
        Annotate("O_pad", "c", "vectorize"),
        CacheRead("W", "O", "local"),
        ComputeAt("W.local", "O", "o.0"),
        Annotate("W.local", "d0", "unroll"),
        Annotate("W.local", "d1", "unroll"),
        Annotate("W.local", "d3", "vectorize"),
        Annotate("O", "ry", "unroll"),
        Annotate("O", "rx", "unroll"),
        Annotate("O", "x.1", "unroll"),
        Annotate("O", "o.1", "vectorize"),
    )
    return Program(Sketch(task, steps))


def softmax_task(rows: int, columns: int, target: Target) -> Task:
    return Task(ops.softmax(placeholder((rows, columns), name="X"), name="S"), target)


def softmax(task: Task) -> Program:
    """All of a row while it is in cache; maximum and sum in several vectors."""
    width = 4 * task.target.lanes("float32")
    steps: list[Step] = []
    for stage in ("S_sum", "S_max"):
        steps += row_reduction(stage, width)
    steps += [
        ComputeAt("S_sum", "S", "i0"),
        ComputeAt("S_sum.rf", "S", "i0"),
        ComputeAt("S_exp", "S", "i0"),
        ComputeAt("S_max", "S", "i0"),
        ComputeAt("S_max.rf", "S", "i0"),
        Annotate("S_exp", "i1", "vectorize"),
        Annotate("S", "i1", "vectorize"),
    ]
    return Program(Sketch(task, tuple(steps)))


def row_reduction(stage: str, width: int) -> list[Step]:
    """Reduce a row into `width` partial results first, then those."""
    return [
        Split(stage, "k1", (width,)),
        RFactor(stage, "k1.1"),
        Reorder(f"{stage}.rf", ("i0", "k1.0", "k1.1")),
        Annotate(f"{stage}.rf", "k1.1", "vectorize"),
        Annotate(stage, "k1.1", "vectorize"),
    ]


def norm_gelu_task(rows: int, columns: int, target: Target) -> Task:
    x = placeholder((rows, columns), name="X")
    scale = placeholder((columns,), name="G")
    shift = placeholder((columns,), name="B")
    normal = ops.layer_norm(x, scale, shift, name="N")
    return Task(ops.gelu(normal, name="Y"), target)


def norm_gelu(task: Task) -> Program:
    """Layer norm and GELU of a row while it is in cache."""
    width = 4 * task.target.lanes("float32")
    steps: list[Step] = []
    for stage in ("N_squares", "N_sum"):
        steps += row_reduction(stage, width)
    steps += [
        ComputeAt("N", "Y", "i0"),
        ComputeAt("N_squares", "Y", "i0"),
        ComputeAt("N_squares.rf", "Y", "i0"),
        ComputeAt("N_mean", "Y", "i0"),
        ComputeAt("N_sum", "Y", "i0"),
        ComputeAt("N_sum.rf", "Y", "i0"),
        Annotate("N", "i1", "vectorize"),
        Annotate("Y", "i1", "vectorize"),
    ]
    return Program(Sketch(task, tuple(steps)))
