"""What a machine can run: limits checked for whole matrices of points, no lowering.

A limit measures one quantity of every point and says how much of it the target has.
Points above a limit are masked out before anything is lowered or compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from ansor.ir.affine import linear
from ansor.ir.dtypes import DTYPES
from ansor.ir.expr import Load, Select
from ansor.ir.visit import variables, walk
from ansor.schedule.bounds import Bounds
from ansor.schedule.knobs import Column, Knob, Points
from ansor.schedule.plan import Nest, Plan, SplitRelation
from ansor.space.table import Matrix
from ansor.target import Target
from ansor.target.gpus import Gpu

CHUNK = 16384  # rows at a time: their columns stay in the cache
MOST_COPIES = 8  # vectors of one loop that are written out side by side
MOST_STEPS = 16  # of a reduction that are written out
MOST_CODE = 1536  # statements of one stage after unrolling

MOST_GPU_CODE = 4096
MOST_VIRTUAL = 8
OTHER_REGISTERS = 64  # of a GPU's thread, that do not hold results

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class View:
    """A sketch with some points: what limits are measured on."""

    nests: tuple[Nest, ...]  # that are measured
    target: Target
    bounds: Bounds

    @staticmethod
    def of(
        plan: Plan,
        target: Target,
        knobs: tuple[Knob, ...],
        points: Matrix,
        only: frozenset[str] | None = None,
    ) -> View:
        nests = (nest for nest in plan if only is None or nest.name in only)
        return View(tuple(nests), target, Bounds(plan, Points.of(knobs, points)))

    @property
    def one(self) -> Column:
        return self.bounds.points.constant(1)

    def extent(self, nest: Nest, loop: str) -> Column:
        return self.bounds.extent(nest.name, loop)

    def product(self, nest: Nest, loops: list[str]) -> Column:
        total = self.one
        for loop in loops:
            total = total * self.extent(nest, loop)
        return total

    def vectors(self, nest: Nest, loop: str | None) -> Column:
        """Registers that one iteration of everything but the vectors fills."""
        if loop is None:
            return self.one
        vectors: Column = -(-self.extent(nest, loop) // self.lanes(nest))
        return vectors

    def lanes(self, nest: Nest) -> int:
        """Elements of the widest type of a nest in one register."""
        types = {buffer.dtype for buffer in nest.stage.buffers}
        types |= {load.dtype for load in nest.stage.loads}
        bits = max(DTYPES[name].bits for name in types)
        return max(self.target.vector_bits // max(bits, 8), 1)


@dataclass(frozen=True)
class Limit:
    """One quantity of a program, and how much of it a target has."""

    name: str
    measure: Callable[[View], Column]
    most: Callable[[Target], int]


def feasible(
    plan: Plan,
    target: Target,
    knobs: tuple[Knob, ...],
    points: Matrix,
    only: frozenset[str] | None = None,
) -> Mask:
    """True for every point within all limits; of some stages `only`, if given."""
    mask = np.ones(len(points), np.bool_)
    for start in range(0, len(points), CHUNK):
        rows = slice(start, start + CHUNK)
        mask[rows] = _within_all(
            LIMITS[target.kind],
            lambda part: View.of(plan, target, knobs, part, only),
            points[rows],
        )
    return mask


def _within_all(
    groups: tuple[tuple[Limit, ...], ...],
    look: Callable[[Matrix], View],
    points: Matrix,
) -> Mask:
    """The mask of all limits. Once a group has refused many points, the next one only
    looks at those that are left."""
    view = look(points)
    mask = _within(view, groups[0])
    for limits in groups[1:]:
        if 2 * np.count_nonzero(mask) > len(points):
            mask &= _within(view, limits)
        elif mask.any():
            mask[mask] = _within(look(points[mask]), limits)
    return mask


def _within(view: View, limits: tuple[Limit, ...]) -> Mask:
    mask = np.ones(view.bounds.points.count, np.bool_)
    for limit in limits:
        mask &= limit.measure(view) <= limit.most(view.target)
    return mask


def broken(
    plan: Plan, target: Target, knobs: tuple[Knob, ...], point: Matrix
) -> list[str]:
    """The limits that one point exceeds, in words."""
    view = View.of(plan, target, knobs, point)
    found = []
    for limit in (limit for limits in LIMITS[target.kind] for limit in limits):
        used, most = int(limit.measure(view)[0]), limit.most(target)
        if used > most:
            found.append(f"{limit.name}: {used} of {most}")
    return found


def overlong_tiles(view: View) -> Column:
    """How many lengths exceed what there is left to cut."""
    count = view.one - 1
    for nest in view.nests:
        for split in nest.relations:
            if not isinstance(split, SplitRelation):
                continue
            if not any(isinstance(x, Knob) for x in split.lengths):
                continue
            whole = view.extent(nest, split.parent)
            inside = view.one
            for length in reversed(split.lengths):
                value = view.bounds.length(length)
                if isinstance(length, Knob):  # value > ceil(whole / inside)
                    over = (value - 1) * inside >= whole
                    least = length.candidates[0]
                    count = count + (over if least == 1 else over & (value > least))
                inside = inside * value
    return count


def registers(view: View) -> Column:
    """Vector registers that the innermost loops need at once, the most of any nest."""
    most = view.one
    for nest in view.nests:
        if nest.stage.reducer is not None and not nest.ahead:
            most = np.maximum(most, _tile_registers(view, nest))
    return most


def _tile_registers(view: View, nest: Nest) -> Column:
    """Accumulators, what is read along the vectors, and one scalar."""
    vector = _vector_loop(nest)
    first = _first_reduce(nest)
    inside = [x for x in _copied_loops(nest) if nest.loops.index(x) > first]
    rows = [x for x in inside if x != vector and not nest.is_reduce(x)]
    steps = [x for x in inside if x != vector and nest.is_reduce(x)]
    wide = view.vectors(nest, vector)
    needed = view.product(nest, rows) * wide * len(nest.stage.buffers) + 1
    axes = frozenset() if vector is None else nest.axis_of(vector)
    for load in dict.fromkeys(nest.stage.loads):
        used = frozenset().union(*(variables(i) for i in load.indices))
        held = _held(view, nest, load, axes, rows, steps)
        needed = needed + (wide * held if used & axes else held - 1)
    return needed


def _held(
    view: View,
    nest: Nest,
    load: Load,
    vector: frozenset[str],
    rows: list[str],
    steps: list[str],
) -> Column:
    """How many vectors of one load are held at once.

    One, unless unrolled steps of the reduction read what other rows have read: the
    window of a convolution. Then the whole window stays. Vectors that pick every
    second element are taken from one run of memory for all steps.
    """
    held, slides = view.one, view.one < 0
    slid = {axis for loop in steps for axis in nest.axis_of(loop)}
    moved = {axis for loop in rows for axis in nest.axis_of(loop)}
    for index in load.indices:
        form = linear(index)
        terms = {str(atom): c for atom, c in form.terms.items()}
        strides = [c for name, c in terms.items() if name in vector]
        if not slid & terms.keys():
            if moved & terms.keys():
                held = held * (_reach(view, nest, terms, rows) + 1)
            continue
        across = _reach(view, nest, terms, steps)
        if strides and abs(strides[0]) > 1:
            held, slides = held * (across + 1), slides | (across > 0)
        elif not strides and moved & terms.keys():
            along = _reach(view, nest, terms, rows)
            both = (along > 0) & (across > 0)
            slides = slides | both
            held = held * np.where(both, along + across + 1, along + 1)
    return np.where(slides, held, 1) if slides.any() else view.one


def _reach(view: View, nest: Nest, terms: dict[str, int], loops: list[str]) -> Column:
    """How far some loops move an index."""
    total = view.one - 1
    for loop in loops:
        for axis in nest.axis_of(loop) & terms.keys():
            total = total + abs(terms[axis]) * (view.extent(nest, loop) - 1)
    return total


def steps(view: View) -> Column:
    """Unrolled steps of a reduction, the most of any stage that is not all written
    out, as the transforms with constant matrices are."""
    most = view.one
    for nest in view.nests:
        loops = [x for x in _copied_loops(nest) if nest.is_reduce(x)]
        split = [x for x in loops if x != _vector_loop(nest) and _is_part(nest, x)]
        most = np.maximum(most, view.product(nest, split))
    return most


def _is_part(nest: Nest, loop: str) -> bool:
    return all(loop != axis.name for axis in nest.stage.reduce_axes)


def code(view: View) -> Column:
    """Statements after unrolling, tails included, of the longest stage."""
    most = view.one
    for nest in view.nests:
        if not nest.ahead:
            most = np.maximum(most, _statements(view, nest))
    return most


def _statements(view: View, nest: Nest) -> Column:
    """Copies of the innermost statement, in all variants of its tails and borders."""
    copies = view.one
    split = {r.parts[-1]: r for r in nest.relations if isinstance(r, SplitRelation)}
    for loop in _copied_loops(nest):
        if loop in split:
            copies = copies * _copies(view, nest, split[loop])
        else:
            copies = copies * _written(view, nest, loop, view.extent(nest, loop))
    return copies * 3 ** len(_border_axes(nest))


def _copies(view: View, nest: Nest, split: SplitRelation) -> Column:
    """Iterations of the innermost part that are written out: those of a full tile,
    and of its tail. A reduction has a full tile more where blocks do not divide."""
    loop = split.parts[-1]
    whole, length = view.extent(nest, split.parent), view.extent(nest, loop)
    tail = _written(view, nest, loop, whole % length)
    full = _written(view, nest, loop, length)
    if nest.is_reduce(loop) and len(split.lengths) > 1:
        blocks = view.bounds.length(split.lengths[-2])
        full = full * (1 + (whole // length % blocks != 0))
    return full + tail


def _written(view: View, nest: Nest, loop: str, length: Column) -> Column:
    """Statements for so many iterations of a loop; long vectors run in a loop."""
    if nest.annotations[loop] != "vectorize":
        return length
    vectors: Column = -(-length // view.lanes(nest))
    return np.minimum(vectors, MOST_COPIES)


def _border_axes(nest: Nest) -> set[str]:
    """The axes that conditions in the formula compare: paddings that were inlined."""
    found: set[str] = set()
    for expr in nest.stage.body:
        for node in walk(expr):
            if isinstance(node, Select):
                found |= variables(node.condition)
    whole = {axis.name for axis in nest.stage.axes if axis.extent > 1}
    return found & {name for name in whole if nest.annotations.get(name) != "unroll"}


def block_bytes(view: View) -> Column:
    """Bytes of the largest buffer computed inside a loop."""
    most = view.one - 1
    for nest in view.nests:
        if nest.at is None:
            continue
        most = np.maximum(most, _bytes(view, nest))
    return most


def threads(view: View) -> Column:
    """Threads of the largest block."""
    return _most_bound(view, "threadIdx.x")


def virtual_threads(view: View) -> Column:
    return _most_bound(view, "vthread")


def _most_bound(view: View, kind: str) -> Column:
    most = view.one
    for nest in view.nests:
        loops = [x for x, found in nest.annotations.items() if found == kind]
        most = np.maximum(most, view.product(nest, loops))
    return most


def missing_threads(view: View) -> Column:
    """Threads that the smallest block lacks to fill a warp, though there is work."""
    gpu = view.target.gpu
    assert gpu is not None, "a limit of GPUs"
    most = view.one - 1
    for nest in view.nests:
        loops = [x for x, kind in nest.annotations.items() if kind == "threadIdx.x"]
        if nest.at is None and loops:
            work = prod(axis.extent for axis in nest.stage.axes)
            if work > 2 * gpu.warp:
                most = np.maximum(most, gpu.warp - view.product(nest, loops))
    return most


def shared_bytes(view: View) -> Column:
    """Shared memory of one block."""
    return _total_bytes(view, [n for n in view.nests if n.scope == "shared"])


def thread_words(view: View) -> Column:
    """32-bit registers that the results of one thread take."""
    inside = [n for n in view.nests if n.at is not None and n.scope == "local"]
    return -(-_total_bytes(view, inside) // 4)


def _total_bytes(view: View, nests: list[Nest]) -> Column:
    total = view.one - 1
    for nest in nests:
        total = total + _bytes(view, nest)
    return total


def _bytes(view: View, nest: Nest) -> Column:
    """Bytes of what one run of an attached nest computes."""
    size = view.one * sum(max(DTYPES[b.dtype].bits // 8, 1) for b in nest.stage.buffers)
    for region in view.bounds.regions(nest.name):
        size = size * region.span
    return size


def _vector_loop(nest: Nest) -> str | None:
    for loop, kind in nest.annotations.items():
        if kind == "vectorize":
            return loop
    return None


def _copied_loops(nest: Nest) -> list[str]:
    """Loops that are written out: unrolled and vectorised ones."""
    return [
        x for x, kind in nest.annotations.items() if kind in ("unroll", "vectorize")
    ]


def _first_reduce(nest: Nest) -> int:
    """The position of the outermost reduction loop inside which everything spatial is
    written out."""
    for at, loop in enumerate(nest.loops):
        rest = nest.loops[at:]
        if nest.is_reduce(loop) and all(
            nest.is_reduce(x) or nest.annotations.get(x) in ("unroll", "vectorize")
            for x in rest
        ):
            return at
    return len(nest.loops)


def _cache(target: Target) -> int:
    """The largest cache; where unknown, what any machine has."""
    return max(*target.cache_bytes, 1 << 20)


def _gpu(target: Target) -> Gpu:
    assert target.gpu is not None, "a GPU has its limits"
    return target.gpu


def _spare_registers(target: Target) -> int:
    """What addresses, counters and operands leave to results."""
    return _gpu(target).thread_registers - OTHER_REGISTERS


# Limits that look at innermost loops only come first: what they refuse is not
# measured any further.
LIMITS: dict[str, tuple[tuple[Limit, ...], ...]] = {
    "cpu": (
        (
            Limit("unrolled steps of a reduction", steps, lambda t: MOST_STEPS),
            Limit("vector registers", registers, lambda t: t.vector_registers),
        ),
        (
            Limit("tiles longer than what they tile", overlong_tiles, lambda t: 0),
            Limit("statements", code, lambda t: MOST_CODE),
            Limit("bytes of a block", block_bytes, _cache),
        ),
    ),
    "cuda": (
        (
            Limit("threads of a block", threads, lambda t: _gpu(t).max_threads),
            Limit("threads missing to a warp", missing_threads, lambda t: 0),
            Limit("virtual threads", virtual_threads, lambda t: MOST_VIRTUAL),
        ),
        (
            Limit("tiles longer than what they tile", overlong_tiles, lambda t: 0),
            Limit("statements", code, lambda t: MOST_GPU_CODE),
            Limit("registers of a thread", thread_words, _spare_registers),
            Limit(
                "bytes of shared memory", shared_bytes, lambda t: _gpu(t).shared_bytes
            ),
        ),
    ),
}
