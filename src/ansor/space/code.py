"""How much code a program becomes: statements after unrolling."""

from __future__ import annotations

import numpy as np

from ansor.ir.affine import linear
from ansor.ir.expr import Binary, Select, Var
from ansor.ir.visit import variables, walk
from ansor.schedule.knobs import Column
from ansor.schedule.lower.settle import conjuncts, is_comparison
from ansor.schedule.plan import Nest, SplitRelation
from ansor.space.view import View, copied_loops

FEW = 64  # copies of one statement, that are not worth a thought
MOST_COPIES = 8  # vectors of one loop that are written out side by side


def code(view: View) -> Column:
    """Statements after unrolling, tails and borders included, of all stages.

    Stages that are always written out (transforms with constant matrices, of which
    simplification leaves little) do not count.
    """
    total = view.one - 1
    for nest in view.nests:
        if not nest.ahead and _always_written(nest) <= FEW:
            total = total + statements(view, nest)
    return total


def longest(view: View) -> Column:
    """Statements after unrolling, tails and borders included, of the longest stage."""
    most = view.one
    for nest in view.nests:
        if not nest.ahead:
            most = np.maximum(most, statements(view, nest))
    return most


def _always_written(nest: Nest) -> int:
    """Copies of a statement that no point can avoid: whole axes are unrolled."""
    copies = 1
    for axis in (*nest.stage.axes, *nest.stage.reduce_axes):
        if nest.annotations.get(axis.name) == "unroll":
            copies *= axis.extent
    return copies


def statements(view: View, nest: Nest) -> Column:
    """Copies of the innermost statement, in all variants of its tails and borders."""
    if nest.name not in view.counted:
        view.counted[nest.name] = _statements(view, nest)
    return view.counted[nest.name]


def _statements(view: View, nest: Nest) -> Column:
    copies = view.one
    split = {r.parts[-1]: r for r in nest.relations if isinstance(r, SplitRelation)}
    for loop in copied_loops(nest):
        if loop in split:
            copies = copies * _copies(view, nest, split[loop])
        else:
            copies = copies * _written(view, nest, loop, view.extent(nest, loop))
    for axes in _borders(nest):
        copies = copies * _variants(view, nest, axes)
    return copies


def _borders(nest: Nest) -> set[frozenset[str]]:
    """The axes that decide together where the borders of a padding are.

    What is no comparison of a sum of axes stays a test.
    """
    axes = border_axes(nest)
    found: set[frozenset[str]] = set()
    for expr in nest.stage.body:
        for node in walk(expr):
            if isinstance(node, Select):
                for part in conjuncts(node.condition):
                    names = frozenset(variables(part))
                    if names & axes and is_comparison(part) and _is_sum(part):
                        found.add(names)
    return found


def _is_sum(condition: Binary) -> bool:
    form = linear(condition.a).plus(linear(condition.b), -1)
    return all(isinstance(atom, Var) for atom in form.terms)


def _variants(view: View, nest: Nest, axes: frozenset[str]) -> Column:
    """Variants of a formula with a border: inside and outside, where a test decides.

    If written-out loops meet the border, there is one inside, and two for each level
    of blocks.
    """
    written = view.one < 0
    for loop in copied_loops(nest):
        if nest.axis_of(loop) & axes:
            written = written | (view.extent(nest, loop) > 1)
    levels = _levels(view, nest, axes, None)
    place = nest.at
    while place is not None:
        outer = view.bounds.plan.nest(place.stage)
        levels = levels + _levels(view, outer, axes, place.loop)
        place = outer.at
    return np.where(written, np.maximum(1 + 2 * levels, 3), 2)


def _levels(view: View, nest: Nest, axes: frozenset[str], last: str | None) -> Column:
    """Loops along some axes that are not written out, down to the `last`."""
    end = len(nest.loops) if last is None else nest.loops.index(last) + 1
    count = view.one - 1
    for loop in nest.loops[:end]:
        spatial = not nest.is_reduce(loop) and nest.axis_of(loop) & axes
        if spatial and loop not in copied_loops(nest):
            count = count + (view.extent(nest, loop) > 1)
    return count


def _copies(view: View, nest: Nest, split: SplitRelation) -> Column:
    """Iterations of the innermost part that are written out: those of a full tile,
    and of its tail."""
    loop = split.parts[-1]
    whole, length = view.extent(nest, split.parent), view.extent(nest, loop)
    tail = _written(view, nest, loop, whole % length)
    full = _written(view, nest, loop, length)
    return full + tail


def _written(view: View, nest: Nest, loop: str, length: Column) -> Column:
    """Statements for so many iterations of a loop; long vectors run in a loop."""
    if nest.annotations[loop] != "vectorize":
        return length
    vectors: Column = -(-length // view.lanes(nest))
    return np.minimum(vectors, MOST_COPIES)


def border_axes(nest: Nest) -> set[str]:
    """The axes that conditions in the formula compare: paddings that were inlined."""
    found: set[str] = set()
    for expr in nest.stage.body:
        for node in walk(expr):
            if isinstance(node, Select):
                found |= variables(node.condition)
    whole = {axis.name for axis in nest.stage.axes if axis.extent > 1}
    return found & {name for name in whole if nest.annotations.get(name) != "unroll"}
