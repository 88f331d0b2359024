"""Steps that place stages, or add and remove them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansor.errors import ScheduleError
from ansor.ir.affine import linear
from ansor.ir.expr import Buffer, Const, Expr, Load, Var
from ansor.ir.visit import DEEPEST, depth, map_loads, substitute
from ansor.schedule.knobs import Fixed, Follow
from ansor.schedule.legal import is_inside, readers
from ansor.schedule.loops import Reorder, Split, find_loop
from ansor.schedule.plan import At, Nest, Plan, SplitRelation, fresh, redirect
from ansor.te.stage import LOCATING, Axis, Stage

SCOPES = ("local", "packed", "shared")
MOST_LOADS = 4096  # of one formula: inlining x * x again and again doubles it


@dataclass(frozen=True, slots=True)
class ComputeAt(Fixed):
    """Compute a stage inside a loop of its consumer, only the part needed there.

        for i in 16: P[i] = f(i)         for j.0 in 2:
        for j.0 in 2:                        for i in 8: P[i] = f(j.0*8 + i)
            for j.1 in 8:         ==>        for j.1 in 8:
                C[…] = P[j.0*8 + j.1]            C[…] = P[j.1]

    >>> print(ComputeAt("P", "C", "j.0"))
    compute P at C.j.0

    Requires: all readers of the stage lie inside that loop; not an output.
    """

    stage: str
    consumer: str
    loop: str

    def apply(self, plan: Plan) -> Plan:
        nest = plan.nest(self.stage, self)
        find_loop(self, plan, self.consumer, self.loop)
        hint = (
            f"cache its writes, CacheWrite({self.stage!r}), and compute the cache there"
        )
        refuse_output(self, plan, nest, hint)
        if self.consumer not in {n.name for n in readers(plan, nest)}:
            names = (n.name for n in plan.consumers(nest.stage.buffers))
            raise ScheduleError(
                str(self),
                f"{self.consumer!r} does not read it",
                f"its readers are {', '.join(names)}",
            )
        place = At(self.consumer, self.loop)
        for reader in plan.consumers(nest.stage.buffers):
            if reader.name != self.consumer and not is_inside(plan, reader, place):
                raise ScheduleError(
                    str(self),
                    f"stage {reader.name!r} reads it outside loop {self.loop!r} "
                    f"of {self.consumer!r}",
                    f"compute {reader.name!r} inside that loop first, or leave "
                    f"{self.stage!r} at the root",
                )
        scope = "local" if nest.scope == "global" else nest.scope
        return plan.with_nest(replace(nest, at=place, scope=scope))

    def __str__(self) -> str:
        return f"compute {self.stage} at {self.consumer}.{self.loop}"


@dataclass(frozen=True, slots=True)
class ComputeRoot(Fixed):
    """Compute a stage by itself, before its consumers. Undoes `ComputeAt`.

        for j.0: (P; C)    ==>    P; for j.0: C

    >>> print(ComputeRoot("P"))
    compute P at root
    """

    stage: str

    def apply(self, plan: Plan) -> Plan:
        nest = plan.nest(self.stage, self)
        return plan.with_nest(replace(nest, at=None))

    def __str__(self) -> str:
        return f"compute {self.stage} at root"


@dataclass(frozen=True, slots=True)
class Inline(Fixed):
    """Put the expression of a stage into its consumers; the stage disappears.

        P[i] = f(A[i]); C[i] = P[i] + 1    ==>    C[i] = f(A[i]) + 1

    >>> print(Inline("P"))
    inline P

    Requires: no reduction, not an output, loops untouched.
    """

    stage: str

    def apply(self, plan: Plan) -> Plan:
        nest = plan.nest(self.stage, self)
        refuse_output(self, plan, nest, "inline the stages it reads")
        if nest.stage.reducer is not None:
            raise ScheduleError(
                str(self),
                f"stage {self.stage!r} is a reduction ({nest.stage.reducer})",
                "compute it at a loop of its consumer instead",
            )
        if not nest.is_fresh:
            raise ScheduleError(str(self), "its loops were changed", "inline it first")
        for consumer in plan.consumers(nest.stage.buffers):
            self._check_size(nest.stage, consumer.stage)
            body = tuple(_inlined(e, nest.stage) for e in consumer.stage.body)
            stage = replace(consumer.stage, body=body)
            plan = plan.with_nest(replace(consumer, stage=stage))
        return plan.without(self.stage)

    def _check_size(self, stage: Stage, consumer: Stage) -> None:
        levels = sum(max(map(depth, x.body)) for x in (stage, consumer))
        if levels > DEEPEST:
            raise ScheduleError(
                str(self),
                f"{consumer.name!r} could get {levels} levels of operands, more than "
                f"{DEEPEST}",
                "leave it a stage of its own",
            )
        names = {buffer.name for buffer in stage.buffers}
        uses = sum(load.buffer.name in names for load in consumer.loads)
        loads = len(consumer.loads) + uses * len(stage.loads)
        if loads > MOST_LOADS:
            raise ScheduleError(
                str(self),
                f"the formula of {consumer.name!r} would read {loads} elements, more "
                f"than {MOST_LOADS}",
                "leave it a stage of its own",
            )

    def __str__(self) -> str:
        return f"inline {self.stage}"


@dataclass(frozen=True, slots=True)
class CacheRead(Fixed):
    """Read a tensor through a copy of it, made by a new stage `<tensor>.<scope>`.

        C[…] = f(A[i])    ==>    A.local[i] = A[i]; C[…] = f(A.local[i])

    >>> print(CacheRead("A", "C", "local"))
    cache-read A for C -> A.local

    Requires: the consumer reads the tensor. Scopes: local, packed, shared.
    """

    tensor: str
    consumer: str
    scope: str = "local"

    def apply(self, plan: Plan) -> Plan:
        consumer = plan.nest(self.consumer, self)
        source = read_buffer(self, consumer, self.tensor)
        check_scope(self, self.scope)
        producer = plan.producer(self.tensor)
        if producer is not None and producer.factored is not None:
            raise ScheduleError(
                str(self),
                f"{self.tensor!r} holds partial results of a reduction",
                f"compute {producer.name!r} at a loop of {self.consumer!r} instead",
            )
        name = self.copy
        refuse_twice(self, plan, name)
        copy = Buffer(name, source.shape, source.dtype)
        stage = _copy_stage(name, source, copy)
        new = replace(consumer, stage=redirect(consumer.stage, source, copy))
        plan = plan.with_nest(new)
        return plan.insert_before(self.consumer, fresh(stage, self.scope))

    @property
    def copy(self) -> str:
        """Name of the stage it makes."""
        return f"{self.tensor}.{self.scope}"

    def __str__(self) -> str:
        return f"cache-read {self.tensor} for {self.consumer} -> {self.copy}"


@dataclass(frozen=True, slots=True)
class CacheWrite(Fixed):
    """Compute a stage into a buffer of its own, `<stage>.<scope>`, and copy that out.

        C[i] = f(i)    ==>    C.local[i] = f(i); C[i] = C.local[i]

    >>> print(CacheWrite("C", "local"))
    cache-write C -> C.local

    Requires: loops untouched, one output.
    """

    stage: str
    scope: str = "local"

    def apply(self, plan: Plan) -> Plan:
        nest = plan.nest(self.stage, self)
        check_scope(self, self.scope)
        if not nest.is_fresh:
            raise ScheduleError(str(self), "its loops were changed", "do this first")
        if len(nest.stage.buffers) != 1:
            names = ", ".join(buffer.name for buffer in nest.stage.buffers)
            raise ScheduleError(
                str(self), f"it writes {names}", "only stages with one output"
            )
        name = f"{self.stage}.{self.scope}"
        refuse_twice(self, plan, name)
        out = nest.stage.buffers[0]
        cache = Buffer(name, out.shape, out.dtype)
        compute = replace(nest.stage, name=name, buffers=(cache,))
        copy = _copy_stage(self.stage, cache, out, nest.stage.axes)
        plan = plan.with_nest(fresh(copy, nest.scope))
        return plan.insert_before(self.stage, fresh(compute, self.scope))

    def __str__(self) -> str:
        return f"cache-write {self.stage} -> {self.stage}.{self.scope}"


@dataclass(frozen=True, slots=True)
class Pack(Fixed):
    """Copy the part of a tensor a loop needs into a block laid out in loop order.

        for k.0: for j.1: for k.1: for j.2:  … B[k.0*64 + k.1, j.1*16 + j.2] …
        ==>
        for k.0:
            for j.1: for k.1: for j.2:  B.packed[j.1, k.1, j.2] = B[…]
            for j.1: for k.1: for j.2:  … B.packed[j.1, k.1, j.2] …

    >>> print(Pack("B", "C", "k.0"))
    pack B for C at k.0

    The new stage `B.packed` has one loop per dimension of its block, in block order:
    `d1` for axis 1 of the tensor, `d1.0`, `d1.1` where the consumer splits it there.
    Without a loop the whole tensor is packed at the
    root; for a constant input that happens once, ahead of time (`LayoutRewrite`).
    Requires: the consumer reads the tensor with one affine index per dimension.
    """

    tensor: str
    consumer: str
    loop: str | None = None
    ahead: bool = False

    def apply(self, plan: Plan) -> Plan:
        consumer = plan.nest(self.consumer, self)
        source = read_buffer(self, consumer, self.tensor)
        if self.loop is not None:
            find_loop(self, plan, self.consumer, self.loop)
        if self.ahead and self.tensor not in plan.dag.constants:
            raise ScheduleError(
                str(self),
                f"{self.tensor!r} is not a constant input",
                "declare it with placeholder(..., constant=True), or use Pack",
            )
        pieces = self._pieces(consumer, source)
        plan = CacheRead(self.tensor, self.consumer, "packed").apply(plan)
        name = f"{self.tensor}.packed"
        if self.loop is not None:
            plan = ComputeAt(name, self.consumer, self.loop).apply(plan)
        order: list[tuple[int, str]] = []
        for axis, loops in zip(plan.nest(name).stage.axes, pieces, strict=True):
            parts: tuple[str, ...] = (axis.name,)
            if len(loops) > 1:
                lengths = tuple(Follow(self.consumer, loop) for loop in loops[1:])
                split = Split(name, axis.name, lengths)
                plan, parts = split.apply(plan), split.parts
            places = [consumer.loops.index(loop) for loop in loops]
            order += zip(places or [-1], parts, strict=True)
        loops = tuple(part for _, part in sorted(order))
        plan = Reorder(name, loops).apply(plan)
        nest = replace(plan.nest(name), layout=loops, ahead=self.ahead)
        return plan.with_nest(nest)

    def _pieces(self, consumer: Nest, source: Buffer) -> list[tuple[str, ...]]:
        """Per dimension, the consumer's loops that make it up inside the loop."""
        inner = consumer.loops
        if self.loop is not None:
            inner = inner[inner.index(self.loop) + 1 :]
        reads = (r for r in consumer.reads() if r.buffer.name == source.name)
        accesses = {read.indices for read in reads}
        if len(accesses) != 1:
            raise ScheduleError(
                str(self),
                f"{self.consumer!r} reads {self.tensor!r} in {len(accesses)} ways",
                "use CacheRead",
            )
        (indices,) = accesses
        return [_loops_of(consumer, index, inner) for index in indices]

    def __str__(self) -> str:
        where = "ahead of time" if self.ahead else f"at {self.loop or 'root'}"
        return f"pack {self.tensor} for {self.consumer} {where}"


def LayoutRewrite(tensor: str, consumer: str) -> Pack:
    """Store a constant input in the consumer's loop order, once, ahead of time.

        … W[k, j] …    ==>    … W.packed[j.0, k.0, j.1, k.1, j.2] …

    >>> print(LayoutRewrite("W", "C"))
    pack W for C ahead of time

    Requires: `placeholder(..., constant=True)`.
    """
    return Pack(tensor, consumer, None, ahead=True)


@dataclass(frozen=True, slots=True)
class RFactor(Fixed):
    """Turn one loop of a split reduction into an axis of partial results.

        for k.0: for k.1:              for k.1: for k.0:
            S += A[k.0*8 + k.1]   ==>      S.rf[k.1] += A[k.0*8 + k.1]
                                       for k.1: S += S.rf[k.1]

    >>> print(RFactor("S", "k.1"))
    rfactor S.k.1 -> S.rf

    Requires: the loop is a part of a split reduction axis; the stage is at the root.
    """

    stage: str
    loop: str

    def apply(self, plan: Plan) -> Plan:
        nest, _ = find_loop(self, plan, self.stage, self.loop)
        self._check(plan, nest)
        stage = nest.stage
        name = f"{self.stage}.rf"
        out = stage.buffers[0]
        # The extent of the new dimension is known once lengths are; 1 stands for it.
        partial = Buffer(name, (*out.shape, 1), out.dtype)
        spatial = (loop for loop in nest.loops if not nest.is_reduce(loop))
        space = (*spatial, self.loop)
        rest = tuple(loop for loop in nest.loops if loop not in space)
        factored = replace(
            nest,
            stage=replace(stage, name=name, buffers=(partial,)),
            loops=(*space, *rest),
            scope="local",
            factored=self.loop,
        )
        k = Axis(self.loop, 1)
        indices = tuple(Var(axis.name) for axis in stage.axes)
        total = replace(
            stage, reduce_axes=(k,), body=(Load(partial, (*indices, Var(k.name))),)
        )
        sizes = {k.name: Follow(name, self.loop)}
        plan = plan.with_nest(replace(fresh(total, nest.scope), sizes=sizes))
        return plan.insert_before(self.stage, factored)

    def _check(self, plan: Plan, nest: Nest) -> None:
        stage = nest.stage
        if not nest.is_reduce(self.loop) or stage.reducer is None:
            raise ScheduleError(
                str(self),
                f"loop {self.loop!r} is not a reduction",
                "split a reduction axis, and name a part of it",
            )
        if stage.reducer in LOCATING:
            raise ScheduleError(
                str(self),
                f"{stage.reducer} combines pairs of value and index",
                "only reductions of one value",
            )
        if nest.factored is not None:
            raise ScheduleError(
                str(self),
                f"{self.stage!r} holds the partial results of loop {nest.factored!r}",
                "factor once, by a longer loop",
            )
        if nest.at is not None:
            raise ScheduleError(
                str(self),
                f"{self.stage!r} is computed inside loop {nest.at.loop!r} of "
                f"{nest.at.stage!r}",
                "rfactor first, then compute both stages there",
            )
        refuse_twice(self, plan, f"{self.stage}.rf")
        is_part = any(
            isinstance(r, SplitRelation) and self.loop in r.parts
            for r in nest.relations
        )
        if not is_part:
            raise ScheduleError(
                str(self),
                f"loop {self.loop!r} is not part of a split",
                "split it first",
            )

    def __str__(self) -> str:
        return f"rfactor {self.stage}.{self.loop} -> {self.stage}.rf"


def refuse_output(step: object, plan: Plan, nest: Nest, hint: str) -> None:
    outputs = {buffer.name for buffer in plan.dag.outputs}
    if any(buffer.name in outputs for buffer in nest.stage.buffers):
        raise ScheduleError(str(step), f"stage {nest.name!r} is an output", hint)


def refuse_twice(step: object, plan: Plan, name: str) -> None:
    """A new stage needs a new name."""
    if any(nest.name == name for nest in plan):
        raise ScheduleError(
            str(step), f"stage {name!r} exists already", "do this once for a stage"
        )


def check_scope(step: object, scope: str) -> None:
    if scope not in SCOPES:
        known = ", ".join(SCOPES)
        raise ScheduleError(str(step), f"unknown scope {scope!r}", f"use {known}")


def read_buffer(step: object, consumer: Nest, tensor: str) -> Buffer:
    """The buffer called `tensor` among those a nest reads."""
    for load in consumer.reads():
        if load.buffer.name == tensor:
            return load.buffer
    names = sorted({load.buffer.name for load in consumer.reads()})
    raise ScheduleError(
        str(step),
        f"stage {consumer.name!r} does not read {tensor!r}",
        f"it reads {', '.join(names) or 'nothing'}",
    )


def _copy_stage(
    name: str, source: Buffer, copy: Buffer, axes: tuple[Axis, ...] | None = None
) -> Stage:
    if axes is None:
        axes = tuple(Axis(f"d{n}", e) for n, e in enumerate(source.shape))
    body = Load(source, tuple(Var(axis.name) for axis in axes))
    return Stage(name, axes, (), (body,), None, (copy,))


def _inlined(expr: Expr, stage: Stage) -> Expr:
    (out,) = stage.buffers

    def rewrite(load: Load) -> Expr:
        if load.buffer.name != out.name:
            return load
        names = (axis.name for axis in stage.axes)
        return substitute(stage.body[0], dict(zip(names, load.indices, strict=True)))

    return map_loads(expr, rewrite)


def _loops_of(consumer: Nest, index: Expr, inner: tuple[str, ...]) -> tuple[str, ...]:
    """The inner loops that an index runs over, outermost part first.

    Only a plain axis taken apart by plain splits is followed; any other index stays
    one dimension, placed where its innermost loop is.
    """
    terms = linear(index).terms
    names = [atom.name for atom in terms if isinstance(atom, Var)]
    touching = tuple(loop for loop in inner if consumer.axis_of(loop) & set(names))
    if isinstance(index, Const) or not touching:
        return ()
    plain = isinstance(index, Var) and all(
        isinstance(r, SplitRelation) and r.tail == "peel"
        for r in consumer.relations
        if consumer.axis_of(r.parent if isinstance(r, SplitRelation) else r.fused)
        & set(names)
    )
    if not plain:
        return touching[-1:]
    nodes = _leaves(consumer, names[0])
    inside = tuple(node for node in nodes if node in inner)
    # Only a suffix of the digits is a mixed-radix number of its own.
    return inside if inside == nodes[len(nodes) - len(inside) :] else touching[-1:]


def _leaves(nest: Nest, node: str) -> tuple[str, ...]:
    for relation in nest.relations:
        if isinstance(relation, SplitRelation) and relation.parent == node:
            return tuple(x for part in relation.parts for x in _leaves(nest, part))
    return (node,)
