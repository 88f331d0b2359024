"""The list of passes, and the function that runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ansor.ir.simplify import simplify_stmt
from ansor.ir.stmt import Function, Stmt
from ansor.ir.verify import verify
from ansor.schedule.bounds import Bounds
from ansor.schedule.knobs import Points
from ansor.schedule.lower.accumulate import accumulate
from ansor.schedule.lower.collapse import collapse
from ansor.schedule.lower.halves import widen_halves
from ansor.schedule.lower.hoist import hoist
from ansor.schedule.lower.nest import build
from ansor.schedule.lower.partition import partition
from ansor.schedule.lower.unroll import unroll
from ansor.schedule.lower.vectorize import vectorize
from ansor.schedule.plan import Plan
from ansor.target import Target

Pass = Callable[[Stmt, Target], Stmt]


def _vectorize(stmt: Stmt, target: Target) -> Stmt:
    return vectorize(stmt, target.vector_bits, target.vector_registers)


PASSES: tuple[tuple[str, Pass], ...] = (
    ("accumulate", lambda stmt, target: accumulate(stmt)),
    ("partition", lambda stmt, target: partition(stmt)),
    ("hoist", lambda stmt, target: hoist(stmt)),
    ("halves", lambda stmt, target: widen_halves(stmt)),
    ("simplify", lambda stmt, target: simplify_stmt(stmt)),
    ("vectorize", _vectorize),
    ("collapse", lambda stmt, target: collapse(stmt)),
    ("unroll", lambda stmt, target: unroll(stmt)),
)
VERIFIED = "simplify"  # every program is verified after this pass; tests verify all


@dataclass(frozen=True)
class Lowered:
    """The functions of one program, ready for code generation.

    `prepare` holds one function per constant input whose layout is rewritten: it fills
    the block that `main` takes instead of the input.
    """

    main: Function
    prepare: tuple[Function, ...] = ()

    def __str__(self) -> str:
        return "\n\n".join(map(str, (*self.prepare, self.main)))


def lower(
    plan: Plan,
    points: Points,
    target: Target,
    name: str = "kernel",
    dump: Callable[[str, Function], None] | None = None,
) -> Lowered:
    """Run every pass over one program; `dump(pass, function)` sees each result."""
    built = build(plan, Bounds(plan, points), name)
    main, *prepare = (
        _run(function, target, dump) for function in (built.main, *built.prepare)
    )
    return Lowered(main, tuple(prepare))


def _run(
    function: Function, target: Target, dump: Callable[[str, Function], None] | None
) -> Function:
    if dump is not None:
        dump("nest", function)
    for name, run in PASSES:
        function = replace(function, body=run(function.body, target))
        if dump is not None:
            dump(name, function)
        if name == VERIFIED:
            verify(function)
    return function
