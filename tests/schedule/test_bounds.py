"""Bounds of a whole matrix of points are those of each point alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ansor
from ansor.schedule import (
    Annotate,
    CacheRead,
    CacheWrite,
    ComputeAt,
    Fuse,
    Inline,
    Knob,
    Pack,
    Points,
    Program,
    Reorder,
    RFactor,
    Sketch,
    Split,
)
from ansor.schedule.bounds import Bounds

TARGET = ansor.Target("cpu", cpu="skylake-avx512")
LENGTHS = (1, 2, 3, 4, 5, 7, 8, 12, 16, 31, 32, 64)


def knob(name):
    return Knob(name, LENGTHS)


def matmul():
    """Blocks in all three directions, packed operands, a cached block of results."""
    a = ansor.placeholder((37, 53), name="A")
    b = ansor.placeholder((53, 29), name="B")
    product = ansor.ops.matmul(a, b, name="C")
    steps = (
        CacheWrite("C"),
        Split("C.local", "i", (knob("i1"), knob("i2"))),
        Split("C.local", "j", (knob("j1"),)),
        Split("C.local", "k", (knob("k1"),)),
        Reorder("C.local", ("k.0", "i.0", "j.0", "i.1", "k.1", "i.2", "j.1")),
        Pack("B", "C.local", "k.0"),
        Pack("A", "C.local", "i.0"),
        Split("C", "i", (knob("o"),)),
        Split("C", "j", (knob("p"),), "equal"),
        Reorder("C", ("i.0", "j.0", "i.1", "j.1")),
        ComputeAt("C.local", "C", "j.0"),
    )
    return Sketch(ansor.Task(product, TARGET)).then(*steps)


def convolution():
    """A padded input, of which each block of the output copies what it needs."""
    x = ansor.placeholder((1, 3, 13, 11), name="X")
    w = ansor.placeholder((5, 3, 3, 3), name="W")
    out = ansor.ops.conv2d(x, w, stride=2, padding=1, name="C")
    task = ansor.Task(out, TARGET)
    pad, conv = task.dag.stages
    n, o, h, v = (axis.name for axis in conv.axes)
    c, *window = (axis.name for axis in conv.reduce_axes)
    outer = (n, o, f"{h}.0", f"{v}.0", f"{v}.1", f"{c}.0")
    inner = (f"{v}.2", f"{h}.1", f"{c}.1")
    steps = (
        Split("C", h, (knob("h"),), "equal"),
        Split("C", v, (knob("v1"), knob("v2"))),
        Split("C", c, (knob("c"),)),
        Reorder("C", (*outer, *window, *inner)),
        CacheRead(pad.name, "C"),
        ComputeAt(f"{pad.name}.local", "C", window[0]),
        ComputeAt(pad.name, "C", f"{c}.0"),
        Fuse("C", (n, o)),
        Split("C", f"{n}@{o}", (knob("f"),)),
    )
    return Sketch(task).then(*steps)


def softmax():
    """Stages inside a block of rows, one of them in partial results."""
    x = ansor.placeholder((19, 41), name="X")
    task = ansor.Task(ansor.ops.softmax(x), TARGET)
    top, power, total, out = (stage.name for stage in task.dag.stages)
    rows, columns = (axis.name for axis in task.dag.stages[-1].axes)
    (k,) = (axis.name for axis in task.dag.stages[2].reduce_axes)
    steps = (
        Split(total, k, (knob("k"),)),
        RFactor(total, f"{k}.1"),
        Split(out, rows, (knob("r"),)),
        Split(out, columns, (knob("c"),), "shift"),
        ComputeAt(total, out, f"{rows}.0"),
        ComputeAt(f"{total}.rf", out, f"{rows}.0"),
        ComputeAt(power, out, f"{rows}.0"),
        ComputeAt(top, out, f"{rows}.0"),
        Split(power, task.dag.stages[1].axes[1].name, (knob("p"),)),
    )
    return Sketch(task).then(*steps)


def inlined():
    """A chain through an inlined stage, computed two levels deep."""
    a = ansor.placeholder((23, 17), name="A")
    p = ansor.compute((23, 17), lambda i, j: a[i, j] * 2.0, name="P")
    q = ansor.compute((22, 17), lambda i, j: p[i, j] + p[i + 1, j], name="Q")
    r = ansor.compute((22, 17), lambda i, j: ansor.exp(q[i, j]), name="R")
    out = ansor.compute((20, 15), lambda i, j: r[i + 2, 14 - j] - r[i, j], name="O")
    steps = (
        Inline("R"),
        Split("O", "i", (knob("i"),)),
        Split("O", "j", (knob("j"),)),
        Reorder("O", ("i.0", "j.0", "i.1", "j.1")),
        ComputeAt("Q", "O", "j.0"),
        Split("Q", "i", (knob("q"),)),
        ComputeAt("P", "Q", "i.0"),
    )
    return Sketch(ansor.Task(out, TARGET)).then(*steps)


SKETCHES = {f.__name__: f() for f in (matmul, convolution, softmax, inlined)}


def entry(column, row):
    """The value of a row; a column of one entry stands for all rows."""
    return int(column[row if len(column) > 1 else 0])


def everywhere(column, rows):
    """A column with its value for each of so many rows."""
    return np.broadcast_to(column, rows).tolist()


def numbers(bounds, row):
    """Everything that bounds say about one row, as plain values."""
    found = {}
    for nest in bounds.plan:
        nodes = {*nest.loops, *(axis.name for axis in nest.stage.axes)}
        for node in sorted(nodes):
            found[nest.name, node] = entry(bounds.extent(nest.name, node), row)
        for at, region in enumerate(bounds.regions(nest.name)):
            terms = {
                str(atom): entry(column, row)
                for atom, column in region.base.terms.items()
                if entry(column, row)
            }
            span, const = entry(region.span, row), entry(region.base.const, row)
            found[nest.name, at] = (span, const, terms)
    return found


@st.composite
def matrices(draw):
    """A sketch, and a few rows of points for it."""
    sketch = draw(st.sampled_from(list(SKETCHES.values())))
    row = st.tuples(*(st.sampled_from(k.candidates) for k in sketch.knobs))
    return sketch, draw(st.lists(row, min_size=1, max_size=6))


@given(matrices())
@settings(max_examples=60)
def test_a_matrix_of_points_is_as_good_as_one_at_a_time(drawn):
    sketch, rows = drawn
    together = Bounds(sketch.plan, Points.of(sketch.knobs, rows))
    for at, row in enumerate(rows):
        alone = Bounds(sketch.plan, Points.of(sketch.knobs, [row]))
        assert numbers(together, at) == numbers(alone, 0)


@given(matrices())
@settings(max_examples=15)
def test_a_program_is_a_batch_of_one(drawn):
    sketch, rows = drawn
    program = Program(sketch, rows[0])
    alone = Bounds(sketch.plan, Points.of(sketch.knobs, rows[:1]))
    assert numbers(program.bounds, 0) == numbers(alone, 0)


@pytest.mark.parametrize("sketch", SKETCHES.values(), ids=SKETCHES)
def test_thousands_of_points_need_no_loop_over_them(sketch):
    rng = np.random.default_rng(0)
    rows = rng.choice(LENGTHS, size=(4096, len(sketch.knobs)))
    bounds = Bounds(sketch.plan, Points.of(sketch.knobs, rows))
    for nest in sketch.plan:
        for loop in nest.loops:
            extent = bounds.extent(nest.name, loop)
            assert extent.shape in ((1,), (4096,))
            assert extent.min() >= 1


def test_what_no_knob_changes_is_stored_once():
    sketch = SKETCHES["softmax"]
    bounds = Bounds(sketch.plan, Points.of(sketch.knobs, [[2] * 4, [3] * 4]))
    assert Points.of(sketch.knobs, [[2] * 4, [3] * 4]).constant(7).tolist() == [7]
    out = sketch.plan.nests[-1]
    assert bounds.extent(out.name, out.stage.axes[0].name).shape == (1,)
    assert bounds.extent(out.name, out.loops[0]).shape == (2,)


def test_blocks_cover_their_axis():
    a = ansor.placeholder((31,), name="A")
    task = ansor.Task(ansor.compute((31,), lambda i: a[i] + 1.0, name="C"), TARGET)
    for tail, expected in {"peel": 12, "equal": 11, "shift": 12}.items():
        sketch = Sketch(task).then(Split("C", "i", (12,), tail))
        bounds = Bounds(sketch.plan, Points())
        assert bounds.extent("C", "i.0") == 3
        assert bounds.extent("C", "i.1") == expected


def test_a_region_is_what_the_loops_inside_read():
    x = ansor.placeholder((1, 1, 9, 9), name="X")
    w = ansor.placeholder((1, 1, 3, 3), name="W")
    task = ansor.Task(ansor.ops.conv2d(x, w), TARGET)
    name = task.dag.stages[-1].name
    height = task.dag.stages[-1].axes[2].name
    steps = (
        CacheRead("X", name),
        Split(name, height, (knob("h"),)),
        ComputeAt("X.local", name, f"{height}.0"),
    )
    sketch = Sketch(task).then(*steps)
    bounds = Bounds(sketch.plan, Points.of(sketch.knobs, [[1], [2], [4]]))
    spans = [everywhere(region.span, 3) for region in bounds.regions("X.local")]
    assert spans == [[1, 1, 1], [1, 1, 1], [3, 4, 6], [9, 9, 9]]


def threaded(scope):
    """A matmul in blocks and threads, which copies its operands at every step."""
    a = ansor.placeholder((37, 53), name="A")
    b = ansor.placeholder((53, 29), name="B")
    rows, columns = ("i.0", "i.1", "i.2", "i.3"), ("j.0", "j.1", "j.2", "j.3")
    order = [loop for pair in zip(rows, columns, strict=True) for loop in pair]
    steps = [
        CacheWrite("C"),
        Split("C", "i", (2, knob("rows"), 3)),
        Split("C", "j", (1, 2, knob("columns"))),
        Reorder("C", tuple(order)),
        ComputeAt("C.local", "C", "j.2"),
        Split("C.local", "k", (knob("k"),)),
        Reorder("C.local", ("k.0", "k.1", "i", "j")),
    ]
    for n, kind in enumerate(("blockIdx.x", "vthread", "threadIdx.x")):
        fuse = Fuse("C", (rows[n], columns[n]))
        steps += [fuse, Annotate("C", fuse.fused, kind)]
    for tensor in ("A", "B"):
        steps.append(CacheRead(tensor, "C.local", scope))
        steps.append(ComputeAt(f"{tensor}.{scope}", "C.local", "k.0"))
    task = ansor.Task(ansor.ops.matmul(a, b, name="C"), TARGET)
    return Sketch(task).then(*steps)


POINTS = [[1, 4, 8], [3, 5, 16], [5, 12, 7]]  # rows, columns, k


def spans(sketch, stage):
    bounds = Bounds(sketch.plan, Points.of(sketch.knobs, POINTS))
    return [everywhere(region.span, len(POINTS)) for region in bounds.regions(stage)]


def test_a_shared_region_is_what_the_whole_block_needs():
    sketch = threaded("shared")
    assert spans(sketch, "A.shared") == [[2 * 1 * 3, 2 * 3 * 3, 2 * 5 * 3], [8, 16, 7]]
    assert spans(sketch, "B.shared") == [[8, 16, 7], [2 * 4, 2 * 5, 2 * 12]]


def test_a_shared_region_starts_where_the_block_does():
    sketch = threaded("shared")
    bounds = Bounds(sketch.plan, Points.of(sketch.knobs, POINTS))
    rows, steps = bounds.regions("A.shared")
    assert {(x.stage, x.node) for x in rows.base.terms} == {("C", "i.0")}
    assert {(x.stage, x.node) for x in steps.base.terms} == {("C.local", "k.0")}


def test_a_region_of_one_thread_is_its_own():
    sketch = threaded("local")
    assert spans(sketch, "A.local") == [[3, 3, 3], [8, 16, 7]]
    assert spans(sketch, "B.local") == [[8, 16, 7], [4, 5, 12]]
