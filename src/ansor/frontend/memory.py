"""Where the values of a plan live: the caller's arrays, constants, or one arena.

Values whose lifetimes do not meet share bytes of the arena.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ansor.frontend.graph import Value
from ansor.frontend.subgraph import Alias, Plan, Subgraph

ALIGNMENT = 64  # bytes: a cache line, and the widest vector
MANY = 4000  # blocks, of which one order has to do


@dataclass(frozen=True)
class Block:
    """Bytes that are needed from one step to another, both included."""

    name: str
    bytes: int
    first: int
    last: int

    def meets(self, other: Block) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Arrangement:
    """Offsets of blocks in one arena of so many bytes."""

    offsets: Mapping[str, int]
    bytes: int


# Orders that blocks are placed in; the best result counts. None is the best always.
_ORDERS: tuple[Callable[[Block], tuple[int, ...]], ...] = (
    lambda x: (-x.bytes, x.first),
    lambda x: (-x.bytes * (x.last - x.first + 1), x.first),
    lambda x: (x.first - x.last, -x.bytes),
    lambda x: (x.first, -x.bytes),
)


def arrange(blocks: Sequence[Block]) -> Arrangement:
    """Put blocks into an arena so that those that are needed at the same time do not
    overlap; offsets are multiples of 64."""
    least = lower_bound(blocks)
    best: Arrangement | None = None
    for order in _ORDERS if len(blocks) <= MANY else _ORDERS[:1]:
        found = _greedy(sorted(blocks, key=order))
        if best is None or found.bytes < best.bytes:
            best = found
        if best.bytes == least:
            break
    assert best is not None
    return best


def lower_bound(blocks: Iterable[Block]) -> int:
    """Bytes that any arrangement needs: the most that are needed at one step."""
    changes: dict[int, int] = {}
    for block in blocks:
        size = _rounded(block.bytes)
        changes[block.first] = changes.get(block.first, 0) + size
        changes[block.last + 1] = changes.get(block.last + 1, 0) - size
    now = most = 0
    for step in sorted(changes):
        now += changes[step]
        most = max(most, now)
    return most


def _greedy(blocks: Iterable[Block]) -> Arrangement:
    """Each in turn where it fits best among those before it."""
    offsets: dict[str, int] = {}
    by_step: dict[int, list[Block]] = {}  # placed ones that are needed at a step
    total = 0
    for block in blocks:
        steps = range(block.first, block.last + 1)
        near = {x.name: x for step in steps for x in by_step.get(step, ())}
        size = _rounded(block.bytes)
        taken = sorted((offsets[x.name], _rounded(x.bytes)) for x in near.values())
        offsets[block.name] = _best_fit(size, taken)
        total = max(total, offsets[block.name] + size)
        for step in steps:
            by_step.setdefault(step, []).append(block)
    return Arrangement(offsets, total)


def _best_fit(size: int, taken: Sequence[tuple[int, int]]) -> int:
    """The start of the smallest gap between these (offset, bytes) that is large
    enough, else their end."""
    end, best, room = 0, -1, 0
    for offset, length in taken:
        gap = offset - end
        if gap >= size and (best < 0 or gap < room):
            best, room = end, gap
        end = max(end, offset + length)
    return best if best >= 0 else end


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


# -- of a plan -------------------------------------------------------------------------


class Home(StrEnum):
    """What kind of memory a value is in."""

    INPUT = "input"
    OUTPUT = "output"
    CONSTANT = "constant"
    ARENA = "arena"


@dataclass(frozen=True)
class Place:
    """`at` is the number of the input or output, or the offset in the arena; of a
    constant, `name` says which."""

    home: Home
    at: int = 0
    name: str = ""


@dataclass(frozen=True)
class Copy:
    """Output number `output` is a copy of what is somewhere else."""

    output: int
    source: Place
    bytes: int


@dataclass(frozen=True)
class Storage:
    """The places of all values of a plan by name, aliases included."""

    places: Mapping[str, Place]
    copies: tuple[Copy, ...]  # after the last step
    arena: int  # bytes
    blocks: tuple[Block, ...]  # what shares the arena


def store(plan: Plan) -> Storage:
    """Decide where every value of a plan lives.

    A value that the graph returns is written to the caller's array at once and read
    there, too. One that is an input, a constant or returned twice is copied.
    """
    roots = _roots(plan)
    places: dict[str, Place] = {}
    for number, value in enumerate(plan.graph.inputs):
        places[value.name] = Place(Home.INPUT, number)
    for name in (*plan.graph.constants, *plan.made):
        places[name] = Place(Home.CONSTANT, name=name)
    again: list[tuple[int, Value]] = []
    for number, value in enumerate(plan.graph.outputs):
        root = roots.get(value.name, value.name)
        if root in places:
            again.append((number, value))
        else:
            places[root] = Place(Home.OUTPUT, number)
    blocks = _lifetimes(plan, roots, places)
    arranged = arrange(blocks)
    for name, offset in arranged.offsets.items():
        places[name] = Place(Home.ARENA, offset)
    places.update({name: places[root] for name, root in roots.items()})
    copies = tuple(Copy(number, places[x.name], x.bytes) for number, x in again)
    return Storage(places, copies, arranged.bytes, blocks)


def _roots(plan: Plan) -> dict[str, str]:
    """The value that an alias is another name of, by the alias's name."""
    roots: dict[str, str] = {}
    for step in plan.steps:
        if isinstance(step, Alias):
            source = step.input.name
            roots[step.output.name] = roots.get(source, source)
    return roots


def _lifetimes(
    plan: Plan, roots: Mapping[str, str], places: Mapping[str, Place]
) -> tuple[Block, ...]:
    """Of the values that have no place yet."""
    made: dict[str, tuple[int, int]] = {}  # the step, and bytes
    last: dict[str, int] = {}
    for at, step in enumerate(plan.steps):
        if not isinstance(step, Subgraph):
            continue
        for value in step.outputs:
            made[value.name] = (at, value.bytes)
        for value in (*step.inputs, *step.outputs):
            last[roots.get(value.name, value.name)] = at
    return tuple(
        Block(name, size, at, last[name])
        for name, (at, size) in made.items()
        if name not in places
    )
