"""The packing rule: operands of a tiled stage copied into the order of its loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansor.errors import ScheduleError
from ansor.ir.affine import linear
from ansor.ir.expr import Var
from ansor.ir.visit import variables
from ansor.schedule.plan import Nest, SplitRelation
from ansor.schedule.steps import Annotate, LayoutRewrite, Pack, Reorder, Step
from ansor.space.sketch import Sketch


@dataclass(frozen=True)
class PackOperands:
    """Copy operand tiles into contiguous blocks laid out in loop order.

    The operand that is read along the vectors is packed at the outermost level of the
    reduction; the other one, if any, just inside. Constant inputs are laid out once,
    ahead of time. Everything may also stay as it is.
    """

    def matches(self, sketch: Sketch, stage: str) -> bool:
        nest = sketch.plan.nest(stage)
        return _is_tiled(nest) and any(True for _ in self._choices(sketch, nest))

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        nest = sketch.plan.nest(stage)
        for steps in self._choices(sketch, nest):
            try:
                packed = sketch.by("; ".join(map(str, steps)), *steps)
            except ScheduleError:
                continue
            names = [f"{step.tensor}.packed" for step in steps]
            yield packed.then(*(s for name in names for s in copy_steps(packed, name)))
        yield sketch

    def _choices(self, sketch: Sketch, nest: Nest) -> Iterator[list[Pack]]:
        """Sets of operands to pack, the most usual first."""
        vector = _vector_axes(nest)
        along = [t for t in _operands(nest) if vector & _axes(nest, t)]
        across = [t for t in _operands(nest) if t not in along]
        first = [p for t in along for p in _packs(sketch, nest, t)][:1]
        second = [p for t in across for p in _packs(sketch, nest, t)][:1]
        if first:
            yield first
        if first and second:
            yield first + second
        if second:
            yield second


def copy_steps(sketch: Sketch, name: str) -> list[Step]:
    """How a packed block is filled: vectors where both sides are contiguous."""
    nest = sketch.plan.nest(name)
    if not nest.loops:
        return []
    *outer, innermost = nest.loops
    axes = [axis.name for axis in nest.stage.axes]
    if nest.axis_of(innermost) != {axes[-1]}:
        return [Annotate(name, innermost, "unroll")]
    order = sorted(outer, key=lambda loop: min(map(axes.index, nest.axis_of(loop))))
    steps: list[Step] = [Annotate(name, innermost, "vectorize")]
    if order != outer:  # rows of the source in one go, spread over the blocks
        steps.insert(0, Reorder(name, (*order, innermost)))
    return steps


def _is_tiled(nest: Nest) -> bool:
    return (
        nest.stage.reducer is not None
        and nest.factored is None
        and any(nest.is_reduce(loop) for loop in nest.loops)
        and any(isinstance(r, SplitRelation) for r in nest.relations)
        and "vectorize" in nest.annotations.values()
    )


def _operands(nest: Nest) -> list[str]:
    """Tensors that a nest reads in one way, with affine indices, along a reduction."""
    reads = list(dict.fromkeys(nest.reads()))
    names = [read.buffer.name for read in reads]
    reduced = {axis.name for axis in nest.stage.reduce_axes}
    found = []
    for read in reads:
        used = {name for index in read.indices for name in variables(index)}
        affine = all(
            isinstance(atom, Var) for i in read.indices for atom in linear(i).terms
        )
        if affine and names.count(read.buffer.name) == 1 and used & reduced:
            found.append(read.buffer.name)
    return found


def _vector_axes(nest: Nest) -> frozenset[str]:
    """The axis of the vectors; several if a fused loop is vectorised."""
    (loop,) = (x for x, kind in nest.annotations.items() if kind == "vectorize")
    return nest.axis_of(loop)


def _axes(nest: Nest, tensor: str) -> set[str]:
    """The axes of a nest that decide which element of a tensor is read."""
    return {
        name
        for read in nest.reads()
        if read.buffer.name == tensor
        for index in read.indices
        for name in variables(index)
    }


def _packs(sketch: Sketch, nest: Nest, tensor: str) -> Iterator[Pack]:
    dag = sketch.task.dag
    readers = [
        n.name for n in sketch.plan if tensor in {r.buffer.name for r in n.reads()}
    ]
    if tensor in dag.constants and readers == [nest.name]:
        yield LayoutRewrite(tensor, nest.name)
        return
    producer = sketch.plan.producer(tensor)
    if producer is not None and sketch.is_untouched(producer.name):
        return  # where that stage is computed is a choice of its own
    loop = _reuse_loop(sketch, nest, tensor)
    if loop is not None:
        yield Pack(tensor, nest.name, loop)


def _reuse_loop(sketch: Sketch, nest: Nest, tensor: str) -> str | None:
    """The loop inside which a block of a tensor is read again and again: the last of
    the outermost level of the reduction, or one further in that it depends on."""
    axes = _axes(nest, tensor)
    ends = [x for x in sketch.level_ends(nest.name) if nest.is_reduce(x)]
    if not ends:
        return None
    at = nest.loops.index(ends[0])
    rest = nest.loops[at + 1 :]
    for n, loop in enumerate(rest):  # a loop of its own right inside narrows the block
        if nest.is_reduce(loop) or not nest.axis_of(loop) <= axes:
            break
        if any(not nest.axis_of(x) <= axes for x in rest[n + 1 :]):
            return loop
    again = any(not nest.axis_of(x) <= axes for x in rest)
    return nest.loops[at] if again else None
