"""The accesses of a nest: its loads and stores, as indices over its loops."""

from __future__ import annotations

from ansor.cost.access import (
    ONE,
    Access,
    Dim,
    Extents,
    Index,
    Reach,
    Real,
    Term,
    index,
    real,
    shrunk,
)
from ansor.ir.affine import linear
from ansor.ir.dtypes import DTYPES
from ansor.ir.expr import Binary, Buffer, Const, Expr, Load, Var
from ansor.ir.visit import variables, walk
from ansor.schedule.plan import Nest


def store_access(nest: Nest, buffer: Buffer, reach: Reach, line_bytes: int) -> Access:
    """The store of a nest to one of its buffers."""
    nodes = _nodes(nest)
    indices = [index(reach.bounds.local(nest.name, node)) for node in nodes]
    shape = [reach.extents.of(nest.name, node) for node in nodes]
    return Access(
        buffer.name,
        DTYPES[buffer.dtype].bytes,
        size=buffer.size,
        is_store=True,
        is_dense=False,
        is_scattered=False,
        is_temporary=buffer not in reach.bounds.plan.dag.outputs,
        dims=_dims(reach, indices, shape),
        reach=reach,
        line_bytes=line_bytes,
    )


def load_access(nest: Nest, load: Load, reach: Reach, line_bytes: int) -> Access:
    """A load in the body of a nest."""
    producer = reach.bounds.plan.producer(load.buffer.name)
    indices = [_index(reach.extents, nest, expr) for expr in load.indices]
    shape = [real([size]) for size in load.buffer.shape]
    if producer is not None:
        for at, region in enumerate(reach.bounds.regions(producer.name)):
            base = index(region.base)
            indices[at] = _plus(indices[at], base, -1) if base else indices[at]
        shape = _shape(reach.extents, producer)
    return Access(
        load.buffer.name,
        DTYPES[load.dtype].bytes,
        size=load.buffer.size,
        is_store=False,
        is_dense=producer is not None and producer.layout is not None,
        is_scattered=any(_is_data(expr) for expr in load.indices),
        is_temporary=producer is not None,
        dims=_dims(reach, indices, shape),
        reach=reach,
        line_bytes=line_bytes,
        divisor=_divisor(load),
    )


def _divisor(load: Load) -> int:
    """The least one in the indices; 0 without any."""
    found = []
    for node in walk(load):
        match node:
            case Binary("floordiv", _, Const(by)) if float(by) > 1:
                found.append(int(by))
    return min(found, default=0)


def _nodes(nest: Nest) -> tuple[str, ...]:
    """What indexes the buffer that a nest writes."""
    nodes = nest.layout or tuple(axis.name for axis in nest.stage.axes)
    return nodes if nest.factored is None else (*nodes, nest.factored)


def _shape(extents: Extents, producer: Nest) -> list[Real]:
    """The part of a tensor that is there to be read, by its axes."""
    nodes = tuple(axis.name for axis in producer.stage.axes)
    if producer.factored is not None:
        nodes = (*nodes, producer.factored)
    return [extents.of(producer.name, node) for node in nodes]


def _dims(reach: Reach, indices: list[Index], shape: list[Real]) -> tuple[Dim, ...]:
    """Dimensions longer than 1, with the distance of neighbours in memory."""
    found: list[Dim] = []
    jump = ONE
    for moves, size in zip(reversed(indices), reversed(shape), strict=True):
        if shrunk(size) is not ONE:
            found.append(Dim(size, tuple(_terms(reach, moves)), jump))
            jump = jump * size
    return tuple(reversed(found))


def _terms(reach: Reach, moves: Index) -> list[Term]:
    found: list[Term] = []
    for atom, step in moves.items():
        if reach.extents.of(atom.stage, atom.node) is ONE or not step.any():
            continue
        size = abs(reach.step(atom, step))
        found.append(Term(atom, size, reach.bounds.atom_loops(atom)))
    return found


def _index(extents: Extents, nest: Nest, expr: Expr) -> Index:
    """An index over the atoms of the loops; where it is no sum, a sum like it."""
    found: Index = {}
    for axis, slope in _sum_slopes(expr).items():
        moves = extents.coordinate(nest.name, axis)
        found = _plus(found, moves, slope) if found or slope != 1 else moves
    return found


def _plus(a: Index, b: Index, scale: float) -> Index:
    found = dict(a)
    for atom, step in b.items():
        scaled = step * real(scale)
        found[atom] = found[atom] + scaled if atom in found else scaled
    return found


def _slopes(expr: Expr) -> dict[str, float]:
    """About how far an expression moves with each of its axes."""
    match expr:
        case Var(name):
            return {name: 1}
        case Binary("floordiv", a, Const(by)) if float(by) > 0:
            return {x: s / float(by) for x, s in _sum_slopes(a).items()}
        case Binary("mod", a, Const()):
            return _sum_slopes(a)
        case _:
            return dict.fromkeys(variables(expr), 1.0)


def _sum_slopes(expr: Expr) -> dict[str, float]:
    found: dict[str, float] = {}
    for atom, c in linear(expr).terms.items():
        for axis, slope in _slopes(atom).items():
            found[axis] = found.get(axis, 0) + c * slope
    return found


def _is_data(index: Expr) -> bool:
    return any(isinstance(node, Load) for node in walk(index))
