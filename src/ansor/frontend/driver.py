"""The function that runs a whole plan: calls of kernels as LLVM text, no Python.

    i32 <name>(ptr inputs, ptr outputs, ptr arena)
    i32 <name>(ptr inputs, ptr outputs, ptr arena, ptr times)     that takes the time

Kernels and constants are symbols, which a linker binds: to addresses of this process,
or to objects of an exported model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ansor.frontend.memory import ALIGNMENT, Copy, Home, Place

MONOTONIC = 1  # the clock's number


@dataclass(frozen=True)
class Call:
    """One kernel with the places of its arguments; the name of a constant's place is a
    symbol, and `at` an offset from it."""

    symbol: str
    arguments: tuple[Place, ...]


def driver_text(
    name: str,
    calls: Sequence[Call],
    copies: Sequence[Copy],
    arena: int,
    *,
    is_timed: bool = False,
) -> str:
    """LLVM text of the function. It returns 0; 1 if the arena is needed, but is null
    or not aligned, and then nothing was done.

    If it takes the time, it writes a `timespec` of the monotonic clock into `times`
    before every call, and after the last.
    """
    body = _Body()
    for at, call in enumerate(calls):
        operands = ", ".join(f"ptr {body.operand(x)}" for x in call.arguments)
        if is_timed:
            body.clock(at)
        body.lines.append(f"  call void {_at(call.symbol)}({operands})")
    if is_timed:
        body.clock(len(calls))
    for copy in copies:
        target = body.operand(Place(Home.OUTPUT, copy.output))
        source = body.operand(copy.source)
        body.lines.append(
            "  call void @llvm.memcpy.p0.p0.i64"
            f"(ptr {target}, ptr {source}, i64 {copy.bytes}, i1 false)"
        )
    head = _head(name, arena, ", ptr %times" if is_timed else "")
    text = "\n".join((*_declarations(calls, copies), "", *head))
    return "\n".join((text, *body.lines, "  ret i32 0", "}", ""))


@dataclass
class _Body:
    """Straight-line code; every address is computed once."""

    lines: list[str] = field(default_factory=list)
    known: dict[Place, str] = field(default_factory=dict)

    def operand(self, place: Place) -> str:
        if place.home is Home.CONSTANT:
            if not place.at:
                return _at(place.name)
            return f"getelementptr (i8, ptr {_at(place.name)}, i64 {place.at})"
        if place not in self.known:
            self.known[place] = self._address(place, f"%v{len(self.known)}")
        return self.known[place]

    def clock(self, at: int) -> None:
        self.lines += [
            f"  %t{at} = getelementptr [2 x i64], ptr %times, i64 {at}",
            f"  %c{at} = call i32 @clock_gettime(i32 {MONOTONIC}, ptr %t{at})",
        ]

    def _address(self, place: Place, name: str) -> str:
        if place.home is Home.ARENA:
            self.lines.append(
                f"  {name} = getelementptr i8, ptr %arena, i64 {place.at}"
            )
            return name
        table = "%inputs" if place.home is Home.INPUT else "%outputs"
        self.lines += [
            f"  {name}.p = getelementptr ptr, ptr {table}, i64 {place.at}",
            f"  {name} = load ptr, ptr {name}.p",
        ]
        return name


def _declarations(calls: Sequence[Call], copies: Sequence[Copy]) -> list[str]:
    kernels: Mapping[str, int] = {x.symbol: len(x.arguments) for x in calls}
    places = [x for call in calls for x in call.arguments] + [x.source for x in copies]
    constants = dict.fromkeys(x.name for x in places if x.home is Home.CONSTANT)
    lines = [f"{_at(x)} = external constant i8" for x in constants]
    lines += [
        f"declare void {_at(name)}({', '.join(['ptr'] * arity)})"
        for name, arity in kernels.items()
    ]
    return [
        *lines,
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
        "declare i32 @clock_gettime(i32, ptr)",
    ]


def _head(name: str, arena: int, more: str) -> list[str]:
    """The start of the function, up to the first call."""
    takes = f"ptr %inputs, ptr %outputs, ptr %arena{more}"
    first = f"define i32 {_at(name)}({takes}) nounwind {{"
    if not arena:
        return [first, "start:"]
    return [
        first,
        "  %bits = ptrtoint ptr %arena to i64",
        f"  %odd = and i64 %bits, {ALIGNMENT - 1}",
        "  %is.odd = icmp ne i64 %odd, 0",
        "  %is.null = icmp eq ptr %arena, null",
        "  %is.bad = or i1 %is.odd, %is.null",
        "  br i1 %is.bad, label %bad, label %start",
        "bad:",
        "  ret i32 1",
        "start:",
    ]


def _at(symbol: str) -> str:
    return f'@"{symbol}"'
