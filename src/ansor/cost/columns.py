"""Feature columns. One row here is one column of the matrix; nothing else is.

    python -m ansor.cost.columns > docs/features.md

Columns with a unit that grows with the problem are stored as log2(1 + x); shares,
ratios and flags as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from ansor.cost.access import ONE, Access, Real, least, most, product, real
from ansor.cost.estimate import ZERO, Estimate
from ansor.cost.work import KINDS

VERSION = 3  # bump on any change below; models and caches store it

BUFFERS = 5  # the biggest accesses that have columns of their own
SIZES = (1 << 13, 1 << 17, 1 << 21)  # of the curve, bytes
PLAIN = ("share", "ratio", "flag", "loops")  # units stored as they are

Compute = Callable[[Estimate], Real]


@dataclass(frozen=True)
class Column:
    """One feature of a statement, for all points at once."""

    name: str
    unit: str
    doc: str
    compute: Compute
    is_read: bool = True  # by models

    @cached_property
    def is_log(self) -> bool:
        return self.unit not in PLAIN


# -- arithmetic ------------------------------------------------------------------------


def _operations(kind: str, e: Estimate) -> Real:
    return e.statement.trips[-1] * np.float32(e.statement.work.count(kind))


def _flops(e: Estimate) -> Real:
    return e.statement.trips[-1] * np.float32(e.statement.work.flops)


# -- structure -------------------------------------------------------------------------


def _vector_length(e: Estimate) -> Real:
    s = e.statement
    return ZERO if s.vector is None else s.loops[s.vector].extent


def _vector_fill(e: Estimate) -> Real:
    s = e.statement
    if s.vector is None:
        return real([1 / s.lanes])
    return s.loops[s.vector].extent / (e.wide * np.float32(s.lanes))


def _vector_reduces(e: Estimate) -> Real:
    s = e.statement
    return real([s.vector is not None and s.loops[s.vector].is_reduce])


def _unrolled(reduces: bool, e: Estimate) -> Real:
    s = e.statement
    return product(
        [x.extent for x in s.loops[s.tile :]
         if x.kind == "unroll" and x.is_reduce == reduces]
    )  # fmt: skip


def _balance(e: Estimate) -> Real:
    return e.speedup / np.float32(e.machine.cores)


def _threads(e: Estimate) -> Real:
    return e.statement.product("threadIdx.x", "threadIdx.y", "threadIdx.z", "vthread")


def _waste(e: Estimate) -> Real:
    s = e.statement
    return product([loop.extent for loop in s.loops]) / s.trips[-1]


def _inner_turns(e: Estimate) -> Real:
    """Iterations of the loop just around the written-out body."""
    s = e.statement
    return s.trips[s.tile] / s.trips[max(s.tile - 1, 0)]


def _register_turns(e: Estimate) -> Real:
    return e.tiles / e.runs


# -- buffers ---------------------------------------------------------------------------


def _biggest(rank: int, e: Estimate) -> Access | None:
    order = e.order
    return order[rank] if rank < len(order) else None


def _of(compute: Callable[[Estimate, Access], Real], rank: int, e: Estimate) -> Real:
    access = _biggest(rank, e)
    return ZERO if access is None else compute(e, access)


def _bytes(e: Estimate, a: Access) -> Real:
    return e.statement.trips[-1] * np.float32(a.bytes)


def _unique_bytes(e: Estimate, a: Access) -> Real:
    return a.elements(0) * np.float32(a.bytes)


def _lines(e: Estimate, a: Access) -> Real:
    s = e.statement
    return a.lines(s.tile) * s.trips[s.tile]


def _unique_lines(e: Estimate, a: Access) -> Real:
    return a.lines(0)


def _reuse_level(e: Estimate, a: Access) -> int | None:
    """The innermost loop that is not written out and does not move the access."""
    s = e.statement
    for level in range(s.tile - 1, -1, -1):
        if level not in a.moving and s.loops[level].extent is not ONE:
            return level
    return None


def _reuse_lines(e: Estimate, a: Access) -> Real:
    level = _reuse_level(e, a)
    return ZERO if level is None else e.statement.lines[e.statement.at(level + 1)]


def _reuse_count(e: Estimate, a: Access) -> Real:
    level = _reuse_level(e, a)
    return ZERO if level is None else e.statement.loops[level].extent


def _stride(e: Estimate, a: Access) -> Real:
    s = e.statement
    if not s.loops:
        return ZERO
    at = s.depth - 1 if s.vector is None else s.vector
    return a.stride(s.loops[at].key)


def _tile_lines(e: Estimate, a: Access) -> Real:
    return a.lines(e.statement.start)


def _is_store(e: Estimate, a: Access) -> Real:
    return real([a.is_store])


def _is_temporary(e: Estimate, a: Access) -> Real:
    return real([a.is_temporary])


BUFFER_COLUMNS: tuple[tuple[str, str, str, Callable[[Estimate, Access], Real]], ...] = (
    ("bytes", "bytes", "Bytes that all iterations access.", _bytes),
    ("unique_bytes", "bytes", "Bytes that are touched at least once.", _unique_bytes),
    ("lines", "lines", "Cache lines that runs of the register tile touch.", _lines),
    ("unique_lines", "lines", "Cache lines touched at least once.", _unique_lines),
    ("tile_lines", "lines", "Cache lines inside the innermost reduction.", _tile_lines),
    ("reuse_lines", "lines", "Lines of all data until it is used again.", _reuse_lines),
    ("reuse_count", "iterations", "How often that loop uses it again.", _reuse_count),
    ("stride", "elements", "Distance of lanes, or of innermost iterations.", _stride),
    ("is_store", "flag", "1 for the result.", _is_store),
    ("is_temporary", "flag", "1 if neither input nor output.", _is_temporary),
)  # fmt: skip


def _buffer_columns(rank: int) -> tuple[Column, ...]:
    return tuple(
        Column(
            f"buffer{rank}.{name}",
            unit,
            doc,
            partial(_of, compute, rank),
            is_read=False,
        )
        for name, unit, doc, compute in BUFFER_COLUMNS
    )


# -- memory ----------------------------------------------------------------------------


def _intensity(size: int, e: Estimate) -> Real:
    return e.slots / most(e.traffic(size), 1)


def _traffic(level: int, e: Estimate) -> Real:
    return e.far[level]


def _traffic_share(level: int, e: Estimate) -> Real:
    per_line = e.machine.line / e.machine.bandwidths[level]
    return e.far[level] * np.float32(per_line) / e.alone


def _fill(capacity: int, up: int, e: Estimate) -> Real:
    """Data inside the reduction kept in registers, or `up` loops further out."""
    s = e.statement
    at = max(s.at(s.start) - up, 0)
    return s.occupied[at] * np.float32(e.machine.line / e.machine.capacities[capacity])


def _data_fill(capacity: int, e: Estimate) -> Real:
    return e.data * np.float32(e.machine.line / e.machine.capacities[capacity])


def _conflict(e: Estimate) -> Real:
    s = e.statement
    at = s.at(s.start)
    return s.occupied[at] / s.lines[at]


def _stores_each(e: Estimate) -> Real:
    return e.stores / e.vectors


# -- allocation and surroundings -------------------------------------------------------


def _allocated(e: Estimate) -> Real:
    stores = (a for a in e.statement.stores if a.is_temporary)
    return sum((product([d.size for d in a.dims]) * np.float32(a.bytes)
                for a in stores), ZERO)  # fmt: skip


def _runs(e: Estimate) -> Real:
    return e.statement.trips[e.statement.own]


def _per_run(e: Estimate) -> Real:
    return e.statement.trips[-1] / _runs(e)


def _again(e: Estimate) -> Real:
    """Elements computed over elements of the result."""
    s = e.statement
    spatial = s.trips[-1] / product([x.extent for x in s.loops[s.own :] if x.is_reduce])
    size = np.float32(np.prod([axis.extent for axis in s.nest.stage.axes]))
    return most(spatial / size, 1)


# -- registers -------------------------------------------------------------------------


def _accumulators(e: Estimate) -> Real:
    return _unrolled(False, e) * e.wide


def _pressure(e: Estimate) -> Real:
    """Accumulators, and up to four vectors of each operand."""
    s = e.statement
    held = _accumulators(e) * np.float32(len(s.stores))
    lanes = np.float32(1 if s.vector is None else 1 / s.lanes)
    for access in s.loads:
        held = held + least(access.elements(s.tile) * lanes, 4)
    return held * np.float32(1 / e.machine.registers)


# -- the analytic model ----------------------------------------------------------------


def _cycles(part: str, e: Estimate) -> Real:
    cycles: Real = getattr(e, part)
    return cycles * np.float32(1 / e.machine.hertz) / e.alone


def _nanoseconds(e: Estimate) -> Real:
    return e.seconds * np.float32(1e9)


def _peak_share(e: Estimate) -> Real:
    return e.slots * np.float32(1 / (e.machine.fma_pipes * e.machine.hertz)) / e.alone


COLUMNS: tuple[Column, ...] = (
    *(Column(f"ops.{kind}", "operations", f"Operations of kind {kind!r}.",
             partial(_operations, kind), is_read=False) for kind in KINDS),
    Column("flops", "operations", "All arithmetic; a multiply-add is two.", _flops,
           is_read=False),
    Column("slots", "operations", "Arithmetic in multiply-adds of equal cost.",
           lambda e: e.slots, is_read=False),
    Column("vector.length", "elements", "Extent of the vectorised loop; 0 if none.",
           _vector_length),
    Column("vector.fill", "share", "Lanes that do work.", _vector_fill),
    Column("vector.reduces", "flag", "1 if lanes are combined at the end.",
           _vector_reduces),
    Column("unroll.spatial", "iterations", "Unrolled rows of the register tile.",
           partial(_unrolled, False)),
    Column("unroll.reduce", "iterations", "Unrolled steps of the reduction.",
           partial(_unrolled, True)),
    Column("parallel.tasks", "iterations", "Pieces that cores can take.",
           lambda e: e.tasks),
    Column("parallel.balance", "share", "Cores that work at once, of all.", _balance),
    Column("threads", "iterations", "GPU threads of a block.", _threads),
    Column("tail.waste", "ratio", "Iterations of full loops over needed ones.", _waste),
    Column("loop.inner", "iterations", "Turns of the innermost loop.", _inner_turns),
    Column("loop.registers", "iterations",
           "Turns of the reduction that is kept in registers.", _register_turns),
    Column("loop.depth", "loops", "Loops around the statement.",
           lambda e: real([e.statement.depth])),
    *(column for rank in range(BUFFERS) for column in _buffer_columns(rank)),
    *(Column(f"intensity.{size >> 10}k", "operations per line",
             f"Arithmetic for each line fetched into {size >> 10} KiB.",
             partial(_intensity, size), is_read=False) for size in SIZES),
    *(Column(f"traffic.{name}", "lines", f"Cache lines from beyond {name}.",
             partial(_traffic, at), is_read=False)
      for at, name in enumerate(("l1", "l2", "l3"))),
    *(Column(f"traffic.{name}_share", "ratio",
             f"Time of the traffic from beyond {name} over the estimated time.",
             partial(_traffic_share, at))
      for at, name in enumerate(("l1", "l2", "l3"))),
    *(Column(f"fill.l{at + 1}_{up}", "bytes ratio",
             f"Data inside the reduction in registers, {up} loops further out, over "
             f"the size of cache level {at + 1}.",
             partial(_fill, at, up), is_read=at == 0)
      for at in (0, 1) for up in (0, 1, 2, 3)),
    *(Column(f"fill.l{at + 1}_all", "bytes ratio",
             f"Data of the whole program over the size of cache level {at + 1}.",
             partial(_data_fill, at), is_read=False) for at in (0, 1, 2)),
    Column("fill.conflict", "ratio",
           "Lines of a cache that data inside the reduction in registers takes, over "
           "those it has: rows at distances of powers of two share few sets.",
           _conflict, is_read=False),
    Column("stores.each", "instructions",
           "Store instructions for each vector operation: many where lanes lie apart.",
           _stores_each, is_read=False),
    Column("alloc.bytes", "bytes", "Size of the result where it is temporary.",
           _allocated, is_read=False),
    Column("outer.runs", "iterations", "How often the nest begins.", _runs,
           is_read=False),
    Column("outer.inside", "iterations", "Iterations each time.", _per_run,
           is_read=False),
    Column("outer.again", "ratio", "Elements computed over elements of the result.",
           _again),
    Column("is_copy", "flag", "1 if it only moves data.",
           lambda e: real([e.statement.is_copy])),
    Column("guard", "operations", "Instructions for a load that may lie in a padding.",
           lambda e: real([e.statement.work.guard])),
    Column("registers.tile", "vectors", "Accumulators.", _accumulators),
    Column("registers.pressure", "ratio", "Registers held over those there are.",
           _pressure),
    *(Column(f"time.{part}", "ratio",
             f"Time of {part} over the estimated time of one core.",
             partial(_cycles, part))
      for part in ("arithmetic", "loading", "issuing", "fixed")),
    Column("time.peak", "ratio", "Time of the arithmetic at peak over the estimate.",
           _peak_share),
    Column("time.nanoseconds", "nanoseconds", "The estimated time.", _nanoseconds,
           is_read=False),
)  # fmt: skip
READ = tuple(column for column in COLUMNS if column.is_read)


def table() -> str:
    """The columns as a page of documentation."""
    rows = [
        f"| {at} | `{c.name}` | {c.unit} | {'yes' if c.is_read else ''} | {c.doc} |"
        for at, c in enumerate(COLUMNS)
    ]
    head = (
        "# Features",
        "",
        f"Version {VERSION}, {len(COLUMNS)} columns per statement. Generated from "
        "`ansor.cost.columns`; do not edit.",
        "",
        f"Units other than {', '.join(PLAIN)} are stored as log2(1 + x). "
        f"`buffer0` … `buffer{BUFFERS - 1}` are the accesses with the most bytes, the "
        f"biggest first. Models read {len(READ)} of the columns: from sizes they would "
        "know a task again, and of columns that say the same one is enough.",
        "",
        "| # | name | unit | read | meaning |",
        "|---|---|---|---|---|",
    )
    return "\n".join((*head, *rows)) + "\n"


if __name__ == "__main__":
    print(table(), end="")
