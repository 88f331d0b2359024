"""Which way each step of a model takes, where memory for constants is limited.

Alternatives are faster, but their constants are larger: Winograd's weights are 1.8 or 4
times the plain ones. Bytes are counted as constants are before kernels lay them out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from ansor.errors import ModelError
from ansor.frontend.graph import Value
from ansor.frontend.subgraph import Alias, Plan, Subgraph

# Times the constants of the plain model. In a ResNet-50 this has room for F(4x4) with
# up to 128 channels and for F(2x2) with 256: three quarters of what Winograd's method
# could save, for a sixth of the memory.
MEMORY = 1.16
SMALL = 64 << 20  # bytes of constants: a smaller model may have as much more as this


def checked(memory: float | None) -> float:
    """A limit as a number; None is none at all. Raises ModelError."""
    if memory is None:
        return inf
    is_number = isinstance(memory, int | float) and not isinstance(memory, bool)
    if not is_number or not memory >= 1:
        raise ModelError(
            f"memory={memory!r}",
            "is not a number from 1 up: how many times the constants of the plain "
            "model those of the compiled one may be",
            "give 1 for the plain model, math.inf for no limit",
        )
    return float(memory)


# -- choosing --------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """What a step takes if it is computed in one of its ways: `bytes` are those of its
    constants beyond the first way's. Nobody takes one of infinite seconds."""

    seconds: float
    bytes: int = 0


@dataclass(frozen=True)
class _Switch:
    """A step goes over to another way."""

    step: int
    way: int
    saved: float  # seconds
    bytes: int  # more than before

    @property
    def rank(self) -> tuple[float, float]:
        """Seconds saved for a byte; the more, the better."""
        return (self.saved / self.bytes if self.bytes > 0 else inf, self.saved)


def take(steps: Sequence[Sequence[Way]], room: float) -> list[int]:
    """The number of each step's way: none is slower than its first, and all together
    need at most `room` bytes more than the first ones.

    What saves most for a byte is taken first, a step at a time, so that steps that are
    alike may differ where the room ends. What saves most of all may not fit then: that
    is tried first as well, so that at least half of what can be saved is.

    >>> layer = [Way(6.0), Way(4.0, 10), Way(3.0, 40)]
    >>> [take([layer, layer], room) for room in (9, 25, 60, 99)]
    [[0, 0], [1, 1], [2, 1], [2, 2]]
    """
    plain = [0] * len(steps)
    found = _filled(steps, plain, room)
    largest = max(
        _switches(steps, plain, room), key=lambda switch: switch.saved, default=None
    )
    if largest is None:
        return found
    plain[largest.step] = largest.way
    other = _filled(steps, plain, room - largest.bytes)
    return min(found, other, key=lambda ways: _seconds(steps, ways))


def _filled(
    steps: Sequence[Sequence[Way]], start: Sequence[int], room: float
) -> list[int]:
    """The ways after all switches that fit, the best for a byte first; of equal ones
    the first."""
    taken = list(start)
    while True:
        switches = _switches(steps, taken, room)
        best = max(switches, key=lambda switch: switch.rank, default=None)
        if best is None:
            return taken
        taken[best.step] = best.way
        room -= best.bytes


def _switches(
    steps: Sequence[Sequence[Way]], taken: Sequence[int], room: float
) -> Iterator[_Switch]:
    """Those that save time and fit."""
    for at, (ways, now) in enumerate(zip(steps, taken, strict=True)):
        for n, way in enumerate(ways):
            more = way.bytes - ways[now].bytes
            if way.seconds < ways[now].seconds and more <= room:
                yield _Switch(at, n, ways[now].seconds - way.seconds, more)


def _seconds(steps: Sequence[Sequence[Way]], taken: Sequence[int]) -> float:
    return sum(ways[n].seconds for ways, n in zip(steps, taken, strict=True))


# -- bytes of a plan -------------------------------------------------------------------


def constant_bytes(plan: Plan) -> int:
    """Of the constants that are read, each once, the plain way."""
    return sum(_Readers(plan).bytes.values())


def more_bytes(plan: Plan) -> list[list[int]]:
    """For each subgraph and each of its ways: the bytes of constants that it needs and
    the plain way does not, less those of what nobody would read any more.

    For one change they are exact; several together never need more than their sum.
    """
    readers = _Readers(plan)
    return [[readers.more(step, way) for way in step.ways] for step in plan.subgraphs]


def room(plan: Plan, memory: float | None) -> float:
    """Bytes of constants that alternatives may need beyond the plain way's."""
    limit = checked(memory)
    if limit == inf:
        return inf
    return (limit - 1) * max(constant_bytes(plan), SMALL)


def within(plan: Plan, memory: float | None) -> Plan:
    """The plan without the alternatives that there is no room for.

    One is left out, too, if the steps that are equal cannot all take it, unless it is
    the smallest: a kernel for some of them is worth its trials only once.
    """
    most = room(plan, memory)
    rows: dict[tuple[int, ...], list[list[int]]] = {}
    for step, row in zip(plan.subgraphs, more_bytes(plan), strict=True):
        rows.setdefault(_kind(step), []).append(row)
    kept = {kind: _fitting(found, most) for kind, found in rows.items()}
    return plan.using([_only(step, kept[_kind(step)]) for step in plan.subgraphs])


def _kind(step: Subgraph) -> tuple[int, ...]:
    return tuple(id(way.task) for way in step.ways)


def _fitting(rows: Sequence[Sequence[int]], most: float) -> list[int]:
    """The numbers of the alternatives of equal steps that are left."""
    whole = [sum(column) for column in zip(*rows, strict=True)]
    least = min(range(1, len(whole)), key=whole.__getitem__, default=0)
    smallest = min(row[least] for row in rows)
    return [
        n
        for n in range(1, len(whole))
        if whole[n] <= most or (n == least and smallest <= most)
    ]


def _only(step: Subgraph, numbers: Sequence[int]) -> Subgraph:
    return replace(step, alternatives=tuple(step.ways[n] for n in numbers))


class _Readers:
    """How often constants are read by a plan, and their bytes, by name."""

    def __init__(self, plan: Plan) -> None:
        self._known = plan.graph.constants.keys() | plan.made.keys()
        read = list(plan.graph.outputs)
        for step in plan.steps:
            read += [step.input] if isinstance(step, Alias) else step.inputs
        constants = [value for value in read if value.name in self._known]
        self.bytes = {value.name: value.bytes for value in constants}
        self._often = Counter(value.name for value in constants)

    def more(self, plain: Subgraph, way: Subgraph) -> int:
        before, after = self._constants(plain), self._constants(way)
        new = sum(x.bytes for name, x in after.items() if name not in before)
        free = [x for name, x in before.items() if name not in after]
        return new - sum(x.bytes for x in free if self._often[x.name] == 1)

    def _constants(self, step: Subgraph) -> dict[str, Value]:
        known = self._known | {x.value.name for x in step.made}
        return {x.name: x for x in step.inputs if x.name in known}
