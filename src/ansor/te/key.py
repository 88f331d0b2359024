"""The workload key: a content address of a DAG that ignores names.

Two DAGs have the same key exactly if they do the same arithmetic on arguments of the
same shapes and types in the same order, with the same inputs constant. The text that
is hashed is the contract: a change of it is a new FORMAT.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from ansor.ir.expr import Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var
from ansor.te.dag import DAG
from ansor.te.stage import Stage

FORMAT = "w1"


def workload_key(dag: DAG) -> str:
    """The key of a DAG, stable across processes, machines and Python versions.

    >>> import ansor
    >>> A = ansor.placeholder((4,), name="A")
    >>> B = ansor.compute((4,), lambda i: A[i] + 1, name="B")
    >>> workload_key(DAG.build([B]))[:3]
    'w1-'
    """
    digest = hashlib.sha256(canonical_text(dag).encode()).hexdigest()
    return f"{FORMAT}-{digest}"


def canonical_text(dag: DAG) -> str:
    """What is hashed: one line per input and stage, buffers and axes by position."""
    numbers: dict[str, str] = {}
    lines = []
    for buffer in dag.inputs:
        constant = " constant" if buffer.name in dag.constants else ""
        numbers[buffer.name] = f"b{len(numbers)}"
        lines.append(f"input {numbers[buffer.name]} {_type(buffer)}{constant}")
    for stage in dag.stages:
        lines.append(_stage_text(stage, numbers))
    arguments = " ".join(numbers[buffer.name] for buffer in dag.arguments)
    lines.append(f"arguments {arguments}")
    return "\n".join(lines)


def _stage_text(stage: Stage, buffers: dict[str, str]) -> str:
    axes = (*stage.axes, *stage.reduce_axes)
    variables = {axis.name: f"v{n}" for n, axis in enumerate(axes)}
    body = "; ".join(_expr(expr, buffers, variables) for expr in stage.body)
    for buffer in stage.buffers:
        buffers[buffer.name] = f"b{len(buffers)}"
    written = " ".join(f"{buffers[b.name]} {_type(b)}" for b in stage.buffers)
    over = ",".join(str(axis.extent) for axis in stage.reduce_axes)
    return f"stage {written} {stage.reducer or 'map'}[{over}] {body}"


def _type(buffer: Buffer) -> str:
    return f"{buffer.dtype}[{','.join(map(str, buffer.shape))}]"


def _expr(e: Expr, buffers: Mapping[str, str], axes: Mapping[str, str]) -> str:
    def text(*parts: Expr) -> str:
        return ",".join(_expr(part, buffers, axes) for part in parts)

    match e:
        case Var(name):
            return axes[name]
        case Const(value, dtype):
            return f"{dtype}:{value!r}"
        case Binary(op, a, b):
            return f"{op}({text(a, b)})"
        case Call(function, args):
            return f"{function}({text(*args)})"
        case Select(condition, a, b):
            return f"select({text(condition, a, b)})"
        case Cast(value, dtype):
            return f"cast_{dtype}({text(value)})"
        case Load(buffer, indices):
            return f"{buffers[buffer.name]}[{text(*indices)}]"
        case _:
            raise AssertionError(f"{type(e).__name__} cannot occur in a stage")
