"""Data that a statement finds in a cache because one before it has just used it.

    for i0.0:                       rows of X come in
        for …: squares += X * X
        for …: Y = X * …            and are still there, if a block of rows fits

Temporary buffers are not meant: they are as small as the region that is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from ansor.cost.access import ONE, Access, Real, least
from ansor.cost.nests import Statement, total


@dataclass(frozen=True)
class Found:
    """Lines of one buffer that were used before in the same turn of shared loops."""

    lines: Real  # of all turns
    body: Real  # lines of a cache that one turn takes, of both statements


def found_before(statements: Sequence[Statement], at: int) -> tuple[Found, ...]:
    """Of the loads of one statement, what earlier ones leave in a cache."""
    later = statements[at]
    found: list[Found] = []
    for load in later.loads:
        for earlier in reversed(statements[:at]):
            level = _shared(earlier, later)
            known = next((x for x in earlier.loads if x.buffer == load.buffer), None)
            if level and known is not None and not load.is_temporary:
                found.append(_found(earlier, later, known, load, level))
                break
    return tuple(found)


def _shared(one: Statement, other: Statement) -> int:
    """Loops around both that run more than once; 0 without any."""
    pairs = zip(one.loops, other.loops, strict=False)
    same = list(takewhile(lambda pair: pair[0].key == pair[1].key, pairs))
    return len(same) if any(x.extent is not ONE for x, _ in same) else 0


def _found(
    earlier: Statement, later: Statement, known: Access, load: Access, level: int
) -> Found:
    both = [x.occupied(level) for x in (*earlier.accesses, *later.accesses)]
    body = total(both) - least(known.occupied(level), load.occupied(level))
    lines = least(known.lines(level), load.lines(level)) * later.trips[level]
    return Found(lines, body)
