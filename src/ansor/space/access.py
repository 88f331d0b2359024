"""How a stage walks through memory: which of its axes are worth vectorising."""

from __future__ import annotations

from dataclasses import dataclass

from ansor.ir.affine import linear
from ansor.ir.expr import Binary, Const, Expr, Load, Var
from ansor.ir.ops import REDUCERS
from ansor.ir.visit import children, loads, variables
from ansor.te.stage import Axis, Stage

LONG = 16  # neighbours with the same quotient: the longest vector's lanes
FEW_VECTORS = 8  # an axis shorter than this many vectors is worth an alternative


@dataclass(frozen=True)
class Walk:
    """How the loads of a stage move along one axis: how many stay, go to the next
    element, or jump; and of those that jump, how many could be packed."""

    stay: int
    next: int
    jump: int
    packable: int

    @property
    def is_smooth(self) -> bool:
        return self.jump == 0


def walk(stage: Stage, axis: Axis) -> Walk:
    """The walk of every distinct load of a stage along an axis."""
    found = dict.fromkeys(load for expr in stage.body for load in loads(expr))
    kinds = [_kind(load, axis.name) for load in found]
    return Walk(
        stay=kinds.count("stay"),
        next=kinds.count("next"),
        jump=kinds.count("jump") + kinds.count("pack"),
        packable=kinds.count("pack"),
    )


def _kind(load: Load, axis: str) -> str:
    using = [at for at, index in enumerate(load.indices) if axis in moving(index)]
    if not using:
        return "stay"
    last = len(load.indices) - 1
    step = linear(load.indices[last]).terms.get(Var(axis), 0)
    if using == [last] and step == 1:
        return "next"
    plain = all(load.indices[at] == Var(axis) for at in using)
    return "pack" if plain and len(using) == 1 else "jump"


def moving(expr: Expr) -> set[str]:
    """Variables whose next value gives another one of the expression, as a rule: a
    quotient such as the group of a channel stays for many."""
    match expr:
        case Binary("floordiv", Var(), Const(by)) if by >= LONG:
            return set()
        case Load():
            return set(variables(expr))
    below = [moving(child) for child in children(expr)]
    return {expr.name} if isinstance(expr, Var) else set().union(*below)


def vector_axes(stage: Stage, lanes: int, pack: bool) -> list[str]:
    """The axes of a stage worth vectorising, best first; `pack` if operands may be
    copied into another order first."""
    spatial = [axis for axis in stage.axes if axis.extent > 1]
    reduced = [a.name for a in stage.reduce_axes if is_reducible(stage, a, lanes)][-1:]
    if not spatial:
        return reduced
    last = spatial[-1]
    smooth = walk(stage, last).is_smooth
    found = [last.name] if smooth or (pack and last == stage.axes[-1]) else []
    if not smooth or last.extent < FEW_VECTORS * lanes:
        others = (axis for axis in spatial[:-1] if axis.extent >= lanes)
        found += [a.name for a in others if _is_good(stage, a, pack)]
    if reduced and walk(stage, last).next == 0:
        return reduced + found
    return found + reduced or [last.name]


def is_reducible(stage: Stage, axis: Axis, lanes: int) -> bool:
    """True if lanes along a reduction axis read neighbours and combine in the end."""
    if stage.reducer not in REDUCERS or axis.extent < 2 * lanes:
        return False
    moves = walk(stage, axis)
    return moves.is_smooth and moves.next > 0


def _is_good(stage: Stage, axis: Axis, pack: bool) -> bool:
    moves = walk(stage, axis)
    return moves.jump == (moves.packable if pack else 0) and moves.stay > 0
