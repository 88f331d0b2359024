"""Fewer stages for a DAG that was put together from operators.

Operators bring a stage each. Formulas that are read element by element go into their
reader here, also where derivation rules would leave them alone, because they branch,
read out of order or call a costly function, if nothing is thereby computed twice. So a
product with what follows it becomes two stages:

    C = sum(A * B); D = C + b; E = sigmoid(D); F = D * E
    ==>  C = sum(A * B); F = (C + b) * sigmoid(C + b)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from ansor.ir.affine import Ranges, linear
from ansor.ir.expr import Buffer, Const, Expr, Load, Var
from ansor.ir.simplify import simplify
from ansor.ir.visit import depth, map_loads, substitute, variables, walk
from ansor.te.analysis import has_expensive
from ansor.te.dag import DAG
from ansor.te.stage import Axis, Stage

DEEPEST = 100  # levels of a formula; the tensor language allows 150
LARGEST = 600  # operands in it
MOST_LOADS = 40
SMALL = 8  # the longest axis of a matrix of numbers


def composed(dag: DAG) -> DAG:
    """An equal DAG with as few stages as repeat nothing costly. Inputs that turn out
    not to be read are left out."""
    dag = _inlined(dag)
    for name in [stage.name for stage in dag.stages]:
        if any(stage.name == name for stage in dag.stages):
            dag = _aligned(dag, name)
    return _used(dag)


def _used(dag: DAG) -> DAG:
    read = {name for stage in dag.stages for name in dag.reads(stage)}
    inputs = tuple(x for x in dag.inputs if x.name in read)
    return replace(
        dag,
        inputs=inputs,
        constants=frozenset(x.name for x in inputs) & dag.constants,
        arguments=(*inputs, *dag.outputs),
    )


# Inlining.


def _inlined(dag: DAG) -> DAG:
    chosen = _chosen(dag)
    bodies: dict[str, Stage] = {}  # of what is inlined, by the buffer's name
    stages: list[Stage] = []
    for stage in dag.stages:
        new = _with_sources(stage, bodies)
        if new is None:  # too large: its sources stay stages
            new = _materialised(stage, bodies, stages)
        if stage.name in chosen:
            bodies[stage.output.name] = new
        else:
            stages.append(new)
    return replace(dag, stages=tuple(stages))


def _materialised(stage: Stage, bodies: dict[str, Stage], stages: list[Stage]) -> Stage:
    """The stage as it is; what it reads becomes stages after all."""
    for name in dict.fromkeys(load.buffer.name for load in stage.loads):
        source = bodies.pop(name, None)
        if source is not None:
            stages.append(source)
    return stage


def _with_sources(stage: Stage, bodies: Mapping[str, Stage]) -> Stage | None:
    """A stage with the formulas of inlined stages in it; None if that is too large."""
    used = [load for load in stage.loads if load.buffer.name in bodies]
    if not used:
        return stage
    size = _size(stage) + sum(_size(bodies[x.buffer.name]) for x in used)
    reads = len(stage.loads) + sum(len(bodies[x.buffer.name].loads) for x in used)
    deep = max(map(depth, stage.body)) + max(
        max(map(depth, bodies[x.buffer.name].body)) for x in used
    )
    if deep > DEEPEST or size > LARGEST or reads > MOST_LOADS:
        return None
    ranges = {a.name: (0, a.extent - 1) for a in (*stage.axes, *stage.reduce_axes)}
    body = tuple(map_loads(e, lambda x: _formula(x, bodies)) for e in stage.body)
    return replace(stage, body=tuple(_simplified(e, ranges) for e in body))


def _simplified(expr: Expr, ranges: Ranges) -> Expr:
    """With simpler indices; conditions stay as they are written."""

    def simpler(load: Load) -> Load:
        return Load(load.buffer, tuple(simplify(i, ranges) for i in load.indices))

    return map_loads(expr, simpler)


def _size(stage: Stage) -> int:
    return sum(1 for expr in stage.body for _ in walk(expr))


def _formula(load: Load, bodies: Mapping[str, Stage]) -> Expr:
    source = bodies.get(load.buffer.name)
    if source is None:
        return load
    places = {a.name: i for a, i in zip(source.axes, load.indices, strict=True)}
    return substitute(source.body[0], places)


def _chosen(dag: DAG) -> set[str]:
    """Stages to be inlined, found from the consumers up."""
    chosen: set[str] = set()
    outputs = {buffer.name for buffer in dag.outputs}
    readers: dict[str, dict[str, Stage]] = {}  # who evaluates it in the end
    for stage in reversed(dag.stages):
        own = {
            name: end
            for consumer in dag.consumers(stage.output.name)
            for name, end in (
                readers[consumer.name] if consumer.name in chosen
                else {consumer.name: consumer}
            ).items()
        }  # fmt: skip
        readers[stage.name] = own
        inner = stage.output.name not in outputs and bool(own)
        if inner and _goes_inside(stage, list(own.values())):
            chosen.add(stage.name)
    return chosen


def _goes_inside(stage: Stage, readers: list[Stage]) -> bool:
    if stage.reducer is not None:
        return False
    if not stage.loads:
        return not _is_matrix(stage, readers)
    if isinstance(stage.body[0], Load):
        return True  # elements in another place
    if len(readers) != 1 or readers[0].reducer is not None:
        return False
    if prod(readers[0].shape) > prod(stage.shape):
        return not has_expensive(stage)
    return True


def _is_matrix(stage: Stage, readers: list[Stage]) -> bool:
    """True for a few numbers that sums are taken with: as a stage of their own they
    can be told from what varies, and become numbers in unrolled code."""
    return (
        len(stage.axes) == 2
        and all(1 < axis.extent <= SMALL for axis in stage.axes)
        and bool(variables(stage.body[0]))
        and all(reader.reducer is not None for reader in readers)
    )


# Reductions in the order of what reads them.


def _aligned(dag: DAG, name: str) -> DAG:
    """Compute a reduction in the axes of its reader, if that one reads every element
    once, in another order or with axes split: then they share their loops.

        C[b, h, i, d] = sum(…); T[b, i, h, d] = C[b, h, i, d]
        ==>  C[b, i, h, d] = sum(…); T[b, i, h, d] = C[b, i, h, d]
    """
    stage = dag.stage(name)
    reader = _only_reader(dag, stage)
    if reader is None:
        return dag
    (indices,) = {load.indices for load in dag.accesses(reader, name)}
    own = tuple(axis.var for axis in reader.axes)
    if indices == own or not _is_one_to_one(indices, reader, stage):
        return dag
    moved = _moved(stage, indices, reader)
    if isinstance(reader.body[0], Load):  # nothing but a copy
        return _in_place_of(dag, reader, moved)
    place = moved.output
    body = tuple(
        map_loads(e, lambda x: Load(place, own) if x.buffer.name == name else x)
        for e in reader.body
    )
    both = {name: moved, reader.name: replace(reader, body=body)}
    return replace(dag, stages=tuple(both.get(x.name, x) for x in dag.stages))


def _in_place_of(dag: DAG, old: Stage, new: Stage) -> DAG:
    """The DAG without the stages called like `new` and `old`, whose elements `new`
    computes."""
    stages = []
    for stage in dag.stages:
        if stage.name == old.name:
            stages.append(new)
        elif stage.name != new.name:
            body = tuple(
                map_loads(e, lambda x: _redirected(x, old.output, new.output))
                for e in stage.body
            )
            stages.append(replace(stage, body=body))
    outputs = tuple(new.output if x == old.output else x for x in dag.outputs)
    return replace(
        dag,
        stages=tuple(stages),
        outputs=outputs,
        arguments=(*dag.inputs, *outputs),
    )


def _redirected(load: Load, old: Buffer, new: Buffer) -> Load:
    return Load(new, load.indices) if load.buffer == old else load


def _only_reader(dag: DAG, stage: Stage) -> Stage | None:
    """The one stage that reads a reduction, always at the same place."""
    outputs = {buffer.name for buffer in dag.outputs}
    readers = dag.consumers(stage.name)
    if stage.reducer is None or len(stage.buffers) > 1 or len(readers) != 1:
        return None
    (reader,) = readers
    places = {load.indices for load in dag.accesses(reader, stage.name)}
    if reader.reducer is not None or stage.name in outputs or len(places) != 1:
        return None
    return reader


def _is_one_to_one(indices: tuple[Expr, ...], reader: Stage, stage: Stage) -> bool:
    """True if places are sums of axes, each axis in one of them, and the last axis of
    both is the same: vectors stay vectors."""
    if prod(reader.shape) != prod(stage.shape):
        return False
    used: list[str] = []
    for index in indices:
        if not all(isinstance(atom, Var) for atom in linear(index).terms):
            return False
        used += variables(index)
    long = [axis.name for axis in reader.axes if axis.extent > 1]
    if sorted(x for x in used if x in long) != sorted(long):
        return False
    kept = [i for i, axis in zip(indices, stage.axes, strict=True) if axis.extent > 1]
    if not long or not kept:
        return True
    return linear(kept[-1]).terms.get(Var(long[-1])) == 1


def _moved(stage: Stage, indices: tuple[Expr, ...], reader: Stage) -> Stage:
    """The stage with the axes of its reader."""
    names = _names(stage, reader)
    axes = tuple(Axis(names[a.name], a.extent) for a in reader.axes)
    renamed = {old: Var(new) for old, new in names.items()}
    places = {
        axis.name: Const(0) if axis.extent == 1 else substitute(index, renamed)
        for axis, index in zip(stage.axes, indices, strict=True)
    }
    ranges = {a.name: (0, a.extent - 1) for a in (*axes, *stage.reduce_axes)}
    body = tuple(_simplified(substitute(e, places), ranges) for e in stage.body)
    shape = tuple(axis.extent for axis in axes)
    buffer = Buffer(stage.name, shape, stage.output.dtype)
    return replace(stage, axes=axes, body=body, buffers=(buffer,))


def _names(stage: Stage, reader: Stage) -> dict[str, str]:
    """The reader's axes by names that the stage's reduction does not use."""
    taken = {axis.name for axis in stage.reduce_axes}
    names: dict[str, str] = {}
    for axis in reader.axes:
        name = axis.name
        while name in taken:
            name += "_"
        taken.add(name)
        names[axis.name] = name
    return names
