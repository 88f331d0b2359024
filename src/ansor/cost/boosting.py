"""Gradient boosting in NumPy: oblivious trees, which ask the same question in all
nodes of a level, so that a matrix of points walks them without a Python loop."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ansor.cost.questions import Questions
from ansor.cost.sample import MEMBERS, Doubles, Floats, Ints, Rows
from ansor.cost.stored import read, read_array
from ansor.errors import CostError

BITS = 8  # answers of trees that are looked up together
SMOOTH = 1.0  # programs' worth of doubt in every leaf
BINS = 32  # values of a column that are told apart
SHARE = 0.5  # of the columns, for each tree

NEVER = np.finfo(np.float32).max  # a threshold that no value is above

Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Shape:
    """The trees of each member. Either shape asks 160 questions, in 20 bytes."""

    trees: int
    depth: int
    rate: float  # of what a tree says, how much counts


SHALLOW, DEEP = Shape(40, 4, 0.15), Shape(20, 8, 0.25)
DEPTHS = (SHALLOW.depth, DEEP.depth)


@dataclass(frozen=True)
class Boosting:
    """An ensemble of `MEMBERS` sums of trees, learned from `rows`."""

    name: str = "boosting"
    shape: Shape = SHALLOW

    def learn(self, rows: Rows, weights: Doubles, rng: np.random.Generator) -> Forest:
        bins = Bins.of(rows.values)
        learned = np.zeros((len(weights), len(rows.program)))
        trees = [
            _grow(self.shape, rows, bins, weights, learned, rng)
            for _ in range(self.shape.trees)
        ]
        columns, thresholds, leaves = zip(*trees, strict=True)
        return Forest(np.stack(columns), np.stack(thresholds), np.stack(leaves))

    def read(self, what: str, data: object, columns: int) -> Forest:
        found = read.fields(what, data, ("columns", "thresholds", "leaves"))
        leaves = read_array(what, found["leaves"], 3)
        if leaves.shape[2] != MEMBERS:
            raise CostError(what, f"{leaves.shape[2]} members, not {MEMBERS}")
        depth = leaves.shape[1].bit_length() - 1
        if depth not in DEPTHS or leaves.shape[1] != 1 << depth:
            known = " or ".join(f"2**{x}" for x in DEPTHS)
            raise CostError(what, f"trees with {leaves.shape[1]} leaves, not {known}")
        shape = (len(leaves), depth)
        chosen = read_array(what, found["columns"], 2, shape, most=columns - 1)
        thresholds = read_array(what, found["thresholds"], 2, shape)
        return Forest(
            chosen.astype(np.intp),
            thresholds.astype(np.float32),
            leaves.astype(np.float32),
        )


@dataclass(frozen=True)
class Forest:
    """Trees that all members share, but for what leaves say. Leaf number: one bit per
    level, the first the highest."""

    columns: Ints  # [trees, depth]
    thresholds: Floats  # [trees, depth]; a value above it is a 1
    leaves: Floats  # [trees, 2**depth, members]

    def predict(self, values: Floats) -> Floats:
        """f of each member: float32[members, rows]."""
        out = np.zeros((self.leaves.shape[2], len(values)), np.float32)
        asked, tables = self._groups
        for part, answers in self._questions.answer(values):
            codes = _codes(np.ascontiguousarray(answers), asked)
            said = np.zeros((codes.shape[1], len(out)), np.float32)
            total = np.zeros_like(said)
            for code, table in zip(codes, tables, strict=True):
                table.take(code, axis=0, out=said, mode="clip")
                np.add(total, said, out=total)
            out[:, part] = total.T
        return out

    @cached_property
    def _questions(self) -> Questions:
        return Questions.of(self.columns, self.thresholds)

    @cached_property
    def _groups(self) -> tuple[Ints, Floats]:
        """What groups of trees ask, [bits, groups], and the sums of their leaves,
        [groups, 2**bits, members]. Trees that say 0 fill up the last group."""
        group = BITS // self.columns.shape[1]
        missing = -len(self.leaves) % group
        places = np.pad(self._questions.places, ((0, missing), (0, 0)), mode="edge")
        leaves = np.pad(self.leaves, ((0, missing), (0, 0), (0, 0)))
        asked = places.reshape(-1, group * places.shape[1]).T
        groups = leaves.reshape(-1, group, *leaves.shape[1:])
        return np.ascontiguousarray(asked), np.stack([_sums(x) for x in groups])

    def to_data(self) -> object:
        return {
            "columns": self.columns.tolist(),
            "thresholds": self.thresholds.tolist(),
            "leaves": self.leaves.tolist(),
        }


def _codes(answers: Codes, asked: Ints) -> Codes:
    """The answers to the questions of each group as one number, first bit highest:
    of all groups at once, since a call of NumPy takes longer than its work here."""
    codes: Codes = answers.take(asked[0], axis=0)
    one = np.empty_like(codes)
    for questions in asked[1:]:
        np.add(codes, codes, out=codes)
        answers.take(questions, axis=0, out=one, mode="clip")
        np.bitwise_or(codes, one, out=codes)
    return codes


def _sums(leaves: Floats) -> Floats:
    """What trees say together, for each combination of their leaves."""
    table = np.zeros((1, leaves.shape[2]), np.float32)
    for tree in leaves:
        table = (table[:, None] + tree[None]).reshape(-1, leaves.shape[2])
    return table


@dataclass(frozen=True)
class Bins:
    """Columns cut into few values each; only those that vary."""

    columns: Ints  # which columns of the features
    thresholds: Floats  # [columns, BINS - 1], ascending, padded with inf
    codes: Codes  # [rows, columns]: how many thresholds lie below the value

    @staticmethod
    def of(values: Floats) -> Bins:
        columns, thresholds, codes = [], [], []
        for column in range(values.shape[1]):
            cuts = _cuts(values[:, column])
            if len(cuts):
                columns.append(column)
                codes.append(np.searchsorted(cuts, values[:, column], "left"))
                padding = (0, BINS - 1 - len(cuts))
                thresholds.append(np.pad(cuts, padding, constant_values=np.inf))
        count = len(columns)
        return Bins(
            np.array(columns, np.intp),
            np.array(thresholds, np.float32).reshape(count, BINS - 1),
            np.array(codes, np.uint8).reshape(count, len(values)).T,
        )


def _cuts(values: Floats) -> Floats:
    """Up to BINS - 1 thresholds between the values of a column."""
    distinct = np.unique(values)
    if len(distinct) > BINS:
        quantiles = np.linspace(0, len(values) - 1, BINS).astype(np.intp)
        distinct = np.unique(np.sort(values)[quantiles])
    low, high = distinct[:-1], distinct[1:]
    return (low + (high - low) / 2).astype(np.float32)


Tree = tuple[Ints, Floats, Floats]  # columns, thresholds, leaves


def _grow(
    shape: Shape,
    rows: Rows,
    bins: Bins,
    weights: Doubles,
    learned: Doubles,
    rng: np.random.Generator,
) -> Tree:
    """One more tree. `learned`, what members say of every row, takes its part in.

    What it asks suits all members together, what it answers each of them alone.
    """
    every = [rows.slopes(*pair) for pair in zip(learned, weights, strict=True)]
    pull, curve = np.mean(every, axis=0)
    count = len(bins.columns)
    wanted = rng.permutation(count)[: max(1, round(count * SHARE))]
    cells = bins.codes[:, wanted] + np.arange(len(wanted)) * BINS
    leaf = np.zeros(len(cells), np.intp)
    columns = np.zeros(shape.depth, np.intp)
    thresholds = np.full(shape.depth, NEVER, np.float32)
    for level in range(shape.depth):
        at, cut = _best(cells, leaf, 1 << level, (pull, curve))
        leaf <<= 1
        if at >= 0:
            leaf |= bins.codes[:, wanted[at]] > cut
            columns[level] = bins.columns[wanted[at]]
            thresholds[level] = bins.thresholds[wanted[at], cut]
    leaves = np.empty((1 << shape.depth, len(weights)), np.float32)
    for member, slopes in enumerate(every):
        pull, curve = (np.bincount(leaf, slope, 1 << shape.depth) for slope in slopes)
        leaves[:, member] = -shape.rate * pull / (curve + SMOOTH)
        learned[member] += leaves[leaf, member]
    return columns, thresholds, leaves


def _best(
    cells: Ints, leaf: Ints, leaves: int, slopes: tuple[Doubles, Doubles]
) -> tuple[int, int]:
    """The (column, cut) that splits all leaves best; (-1, 0) if nothing is gained."""
    columns = cells.shape[1]
    if not columns:
        return -1, 0
    index = (cells + leaf[:, None] * (columns * BINS)).ravel()
    size = leaves * columns * BINS
    pull, curve = (
        np.bincount(index, np.repeat(slope, columns), size)
        .reshape(leaves, columns, BINS)
        .cumsum(2)
        for slope in slopes
    )
    below = pull[..., :-1] ** 2 / (curve[..., :-1] + SMOOTH)
    above = (pull[..., -1:] - pull[..., :-1]) ** 2
    above /= curve[..., -1:] - curve[..., :-1] + SMOOTH
    gain = (below + above).sum(0)
    whole = (pull[:, 0, -1] ** 2 / (curve[:, 0, -1] + SMOOTH)).sum()
    at = int(gain.argmax())
    if gain.flat[at] <= whole * (1 + 1e-9):
        return -1, 0
    return divmod(at, BINS - 1)
