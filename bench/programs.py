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


@dataclass(frozen=True)
class Tile:
    """A register tile: rows by columns, with `unroll` steps of the reduction."""

    rows: int
    columns: int
    unroll: int = 1


@dataclass(frozen=True)
class Blocks:
    """A register tile, and how much of the operands a block in cache holds."""

    tile: Tile
    depth: int  # of the reduction
    width: int  # columns
    pack_rows: bool = True  # lay out a group of rows of A, too
    pack_columns: bool = True  # lay out blocks of B (a constant B always is)
    copies: int = 1  # panels at a time
    ahead: int = 0  # or fetch it that many steps ahead


# Accumulators, a row of the vector operand and an element of the other fill the
# registers: 32 of them on AArch64 and AVX-512, 16 on AVX2 and SSE. AArch64 multiplies
# by single lanes, so four steps of a reduction share the loads of its scalars.
MATMUL = {
    128: Blocks(Tile(8, 12), depth=2048, width=1032),
    256: Blocks(Tile(6, 16), depth=256, width=512),
    512: Blocks(Tile(6, 64, 4), depth=512, width=512, pack_rows=False),
}
FEW_ROWS = {
    128: Blocks(Tile(8, 12, 2), depth=96, width=1008, copies=4),
    256: Blocks(Tile(6, 16, 4), depth=96, width=1008),
    512: Blocks(Tile(8, 48, 4), 192, 1008, pack_columns=False, ahead=6),
}
CONV = {128: Tile(7, 8, 4), 256: Tile(6, 16), 512: Tile(5, 64, 4)}
# Pixels by vectors of channels.
DEPTHWISE = {128: (3, 2), 256: (4, 1), 512: (3, 2)}
# Rows of B side by side, vectors of each, and how far ahead they are fetched.
VECTOR = {128: (2, 8, 6), 256: (4, 2, 0), 512: (16, 2, 0)}


def matmul_task(m: int, n: int, k: int, target: Target, constant: bool = False) -> Task:
    a = placeholder((m, k), name="A")
    b = placeholder((k, n), name="B", constant=constant)
    r = reduce_axis(k, name="k")
    c = compute((m, n), lambda i, j: total(a[i, r] * b[r, j], axis=r), name="C")
    return Task(c, target)


def matmul(task: Task) -> Program:
    """Blocks of B (and rows of A) packed in loop order around a register tile."""
    m, n = task.dag.outputs[0].shape
    k = task.dag.inputs[0].shape[1]
    cores, bits = task.target.cores, task.target.vector_bits
    few = m <= 8 * MATMUL[bits].tile.rows
    blocks = FEW_ROWS[bits] if few else MATMUL[bits]
    tile = blocks.tile
    panels = -(-n // tile.columns)
    parts = max(cores, -(-n // blocks.width))  # blocks of columns
    depth = -(-k // -(-k // blocks.depth))
    reduction = (-(-depth // tile.unroll), tile.unroll) if tile.unroll > 1 else (depth,)
    inner = ("k.1", "k.2") if tile.unroll > 1 else ("k.1",)
    order = ("i.1", "j.1") if blocks.pack_columns else ("j.1", "i.1")
    steps: list[Step] = [
        Split("C", "i", (-(-m // tile.rows) if few else 1, tile.rows)),
        Split("C", "j", (-(-panels // parts), tile.columns)),
        Split("C", "k", reduction),
        Reorder("C", ("j.0", "k.0", "i.0", *order, *inner, "i.2", "j.2")),
        *layout_of_b(task, blocks),
    ]
    if blocks.pack_rows:
        steps += [Pack("A", "C", "i.0"), Annotate("A.packed", "d0.1", "unroll")]
    steps += [Annotate("C", name, "unroll") for name in (*inner[1:], "i.2")]
    steps += [Annotate("C", "j.2", "vectorize")]
    if cores > 1:
        steps += [Annotate("C", "j.0", "parallel")]
    return Program(Sketch(task, tuple(steps)))


def layout_of_b(task: Task, blocks: Blocks) -> list[Step]:
    """B in loop order: ahead of time if it is constant, else a block at a time."""
    if "B" in task.dag.constants:
        return [LayoutRewrite("B", "C"), Annotate("B.packed", "d1.2", "vectorize")]
    if not blocks.pack_columns:
        return [Prefetch("C", "k.1", "B", blocks.ahead)]
    depths = ("d0.0", "d0.1") if blocks.tile.unroll > 1 else ("d0",)
    return [  # rows of B are read in one go, and spread over the panels
        Pack("B", "C", "k.0"),
        Split("B.packed", "d1.0", (blocks.copies,)),
        Reorder("B.packed", (*depths, "d1.0.0", "d1.0.1", "d1.1")),
        Annotate("B.packed", "d1.0.1", "unroll"),
        Annotate("B.packed", "d1.1", "vectorize"),
    ]


def vector_matrix(task: Task) -> Program:
    """One row: B is read once, a few of its rows side by side."""
    depth, width, ahead = VECTOR[task.target.vector_bits]
    steps: list[Step] = [
        Split("C", "k", (depth,)),
        Split("C", "j", (width * task.target.lanes("float32"),)),
        Reorder("C", ("k.0", "j.0", "i", "k.1", "j.1")),
        CacheRead("A", "C", "local"),
        ComputeAt("A.local", "C", "k.0"),
        Annotate("A.local", "d1", "unroll"),
        Annotate("C", "k.1", "unroll"),
        Annotate("C", "j.1", "vectorize"),
    ]
    if ahead:
        steps += [Prefetch("C", "j.0", "B", ahead)]
    return Program(Sketch(task, tuple(steps)))


def conv2d_task(
    size: int, inputs: int, outputs: int, kernel: int, padding: int, target: Target
) -> Task:
    x = placeholder((1, size, size, inputs), name="X")
    w = placeholder((kernel, kernel, inputs, outputs), name="W", constant=True)
    return Task(ops.conv2d(x, w, padding=padding, layout="NHWC", name="O"), target)


def conv2d(task: Task, lines: int = 7) -> Program:
    """Pixels of a line by output channels in registers; weights packed ahead."""
    tile = CONV[task.target.vector_bits]
    steps: list[Step] = [
        Split("O", "y", (lines,)),
        Split("O", "x", (tile.rows,)),
        Split("O", "o", (tile.columns,)),
        Split("O", "c", (tile.unroll,)),
        Reorder(
            "O",
            ("n", "y.0", "o.0", "y.1", "x.0", "ry", "rx", "c.0", "c.1", "x.1", "o.1"),
        ),
        LayoutRewrite("W", "O"),
        Annotate("W.packed", "d3.1", "vectorize"),
        Annotate("O", "c.1", "unroll"),
        Annotate("O", "x.1", "unroll"),
        Annotate("O", "o.1", "vectorize"),
    ]
    if len(task.dag.stages) > 1:
        steps += [ComputeAt("O_pad", "O", "y.0"), Annotate("O_pad", "c", "vectorize")]
    return Program(Sketch(task, tuple(steps)))


def depthwise_task(size: int, channels: int, target: Target) -> Task:
    x = placeholder((1, size, size, channels), name="X")
    w = placeholder((3, 3, 1, channels), name="W", constant=True)
    out = ops.depthwise_conv2d(x, w, padding=1, layout="NHWC", name="O")
    return Task(out, target)


def depthwise(task: Task) -> Program:
    """Weights of a few channels stay in registers; borders are loops of their own."""
    pixels, vectors = DEPTHWISE[task.target.vector_bits]
    lanes = vectors * task.target.lanes("float32")
    steps: tuple[Step, ...] = (
        Inline("O_pad"),
        Split("O", "x", (pixels,)),
        Split("O", "o", (lanes,)),
        Reorder("O", ("n", "y", "o.0", "x.0", "ry", "rx", "x.1", "o.1")),
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


def softmax(task: Task, rows: int = 2) -> Program:
    """A few rows at a time, in cache; maximum and sum in several vectors."""
    width = 4 * task.target.lanes("float32")
    stages = ("S_sum", "S_sum.rf", "S_exp", "S_max", "S_max.rf")
    steps: list[Step] = [
        *row_reduction("S_sum", width),
        *row_reduction("S_max", width),
        Split("S", "i0", (rows,)),
        *(ComputeAt(stage, "S", "i0.0") for stage in stages),
        Annotate("S_exp", "i1", "vectorize"),
        Annotate("S", "i1", "vectorize"),
    ]
    return Program(Sketch(task, tuple(steps)))


def row_reduction(stage: str, width: int) -> list[Step]:
    """Reduce rows side by side, each into `width` partial results first."""
    return [
        Split(stage, "k1", (width,)),
        RFactor(stage, "k1.1"),
        Reorder(f"{stage}.rf", ("k1.0", "i0", "k1.1")),
        Annotate(f"{stage}.rf", "i0", "unroll"),
        Annotate(f"{stage}.rf", "k1.1", "vectorize"),
        Annotate(stage, "i0", "unroll"),
        Annotate(stage, "k1.1", "vectorize"),
    ]


def norm_gelu_task(rows: int, columns: int, target: Target) -> Task:
    x = placeholder((rows, columns), name="X")
    scale = placeholder((columns,), name="G")
    shift = placeholder((columns,), name="B")
    normal = ops.layer_norm(x, scale, shift, name="N")
    return Task(ops.gelu(normal, name="Y"), target)


def norm_gelu(task: Task, rows: int = 2) -> Program:
    """Layer norm and GELU of a few rows while they are in cache."""
    width = 4 * task.target.lanes("float32")
    stages = ("N_squares", "N_squares.rf", "N_mean", "N_sum", "N_sum.rf")
    steps: list[Step] = [
        Inline("N"),
        *row_reduction("N_squares", width),
        *row_reduction("N_sum", width),
        Split("Y", "i0", (rows,)),
        *(ComputeAt(stage, "Y", "i0.0") for stage in stages),
        Annotate("Y", "i1", "vectorize"),
    ]
    return Program(Sketch(task, tuple(steps)))
