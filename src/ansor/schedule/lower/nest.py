"""Pass 1: the loop nest of a program as written: guards inside, nothing optimised."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice, product

from ansor.errors import ScheduleError
from ansor.ir.affine import Linear, linear
from ansor.ir.dtypes import dtype
from ansor.ir.expr import Binary, Buffer, Call, Const, Expr, Load, Select, Var
from ansor.ir.ops import REDUCERS, highest, lowest
from ansor.ir.simplify import TRUE, simplify
from ansor.ir.stmt import THREADS, Allocate, For, Function, If, Prefetch, Stmt, Store
from ansor.ir.visit import map_loads, rebuild, seq, variables
from ansor.schedule.bounds import Bounds
from ansor.schedule.lower.coordinates import Coordinates
from ansor.schedule.plan import Nest, Plan, SplitRelation

LINE_BYTES = 64
MAX_PREFETCHES = 16  # of one prefetch step, each time


@dataclass(frozen=True)
class Built:
    """A program as loops: the kernel, and what runs once on its constant inputs."""

    main: Function
    prepare: tuple[Function, ...]  # constant input -> packed block, one function each


def build(plan: Plan, bounds: Bounds, name: str) -> Built:
    """The functions of one program."""
    return _Builder(plan, bounds).build(name)


class _Builder:
    def __init__(self, plan: Plan, bounds: Bounds) -> None:
        self.plan = plan
        self.at = Coordinates(bounds)
        self.bounds = bounds
        self.buffers: dict[str, Buffer] = {}
        self.ranges: dict[str, tuple[int, int]] = {}
        for nest in plan:
            for loop in nest.loops:
                for part in self.at.run_as(nest, loop):
                    extent = self.at.extent(nest.name, part)
                    self.ranges[f"{nest.name}.{part}"] = (0, extent - 1)
            for buffer in nest.stage.buffers:
                self.buffers[buffer.name] = self.storage(nest, buffer)

    def build(self, name: str) -> Built:
        roots = [nest for nest in self.plan if nest.at is None]
        ahead = [nest for nest in roots if nest.ahead]
        body = seq(*(self.code(nest) for nest in roots if not nest.ahead))
        outputs = self.plan.dag.outputs
        for nest in reversed([n for n in roots if not n.ahead]):
            for buffer in nest.stage.buffers:
                if buffer not in outputs:
                    body = Allocate(self.buffers[buffer.name], body)
        packed = {self.source(nest).name: self.block(nest) for nest in ahead}
        parameters = (packed.get(p.name, p) for p in self.plan.dag.inputs)
        main = Function(name, (*parameters, *outputs), body, len(outputs))
        return Built(main, tuple(self.prepare(name, nest) for nest in ahead))

    def prepare(self, name: str, nest: Nest) -> Function:
        source, block = self.source(nest), self.block(nest)
        return Function(f"{name}.{nest.name}", (source, block), self.code(nest))

    def source(self, nest: Nest) -> Buffer:
        (load,) = nest.reads()
        return load.buffer

    def block(self, nest: Nest) -> Buffer:
        return self.buffers[nest.name]

    def storage(self, nest: Nest, buffer: Buffer) -> Buffer:
        """The buffer a nest really writes: its region, in its layout."""
        if nest.layout is not None:
            shape = [self.at.extent(nest.name, node) for node in nest.layout]
        else:
            shape = [int(region.span[0]) for region in self.bounds.regions(nest.name)]
        if nest.factored is not None:
            shape.append(self.at.extent(nest.name, nest.factored))
        scope = "global" if nest.ahead else nest.scope
        if scope == "global" and not nest.ahead and buffer not in self.plan.dag.outputs:
            scope = "packed"  # what an argmax compares
        return Buffer(buffer.name, tuple(shape), buffer.dtype, scope)

    def code(self, nest: Nest) -> Stmt:
        """The loops of one nest, with everything computed inside them."""
        reduce = [nest.is_reduce(loop) for loop in nest.loops]
        first = reduce.index(True) if any(reduce) else len(reduce)
        guards = self.guards(nest)
        spatial = [g for axis in nest.stage.axes for g in guards[axis.name]]
        everything = [g for conditions in guards.values() for g in conditions]
        if nest.stage.reducer is None:
            return self.loops(nest, 0, self.guarded(self.assign(nest), everything))
        update = self.guarded(self.update(nest), everything)
        body = self.loops(nest, first, update)
        if nest.factored is not None:
            spatial += self.proven(self.at.split_guards(nest, nest.factored))
        start = self.guarded(self.initial(nest), spatial)
        for at in range(len(nest.loops) - 1, first - 1, -1):
            if not reduce[at]:
                start = self.loop(nest, nest.loops[at], start)
        return self.loops(nest, 0, seq(start, body), stop=first)

    def loops(
        self, nest: Nest, start: int, body: Stmt, stop: int | None = None
    ) -> Stmt:
        """`body` inside the loops from `start` to `stop`, with what is attached."""
        stop = len(nest.loops) if stop is None else stop
        for loop in reversed(nest.loops[start:stop]):
            body = self.attached(nest, loop, body)
            body = seq(*self.prefetches(nest, loop), body)
            body = self.loop(nest, loop, body)
        return body

    def loop(self, nest: Nest, loop: str, body: Stmt) -> Stmt:
        """`body` in a loop; in several directly inside each other if it is fused and
        parallel, which a later pass makes one again."""
        kind = nest.annotations.get(loop, "serial")
        for part in reversed(self.at.run_as(nest, loop)):
            body = self.single_loop(nest, part, kind, body)
        return body

    def single_loop(self, nest: Nest, loop: str, kind: str, body: Stmt) -> Stmt:
        extent = self.at.extent(nest.name, loop)
        if extent == 1:
            return body
        thread = kind if kind in THREADS else ""
        if kind == "parallel" and nest.at is not None:
            kind = "serial"  # the loops around it are parallel already, or too small
        var = self.at.variable(nest.name, loop)
        reduce = nest.is_reduce(loop)
        return For(var, extent, body, "thread" if thread else kind, reduce, thread)

    def attached(self, nest: Nest, loop: str, body: Stmt) -> Stmt:
        """The stages computed at a loop, then the rest of its body."""
        here = [
            other
            for other in self.plan
            if other.at and (other.at.stage, other.at.loop) == (nest.name, loop)
        ]
        body = seq(*(self.code(other) for other in here), body)
        for other in reversed(here):
            for buffer in other.stage.buffers:
                body = Allocate(self.buffers[buffer.name], body)
        return body

    def guards(self, nest: Nest) -> dict[str, list[Expr]]:
        """Conditions that the ranges of the loops do not already prove."""
        found = self.at.guards(nest)
        return {axis: self.proven(conditions) for axis, conditions in found.items()}

    def proven(self, conditions: list[Expr]) -> list[Expr]:
        """What remains of some conditions."""
        simple = (simplify(c, self.ranges) for c in conditions)
        return list(dict.fromkeys(c for c in simple if c != TRUE))

    def guarded(self, stmt: Stmt, conditions: list[Expr]) -> Stmt:
        for condition in reversed(list(dict.fromkeys(conditions))):
            stmt = If(condition, stmt)
        return stmt

    def element(self, nest: Nest, buffer: Buffer) -> tuple[Buffer, tuple[Expr, ...]]:
        """Where this iteration of a nest writes."""
        nodes = nest.layout or tuple(axis.name for axis in nest.stage.axes)
        if nest.factored is not None:
            nodes = (*nodes, nest.factored)
        indices = (self.index(self.at.local(nest.name, node)) for node in nodes)
        return self.buffers[buffer.name], tuple(indices)

    def index(self, value: Linear) -> Expr:
        return simplify(value.expr(), self.ranges)

    def assign(self, nest: Nest) -> Stmt:
        (out,) = nest.stage.buffers
        buffer, indices = self.element(nest, out)
        return Store(buffer, indices, self.value(nest, nest.stage.body[0]))

    def initial(self, nest: Nest) -> Stmt:
        stage = nest.stage
        values = [Const(identity, b.dtype) for identity, b in
                  zip(identities(stage.reducer or "", stage.buffers), stage.buffers,
                      strict=True)]  # fmt: skip
        stores = []
        for out, value in zip(stage.buffers, values, strict=True):
            buffer, indices = self.element(nest, out)
            stores.append(Store(buffer, indices, value))
        return seq(*stores)

    def update(self, nest: Nest) -> Stmt:
        stage = nest.stage
        places = [self.element(nest, out) for out in stage.buffers]
        news = [self.value(nest, expr) for expr in stage.body]
        olds = [Load(buffer, indices) for buffer, indices in places]
        combined = combine(stage.reducer or "", olds, news)
        stores = [
            Store(buffer, indices, value)
            for (buffer, indices), value in zip(places, combined, strict=True)
        ]
        return seq(*reversed(stores))  # the index of an argmax before its value

    def value(self, nest: Nest, expr: Expr) -> Expr:
        """An expression of a stage's body over the loop variables of its nest."""
        axes = (*nest.stage.axes, *nest.stage.reduce_axes)
        values = {a.name: self.at.absolute(nest.name, a.name) for a in axes}
        expr = _substitute(expr, values)
        expr = map_loads(expr, self.read)
        return simplify(expr, self.ranges)

    def read(self, load: Load) -> Expr:
        """A load of a tensor as a load of where that tensor's values really are."""
        producer = self.plan.producer(load.buffer.name)
        if producer is None:
            return load
        buffer = self.buffers[load.buffer.name]
        rank = len(producer.stage.axes)
        locals_ = [
            linear(index).plus(self.at.linear(region.base), -1)
            for index, region in zip(
                load.indices[:rank], self.bounds.regions(producer.name), strict=True
            )
        ]
        indices: list[Expr] = [self.index(local) for local in locals_]
        if producer.layout is not None:
            axes = (axis.name for axis in producer.stage.axes)
            where = dict(zip(axes, locals_, strict=True))
            nodes = (self.digit(producer, node, where) for node in producer.layout)
            indices = [simplify(node, self.ranges) for node in nodes]
        return Load(buffer, (*indices, *load.indices[rank:]))

    def digit(self, nest: Nest, node: str, where: dict[str, Linear]) -> Expr:
        """The value of one part of a split axis, from the value of the axis."""
        if node in where:
            return where[node].expr()
        for split in nest.relations:
            if isinstance(split, SplitRelation) and node in split.parts:
                at = split.parts.index(node)
                below = 1
                for part in split.parts[at + 1 :]:
                    below *= self.at.extent(nest.name, part)
                value = self.digit(nest, split.parent, where)
                value = Binary("floordiv", value, Const(below))
                extent = Const(self.at.extent(nest.name, node))
                return value if at == 0 else Binary("mod", value, extent)
        raise AssertionError(f"{node} is no part of {nest.name}")

    def prefetches(self, nest: Nest, loop: str) -> list[Stmt]:
        """One prefetch for each cache line that a later iteration will touch."""
        found: dict[Stmt, None] = {}
        for where, buffer, distance in nest.prefetches:
            if where != loop:
                continue
            var = self.at.variable(nest.name, loop)
            later = {var.name: Linear(distance, {var: 1})}
            for load in dict.fromkeys(nest.reads()):
                if load.buffer.name == buffer:
                    real = self.value(nest, load)
                    assert isinstance(real, Load)
                    for inner in self.touched(nest, loop, real):
                        values = later | inner
                        moved = tuple(_substitute(i, values) for i in real.indices)
                        found[Prefetch(real.buffer, moved)] = None
        return list(found)

    def touched(self, nest: Nest, loop: str, load: Load) -> list[dict[str, Linear]]:
        """Values of the loops inside `loop` that reach each line of a load: all of
        an unrolled loop, each line of a vectorised one, the first of any other."""
        used = {name for index in load.indices for name in variables(index)}
        line = LINE_BYTES // dtype(load.dtype).bytes
        choices: list[list[tuple[str, Linear]]] = []
        for name in nest.loops[nest.loops.index(loop) + 1 :]:
            kind = nest.annotations.get(name)
            extent = self.at.extent(nest.name, name)
            full = f"{nest.name}.{name}"
            step = {"unroll": 1, "vectorize": line}.get(kind or "", extent)
            values = range(0, extent if full in used else 1, step)
            choices.append([(full, Linear(value)) for value in values])
        return [dict(choice) for choice in islice(product(*choices), MAX_PREFETCHES)]


def identities(
    reducer: str, buffers: tuple[Buffer, ...]
) -> tuple[int | float | bool, ...]:
    """The neutral element of a reduction, one value per buffer."""
    if reducer in REDUCERS:
        return tuple(REDUCERS[reducer].identity(b.dtype) for b in buffers)
    value, index = buffers
    worst = lowest(value.dtype) if reducer == "argmax" else highest(value.dtype)
    return worst, highest(index.dtype)


def combine(reducer: str, olds: list[Load], news: list[Expr]) -> list[Expr]:
    """The values of a reduction after one more element."""
    if reducer in REDUCERS:
        op = REDUCERS[reducer].op
        return [Binary(op, a, b) for a, b in zip(olds, news, strict=True)]
    if reducer not in ("argmax", "argmin"):
        raise ScheduleError(f"reducer {reducer!r}", "unknown")
    (old, old_index), (new, new_index) = olds, news
    better: Expr = (
        Binary("lt", old, new) if reducer == "argmax" else Binary("lt", new, old)
    )
    earlier = Binary("lt", new_index, old_index)
    better = Binary("or", better, Binary("and", Binary("eq", old, new), earlier))
    if new.dtype.startswith(("float", "bfloat")):
        new_nan, old_nan = Call("isnan", (new,)), Call("isnan", (old,))
        first = Binary("or", Call("not", (old_nan,)), earlier)
        better = Binary("or", Binary("and", new_nan, first), better)
    return [Select(better, new, old), Select(better, new_index, old_index)]


def _substitute(expr: Expr, values: dict[str, Linear]) -> Expr:
    if isinstance(expr, Var):
        return values[expr.name].expr() if expr.name in values else expr
    return rebuild(expr, lambda e: _substitute(e, values))
