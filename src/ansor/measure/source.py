"""From a program to what a kernel is made of: lowering and emission in one place."""

from __future__ import annotations

from collections.abc import Sequence

from ansor.codegen.emit import emit
from ansor.codegen.kernel import Build, Prepared
from ansor.ir.expr import Buffer
from ansor.schedule.program import Program


def source(
    program: Program, arguments: Sequence[Buffer] = (), *, name: str = ""
) -> Build:
    """The LLVM text of a program and the facts needed to call it.

    `arguments` names the parameters if the caller knows them by other names than the
    program's own task. The kernel is called `name`, or like its first output.
    """
    dag, target = program.task.dag, program.task.target
    mine = tuple(arguments) or dag.arguments
    name = name or mine[-len(dag.outputs)].name
    lowered = program.lower(name)
    known = {b.name: a.name for b, a in zip(dag.arguments, mine, strict=True)}
    prepared = (
        Prepared(known[f.parameters[0].name], f.parameters[1], f.name)
        for f in lowered.prepare
    )
    return Build(
        name=name,
        text=emit((lowered.main, *lowered.prepare), target),
        target=target,
        parameters=mine,
        outputs=len(dag.outputs),
        loops=lambda: str(lowered),
        prepared=tuple(prepared),
    )
