"""Points of one sketch as points of another: of another shape, operator or machine.

Names and extents do not count. A sketch is known by its structure: which loops its
nests have, in which order, how they are annotated, where a nest is computed and what
it reads. A knob is known by its part in it: the computation that it tiles, which kind
of axis, and how far it is from the innermost level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import product
from math import ceil, prod

import numpy as np
import numpy.typing as npt

from ansor.schedule.knobs import Follow, Knob
from ansor.schedule.plan import Nest, SplitRelation
from ansor.space.points import Tiles, repair
from ansor.space.sketch import Sketch
from ansor.space.table import Matrix, Table, most

# What becomes of the outermost length of an axis that is longer or shorter here.
MODES = (
    "keep",  # the same length: a block that fits into a cache
    "stretch",  # as many blocks as before
    "whole",  # the whole axis if it was the whole axis, else the same length
)
HALVINGS = 8  # of the largest length, before a point counts as not feasible
FAR = 100.0  # more than any two lengths differ, in logarithms
KNOWN = 0.5  # share of knobs that must have a counterpart

Wanted = npt.NDArray[np.float64]  # as points; nan where nothing is known
Token = tuple[object, ...]


@dataclass(frozen=True)
class Cut:
    """An axis and its lengths, outermost first: numbers, or columns of a point."""

    nest: int
    is_reduce: bool
    is_vector: bool
    extent: int
    lengths: tuple[int | Knob, ...]


@dataclass(frozen=True)
class Anatomy:
    """A sketch without names and extents."""

    sketch: Sketch

    @cached_property
    def columns(self) -> dict[str, int]:
        return {knob.name: at for at, knob in enumerate(self.sketch.knobs)}

    @cached_property
    def tokens(self) -> Counter[Token]:
        """All that can be said about its structure, piece by piece."""
        return Counter(t for nest in self.sketch.plan for t in _tokens(self, nest))

    @cached_property
    def cuts(self) -> tuple[Cut, ...]:
        """The split axes. Several nests may share knobs: the longest split has all
        of them, the first of these nests is the one that computes."""
        found: list[Cut] = []
        for number, nest in enumerate(self.sketch.plan):
            for split in nest.relations:
                if isinstance(split, SplitRelation):
                    _add_cut(found, number, nest, split)
        return tuple(found)

    def kind(self, nest: Nest) -> Token:
        stage = nest.stage
        return (stage.reducer or "map", nest.scope, nest.ahead)


def likeness(one: Anatomy, other: Anatomy) -> float:
    """1 if two sketches have the same structure, 0 if nothing is the same.

    >>> import ansor
    >>> def matmul(n):
    ...     A, B = ansor.placeholder((n, n)), ansor.placeholder((n, n))
    ...     return ansor.Task(ansor.ops.matmul(A, B))
    >>> one, two = ansor.sketches(matmul(64)), ansor.sketches(matmul(96))
    >>> likeness(Anatomy(one[0]), Anatomy(two[0]))
    1.0
    """
    both = one.tokens & other.tokens
    any_ = one.tokens | other.tokens
    return sum(both.values()) / max(sum(any_.values()), 1)


def proposals(
    source: Anatomy, point: Sequence[int], goal: Anatomy, lanes: float = 1.0
) -> Wanted:
    """What a point of `source` may be in `goal`, in several ways: rows of wanted
    lengths, none if little of it is known.

    Tiles in registers stay as they are, vectors times `lanes`: what a vector has here
    for each lane there. Blocks keep their length or follow the extents.
    """
    pairs = list(_pairs(source, goal))
    given = [_lengths(source, cut, point) for cut, _ in pairs]
    rows = []
    for even, modes in product((False, True), product(MODES, MODES)):
        row = np.full(len(goal.columns), np.nan)
        for (theirs, ours), values in zip(pairs, given, strict=True):
            made = _fitted(values, theirs, ours, modes[ours.is_reduce], lanes)
            if even and theirs.extent != ours.extent:
                made = _evened(made, ours.extent)
            _write(row, goal, ours, made)
        rows.append(row)
    wanted = np.unique(np.array(rows).reshape(len(rows), -1), axis=0)
    known = np.isfinite(wanted).all(0)
    return wanted[:0] if known.size and known.mean() < KNOWN else wanted


def settled(sketch: Sketch, wanted: Wanted) -> tuple[Matrix, npt.NDArray[np.intp]]:
    """Feasible points near to wanted lengths, and the row that each comes from.

    Lengths that nobody wants are drawn; tiles that do not fit into the registers give
    way to the nearest that do, then blocks are halved.
    """
    number = np.tile(np.arange(len(wanted)), 2)
    rows = np.concatenate([_rounded(sketch.table, wanted, down) for down in (0, 1)])
    points = repair(sketch.table, _filled(sketch, rows))
    return _feasible(sketch, points, number[: len(points)])


# -- structure -------------------------------------------------------------------------


def _tokens(anatomy: Anatomy, nest: Nest) -> Iterator[Token]:
    plan = anatomy.sketch.plan
    kind = anatomy.kind(nest)
    loops = _loops(nest)
    yield (kind, "nest", *loops.values())
    yield from ((kind, "loop", loop) for loop in loops.values())
    inputs = [buffer.name for buffer in plan.dag.inputs]
    for name in sorted(nest.stage.read_names):
        producer = plan.producer(name)
        made = None if producer is None else anatomy.kind(producer)
        yield (kind, "reads", inputs.index(name) if name in inputs else made)
    if nest.at is not None:
        outer = plan.nest(nest.at.stage)
        yield (kind, "at", anatomy.kind(outer), _loops(outer).get(nest.at.loop))


def _loops(nest: Nest) -> dict[str, Token]:
    """The loops of a nest by what they are: axes, level, annotation. Axes of extent 1
    do not count; the others are numbered, spatial ones from the innermost."""
    spatial = [axis.name for axis in nest.stage.axes if axis.extent > 1]
    reduced = [axis.name for axis in nest.stage.reduce_axes if axis.extent > 1]
    roles = {name: (False, at) for at, name in enumerate(reversed(spatial))}
    roles.update((name, (True, at)) for at, name in enumerate(reduced))
    levels = {
        part: at
        for split in nest.relations
        if isinstance(split, SplitRelation)
        for at, part in enumerate(split.parts)
    }
    found: dict[str, Token] = {}
    for loop in nest.loops:
        axes = tuple(sorted(roles[x] for x in nest.axis_of(loop) if x in roles))
        if axes:
            found[loop] = (axes, levels.get(loop, 0), nest.annotations.get(loop, ""))
    return found


def _add_cut(found: list[Cut], number: int, nest: Nest, split: SplitRelation) -> None:
    lengths = tuple(x for x in split.lengths if not isinstance(x, Follow))
    knobs = {x.name for x in lengths if isinstance(x, Knob)}
    if not knobs or len(lengths) < len(split.lengths):
        return
    for at, cut in enumerate(found):
        if knobs & {x.name for x in cut.lengths if isinstance(x, Knob)}:
            if len(lengths) > len(cut.lengths):
                extent = most(nest, split.parent)
                found[at] = Cut(cut.nest, cut.is_reduce, cut.is_vector, extent, lengths)
            return
    is_vector = nest.annotations.get(split.parts[-1]) == "vectorize"
    reduces = nest.is_reduce(split.parent)
    extent = most(nest, split.parent)
    found.append(Cut(number, reduces, is_vector, extent, lengths))


# -- counterparts ----------------------------------------------------------------------


def _pairs(source: Anatomy, goal: Anatomy) -> Iterator[tuple[Cut, Cut]]:
    """Cuts that do the same in two sketches."""
    theirs, ours = _owners(source), _owners(goal)
    match = SequenceMatcher(
        None, [x for _, x in theirs], [x for _, x in ours], autojunk=False
    )
    for a, b, size in match.get_matching_blocks():
        for (one, _), (other, _) in zip(
            theirs[a : a + size], ours[b : b + size], strict=True
        ):
            for is_reduce in (False, True):
                yield from _axes(
                    _cuts(source, one, is_reduce), _cuts(goal, other, is_reduce)
                )


def _owners(anatomy: Anatomy) -> list[tuple[int, str]]:
    """The nests that have cuts, with what they compute."""
    nests = sorted({cut.nest for cut in anatomy.cuts})
    plan = anatomy.sketch.plan
    return [(at, plan.nests[at].stage.reducer or "map") for at in nests]


def _cuts(anatomy: Anatomy, nest: int, is_reduce: bool) -> list[Cut]:
    return [c for c in anatomy.cuts if (c.nest, c.is_reduce) == (nest, is_reduce)]


def _axes(theirs: list[Cut], ours: list[Cut]) -> Iterator[tuple[Cut, Cut]]:
    """Vectors with vectors; the others in order or, where their number differs,
    spatial axes from the innermost and reductions from the longest."""
    vectors = [[c for c in cuts if c.is_vector] for cuts in (theirs, ours)]
    rest = [[c for c in cuts if not c.is_vector] for cuts in (theirs, ours)]
    yield from zip(*vectors, strict=False)
    if len(rest[0]) != len(rest[1]):
        rest = [
            sorted(cuts, key=lambda c: -c.extent)
            if any(c.is_reduce for c in cuts)
            else cuts[::-1]
            for cuts in rest
        ]
    yield from zip(*rest, strict=False)


# -- lengths ---------------------------------------------------------------------------


def _lengths(anatomy: Anatomy, cut: Cut, point: Sequence[int]) -> list[int]:
    """What a point makes of the lengths of a cut."""
    return [
        int(point[anatomy.columns[x.name]]) if isinstance(x, Knob) else x
        for x in cut.lengths
    ]


def _write(row: Wanted, goal: Anatomy, cut: Cut, made: Sequence[float]) -> None:
    for length, value in zip(cut.lengths, made, strict=True):
        if isinstance(length, Knob):
            row[goal.columns[length.name]] = value


def _fitted(
    given: Sequence[int], theirs: Cut, ours: Cut, mode: str, lanes: float
) -> list[float]:
    """Their lengths for our extent, in as many levels as we have."""
    missing = len(ours.lengths) - len(given)
    made = [1.0] * missing + [float(x) for x in given[max(-missing, 0) :]]
    if ours.is_vector and theirs.is_vector:
        made[-1] *= lanes
    if len(made) < 2:
        return made  # a tile in registers and nothing else
    is_whole = prod(given) >= theirs.extent
    if mode == "stretch":
        made[0] *= ours.extent / theirs.extent
    elif mode == "whole" and is_whole:
        made[0] = max(1.0, ceil(ours.extent / prod(made[1:])))
    return made


def _evened(made: list[float], extent: int) -> list[float]:
    """Tiles that leave no small rest: as many as before, all of about one length."""
    result = list(made)
    inner = 1.0
    for at in reversed(range(len(made))):
        tile = min(inner * made[at], extent)
        count = ceil(extent / tile)
        result[at] = max(1.0, ceil(extent / count) / inner)
        inner *= round(result[at])
    return result


def _rounded(table: Table, wanted: Wanted, down: int) -> Wanted:
    """Candidates: the nearest, or those not above."""
    result = wanted.copy()
    for at in np.flatnonzero(np.isfinite(wanted).any(0)):
        values = table.column_values(int(at))
        apart = np.abs(np.log(values / wanted[:, at, None]))
        above = values > wanted[:, at, None] + 0.5
        best = np.argmin(apart + (FAR * down) * above, axis=1)
        result[:, at] = np.where(np.isfinite(wanted[:, at]), values[best], np.nan)
    return result


def _filled(sketch: Sketch, wanted: Wanted) -> Matrix:
    """Points: what nobody has said is drawn."""
    missing = ~np.isfinite(wanted)
    if not missing.any():
        return wanted.astype(np.int32)
    drawn = sketch.sample(len(wanted), seed=0)
    if not len(drawn):
        return drawn
    return np.where(missing, np.resize(drawn, wanted.shape), wanted).astype(np.int32)


def _feasible(
    sketch: Sketch, points: Matrix, number: npt.NDArray[np.intp]
) -> tuple[Matrix, npt.NDArray[np.intp]]:
    """The points, made feasible where they are not; those that cannot are left out."""
    fixed = {column for tiles in sketch.tiles for column in tiles.columns}
    free = [c for c in range(len(sketch.knobs)) if c not in fixed]
    result, good = points.copy(), sketch.feasible(points)
    bad = np.flatnonzero(~good)
    for tiles in sketch.tiles:
        result[bad] = _snapped(result[bad], tiles)
    for _ in range(HALVINGS):
        if not len(bad):
            break
        result[bad] = repair(sketch.table, result[bad])
        good[bad] = sketch.feasible(result[bad])
        bad = np.flatnonzero(~good)
        if free:
            result[bad] = _halved(sketch.table, result[bad], free)
    return result[good], number[good]


def _snapped(points: Matrix, tiles: Tiles) -> Matrix:
    """Each row with the nearest of the tiles that the target can run."""
    columns = list(tiles.columns)
    if not columns or not len(tiles.values):
        return points
    result = points.copy()
    options = np.log2(tiles.values)
    for row in result:
        apart = np.abs(options - np.log2(row[columns])).sum(1)
        row[columns] = tiles.values[int(np.argmin(apart))]
    return result


def _halved(table: Table, points: Matrix, free: Sequence[int]) -> Matrix:
    """The largest of some lengths halved, in each row."""
    result = points.copy()
    columns = np.array(free)[np.argmax(points[:, list(free)], axis=1)]
    for row, column in zip(result, columns, strict=True):
        half = int(row[column]) // 2
        row[column] = table.column_values(column)[table.column_floors(column)[half]]
    return result
