"""Candidates of knobs: which lengths a tile may have.

No length has to divide anything: a prime extent has the same inner tiles as its
neighbours, and its last block is shorter.
"""

from __future__ import annotations

from ansor.schedule.knobs import Knob, Length

PARTS = 8  # an extent is also cut into 1 … PARTS equal blocks
ROWS = 16  # the longest unrolled tile of the axis next to the vectors
OTHER_ROWS = 4  # and of any other axis
VECTORS = 8  # side by side in a tile
UNROLLED = (1, 2, 4, 8)  # steps of a reduction
WINDOW = 7  # a reduction this short may be unrolled as a whole


def block_lengths(extent: int) -> tuple[int, ...]:
    """Lengths of a blocking level: small ones, round ones, divisors, equal parts.

    >>> block_lengths(31)
    (1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 24, 31)
    """
    found = set(range(1, 9))
    for base in (1, 3):
        found.update(base << n for n in range(extent.bit_length()))
    found.update(-(-extent // parts) for parts in range(1, PARTS + 1))
    found.update(_divisors(extent))
    return tuple(sorted(n for n in found if n <= extent))


def row_lengths(extent: int, most: int) -> tuple[int, ...]:
    """Lengths of an unrolled level."""
    return tuple(range(1, min(extent, most) + 1))


def vector_lengths(extent: int, lanes: int) -> tuple[int, ...]:
    """Lengths of a vectorised level: whole vectors, or all of a short axis.

    >>> vector_lengths(1009, 4)
    (4, 8, 12, 16, 20, 24, 28, 32)
    >>> vector_lengths(3, 4), vector_lengths(7, 4)
    ((3,), (4, 7))
    """
    found = {n * lanes for n in range(1, VECTORS + 1) if n * lanes <= extent}
    if extent <= VECTORS * lanes:
        found.add(extent)
    return tuple(sorted(found))


def unrolled_lengths(extent: int) -> tuple[int, ...]:
    """Lengths of an unrolled reduction.

    >>> unrolled_lengths(3), unrolled_lengths(512)
    ((1, 2, 3), (1, 2, 4, 8))
    """
    found = {n for n in UNROLLED if n <= extent}
    if extent <= WINDOW:
        found.add(extent)
    return tuple(sorted(found))


def length(stage: str, loop: str, candidates: tuple[int, ...]) -> Length:
    """A knob named after the loop whose iterations it is; a number if it is certain."""
    if len(candidates) == 1:
        return candidates[0]
    return Knob(f"{stage}.{loop}", candidates)


def _divisors(extent: int) -> set[int]:
    small = {n for n in range(1, int(extent**0.5) + 1) if extent % n == 0}
    return small | {extent // n for n in small}
