"""Tiling a stage into levels of loops: the one mechanism behind every tiled nest.

A structure is a string of levels, outermost first: S stands for one loop of each
spatial axis, R for one of each reduction axis. With "SSRSRRS" a matmul becomes

    i.0 j.0 | i.1 j.1 | k.0 | i.2 j.2 | k.1 | k.2 | i.3 j.3

The last S level is a tile in registers, unrolled and vectorised; the last R level is
unrolled. Every length inside the outermost is a knob. A level of length 1 is none, so
points of one sketch also decide how many levels there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from ansor.schedule.knobs import Length
from ansor.schedule.steps import Annotate, ComputeAt, Reorder, Split, Step
from ansor.space import lengths
from ansor.te.stage import Axis, Stage

Candidates = tuple[tuple[int, ...], ...]  # one per level below the outermost

TILED = "SSRSRRS"  # SSRSRS, and an unrolled level of the reduction
REDUCED = "SRRS"
ELEMENTWISE = "SS"


@dataclass(frozen=True)
class Tiling:
    """One way to tile a stage.

    `vector` is the vectorised axis, spatial or reduced, or None. `flipped` is the
    number of the S level whose loops run in reverse order of the axes, or None.
    """

    stage: Stage
    structure: str
    lanes: int = 1
    vector: str | None = None
    flipped: int | None = None
    rows: frozenset[str] = frozenset()  # axes unrolled as a whole, not split
    knobs: str = ""  # what its knobs are called after; the stage if empty
    choose: Callable[[Tiling, Axis, int], Candidates] | None = None

    def lengths(self, axis: Axis) -> tuple[Length, ...]:
        """The lengths of an axis below its outermost level; none if it is not split."""
        levels = Counter(self.structure)["R" if self.is_reduce(axis) else "S"]
        if axis.extent == 1 or levels == 1 or axis.name in self.rows:
            return ()
        found = (self.choose or cpu_lengths)(self, axis, levels - 1)
        name = self.knobs or self.stage.name
        return tuple(
            lengths.length(name, f"{axis.name}.{level}", candidates)
            for level, candidates in enumerate(found, 1)
        )

    def is_reduce(self, axis: Axis) -> bool:
        return axis in self.stage.reduce_axes

    def parts(self, axis: Axis, split: tuple[Length, ...]) -> tuple[str, ...]:
        return tuple(f"{axis.name}.{n}" for n in range(len(split) + 1))

    def steps(self) -> list[Step]:
        """Split every axis, order the loops by level, unroll and vectorise."""
        return self._tile(self.stage.name, self.structure, 0)

    def fused(self, consumer: Stage, levels: int, kinds: tuple[str, ...]) -> list[Step]:
        """Tile a stage inside its element-wise consumer.

        The consumer gets the outer `levels` S levels and what remains of each axis;
        the stage is computed at the last of them, and tiled by the other levels. The
        two share their knobs. `kinds` annotates the remaining loops of the consumer,
        the last one and the others.
        """
        name = consumer.name
        axes = list(zip(self.stage.axes, consumer.axes, strict=True))
        steps: list[Step] = []
        outer: list[list[str]] = [[] for _ in range(levels)]
        rest: list[str] = []
        for own, axis in axes:
            split = self.lengths(own)
            if not split:
                outer[0].append(axis.name)
                continue
            steps.append(Split(name, axis.name, split))
            parts = self.parts(axis, split)
            for level in range(levels):
                outer[level].append(parts[level])
            rest += parts[levels:]
        order = [loop for level in outer for loop in level]
        steps.append(Reorder(name, (*order, *rest)))
        if kinds and rest:
            steps.append(Annotate(name, rest[-1], kinds[0]))
        steps.append(ComputeAt(self.stage.name, name, order[-1]))
        return steps + self._tile(self.stage.name, self.structure[levels:], levels)

    def _tile(self, name: str, structure: str, skip: int) -> list[Step]:
        steps: list[Step] = []
        spatial: list[tuple[str, ...]] = []
        reduced: list[tuple[str, ...]] = []
        whole: list[str] = []  # axes that are not split
        kinds: dict[str, str] = {}
        for axis in (*self.stage.axes, *self.stage.reduce_axes):
            is_reduce = self.is_reduce(axis)
            split = self.lengths(axis)
            inner = split if is_reduce else split[skip:]
            parts: tuple[str, ...] = (axis.name,)
            if inner:
                steps.append(Split(name, axis.name, inner))
                parts = self.parts(axis, inner)
            if axis.name in self.rows:
                kinds[axis.name] = "unroll"
                spatial.append((*[""] * (structure.count("S") - 1), axis.name))
                continue
            if not split and not is_reduce:
                whole.append(axis.name)
                continue
            (reduced if is_reduce else spatial).append(parts)
            if split:
                vector = axis.name == self.vector
                kinds[parts[-1]] = "vectorize" if vector else "unroll"
        order = self._order(structure, whole, spatial, reduced, skip)
        order.sort(key=lambda loop: kinds.get(loop) == "vectorize")  # innermost
        if len(order) > 1:
            steps.append(Reorder(name, tuple(order)))
        annotated = (loop for loop in order if loop in kinds)
        return steps + [Annotate(name, loop, kinds[loop]) for loop in annotated]

    def _order(
        self,
        structure: str,
        whole: list[str],
        spatial: list[tuple[str, ...]],
        reduced: list[tuple[str, ...]],
        skip: int,
    ) -> list[str]:
        order = list(whole)
        seen: Counter[str] = Counter()
        for kind in structure:
            level = seen[kind]
            loops = [
                parts[level]
                for parts in (spatial if kind == "S" else reduced)
                if level < len(parts) and parts[level]
            ]
            if kind == "S" and self.flipped == level + skip:
                loops.reverse()
            order += loops
            seen[kind] += 1
        return order


def cpu_lengths(tiling: Tiling, axis: Axis, levels: int) -> Candidates:
    """Blocks for the caches, then a tile for the registers."""
    inner: tuple[int, ...]
    if axis.name == tiling.vector:
        inner = lengths.vector_lengths(axis.extent, tiling.lanes)
    elif tiling.is_reduce(axis):
        inner = lengths.unrolled_lengths(axis.extent)
    else:
        inner = lengths.row_lengths(axis.extent, _most_rows(tiling, axis))
    blocks = lengths.block_lengths(-(-axis.extent // inner[0]))
    return (*(blocks for _ in range(levels - 1)), inner)


def _most_rows(tiling: Tiling, axis: Axis) -> int:
    """The axis nearest to the vectors gets the long tile."""
    others = [a for a in tiling.stage.axes if a.name != tiling.vector and a.extent > 1]
    return lengths.ROWS if others and axis == others[-1] else lengths.OTHER_ROWS
