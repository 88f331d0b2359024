"""How much code a program becomes: statements after unrolling."""

from __future__ import annotations

import numpy as np

from ansor.ir.expr import Select
from ansor.ir.visit import variables, walk
from ansor.schedule.knobs import Column
from ansor.schedule.plan import Nest, SplitRelation
from ansor.space.view import View, copied_loops

MOST_COPIES = 8  # vectors of one loop that are written out side by side


def code(view: View) -> Column:
    """Statements after unrolling, tails included, of the longest stage."""
    most = view.one
    for nest in view.nests:
        if not nest.ahead:
            most = np.maximum(most, statements(view, nest))
    return most


def statements(view: View, nest: Nest) -> Column:
    """Copies of the innermost statement, in all variants of its tails and borders."""
    copies = view.one
    split = {r.parts[-1]: r for r in nest.relations if isinstance(r, SplitRelation)}
    for loop in copied_loops(nest):
        if loop in split:
            copies = copies * _copies(view, nest, split[loop])
        else:
            copies = copies * _written(view, nest, loop, view.extent(nest, loop))
    for axis in border_axes(nest):
        copies = copies * _borders(view, nest, axis)
    return copies


def _borders(view: View, nest: Nest, axis: str) -> Column:
    """Variants of a formula that differs at both ends of an axis: one inside, and two
    for each level of blocks."""
    count = view.one
    for loop in nest.loops:
        if nest.axis_of(loop) == {axis} and loop not in nest.annotations:
            count = count + 2 * (view.extent(nest, loop) > 1)
    return np.maximum(count, 3)


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


def border_axes(nest: Nest) -> set[str]:
    """The axes that conditions in the formula compare: paddings that were inlined."""
    found: set[str] = set()
    for expr in nest.stage.body:
        for node in walk(expr):
            if isinstance(node, Select):
                found |= variables(node.condition)
    whole = {axis.name for axis in nest.stage.axes if axis.extent > 1}
    return found & {name for name in whole if nest.annotations.get(name) != "unroll"}
