"""When a mutant is no fault at all: decided by rule, not by hand.

A mutant is equivalent to the program it was made of if

1. its machine code is the same, or
2. the interpreter, which shares nothing with the code generator, finds that it leaves
   right results for three fresh draws of inputs, touches nothing outside of its
   arguments, and writes no input. Temporaries are its own: they have 64 bytes to spare
   on both sides, as they do in machine code, and those in registers, which LLVM may
   fill as it likes if they are not initialised, hold zeros.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ansor.codegen.arrays import Parameter, empty
from ansor.errors import AnsorError
from ansor.ir.dtypes import DTYPES, is_float
from ansor.ir.expr import Binary, Broadcast, Buffer, Const, Expr, Load, Ramp, Var
from ansor.ir.interp import run
from ansor.ir.stmt import Allocate, For, Function, Seq, Stmt, Store
from ansor.ir.visit import map_loads, map_stmt
from ansor.te.dag import DAG
from ansor.te.inputs import random_inputs
from ansor.te.reference import agrees, expected
from measure.harness import Candidate, machine_code

SEEDS = (101, 102, 103)
SPARE = 64  # bytes


def equivalent(mutant: Candidate, original: Candidate) -> bool:
    if machine_code(mutant) == machine_code(original):
        return True
    draws = (random_inputs(mutant.dag, np.random.default_rng(s)) for s in SEEDS)
    return all(_is_right(mutant, inputs) for inputs in draws)


def _is_right(mutant: Candidate, inputs: Sequence[np.ndarray]) -> bool:
    dag = mutant.dag
    given = [x.copy() for x in inputs]
    try:
        outputs = interpreted(mutant.functions, dag, given)
    except AnsorError:  # an access outside of an argument
        return False
    rows = zip(outputs, *expected(dag, inputs), strict=True)
    return all(agrees(x, y, e).all() for x, y, e in rows) and all(
        x.tobytes() == y.tobytes() for x, y in zip(given, inputs, strict=True)
    )


def interpreted(
    functions: Sequence[Function], dag: DAG, inputs: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The outputs; inputs are changed where the program does so."""
    given = {b.name: x for b, x in zip(dag.inputs, inputs, strict=True)}
    main, *prepare = map(flattened, functions)
    for function in prepare:
        source, block = function.parameters
        given[block.name] = _garbage(block)
        run(function, [given[source.name].reshape(-1), given[block.name]])
    outputs = [_garbage(buffer) for buffer in dag.outputs]
    names = [x.name for x in main.parameters[: len(dag.inputs)]]
    arguments = [*(given[name] for name in names), *outputs]
    run(main, [x.reshape(-1) for x in arguments])
    return outputs


def _garbage(buffer: Buffer) -> np.ndarray:
    array = empty(Parameter.of("kernel", buffer))
    array.reshape(-1).view(np.uint8)[:] = 0xA5
    return array


def flattened(function: Function) -> Function:
    """The same with buffers of one axis, as they are in memory."""
    parameters = tuple(_flat(x, 0) for x in function.parameters)
    spare = {x.name: 0 for x in function.parameters}
    return replace(function, parameters=parameters, body=_flatten(function.body, spare))


def _flat(buffer: Buffer, spare: int) -> Buffer:
    return replace(buffer, shape=(buffer.size + 2 * spare,))


def _flatten(stmt: Stmt, spare: dict[str, int]) -> Stmt:
    def on_expr(e: Expr) -> Expr:
        return map_loads(e, on_load)

    def on_load(e: Load) -> Expr:
        return Load(_flat(e.buffer, room(e.buffer)), at(e.buffer, e.indices), e.active)

    def room(buffer: Buffer) -> int:
        return spare.get(buffer.name, SPARE // DTYPES[buffer.dtype].bytes)

    def at(buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return (_position(buffer, indices, room(buffer)),)

    def visit(s: Stmt) -> Stmt:
        if isinstance(s, Allocate):
            flat = _flat(s.buffer, room(s.buffer))
            body = visit(s.body)
            zeros = _zeros(flat) if s.buffer.scope == "register" else Seq(())
            return Allocate(flat, Seq((zeros, body)))
        s = map_stmt(s, on_expr, visit)
        if isinstance(s, Store):
            flat = _flat(s.buffer, room(s.buffer))
            return replace(s, buffer=flat, indices=at(s.buffer, s.indices))
        return s

    return visit(stmt)


def _position(buffer: Buffer, indices: tuple[Expr, ...], spare: int) -> Expr:
    total: Expr = Const(spare)
    for index, stride in zip(indices, buffer.strides, strict=True):
        total = _plus(total, _times(index, stride))
    return total


def _times(index: Expr, stride: int) -> Expr:
    if isinstance(index, Ramp):
        return Ramp(_times(index.base, stride), index.stride * stride, index.lanes)
    if index.lanes > 1:
        return Binary("mul", index, Broadcast(Const(stride), index.lanes))
    return Binary("mul", index, Const(stride))


def _plus(a: Expr, b: Expr) -> Expr:
    if a.lanes == b.lanes:
        return Binary("add", a, b)
    if b.lanes == 1:
        a, b = b, a
    if isinstance(b, Ramp):
        return replace(b, base=Binary("add", a, b.base))
    return Binary("add", Broadcast(a, b.lanes), b)


def _zeros(buffer: Buffer) -> Stmt:
    var = Var(f"zero.{buffer.name}")
    value = Const(0.0 if is_float(buffer.dtype) else 0, buffer.dtype)
    return For(var, buffer.shape[0], Store(buffer, (var,), value))
