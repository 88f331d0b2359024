"""Gradient boosting in NumPy: oblivious trees, which ask the same question in all
nodes of a level, so that a matrix of points walks them without a Python loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ansor.cost.questions import Questions
from ansor.cost.sample import MEMBERS, Doubles, Floats, Ints, Rows
from ansor.cost.stored import read, read_array
from ansor.errors import CostError

TREES = 40  # of each member
DEPTH = 4
GROUP = 2  # trees looked up together: their answers fill a byte
RATE = 0.15  # of what a tree says, how much counts
SMOOTH = 1.0  # programs' worth of doubt in every leaf
BINS = 32  # values of a column that are told apart
SHARE = 0.5  # of the columns, for each tree

NEVER = np.finfo(np.float32).max  # a threshold that no value is above

Codes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Boosting:
    """An ensemble of `MEMBERS` sums of trees, learned from `rows`."""

    name = "boosting"

    def learn(self, rows: Rows, weights: Doubles, rng: np.random.Generator) -> Forest:
        bins = Bins.of(rows.values)
        learned = np.zeros((len(weights), len(rows.program)))
        trees = [_grow(rows, bins, weights, learned, rng) for _ in range(TREES)]
        columns, thresholds, leaves = zip(*trees, strict=True)
        return Forest(np.stack(columns), np.stack(thresholds), np.stack(leaves))

    def read(self, what: str, data: object, columns: int) -> Forest:
        found = read.fields(what, data, ("columns", "thresholds", "leaves"))
        leaves = read_array(what, found["leaves"], 3)
        if leaves.shape[2] != MEMBERS:
            raise CostError(what, f"{leaves.shape[2]} members, not {MEMBERS}")
        if leaves.shape[1] != 1 << DEPTH:
            raise CostError(
                what, f"trees with {leaves.shape[1]} leaves, not 2**{DEPTH}"
            )
        shape = (len(leaves), DEPTH)
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

    columns: Ints  # [trees, DEPTH]
    thresholds: Floats  # [trees, DEPTH]; a value above it is a 1
    leaves: Floats  # [trees, 2**DEPTH, members]

    def predict(self, values: Floats) -> Floats:
        """f of each member: float32[members, rows]."""
        out = np.zeros((self.leaves.shape[2], len(values)), np.float32)
        for part, answers in self._questions.answer(values):
            count = answers.shape[1]
            code = np.zeros(count, np.uint8)
            said = np.zeros((count, len(out)), np.float32)
            total = np.zeros_like(said)
            for asked, table in self._groups:
                code.fill(0)
                for question in asked:
                    np.add(code, code, out=code)
                    np.bitwise_or(code, answers[question], out=code)
                table.take(code, axis=0, out=said, mode="clip")
                np.add(total, said, out=total)
            out[:, part] = total.T
        return out

    @cached_property
    def _questions(self) -> Questions:
        return Questions.of(self.columns, self.thresholds)

    @cached_property
    def _groups(self) -> list[tuple[list[int], Floats]]:
        """What groups of trees ask, and the sums of their leaves."""
        return list(_grouped(self._questions.places, self.leaves))

    def to_data(self) -> object:
        return {
            "columns": self.columns.tolist(),
            "thresholds": self.thresholds.tolist(),
            "leaves": self.leaves.tolist(),
        }


def _grouped(asked: Ints, leaves: Floats) -> Iterator[tuple[list[int], Floats]]:
    for start in range(0, len(leaves), GROUP):
        group = slice(start, start + GROUP)
        table = np.zeros((1, leaves.shape[2]), np.float32)
        for tree in leaves[group]:
            table = (table[:, None] + tree[None]).reshape(-1, leaves.shape[2])
        yield asked[group].ravel().tolist(), table


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
    rows: Rows, bins: Bins, weights: Doubles, learned: Doubles, rng: np.random.Generator
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
    columns = np.zeros(DEPTH, np.intp)
    thresholds = np.full(DEPTH, NEVER, np.float32)
    for level in range(DEPTH):
        at, cut = _best(cells, leaf, 1 << level, (pull, curve))
        leaf <<= 1
        if at >= 0:
            leaf |= bins.codes[:, wanted[at]] > cut
            columns[level] = bins.columns[wanted[at]]
            thresholds[level] = bins.thresholds[wanted[at], cut]
    leaves = np.empty((1 << DEPTH, len(weights)), np.float32)
    for member, slopes in enumerate(every):
        pull, curve = (np.bincount(leaf, slope, 1 << DEPTH) for slope in slopes)
        leaves[:, member] = -RATE * pull / (curve + SMOOTH)
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
