"""Registers: what the innermost loops of a program hold at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ansor.ir.affine import linear
from ansor.ir.expr import Load
from ansor.schedule.knobs import Column
from ansor.schedule.plan import Nest
from ansor.space.access import moving, walk
from ansor.space.code import border_axes, statements
from ansor.space.view import Mask, View, copied_loops, first_reduce, vector_loop

OPERANDS = 32  # registers that one statement may need: its operands, by element


def registers(view: View) -> Column:
    """Vector registers that the innermost loops need at once, the most of any nest."""
    most = view.one
    for nest in view.nests:
        if nest.stage.reducer is not None and not nest.ahead:
            most = np.maximum(most, _tile_registers(view, nest))
    return most


def _tile_registers(view: View, nest: Nest) -> Column:
    """Accumulators, what is read along the vectors, and scalars."""
    tile = _Tile.of(nest)
    wide = view.vectors(nest, tile.vector)
    needed = view.product(nest, tile.rows) * wide * len(nest.stage.buffers) + 1
    if tile.vector is not None and nest.is_reduce(tile.vector):
        return needed + wide * _reused(view, nest, tile)
    for load in dict.fromkeys(nest.stage.loads):
        held, _ = _held(view, nest, load, tile)
        if tile.is_along(nest, load):
            needed = needed + wide * held
        else:
            needed = needed + held - 1 + _scalars(view, nest, load, tile)
    return needed


def _reused(view: View, nest: Nest, tile: _Tile) -> Column:
    """Operands of lanes that are summed up in the end: all rows of each stay while the
    one with the most rows is read one by one."""
    loads = [x for x in dict.fromkeys(nest.stage.loads) if tile.is_along(nest, x)]
    rows = [
        view.product(nest, [x for x in tile.rows if nest.axis_of(x) & _used(load)])
        for load in loads
    ]
    held = most = view.one - 1
    for count in rows:
        held, most = held + count, np.maximum(most, count)
    return held - most + 1


@dataclass(frozen=True)
class _Tile:
    """The loops of a nest that are written out inside its reduction."""

    vector: str | None
    axes: frozenset[str]  # of the vectors
    rows: list[str]
    steps: list[str]  # of the reduction

    @staticmethod
    def of(nest: Nest) -> _Tile:
        vector, first = vector_loop(nest), first_reduce(nest)
        inside = [x for x in copied_loops(nest) if nest.loops.index(x) >= first]
        rest = [x for x in inside if x != vector]
        return _Tile(
            vector,
            frozenset() if vector is None else nest.axis_of(vector),
            [x for x in rest if not nest.is_reduce(x)],
            [x for x in rest if nest.is_reduce(x)],
        )

    def is_along(self, nest: Nest, load: Load) -> bool:
        """True if lanes read different elements."""
        return bool(self.axes & _used(load))


def _used(load: Load) -> frozenset[str]:
    """Axes along which it reads other elements."""
    return frozenset().union(*(moving(index) for index in load.indices))


def _held(view: View, nest: Nest, load: Load, tile: _Tile) -> tuple[Column, Mask]:
    """How many vectors of one load are held at once, and whether it is a window.

    One, unless unrolled steps of the reduction read what other rows have read: the
    window of a convolution. Then the whole window stays. Vectors that pick every
    second element are taken from one run of memory for all steps.
    """
    held, slides = view.one, view.one < 0
    slid = {axis for loop in tile.steps for axis in nest.axis_of(loop)}
    moved = {axis for loop in tile.rows for axis in nest.axis_of(loop)}
    for index in load.indices:
        terms = {str(atom): c for atom, c in linear(index).terms.items()}
        strides = [c for name, c in terms.items() if name in tile.axes]
        if not slid & terms.keys():
            if moved & terms.keys():
                held = held * (_reach(view, nest, terms, tile.rows) + 1)
            continue
        across = _reach(view, nest, terms, tile.steps)
        if strides and abs(strides[0]) > 1:
            held, slides = held * (across + 1), slides | (across > 0)
        elif not strides and moved & terms.keys():
            along = _reach(view, nest, terms, tile.rows)
            both = (along > 0) & (across > 0)
            slides = slides | both
            again = _steps_inside(view, nest, load, terms, tile.steps)
            held = held * np.where(both, (along + across + 1) * again, along + 1)
    return np.where(slides, held, 1) if slides.any() else view.one, slides


def _scalars(view: View, nest: Nest, load: Load, tile: _Tile) -> Column:
    """Registers for scalars where instructions multiply by a lane: a vector of rows,
    or for each row the vectors that the unrolled steps read from."""
    if view.target.arch != "aarch64" or not load.indices:
        return view.one - 1
    lanes = view.lanes(nest)
    rows = view.product(nest, [x for x in tile.rows if nest.axis_of(x) & _used(load)])
    last = {str(atom): c for atom, c in linear(load.indices[-1]).terms.items()}
    runs = [x for x in tile.steps if any(last.get(a) == 1 for a in nest.axis_of(x))]
    steps = view.product(nest, runs)
    return np.where(steps > 1, rows * -(-steps // lanes), -(-rows // lanes))


def _steps_inside(
    view: View, nest: Nest, load: Load, terms: dict[str, int], steps: list[str]
) -> Column:
    """Elements that other unrolled steps read before the window moves on."""
    slid = [loop for loop in steps if nest.axis_of(loop) & terms.keys()]
    first = min(nest.loops.index(loop) for loop in slid)
    inner = [x for x in steps if nest.loops.index(x) > first and x not in slid]
    return view.product(nest, [x for x in inner if nest.axis_of(x) & _used(load)])


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
        loops = [x for x in copied_loops(nest) if nest.is_reduce(x)]
        split = [x for x in loops if x != vector_loop(nest) and _is_part(nest, x)]
        most = np.maximum(most, view.product(nest, split))
    return most


def _is_part(nest: Nest, loop: str) -> bool:
    return all(loop != axis.name for axis in nest.stage.reduce_axes)


def promised_spills(view: View) -> Column:
    """The most registers that innermost loops store to and load from the stack.

    None where the registers of a tile can be counted: operands are read one after the
    other, along the vectors or the same in all lanes. Where they are picked apart
    (strides, windows, borders of paddings), up to all operands of all statements.
    """
    most = view.one - 1
    for nest in view.nests:
        if not nest.ahead and nest.annotations:
            doubt = _is_uncountable(view, nest)
            most = most + np.where(doubt, OPERANDS * statements(view, nest), 0)
    return most


def _is_uncountable(view: View, nest: Nest) -> Mask:
    tile = _Tile.of(nest)
    axes = [*nest.stage.axes, *nest.stage.reduce_axes]
    rough = any(
        not walk(nest.stage, axis).is_smooth for axis in axes if axis.name in tile.axes
    )
    rough = rough or bool(border_axes(nest))
    doubt: Mask = view.one > (0 if rough else 1)
    for load in dict.fromkeys(nest.stage.loads):
        doubt = doubt | _held(view, nest, load, tile)[1]
    return doubt
