"""Access analysis: how stages read each other, and how much they compute.

The predicates are those that derivation rules ask for; each takes the DAG and a stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ansor.ir.affine import linear
from ansor.ir.dtypes import is_float
from ansor.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Var
from ansor.ir.ops import BINARY, FUNCTIONS
from ansor.ir.visit import children, variables, walk
from ansor.te.dag import DAG
from ansor.te.stage import Stage

# Too costly to repeat at every place that reads the result.
EXPENSIVE = frozenset(
    ("exp", "log", "log2", "tanh", "sigmoid", "erf", "sin", "cos", "pow")
)


@dataclass(frozen=True, slots=True)
class SimpleAccess:
    """A load whose indices are constants or single axes, perhaps shifted."""

    missing: bool  # some axis of the reader, longer than 1, does not occur
    duplicated: bool  # some axis occurs twice
    in_order: bool  # axes occur in the order of the reader


def affine(expr: Expr) -> tuple[dict[str, int], int] | None:
    """Coefficients by variable name, and the constant; None if not affine.

    >>> i = Var("i")
    >>> affine(Binary("add", Binary("mul", i, Const(2)), Const(1)))
    ({'i': 2}, 1)
    """
    form = linear(expr)
    if not all(isinstance(atom, Var) for atom in form.terms):
        return None
    return {str(atom): c for atom, c in form.terms.items()}, form.const


def shifted_axis(expr: Expr) -> str | None:
    """The variable that `expr` is, up to an added constant; None if it is not."""
    form = affine(expr)
    if form is None or list(form[0].values()) != [1]:
        return None
    return next(iter(form[0]))


def simple_access(stage: Stage, load: Load) -> SimpleAccess | None:
    """How `load` uses the spatial axes of its reader; None if it is not simple."""
    names = [axis.name for axis in stage.axes]
    used = []
    for index in load.indices:
        if isinstance(index, Const):
            continue
        name = shifted_axis(index)
        if name not in names:
            return None
        used.append(names.index(name))
    return SimpleAccess(
        missing=any(a.extent > 1 and d not in used for d, a in enumerate(stage.axes)),
        duplicated=len(set(used)) < len(used),
        in_order=used == sorted(used),
    )


def _loads(dag: DAG, stage: Stage) -> Iterator[Load]:
    for found in dag.reads(stage).values():
        yield from found


def is_output(dag: DAG, stage: Stage) -> bool:
    """True if no other stage reads what this one writes."""
    return not any(dag.consumers(buffer.name) for buffer in stage.buffers)


def has_branch(stage: Stage) -> bool:
    """True if the body has a select."""
    return any(isinstance(node, Select) for expr in stage.body for node in walk(expr))


def has_expensive(stage: Stage) -> bool:
    """True if the body calls a function that is not worth repeating."""
    return any(
        isinstance(node, (Call, Binary)) and _name(node) in EXPENSIVE
        for expr in stage.body
        for node in walk(expr)
    )


def _name(node: Call | Binary) -> str:
    return node.function if isinstance(node, Call) else node.op


def is_simple_access(dag: DAG, stage: Stage) -> bool:
    """True if every load is simple."""
    return all(simple_access(stage, load) is not None for load in _loads(dag, stage))


def is_strictly_inlineable(dag: DAG, stage: Stage) -> bool:
    """True if repeating the body wherever it is read costs next to nothing.

    Broadcasts qualify; transposes, branches, expensive functions do not. A stage that
    reads nothing always does. Reduce axes are for the caller to check.
    """
    found = list(_loads(dag, stage))
    if not found:
        return True
    if has_branch(stage) or has_expensive(stage):
        return False
    accesses = [simple_access(stage, load) for load in found]
    return all(a is not None and a.in_order and not a.duplicated for a in accesses)


def has_data_reuse(dag: DAG, stage: Stage) -> bool:
    """True if tiling pays: operands are read again along axes they do not depend on.

    That is two operands that miss a spatial axis each, or one and a reduction.
    """
    axes = {axis.name for axis in stage.axes if axis.extent > 1}
    missing = 0
    for found in dag.reads(stage).values():
        used = set().union(*(variables(load) for load in found))
        missing += not axes <= used
    return missing >= 2 or (missing >= 1 and bool(stage.reduce_axes))


needs_multi_level_tiling = has_data_reuse


def _only_consumer(dag: DAG, stage: Stage) -> Stage | None:
    consumers = {s.name: s for b in stage.buffers for s in dag.consumers(b.name)}
    return next(iter(consumers.values())) if len(consumers) == 1 else None


def is_elementwise_match(dag: DAG, stage: Stage, target: Stage) -> bool:
    """True if each element of `target` needs just that element of `stage`.

    Every stage on the way has one consumer, the same shape, and is read in place.
    """
    while stage.name != target.name:
        consumer = _only_consumer(dag, stage)
        if consumer is None or consumer.shape != stage.shape:
            return False
        loads = [x for b in stage.buffers for x in dag.accesses(consumer, b.name)]
        for load in loads:
            access = simple_access(consumer, load)
            if access is None or access.missing or access.duplicated:
                return False
            if not access.in_order:
                return False
        stage = consumer
    return True


def num_common_outer_axes(dag: DAG, stage: Stage, target: Stage) -> int:
    """How many leading axes `stage` and its (indirect) consumer `target` share.

    The least along every path from one to the other; 0 without a path.
    """
    return _common(dag, stage, target, {}) or 0


def _common(
    dag: DAG, stage: Stage, target: Stage, known: dict[str, int | None]
) -> int | None:
    if stage.name == target.name:
        return len(stage.axes)
    if stage.name not in known:
        counts = []
        for consumer in dag.consumers(stage.output.name):
            further = _common(dag, consumer, target, known)
            if further is not None:
                counts.append(min(further, _direct_common(dag, stage, consumer)))
        known[stage.name] = min(counts, default=None)
    return known[stage.name]


def _direct_common(dag: DAG, stage: Stage, consumer: Stage) -> int:
    loads = dag.accesses(consumer, stage.output.name)
    count = 0
    for dim, (own, other) in enumerate(zip(stage.axes, consumer.axes, strict=False)):
        same = all(shifted_axis(load.indices[dim]) == other.name for load in loads)
        if own.extent != other.extent or not same:
            break
        count += 1
    return count


def count_flops(dag: DAG) -> int:
    """Arithmetic operations of one run of the DAG.

    Operators and functions cost what their tables say, unless they only compute
    indices; a select costs its condition and the dearer side, a reduction one
    combination per source element; loads and casts are free.
    """
    return sum(_stage_flops(stage) for stage in dag.stages)


def _stage_flops(stage: Stage) -> int:
    body = sum(_flops(expr) for expr in stage.body)
    if stage.combiner is not None:
        body += BINARY[stage.combiner.op].flops
    return body * prod(axis.extent for axis in (*stage.axes, *stage.reduce_axes))


def _flops(expr: Expr) -> int:
    match expr:
        case Load():
            return 0
        case Select(condition, a, b):
            return _flops(condition) + max(_flops(a), _flops(b))
        case Binary(op, a, b):
            own = BINARY[op].flops if _is_data(a) or _is_data(b) else 0
            return own + _flops(a) + _flops(b)
        case Call(function, args):
            own = FUNCTIONS[function].flops if _is_data(args[0]) else 0
            return own + sum(map(_flops, args))
        case Cast(value):
            return _flops(value)
        case _:
            return 0


def _is_data(expr: Expr) -> bool:
    """False for arithmetic on indices: integers that come from no tensor."""
    if is_float(expr.dtype) or isinstance(expr, Load):
        return True
    return any(_is_data(child) for child in children(expr))
