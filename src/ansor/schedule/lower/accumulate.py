"""Pass 2: reductions accumulate in registers instead of in memory.

    for i: for j: C[i, j] = 0                  for i: for j: acc[i, j] = 0
    for k:                              ==>    for k:
        for i: for j:  # unroll, vectorize         for i: for j: acc[i, j] += …
            C[i, j] += …                       for i: for j: C[i, j] = acc[i, j]

applies to the outermost reduction loop inside which every spatial loop is unrolled or
vectorised. If reduction loops lie further out, the tile is loaded from memory except in
their first iteration, so memory is never cleared beforehand. A vectorised reduction
loop gets one accumulator per lane; lanes are combined at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ansor.ir.expr import Binary, Buffer, Const, Expr, Load, Var
from ansor.ir.stmt import Allocate, For, If, Seq, Stmt, Store
from ansor.ir.visit import map_loads, map_stmt, seq, statements, variables

IN_REGISTERS = ("unroll", "vectorize")


def accumulate(stmt: Stmt) -> Stmt:
    """Promote every reduction of a program that has the shape above."""
    match stmt:
        case Seq(stmts):
            return seq(*_pairs([accumulate(child) for child in stmts]))
        case For() | If() | Allocate():
            return map_stmt(stmt, lambda e: e, accumulate)
        case _:
            return stmt


def _pairs(stmts: list[Stmt]) -> list[Stmt]:
    """Promote (initialise, reduce) neighbours."""
    done: list[Stmt] = []
    for stmt in stmts:
        start = _initial(done[-1]) if done else None
        promoted = None if start is None else _promote(stmt, start, ())
        if promoted is None:
            done.append(stmt)
        else:
            done[-1] = promoted
    return done


@dataclass(frozen=True)
class _Start:
    """What a nest that initialises stores, by buffer, and under which conditions."""

    values: dict[str, Const]
    conditions: frozenset[Expr]


def _initial(stmt: Stmt) -> _Start | None:
    """The nest as the start of a reduction; None if it stores no mere constants."""
    values: dict[str, Const] = {}
    conditions: set[Expr] = set()
    for child in statements(stmt):
        if isinstance(child, Store):
            if not isinstance(child.value, Const):
                return None
            values[child.buffer.name] = child.value
        elif isinstance(child, If):
            conditions.add(child.condition)
        elif not isinstance(child, For | Seq):
            return None
    return _Start(values, frozenset(conditions)) if values else None


def _promote(stmt: Stmt, start: _Start, outer: tuple[Var, ...]) -> Stmt | None:
    """The reduction with its tile in registers, or None if it has no such tile."""
    match stmt:
        case For():
            tile = _tile(stmt, start)
            if tile is not None:
                return tile.rewrite(outer)
            outer = (*outer, stmt.var) if stmt.reduce else outer
            body = _promote(stmt.body, start, outer)
            return None if body is None else replace(stmt, body=body)
        case Seq(stmts) if stmts:
            last = _promote(stmts[-1], start, outer)
            return None if last is None else seq(*stmts[:-1], last)
        case Allocate(buffer, body):
            inner = _promote(body, start, outer)
            return None if inner is None else Allocate(buffer, inner)
        case _:
            return None


def _tile(loop: For, start: _Start) -> _Tile | None:
    """The register tile of a reduction loop, if all conditions hold."""
    if not loop.reduce or loop.kind == "vectorize":
        return None
    nest = list(_inwards(loop, len(start.values)))
    loops = [stmt for stmt in nest if isinstance(stmt, For)]
    tile = _Tile(
        loop,
        spatial=[inner for inner in loops if not inner.reduce],
        lanes=[x for x in loops if x.reduce and x.kind == "vectorize"],
        guards=[stmt.condition for stmt in nest if isinstance(stmt, If)],
        inside=[inner.var for inner in loops if inner.reduce],
        stores=tuple(stmt for stmt in nest if isinstance(stmt, Store)),
        start=start,
    )
    return tile if tile.is_legal() else None


def _inwards(stmt: Stmt, results: int) -> Iterator[Stmt]:
    """A nest down to the stores of its results; stages computed in it are left out."""
    match stmt:
        case For(body=body) | If(then=body, otherwise=None) | Allocate(body=body):
            yield stmt
            yield from _inwards(body, results)
        case Seq(stmts) if stmts and isinstance(stmts[-1], Store):
            yield from (s for s in stmts[-results:] if isinstance(s, Store))
        case Seq(stmts) if stmts:
            yield from _inwards(stmts[-1], results)
        case Store():
            yield stmt


@dataclass(frozen=True)
class _Tile:
    loop: For
    spatial: list[For]
    lanes: list[For]
    guards: list[Expr]
    inside: list[Var]  # reduction variables
    stores: tuple[Store, ...]
    start: _Start

    def is_legal(self) -> bool:
        if any(loop.kind not in IN_REGISTERS for loop in self.spatial):
            return False
        if {store.buffer.name for store in self.stores} != set(self.start.values):
            return False  # something that was initialised would stay behind
        if self.lanes and not (len(self.stores) == 1 and self.operator()):
            return False
        names = {var.name for var in self.inside}
        indices = (index for store in self.stores for index in store.indices)
        return not any(variables(index) & names for index in indices)

    def operator(self) -> str | None:
        """The operator of a plain accumulation `C = C op x`."""
        match self.stores[0].value:
            case Binary(op, Load(buffer), _) if buffer == self.stores[0].buffer:
                return op
            case _:
                return None

    def rewrite(self, outer: tuple[Var, ...]) -> Stmt:
        first: Expr | None = None
        for var in outer:
            zero = Binary("eq", var, Const(0))
            first = zero if first is None else Binary("and", first, zero)
        loop = map_stmt(self.loop, lambda e: e, self._in_registers)
        body = self._with_lanes(first, loop) if self.lanes else self._plain(first, loop)
        for store in self.stores:
            body = Allocate(self.accumulator(store.buffer), body)
        return body

    def accumulator(self, buffer: Buffer) -> Buffer:
        shape = tuple(loop.extent for loop in self._dimensions())
        return Buffer(f"{buffer.name}.acc", shape, buffer.dtype, "register")

    def slot(self) -> tuple[Expr, ...]:
        return tuple(loop.var for loop in self._dimensions())

    def _dimensions(self) -> list[For]:
        """The loops that index the accumulators; lanes of a vector lie together."""
        loops = [*self.spatial, *self.lanes]
        return sorted(loops, key=lambda loop: loop.kind == "vectorize")

    def _in_registers(self, stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Store) or stmt not in self.stores:
            return map_stmt(stmt, lambda e: e, self._in_registers)
        places = {store.buffer.name: store.indices for store in self.stores}

        def read(load: Load) -> Expr:
            if places.get(load.buffer.name) == load.indices:
                return Load(self.accumulator(load.buffer), self.slot())
            return load

        value = map_loads(stmt.value, read)
        return Store(self.accumulator(stmt.buffer), self.slot(), value)

    def _nest(self, loops: list[For], make: Callable[[Store], Stmt]) -> Stmt:
        """A statement per store, inside copies of the spatial loops and guards."""
        body = seq(*map(make, self.stores))
        for guard in reversed(self.guards):
            if guard in self.start.conditions:
                body = If(guard, body)
        for loop in reversed(loops):
            body = replace(loop, body=body, reduce=False)
        return body

    def _cleared(self, store: Store) -> Stmt:
        value = self.start.values[store.buffer.name]
        return Store(self.accumulator(store.buffer), self.slot(), value)

    def _plain(self, first: Expr | None, loop: Stmt) -> Stmt:
        def load(store: Store) -> Stmt:
            value = Load(store.buffer, store.indices)
            return Store(self.accumulator(store.buffer), self.slot(), value)

        def save(store: Store) -> Stmt:
            value = Load(self.accumulator(store.buffer), self.slot())
            return Store(store.buffer, store.indices, value)

        begin = self._nest(self.spatial, self._cleared)
        if first is not None:
            begin = If(first, begin, self._nest(self.spatial, load))
        return seq(begin, loop, self._nest(self.spatial, save))

    def _with_lanes(self, first: Expr | None, loop: Stmt) -> Stmt:
        op = self.operator()
        assert op is not None

        def clear(store: Store) -> Stmt:
            value = self.start.values[store.buffer.name]
            return Store(store.buffer, store.indices, value)

        def total(store: Store) -> Stmt:
            old = Load(store.buffer, store.indices)
            value = Binary(op, old, Load(self.accumulator(store.buffer), self.slot()))
            body: Stmt = Store(store.buffer, store.indices, value)
            for lane in reversed(self.lanes):
                body = replace(lane, body=body)
            return body

        begin: Stmt = self._nest(self.spatial, clear)
        if first is not None:
            begin = If(first, begin)
        zero = self._nest([*self.spatial, *self.lanes], self._cleared)
        return seq(begin, zero, loop, self._nest(self.spatial, total))
