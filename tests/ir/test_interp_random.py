"""Random programs: the interpreter against running every iteration in order."""

import random

import numpy as np
import pytest

from ansor.ir import interp
from ansor.ir.dtypes import DTYPES
from ansor.ir.expr import (
    Binary,
    Broadcast,
    Buffer,
    Cast,
    Const,
    Expr,
    Lanes,
    Load,
    Ramp,
    Select,
    Var,
)
from ansor.ir.interp import evaluate, run
from ansor.ir.stmt import Allocate, For, Function, If, Seq, Stmt, Store
from ansor.ir.verify import verify


def add(a: Expr, b: Expr | int) -> Expr:
    return Binary("add", a, Const(b) if isinstance(b, int) else b)


def mul(a: Expr, b: Expr | int) -> Expr:
    return Binary("mul", a, Const(b) if isinstance(b, int) else b)


def less(a: Expr, b: int) -> Expr:
    return Binary("lt", a, Const(b))


def put(target: Load, value: Expr) -> Store:
    return Store(target.buffer, target.indices, value, target.active)


def in_order(stmt: Stmt, env: dict[str, int], memory: dict[str, np.ndarray]) -> None:
    """The plain meaning of a program, one iteration after another."""
    match stmt:
        case For():
            for value in range(stmt.extent):
                in_order(stmt.body, {**env, stmt.var.name: value}, memory)
        case Seq():
            for child in stmt.stmts:
                in_order(child, env, memory)
        case If():
            branch = stmt.then if evaluate(stmt.condition, env, memory) else None
            branch = stmt.otherwise if branch is None else branch
            if branch is not None:
                in_order(branch, env, memory)
        case Allocate():
            fresh = np.zeros(stmt.buffer.shape, DTYPES[stmt.buffer.dtype].numpy)
            fresh.view(np.uint8)[...] = 0xA5
            in_order(stmt.body, env, {**memory, stmt.buffer.name: fresh})
        case Store():
            index = tuple(evaluate(e, env, memory) for e in stmt.indices)
            value = evaluate(stmt.value, env, memory)
            if index and max(np.ndim(axis) for axis in index):
                kept = slice(stmt.active)
                index = tuple(np.broadcast_to(a, value.shape)[kept] for a in index)
                value = value[kept]
            memory[stmt.buffer.name][index] = value


class Programs:
    """Small random programs over int32 buffers; indices are mostly affine."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.buffers = [Buffer(n, (40, 9), "int32") for n in "XYZ"]
        self.fresh = 0

    def function(self) -> Function:
        body = self.stmt({}, tuple(self.buffers), depth=4)
        return Function("f", tuple(self.buffers), body)

    def stmt(
        self, extents: dict[str, int], buffers: tuple[Buffer, ...], depth: int
    ) -> Stmt:
        kinds = ["store"] if depth == 0 else ["for", "for", "for", "seq", "if", "new"]
        kind = self.random.choice(kinds if extents else ["for"])
        match kind:
            case "for":
                self.fresh += 1
                name, extent = f"v{self.fresh}", self.random.randint(1, 4)
                inner = self.stmt({**extents, name: extent}, buffers, depth - 1)
                return For(Var(name), extent, inner)
            case "seq":
                many = range(self.random.randint(1, 3))
                parts = [self.stmt(extents, buffers, depth - 1) for _ in many]
                return Seq(tuple(parts))
            case "if":
                then = self.stmt(extents, buffers, depth - 1)
                rest = self.stmt(extents, buffers, 0)
                other = rest if self.random.random() < 0.3 else None
                return If(self.condition(extents, buffers), then, other)
            case "new":
                self.fresh += 1
                new = Buffer(f"t{self.fresh}", (40, 9), "int32", "local")
                return Allocate(new, self.stmt(extents, (*buffers, new), depth - 1))
        chosen = self.vector_store if self.random.random() < 0.25 else self.store
        return chosen(extents, buffers)

    def index(self, extents: dict[str, int], limit: int) -> Expr:
        """Below `limit`; by modulo where the sum might not be."""
        total: Expr = Const(self.random.randint(0, 2))
        greatest = total.value
        for name in self.random.sample(list(extents), min(len(extents), 2)):
            scale, digit = self.random.choice((1, 1, 2, 4, 8)), Var(name)
            op = self.random.choice(("", "", "", "floordiv", "mod"))
            term = Binary(op, digit, Const(2)) if op else digit
            total = add(total, mul(term, scale))
            greatest += scale * (extents[name] - 1)
        return total if greatest < limit else Binary("mod", total, Const(limit))

    def load(self, extents: dict[str, int], buffer: Buffer) -> Load:
        row = self.index(extents, 40)
        return Load(buffer, (row, self.index(extents, 9)))

    def condition(self, extents: dict[str, int], buffers: tuple[Buffer, ...]) -> Expr:
        if self.random.random() < 0.7:
            return less(self.index(extents, 40), self.random.randint(1, 6))
        load = self.load(extents, self.random.choice(buffers))
        return Binary("lt", load, Const(20, "int32"))

    def store(self, extents: dict[str, int], buffers: tuple[Buffer, ...]) -> Store:
        target = self.load(extents, self.random.choice(buffers))
        value: Expr = self.load(extents, self.random.choice(buffers))
        if self.random.random() < 0.5:
            other = self.load(extents, self.random.choice(buffers))
            value = Select(self.condition(extents, buffers), value, other)
        if self.random.random() < 0.3:
            value = Cast(self.index(extents, 40), "int32")
        if self.random.random() < 0.6:
            op = self.random.choice(("add", "max", "min", "mul", "sub"))
            sides = (target, value) if self.random.random() < 0.5 else (value, target)
            value = Binary(op, *sides)
        return put(target, value)

    def vector_store(
        self, extents: dict[str, int], buffers: tuple[Buffer, ...]
    ) -> Store:
        lanes, active = 3, self.random.choice((None, 2, 3))

        def vector(buffer: Buffer) -> Load:
            column = Ramp(self.index(extents, 5), self.random.choice((1, 2)), lanes)
            return Load(buffer, (self.index(extents, 40), column), active)

        target = vector(self.random.choice(buffers))
        scalar = self.load(extents, self.random.choice(buffers))
        value: Expr = vector(self.random.choice(buffers))
        if self.random.random() < 0.5:
            inside = self.condition(extents, buffers)
            value = Select(inside, value, Broadcast(scalar, lanes))
        if self.random.random() < 0.3:
            value = Broadcast(Lanes("max", value, 2), lanes)
        if self.random.random() < 0.6:
            value = Binary(self.random.choice(("add", "min", "sub")), target, value)
        return put(target, value)


@pytest.mark.parametrize("largest", [3, 40, 1 << 21])
def test_random_programs_run_as_if_in_order(
    monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    monkeypatch.setattr(interp, "LARGEST", largest)
    for seed in range(150):
        function = Programs(seed).function()
        verify(function)
        rng = np.random.default_rng(seed)
        start = [rng.integers(0, 50, (40, 9), np.int32) for _ in range(3)]
        want, got = [x.copy() for x in start], [x.copy() for x in start]
        names = [p.name for p in function.parameters]
        in_order(function.body, {}, dict(zip(names, want, strict=True)))
        run(function, got)
        for name, a, b in zip(names, want, got, strict=True):
            np.testing.assert_array_equal(b, a, f"seed {seed}, {name}\n{function}")
