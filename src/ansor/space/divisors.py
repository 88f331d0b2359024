"""The space of the original: tiles divide what they tile, operands stay as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ansor.schedule.knobs import Knob
from ansor.space.constraints import with_knobs
from ansor.space.sketch import Sketch
from ansor.space.table import Group, Matrix
from ansor.space.view import Mask

EXTRA = frozenset(("pack", "flipped"))  # words of traces that the original has not


@dataclass(frozen=True)
class Dividing(Sketch):
    """A sketch whose tile lengths, multiplied, divide the extent of their axis."""

    def feasible(self, points: Matrix) -> Mask:
        mask = super().feasible(points)
        for group in self.table.groups:
            tile = np.full(len(points), group.fixed, np.int64)
            for column in self._dividing(group):
                tile *= points[:, column]
            mask &= group.extent % tile == 0
        return mask

    def _dividing(self, group: Group) -> list[int]:
        """The columns of a group that can divide its extent: of a prime one, whole
        vectors cannot, and its last block is shorter."""
        if group.extent % group.fixed:
            return []
        return [
            column
            for column in group.columns
            if any(group.extent % n == 0 for n in self.knobs[column].candidates)
        ]


def divided(sketches: Sequence[Sketch]) -> list[Sketch]:
    """The part of a space that the original has: divisors, nothing packed, one order of
    the blocks. All structures stay where none would."""
    usual = [s for s in sketches if not EXTRA & {w for e in s.trace for w in e.split()}]
    return [_divided(sketch) for sketch in usual or sketches]


def _divided(sketch: Sketch) -> Sketch:
    changed: dict[str, Knob] = {}
    for group in sketch.table.groups:
        for column in group.columns:
            knob = sketch.knobs[column]
            kept = tuple(n for n in knob.candidates if group.extent % n == 0)
            changed[knob.name] = Knob(knob.name, kept or knob.candidates[:1])
    limited = with_knobs(sketch, changed)
    return Dividing(limited.task, limited.steps, limited.trace)
