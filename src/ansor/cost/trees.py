"""Gradient-boosted trees grown by LightGBM, where it is installed; walking them needs
NumPy only, and no model text of LightGBM's is ever read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ansor.cost.questions import Questions
from ansor.cost.sample import MEMBERS, Doubles, Floats, Ints, Rows
from ansor.cost.stored import read, read_array
from ansor.errors import CostError

TREES = 40  # of each member
LEAVES = 8  # of each tree, so that a byte has one bit for each
NEVER = np.finfo(np.float32).max  # a threshold that no value is above
OPTIONS: dict[str, object] = {
    "num_leaves": LEAVES,
    "min_data_in_leaf": 3,
    "min_sum_hessian_in_leaf": 0.05,
    "lambda_l2": 1.0,
    "learning_rate": 0.15,
    "feature_fraction": 0.5,
    "max_bin": 63,
    "min_data_in_bin": 1,
    "use_missing": False,
    "feature_pre_filter": False,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}
FIELDS = ("columns", "thresholds", "masks", "leaves")

Bytes: TypeAlias = npt.NDArray[np.uint8]
Node: TypeAlias = dict[str, Any]  # as LightGBM describes it
Question: TypeAlias = tuple[int, float, int]  # column, threshold, mask


def lightgbm() -> ModuleType:
    """The package; a CostError says how to get it."""
    try:
        return import_module("lightgbm")
    except (ImportError, OSError) as error:  # OSError: its library lacks another
        raise CostError(
            "cost model 'trees'",
            f"needs the package lightgbm, which does not load: {error}",
            "pip install 'ansor[learned]', or use the model 'boosting'",
        ) from error


def is_available() -> bool:
    try:
        lightgbm()
    except CostError:
        return False
    return True


@dataclass(frozen=True)
class Trees:
    """An ensemble of `MEMBERS` sums of trees. Same rows and generator, same trees."""

    name = "trees"

    def learn(self, rows: Rows, weights: Doubles, rng: np.random.Generator) -> Grove:
        library = lightgbm()
        members = []
        for weight in weights:
            options = {**OPTIONS, "seed": int(rng.integers(2**31))}
            options["objective"] = _objective(rows, weight)
            data = library.Dataset(rows.values, np.zeros(len(rows.values)))
            booster = library.train(options, data, TREES)
            members.append(booster.dump_model()["tree_info"])
        return _grove([[tree["tree_structure"] for tree in x] for x in members])

    def read(self, what: str, data: object, columns: int) -> Grove:
        found = read.fields(what, data, FIELDS)
        leaves = read_array(what, found["leaves"], 3)
        if leaves.shape[0] != MEMBERS:
            raise CostError(what, f"{leaves.shape[0]} members, not {MEMBERS}")
        if leaves.shape[2] != LEAVES:
            raise CostError(what, f"trees with {leaves.shape[2]} leaves, not {LEAVES}")
        shape = (*leaves.shape[:2], LEAVES - 1)
        chosen = read_array(what, found["columns"], 3, shape, most=columns - 1)
        masks = read_array(what, found["masks"], 3, shape, most=255)
        thresholds = read_array(what, found["thresholds"], 3, shape)
        return Grove(
            chosen.astype(np.intp),
            thresholds.astype(np.float32),
            masks.astype(np.uint8),
            leaves.astype(np.float32),
        )


@dataclass(frozen=True)
class Grove:
    """Trees as questions in any order: a value above the threshold rules out the
    leaves of the mask. The first leaf that is left is the one that the tree reaches.
    """

    columns: Ints  # [members, trees, LEAVES - 1]
    thresholds: Floats  # [members, trees, LEAVES - 1]
    masks: Bytes  # [members, trees, LEAVES - 1]
    leaves: Floats  # [members, trees, LEAVES], from left to right

    def predict(self, values: Floats) -> Floats:
        """f of each member: float32[members, rows]."""
        out = np.zeros((len(self.columns), len(values)), np.float32)
        for part, answers in self._questions.answer(values):
            ruled = np.zeros(answers.shape[1], np.uint8)
            one = np.zeros_like(ruled)
            for member, tree in np.ndindex(self.leaves.shape[:2]):
                ruled.fill(0)
                asked = self._questions.places[member, tree]
                for question, mask in zip(asked, self.masks[member, tree], strict=True):
                    np.multiply(answers[question], mask, out=one)
                    np.bitwise_or(ruled, one, out=ruled)
                out[member, part] += self._tables[member, tree].take(ruled)
        return out

    @cached_property
    def _questions(self) -> Questions:
        return Questions.of(self.columns, self.thresholds)

    @cached_property
    def _tables(self) -> Floats:
        """The leaf reached, for every set of leaves that are ruled out."""
        ruled = np.arange(256)
        left = (ruled[:, None] >> np.arange(LEAVES)) & 1 == 0
        return self.leaves[..., left.argmax(1)]

    def to_data(self) -> object:
        return {name: getattr(self, name).tolist() for name in FIELDS}


def _objective(
    rows: Rows, weight: Doubles
) -> Callable[[Doubles, object], tuple[Doubles, Doubles]]:
    def slopes(learned: Doubles, _: object) -> tuple[Doubles, Doubles]:
        return rows.slopes(learned, weight)

    return slopes


def _grove(members: list[list[Node]]) -> Grove:
    """LightGBM stops early where nothing is gained: trees that say 0 fill up."""
    shape = (len(members), TREES)
    columns = np.zeros((*shape, LEAVES - 1), np.intp)
    thresholds = np.full((*shape, LEAVES - 1), NEVER, np.float32)
    masks = np.zeros((*shape, LEAVES - 1), np.uint8)
    leaves = np.zeros((*shape, LEAVES), np.float32)
    for member, trees in enumerate(members):
        for tree, root in enumerate(trees):
            at = (member, tree)
            said = list(_said(root))
            leaves[at][: len(said)] = said
            for number, question in enumerate(_questions(root, 0)):
                columns[at][number] = question[0]
                thresholds[at][number] = _rounded_down(question[1])
                masks[at][number] = question[2]
    return Grove(columns, thresholds, masks, leaves)


def _said(node: Node) -> Iterator[float]:
    """The values of the leaves from left to right."""
    if "left_child" not in node:
        yield node["leaf_value"]
        return
    yield from _said(node["left_child"])
    yield from _said(node["right_child"])


def _questions(node: Node, first: int) -> Iterator[Question]:
    """Of a node whose leftmost leaf has this number, and of those below."""
    if "left_child" not in node:
        return
    left, right = node["left_child"], node["right_child"]
    count = len(list(_said(left)))
    mask = ((1 << count) - 1) << first
    yield node["split_feature"], node["threshold"], mask
    yield from _questions(left, first)
    yield from _questions(right, first + count)


def _rounded_down(threshold: float) -> np.float32:
    """The largest float32 up to it: the same float32 values lie above."""
    near = np.float32(threshold)
    return np.nextafter(near, np.float32(-np.inf)) if near > threshold else near
