"""Pass 5: 16-bit floats are computed in float32 and rounded when stored.

    C[i] = A[i] * B[i]    ==>    C[i] = float16(float32(A[i]) * float32(B[i]))

Accumulators in registers become float32, so a sum is rounded once, at its end.
"""

from __future__ import annotations

from dataclasses import replace

from ansor.ir.expr import Buffer, Cast, Const, Expr, Load
from ansor.ir.stmt import Allocate, Stmt, Store
from ansor.ir.visit import map_stmt, rebuild

HALVES = ("float16", "bfloat16")


def widen_halves(stmt: Stmt) -> Stmt:
    """The same program with no arithmetic on 16-bit floats."""
    if isinstance(stmt, Store):
        buffer = _register(stmt.buffer)
        value = _wide(stmt.value)
        if buffer.dtype != value.dtype:
            value = Cast(value, buffer.dtype)
        return Store(buffer, tuple(map(_wide, stmt.indices)), value, stmt.active)
    new = map_stmt(stmt, _wide, widen_halves)
    if isinstance(new, Allocate):
        return replace(new, buffer=_register(new.buffer))
    return new


def _register(buffer: Buffer) -> Buffer:
    if buffer.scope == "register" and buffer.dtype in HALVES:
        return replace(buffer, dtype="float32")
    return buffer


def _wide(e: Expr) -> Expr:
    """An equal expression whose value, if it was a half, is float32."""
    match e:
        case Const(value, dtype) if dtype in HALVES:
            return Const(value, "float32")
        case Load(buffer, indices, active):
            load = Load(_register(buffer), tuple(map(_wide, indices)), active)
            return Cast(load, "float32") if load.dtype in HALVES else load
        case Cast(value, dtype) if dtype in HALVES:
            if value.dtype == dtype:
                return _wide(value)
            return Cast(Cast(_wide(value), dtype), "float32")
        case _:
            return rebuild(e, _wide)
