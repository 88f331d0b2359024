"""Populations: drawing, changing and mixing points, all rows at once.

Every function takes its generator; the same seed gives the same matrix, byte for byte.
Points stay in the ranges of their knobs, and no tile is longer than what it tiles.
Whether a machine can run them is for `feasible` to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from ansor.space.table import Group, Ints, Matrix, Table

FACTORS = np.array((2, 2, 2, 3, 4), np.int32)  # by which a mutation moves a length
ENUMERATED = 1 << 14  # combinations of lengths that are tried one by one
MIXED = 0.5  # share of children that mix single axes, not whole stages


@dataclass(frozen=True)
class Tiles:
    """Values that some columns may have together, such as a tile that fits into the
    registers: one row of `values` per tile."""

    columns: tuple[int, ...]
    values: Matrix


def draw(
    table: Table,
    count: int,
    generator: np.random.Generator,
    tiles: Sequence[Tiles] = (),
) -> Matrix:
    """Random points: each length drawn among those that fit into what is left.

    Columns that `tiles` speak of take one of those; of the others the inner lengths
    are drawn first, so small and large tiles are equally likely.
    """
    points = empty(count, len(table.knobs))
    given: set[int] = set()
    for tile in tiles:
        rows = generator.integers(len(tile.values), size=count)
        for at, column in enumerate(tile.columns):
            points[:, column] = tile.values[:, at].take(rows)
        given.update(tile.columns)
    for group in table.groups:
        left: Ints | int = -(-group.extent // group.fixed)
        for column in reversed(group.columns):
            if column not in given:
                values = table.column_values(column)
                chance = generator.random(count, dtype=np.float32)
                fits = table.column_floors(column)[left] + 1  # so many candidates
                points[:, column] = values[(chance * fits).astype(np.int32)]
            left = -(-left // points[:, column])
    return points


@lru_cache(maxsize=64)  # siblings have the same knobs
def combinations(table: Table, columns: tuple[int, ...]) -> Matrix:
    """All values that some columns can have together, or so many of them drawn at
    random that few are missed."""
    values = [table.column_values(column) for column in columns]
    if prod(map(len, values)) <= ENUMERATED:
        return np.stack(np.meshgrid(*values, indexing="ij"), -1).reshape(
            -1, len(values)
        )
    drawn = draw(table, 4 * ENUMERATED, np.random.default_rng(0))
    return distinct(drawn[:, list(columns)])


def mutate(table: Table, points: Matrix, generator: np.random.Generator) -> Matrix:
    """Change one length in every row: to a neighbour, to any other, or by a factor
    that another length of the same split loses."""
    if not len(table.knobs) or not len(points):
        return points.copy()
    count = len(points)
    new = points.copy(order="F")
    rows = np.arange(count)
    column = generator.integers(len(table.knobs), size=count, dtype=np.int32)
    kind = generator.random(count, dtype=np.float32)
    chance = generator.random(count, dtype=np.float32)
    old = new[rows, column]
    number = table.floors[table.places[column] + old]
    last = table.counts[column] - 1
    beside = np.clip(number + np.where(chance < 0.5, -1, 1), 0, last)
    anywhere = (chance * (last + 1)).astype(np.int32)
    number = np.where(kind < 0.5, beside, anywhere)
    value = table.values[table.starts[column] + number]
    factor = FACTORS[generator.integers(len(FACTORS), size=count)]
    other = _partner(table, column, generator)
    move = (kind >= 0.75) & (other != column)
    grown = np.minimum(old * factor, table.tops[column])
    grown = table.values[
        table.starts[column] + table.floors[table.places[column] + grown]
    ]
    new[rows, column] = np.where(move, grown, value)
    lost = new[rows, other] // factor
    lost = table.values[table.starts[other] + table.floors[table.places[other] + lost]]
    new[rows, other] = np.where(move, lost, new[rows, other])
    return repair(table, new)


def _partner(table: Table, column: Ints, generator: np.random.Generator) -> Ints:
    """Another knob of the same split, or the knob itself if it is alone."""
    widest = max(len(group.columns) for group in table.groups)
    partners = np.zeros((len(table.knobs), widest), np.int32)
    for group in table.groups:
        members = (group.columns * widest)[:widest]
        for at in group.columns:
            partners[at] = members
    choice = generator.integers(widest, size=len(column))
    return partners[column, choice]


def cross(
    table: Table,
    stages: Ints,
    mothers: Matrix,
    fathers: Matrix,
    generator: np.random.Generator,
) -> Matrix:
    """Children that take whole stages, or whole axes, from one parent or the other.

    `stages` says which stage each knob belongs to.
    """
    count, knobs = mothers.shape
    children = empty(count, knobs)
    by_axis = generator.random(count, dtype=np.float32) < MIXED
    groups = len(table.groups)
    several = max(int(stages.max(initial=0)) + 1, 1)
    of_axis = [generator.random(count, dtype=np.float32) < 0.5 for _ in range(groups)]
    of_stage = [generator.random(count, dtype=np.float32) < 0.5 for _ in range(several)]
    for column in range(knobs):
        group = int(table.group_of[column])
        axis = of_axis[group]  # a split is never torn apart
        stage = of_stage[int(stages[table.groups[group].columns[-1]])]
        mine = np.where(by_axis, axis, stage)
        children[:, column] = np.where(mine, mothers[:, column], fathers[:, column])
    return children


def repair(table: Table, points: Matrix) -> Matrix:
    """The points with every length cut to what the lengths inside it leave."""
    fixed = empty(*points.shape)
    for group in table.groups:
        _repair(table, group, points, fixed)
    return fixed


def _repair(table: Table, group: Group, points: Matrix, fixed: Matrix) -> None:
    left: Ints | int = -(-group.extent // group.fixed)
    for column in reversed(group.columns):
        value = np.minimum(points[:, column], left)
        value = table.column_values(column)[table.column_floors(column)[value]]
        fixed[:, column] = value
        left = -(-left // value)


def carry(
    source: Table, target: Table, points: Matrix, generator: np.random.Generator
) -> Matrix:
    """Points of one sketch as points of a sibling: lengths of knobs that have the same
    name are kept (or the nearest below), the others drawn."""
    moved = draw(target, len(points), generator)
    columns = {knob.name: at for at, knob in enumerate(source.knobs)}
    for at, knob in enumerate(target.knobs):
        if knob.name in columns:
            value = np.minimum(points[:, columns[knob.name]], target.tops[at])
            floors = target.column_floors(at)
            moved[:, at] = target.column_values(at)[floors[value]]
    return repair(target, moved)


def distinct(points: Matrix) -> Matrix:
    """The points without repeated rows; the first of each stays, in order."""
    return points[firsts(points)]


def firsts(points: Matrix) -> npt.NDArray[np.intp]:
    """Where rows occur for the first time, in order."""
    if points.shape[1] == 0:
        return np.arange(min(len(points), 1))
    _, first = np.unique(_keys(points), return_index=True)
    return np.sort(first)


def _keys(points: Matrix) -> npt.NDArray[np.int64]:
    """A number for each row, the same for equal rows: sorted faster than rows are."""
    keys, size = np.zeros(len(points), np.int64), 1
    for column in points.T:
        base = int(column.max(initial=0)) + 1
        if size * base >= 1 << 62:
            keys = np.unique(keys, return_inverse=True)[1].astype(np.int64)
            size = len(keys)
        keys = keys * base + column
        size *= base
    return keys


def empty(count: int, knobs: int) -> Matrix:
    """Room for points; each column is contiguous."""
    return np.empty((knobs, count), np.int32).T


def chosen(points: Matrix, mask: npt.NDArray[np.bool_]) -> Matrix:
    """The rows of a mask."""
    return points if mask.all() else points.T[:, mask].T


def together(parts: Sequence[Matrix]) -> Matrix:
    """Several matrices of points, one below the other."""
    return np.concatenate([part.T for part in parts], axis=1).T
