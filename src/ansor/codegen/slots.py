"""Which buffers can live in registers: those only ever touched at fixed places."""

from collections.abc import Iterator
from itertools import pairwise

from ansor.codegen.module import Place
from ansor.ir.expr import Binary, Buffer, Const, Expr, Load, Ramp, Var
from ansor.ir.stmt import Allocate, For, If, Prefetch, Stmt, Store
from ansor.ir.visit import children, statements


def fixed_buffers(stmt: Stmt) -> dict[str, dict[Place, set[int]]]:
    """Allocated buffers whose accesses are all at fixed, separate places.

    Each place comes with the numbers of active lanes it is accessed with. A buffer of
    one region that a parallel loop shares with its surroundings needs an address, so it
    is left out.
    """
    places: dict[str, dict[Place, set[int]]] = {}
    bad: set[str] = set()
    plain: set[int] = set()
    for child in statements(stmt):
        if isinstance(child, Allocate):
            places.setdefault(child.buffer.name, {})
        elif isinstance(child, For) and child.kind == "parallel":
            inside = {s.buffer.name for s in statements(child.body)
                      if isinstance(s, Allocate)}  # fmt: skip
            bad |= used_buffers(child.body) - inside
        for access in _accesses(child, plain):
            buffer = access.buffer
            if buffer.scope == "global" or buffer.name in bad:
                continue
            place = _place(buffer, access.indices)
            if place is None or isinstance(access, Prefetch):
                bad.add(buffer.name)
            else:
                counts = places.setdefault(buffer.name, {}).setdefault(place, set())
                counts.add(access.active or place[1])
    return {
        name: found
        for name, found in places.items()
        if name not in bad
        and not _overlap([(p[0], p[0] + max(found[p])) for p in sorted(found)])
    }


def used_buffers(stmt: Stmt) -> set[str]:
    """Names of the buffers that a statement reads, writes or prefetches."""
    plain: set[int] = set()
    return {
        a.buffer.name for child in statements(stmt) for a in _accesses(child, plain)
    }


def _accesses(stmt: Stmt, plain: set[int]) -> Iterator[Store | Prefetch | Load]:
    """The accesses of one statement. `plain` remembers, by their ids, the indices in
    which nothing is loaded, which unrolled copies share; the statements outlive it."""
    found: list[Load] = []
    if isinstance(stmt, Store | Prefetch):
        yield stmt
        _find_in_indices(stmt.indices, found, plain)
    if isinstance(stmt, Store):
        _find_loads(stmt.value, found, plain)
    elif isinstance(stmt, If):
        _find_loads(stmt.condition, found, plain)
    yield from found


def _find_in_indices(
    indices: tuple[Expr, ...], found: list[Load], plain: set[int]
) -> None:
    for index in indices:
        if isinstance(index, Var | Const) or id(index) in plain:
            continue
        before = len(found)
        _find_loads(index, found, plain)
        if len(found) == before:
            plain.add(id(index))


def _find_loads(expr: Expr, found: list[Load], plain: set[int]) -> None:
    """Append every load of an expression. A hot path: most nodes are operators."""
    if isinstance(expr, Binary):
        _find_loads(expr.a, found, plain)
        _find_loads(expr.b, found, plain)
    elif isinstance(expr, Load):
        found.append(expr)
        _find_in_indices(expr.indices, found, plain)
    elif not isinstance(expr, Var | Const):
        for child in children(expr):
            _find_loads(child, found, plain)


def _place(buffer: Buffer, indices: tuple[Expr, ...]) -> Place | None:
    first, lanes = 0, 1
    for index, stride in zip(indices, buffer.strides, strict=True):
        if isinstance(index, Ramp):
            if index.stride * stride != 1 or lanes > 1:
                return None
            lanes, index = index.lanes, index.base
        if not isinstance(index, Const):
            return None
        first += int(index.value) * stride
    return first, lanes


def _overlap(spans: list[tuple[int, int]]) -> bool:
    return any(a[1] > b[0] for a, b in pairwise(spans))
