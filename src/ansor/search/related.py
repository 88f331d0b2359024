"""How much one task is like another, whatever the names and the extents."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2, prod

from ansor.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Var
from ansor.ir.visit import children
from ansor.te.dag import DAG
from ansor.te.stage import Stage
from ansor.te.task import Task

UNRELATED = 9.0
MACHINE = 0.5  # what another machine adds to the distance


def distance(one: Task, other: Task) -> float:
    """From 0, for the same workload and machine; UNRELATED if nothing carries over.

    The whole part says what is the same: 0 the workload, 1 the arithmetic, 2 that of
    the stage with most work, 3 its kind and number of axes, 4 its kind.

    >>> import ansor
    >>> def matmul(n):
    ...     A, B = ansor.placeholder((n, n)), ansor.placeholder((n, n))
    ...     return ansor.Task(ansor.ops.matmul(A, B))
    >>> near, far = (distance(matmul(64), matmul(n)) for n in (96, 640))
    >>> 1 < near < far < 2
    True
    """
    if one.target.kind != other.target.kind:
        return UNRELATED
    level = _level(one.dag, other.dag) if one.key != other.key else 0
    if level is None:
        return UNRELATED
    apart = _apart(anchor(one.dag), anchor(other.dag))
    is_same = one.target.fingerprint == other.target.fingerprint
    return level + apart / (2 + 2 * apart) + (0.0 if is_same else MACHINE)


def anchor(dag: DAG) -> Stage:
    """The stage with the most work; the last of equal ones."""
    return max(reversed(dag.stages), key=_size)


def _level(one: DAG, other: DAG) -> int | None:
    if skeleton(one) == skeleton(other):
        return 1
    mine, theirs = anchor(one), anchor(other)
    if _stage(mine, {}) == _stage(theirs, {}):
        return 2
    if mine.reducer != theirs.reducer:
        return None
    return 3 if _long(mine) == _long(theirs) else 4


def _long(stage: Stage) -> tuple[int, int]:
    """The numbers of axes that are longer than 1."""
    spatial = sum(axis.extent > 1 for axis in stage.axes)
    return spatial, sum(axis.extent > 1 for axis in stage.reduce_axes)


def _apart(one: Stage, other: Stage) -> float:
    """How many times an extent doubles, on average: axis by axis if there are as many,
    else of all axes of a kind together."""
    mine, theirs = (
        ([x.extent for x in stage.axes], [x.extent for x in stage.reduce_axes])
        for stage in (one, other)
    )
    if list(map(len, mine)) != list(map(len, theirs)):
        mine, theirs = (([prod(a)], [prod(b)]) for a, b in (mine, theirs))
    pairs = zip(mine[0] + mine[1], theirs[0] + theirs[1], strict=True)
    doubled = [abs(log2(a / b)) for a, b in pairs]
    return sum(doubled) / max(len(doubled), 1)


def _size(stage: Stage) -> int:
    return prod(axis.extent for axis in (*stage.axes, *stage.reduce_axes))


# -- arithmetic without numbers --------------------------------------------------------


def skeleton(dag: DAG) -> str:
    """What a DAG computes, without names, extents, strides and constants."""
    numbers: dict[str, str] = {}
    lines = []
    for buffer in dag.inputs:
        kind = "constant" if buffer.name in dag.constants else "input"
        numbers[buffer.name] = f"b{len(numbers)}"
        lines.append(f"{kind} {buffer.dtype}[{len(buffer.shape)}]")
    for stage in dag.stages:
        lines.append(_stage(stage, numbers))
        for buffer in stage.buffers:
            numbers[buffer.name] = f"b{len(numbers)}"
    return "\n".join(lines)


def _stage(stage: Stage, buffers: Mapping[str, str]) -> str:
    """One line; buffers that have no number are all the same."""
    axes = {axis.name: f"s{n}" for n, axis in enumerate(stage.axes)}
    axes.update((axis.name, f"r{n}") for n, axis in enumerate(stage.reduce_axes))
    body = "; ".join(_expr(expr, buffers, axes) for expr in stage.body)
    counts = f"{len(stage.axes)}+{len(stage.reduce_axes)}"
    dtypes = ",".join(str(buffer.dtype) for buffer in stage.buffers)
    return f"{stage.reducer or 'map'}[{counts}] {dtypes} {body}"


def _expr(e: Expr, buffers: Mapping[str, str], axes: Mapping[str, str]) -> str:
    def text(*parts: Expr) -> str:
        return ",".join(_expr(part, buffers, axes) for part in parts)

    match e:
        case Var(name):
            return axes[name]
        case Const():
            return "c"
        case Load(buffer, indices):
            used = ",".join("+".join(sorted(_variables(i, axes))) for i in indices)
            return f"{buffers.get(buffer.name, 'b')}[{used}]"
        case Binary(op, a, b):
            return f"{op}({text(a, b)})"
        case Call(function, args):
            return f"{function}({text(*args)})"
        case Select(condition, a, b):
            return f"select({text(condition, a, b)})"
        case Cast(value, dtype):
            return f"cast_{dtype}({text(value)})"
        case _:
            raise AssertionError(f"{type(e).__name__} cannot occur in a stage")


def _variables(e: Expr, axes: Mapping[str, str]) -> set[str]:
    if isinstance(e, Var):
        return {axes[e.name]}
    return set().union(*(_variables(part, axes) for part in children(e)))
