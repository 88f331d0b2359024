"""Loops, trips and footprints, against running through every iteration."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np
import pytest

import ansor
from ansor.cost.nests import Statement, statements
from ansor.ir.expr import Binary, Const, Expr, Var
from ansor.ir.ops import BINARY
from ansor.ir.stmt import Allocate, For, If, Seq, Stmt, Store
from ansor.ir.visit import loads
from ansor.schedule import (
    Annotate,
    CacheWrite,
    ComputeAt,
    Fuse,
    Inline,
    Knob,
    Pack,
    Reorder,
    RFactor,
    Sketch,
    Split,
)
from ansor.schedule.bounds import Bounds
from ansor.schedule.knobs import Points
from ansor.schedule.lower.nest import build
from ansor.te.workloads import task

Place = tuple[int, ...]


@dataclass
class Run:
    """What one run through all iterations of a program saw."""

    stores: Counter[str] = field(default_factory=Counter)
    entries: dict[tuple[str, str], set[Place]] = field(
        default_factory=lambda: defaultdict(set)
    )
    touched: dict[tuple[str, str, int], dict[Place, set[Place]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(set))
    )

    def visit(self, stmt: Stmt, values: dict[str, int]) -> None:
        match stmt:
            case Seq(stmts):
                for child in stmts:
                    self.visit(child, values)
            case Allocate(body=body):
                self.visit(body, values)
            case If(condition, then):
                if evaluate(condition, values):
                    self.visit(then, values)
            case For(var, extent, body):
                for value in range(extent):
                    self.visit(body, values | {var.name: value})
            case Store():
                self.store(stmt, values)

    def store(self, stmt: Store, values: dict[str, int]) -> None:
        if isinstance(stmt.value, Const):
            return  # the start of a reduction
        name = stmt.buffer.name
        self.stores[name] += 1
        names, place = list(values), tuple(values.values())
        accesses = [(stmt.buffer.name, stmt.indices)]
        accesses += [(x.buffer.name, x.indices) for x in loads(stmt.value)]
        for at in range(1, len(names) + 1):
            self.entries[name, names[at - 1]].add(place[:at])
        for buffer, indices in accesses:
            where = tuple(evaluate(index, values) for index in indices)
            for at in range(len(names) + 1):
                self.touched[name, buffer, at][place[:at]].add(where)

    def most(self, stage: str, buffer: str, level: int) -> int:
        """Distinct elements in the fullest run of everything inside a level."""
        return max(map(len, self.touched[stage, buffer, level].values()))


def evaluate(expr: Expr, values: dict[str, int]) -> int:
    match expr:
        case Var(name):
            return values[name]
        case Const(value):
            return int(value)
        case Binary(op, a, b):
            return int(BINARY[op].numpy(evaluate(a, values), evaluate(b, values)))
    raise AssertionError(expr)


def observe(sketch: Sketch, point: tuple[int, ...]) -> Run:
    bounds = Bounds(sketch.plan, Points.of(sketch.knobs, [point]))
    run = Run()
    run.visit(build(sketch.plan, bounds, "kernel").main.body, {})
    return run


def value(column: np.ndarray, at: int) -> float:
    return float(column[at if len(column) > 1 else 0])


def real_loops(statement: Statement, at: int) -> list[int]:
    """The levels of loops that run more than once: others are not in the code."""
    return [n for n, x in enumerate(statement.loops) if value(x.extent, at) > 1]


def check_trips(sketch: Sketch, points: list[tuple[int, ...]]) -> None:
    found = statements(sketch, np.array(points, np.int32))
    for at, point in enumerate(points):
        run = observe(sketch, point)
        for s in found:
            runs = pytest.approx(run.stores[s.name], rel=1e-5)
            assert value(s.trips[-1], at) == runs, (s.name, point)
            for level in real_loops(s, at):
                loop = s.loops[level]
                entered = len(run.entries[s.name, f"{loop.stage}.{loop.name}"])
                trips = value(s.trips[level + 1], at)
                assert trips == pytest.approx(entered, rel=1e-5), (s.name, loop, point)


def check_elements(
    sketch: Sketch,
    points: list[tuple[int, ...]],
    most: float = 1.0,
    without: tuple[str, ...] = (),
) -> None:
    """Footprints are those of the fullest run, or up to `most` times as many."""
    found = statements(sketch, np.array(points, np.int32))
    for at, point in enumerate(points):
        run = observe(sketch, point)
        for s in found:
            levels = [0, *(n + 1 for n in real_loops(s, at))]
            for access in s.accesses:
                if access.buffer in without:
                    continue
                for outside, level in enumerate(levels):
                    seen = run.most(s.name, access.buffer, outside)
                    touched = value(access.elements(level), at)
                    what = (s.name, access.buffer, level, point)
                    assert seen <= touched + 1e-3 <= most * seen + 2e-3, what


def matmul(m: int = 7, n: int = 10, k: int = 6) -> Sketch:
    a, b = ansor.placeholder((m, k), name="A"), ansor.placeholder((k, n), name="B")
    return Sketch(ansor.Task(ansor.ops.matmul(a, b, name="C")))


def knob(name: str, *values: int) -> Knob:
    return Knob(name, values or tuple(range(1, 11)))


def tiled() -> Sketch:
    return matmul().then(
        Split("C", "i", (knob("i1"), knob("i2"))),
        Split("C", "j", (knob("j1"),)),
        Split("C", "k", (knob("k1"),)),
        Reorder("C", ("i.0", "j.0", "i.1", "k.0", "k.1", "i.2", "j.1")),
        Annotate("C", "i.2", "unroll"),
        Annotate("C", "j.1", "vectorize"),
    )


POINTS = [(1, 1, 1, 1), (2, 3, 4, 4), (3, 1, 10, 6), (2, 2, 3, 5), (1, 7, 8, 2)]


def test_every_loop_runs_as_often_as_in_the_code():
    check_trips(tiled(), POINTS)


def test_footprints_of_tiles():
    check_elements(tiled(), POINTS)


def test_packed_blocks():
    sketch = tiled().then(Pack("B", "C", "i.1"), Pack("A", "C", "k.0"))
    check_trips(sketch, POINTS)
    check_elements(sketch, POINTS, most=2.0)  # blocks have their full shape


def test_a_cache_computed_in_blocks():
    sketch = matmul().then(
        CacheWrite("C"),
        Split("C", "i", (knob("i1"),)),
        Split("C", "j", (knob("j1"),)),
        Reorder("C", ("i.0", "j.0", "i.1", "j.1")),
        ComputeAt("C.local", "C", "j.0"),
    )
    check_trips(sketch, [(2, 4), (3, 10), (7, 3), (5, 9)])
    check_elements(sketch, [(2, 4), (3, 10), (7, 3), (5, 9)])


def test_a_fused_loop():
    sketch = matmul().then(
        Split("C", "i", (knob("i1"),)),
        Split("C", "j", (knob("j1"),)),
        Reorder("C", ("i.0", "j.0", "k", "i.1", "j.1")),
        Fuse("C", ("i.0", "j.0")),
    )
    found = statements(sketch, np.array([(2, 4), (3, 5)], np.int32))
    assert [value(found[0].trips[1], at) for at in (0, 1)] == [12, 6]
    check_elements(sketch, [(2, 4), (3, 5), (7, 10)])


def test_part_of_a_fused_loop_covers_whole_rows():
    a = ansor.placeholder((4, 6), name="A")
    out = ansor.compute((4, 6), lambda i, j: a[i, j] * 2.0, name="Y")
    sketch = Sketch(ansor.Task(out)).then(
        Fuse("Y", ("i", "j")), Split("Y", "i@j", (knob("t"),))
    )
    (found,) = statements(sketch, np.array([(6,), (3,), (8,)], np.int32))
    # Of 8 elements in a row of 6, two rows are touched: at most 12 elements.
    assert list(found.loads[0].elements(1)) == [6, 3, 12]


@pytest.mark.parametrize("tail", ["equal", "shift"])
def test_blocks_that_move(tail: str):
    a = ansor.placeholder((11,), name="A")
    out = ansor.compute((11,), lambda i: a[i] * 2.0, name="Y")
    sketch = Sketch(ansor.Task(out)).then(Split("Y", "i", (knob("t"),), tail))
    (found,) = statements(sketch, np.array([(2,), (4,), (10,)], np.int32))
    assert list(found.loads[0].elements(0)) == [11, 11, 11]
    run = [observe(sketch, (t,)).most("Y", "A", 1) for t in (2, 4, 10)]
    assert list(found.loads[0].elements(1)) == run


def convolution() -> Sketch:
    x = ansor.placeholder((1, 3, 9, 8), name="X")
    w = ansor.placeholder((4, 3, 3, 3), name="W")
    return Sketch(ansor.Task(ansor.ops.conv2d(x, w, 2, 1, name="Y")))


def test_windows_overlap():
    sketch = convolution().then(
        Inline("Y_pad"),
        Split("Y", "y", (knob("y1"),)),
        Split("Y", "x", (knob("x1"),)),
        Reorder("Y", ("n", "y.0", "x.0", "o", "c", "y.1", "ry", "x.1", "rx")),
    )
    check_trips(sketch, [(2, 3), (1, 4), (3, 2)])


def test_a_padding_computed_in_blocks_with_its_border():
    sketch = convolution().then(
        Split("Y", "y", (knob("y1"),)),
        Split("Y", "x", (knob("x1"),)),
        Reorder("Y", ("n", "y.0", "x.0", "o", "y.1", "x.1", "c", "ry", "rx")),
        ComputeAt("Y_pad", "Y", "x.0"),
    )
    points = [(2, 3), (1, 4), (3, 2), (5, 4)]
    check_elements(sketch, points, most=1.3, without=("X",))  # read in part only
    found = {s.name: s for s in statements(sketch, np.array(points, np.int32))}
    for at, point in enumerate(points):
        run = observe(sketch, point)
        assert value(found["Y"].trips[-1], at) == run.stores["Y"]
        pad = value(found["Y_pad"].trips[-1], at)
        assert pad == pytest.approx(run.stores["Y_pad"], rel=0.02)


def test_partial_results_of_a_reduction():
    a = ansor.placeholder((5, 32), name="A")
    sketch = Sketch(ansor.Task(ansor.ops.reduce_sum(a, 1, name="S"))).then(
        Split("S", "k1", (knob("k", 4, 8),)), RFactor("S", "k1.1")
    )
    check_trips(sketch, [(4,), (8,)])
    check_elements(sketch, [(4,), (8,)])


def test_lines_of_rows_and_columns():
    (s,) = statements(matmul(64, 64, 64), np.zeros((1, 0), np.int32))
    a, b = ({x.buffer: x for x in s.loads}[name] for name in "AB")
    assert value(a.lines(0), 0) == pytest.approx(64 * 64 / 16, rel=0.01)
    assert value(a.lines(2), 0) == pytest.approx(4, abs=1)  # a row along k
    assert value(b.lines(2), 0) == 64  # a column along k: a line each
    assert value(a.stride(("C", "k")), 0) == 1
    assert value(b.stride(("C", "k")), 0) == 64
    assert value(b.stride(("C", "i")), 0) == 0


def test_a_packed_tile_is_read_in_a_row():
    sketch = tiled().then(Pack("B", "C", "i.1"))
    found = {s.name: s for s in statements(sketch, np.array([(2, 3, 4, 4)], np.int32))}
    packed = next(x for x in found["C"].loads if x.buffer == "B.packed")
    assert packed.is_dense
    assert packed.is_temporary
    assert value(packed.lines(0), 0) <= 16 * 4 / 64 + 1


def test_what_is_computed_ahead_of_time_is_no_statement():
    found = ansor.sketches(task("C2D-nhwc", "cpu"))
    sketch = next(x for x in found if any(nest.ahead for nest in x.plan))
    names = {s.name for s in statements(sketch, sketch.sample(2, 0))}
    assert names == {nest.name for nest in sketch.plan if not nest.ahead}


def test_points_are_independent():
    sketch = ansor.sketches(task("R50a-nhwc", "cpu"))[3]
    points = sketch.sample(16, 0)
    together = statements(sketch, points)
    for at in range(0, 16, 5):
        alone = statements(sketch, points[at : at + 1])
        for one, all_ in zip(alone, together, strict=True):
            for x, y in zip(one.trips, all_.trips, strict=True):
                assert value(x, 0) == value(y, at)


def test_no_element_is_touched_more_often_than_there_are_iterations():
    for name in ("SFM", "ATT", "T2D-nhwc"):
        sketch = ansor.sketches(task(name, "cpu"))[0]
        for s in statements(sketch, sketch.sample(64, 1)):
            for access in s.accesses:
                for level in range(s.depth + 1):
                    inside = np.maximum(s.trips[-1] / s.trips[level], 1)
                    widest = np.ones(1)
                    for loop in s.loops[level:]:
                        widest = widest * loop.extent
                    assert np.all(access.elements(level) <= widest * 1.001)
                    assert np.all(inside <= widest * 1.001)


def test_loads_in_one_statement_are_counted_once():
    sketch = ansor.sketches(task("LNG", "cpu"))[0]
    found = {s.name: s for s in statements(sketch, sketch.sample(1, 0))}
    loads = found["gelu"].nest.stage.loads
    assert len(found["gelu"].loads) == len(set(loads)) < len(loads)
