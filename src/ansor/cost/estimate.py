"""The time of one statement, part by part: arithmetic, loads, instructions, traffic."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import log2

import numpy as np

from ansor.cost.access import ONE, Access, Real, ceil, least, most, product, real
from ansor.cost.machine import Machine
from ansor.cost.nests import Statement
from ansor.cost.sharing import Found

FAR = 1.0  # share of the time of far traffic that nothing hides
# Share of the shorter of computing and fetching that is not hidden: of data in long
# runs, which are fetched ahead, and what is added where every line stands alone.
OVERLAP, ALONE = 0.1, 0.4
# Filled up to the first share, a cache keeps everything; up to the second, ever less.
FULL, SPILLED = 0.9, 2.5
SHORT = 4.0  # lines that could be fetched while the first one of a run is waited for
CROWD = 0.1  # share of the other two of arithmetic, loads and issue that shows
JOIN = 1.5  # instructions that halve the lanes of one result
DRAIN = 4.0  # cycles that the end of a reduction in registers takes
TURN = 1.5  # cycles of one more turn of a loop around other loops
GATHER = 2.0  # instructions for one lane that is loaded by itself
MASKED = 2.5  # the same where some lanes may lie in a padding
SCATTER = 2.0  # instructions for one lane that is stored by itself
LONG_VECTOR = 8  # vectors of one loop that are written out

ZERO = real([0])
PARALLEL = ("parallel", "blockIdx.x", "blockIdx.y", "blockIdx.z")


@dataclass(frozen=True)
class Estimate:
    """The parts of the time of one statement; cycles and seconds are of one core."""

    statement: Statement
    machine: Machine
    data: Real  # lines that the whole program touches
    before: tuple[Found, ...] = ()  # what earlier statements leave in a cache

    # -- counts ----------------------------------------------------------------------

    @cached_property
    def vectors(self) -> Real:
        """Vector operations for one operation on all elements."""
        s = self.statement
        if s.vector is None:
            return s.trips[-1]
        return s.trips[-1] / s.loops[s.vector].extent * self.wide

    @cached_property
    def wide(self) -> Real:
        """Vectors of one run of the vectorised loop."""
        s = self.statement
        if s.vector is None:
            return ONE
        return ceil(s.loops[s.vector].extent * np.float32(1 / s.lanes))

    @cached_property
    def slots(self) -> Real:
        """Multiply-adds, or what takes as long."""
        found = ZERO
        for levels, slots in self.statement.work.by_levels.items():
            found = found + np.float32(slots) * self._times(levels)
        return found

    def _times(self, levels: frozenset[int]) -> Real:
        """How often something that some loops change is computed: once for each of its
        values in the tile, and outside the loops around it that do not change it."""
        s = self.statement
        level = s.tile
        while level > s.own and level - 1 not in levels:
            level -= 1
        if level == s.tile and all(n in levels for n in range(level, s.depth)):
            return self.vectors
        count = s.trips[level]
        for n in range(s.tile, s.depth):
            if n in levels:
                count = count * (self.wide if n == s.vector else s.loops[n].extent)
        return least(count, self.vectors)

    @cached_property
    def tiles(self) -> Real:
        """How often the written-out body runs."""
        return self.statement.trips[self.statement.tile]

    @cached_property
    def runs(self) -> Real:
        """How often a reduction that is kept in registers begins."""
        return self.statement.trips[self.statement.start]

    def loads_of(self, access: Access) -> Real:
        """Load instructions for one access: each distinct vector of the tile once, and
        outside the loops around it that do not move it."""
        s = self.statement
        level = s.tile
        while level > s.own and level - 1 not in access.moving:
            level -= 1
        count = access.elements(level) * s.trips[level]
        if s.vector is None:
            return count
        if s.vector not in access.moving:
            return count / self._row(access)
        if s.vector in s.work.guarded.get(access.buffer, ()):
            return count * np.float32(MASKED)
        wide = least(s.loops[s.vector].extent, np.float32(s.lanes))
        if access.is_dense:
            return count / wide
        stride = access.stride(s.loops[s.vector].key)
        found = np.where(stride == 1, count / wide, count * np.float32(GATHER))
        if access.divisor:
            slope = access.slope(s.loops[s.vector].key)
            return np.where(slope < 1, self._divided(access, count), found)
        return found

    def _divided(self, access: Access, count: Real) -> Real:
        """Loads by an index that is divided: lanes have the same element unless they
        cross a multiple of the divisor, where each one has to be looked up."""
        s = self.statement
        assert s.vector is not None
        same = np.mod(np.float32(access.divisor), s.loops[s.vector].extent) == 0
        apart = self.vectors * np.float32(s.lanes * GATHER)
        return np.where(same, count / self._row(access), apart)

    def _row(self, access: Access) -> Real:
        """Elements that are the same in all lanes and come with one load: neighbours
        along written-out loops, where an instruction can pick a lane."""
        s = self.statement
        if not self.machine.has_lane_operand:
            return ONE
        near = ONE
        for n in range(s.tile, s.depth):
            if n in access.moving:
                extent = s.loops[n].extent
                if not access.is_dense:
                    beside = access.stride(s.loops[n].key) == 1
                    extent = np.where(beside, extent, ONE)
                near = near * extent
        return least(near, np.float32(s.lanes))

    @cached_property
    def loads(self) -> Real:
        found = self.reloads
        for access in self.statement.loads:
            found = found + self.loads_of(access)
        return found

    @cached_property
    def stores(self) -> Real:
        """Store instructions: results leave registers once per run of the reduction
        that is kept in them."""
        s = self.statement
        found = ZERO
        for access in s.stores:
            if s.nest.stage.reducer is None:
                count = self.vectors * np.float32(1 if s.vector is None else s.lanes)
            else:
                count = access.elements(s.accumulate) * s.trips[s.accumulate]
            found = found + count * self._per_store(access)
        return found

    def _per_store(self, access: Access) -> Real:
        """Store instructions for one element: lanes that lie apart leave one by one."""
        s = self.statement
        if s.vector is None or s.loops[s.vector].is_reduce:
            return ONE
        stride = access.stride(s.loops[s.vector].key)
        return np.where(stride > 1, np.float32(SCATTER), np.float32(1 / s.lanes))

    @cached_property
    def reloads(self) -> Real:
        """Loads of partial results."""
        s = self.statement
        around = any(x.is_reduce for x in s.loops[s.own : s.accumulate])
        return self.stores if s.nest.stage.reducer and around else ZERO

    @cached_property
    def joins(self) -> Real:
        """Instructions that add up the lanes of results."""
        s = self.statement
        if s.vector is None or not s.loops[s.vector].is_reduce:
            return ZERO
        return self.stores * np.float32(JOIN * log2(s.lanes))

    # -- cycles ----------------------------------------------------------------------

    @cached_property
    def arithmetic(self) -> Real:
        """Cycles of arithmetic; additions that wait for each other take the latency of
        each, as far as the core cannot go on with what comes next."""
        s = self.statement
        busy = (self.slots + self.joins) * np.float32(1 / self.machine.fma_pipes)
        if s.nest.stage.reducer is None or s.start == s.tile:
            return busy
        steps = (
            x.extent for x in s.loops[s.tile :] if x.is_reduce and x.kind == "unroll"
        )
        waiting = self.tiles * product(list(steps)) * np.float32(self.machine.latency)
        run = self.slots + self.loads
        seen = run / (run + self.runs * np.float32(self.machine.window))
        return most(busy, waiting * seen)

    @cached_property
    def loading(self) -> Real:
        loads = self.loads * np.float32(1 / self.machine.load_ports)
        return loads + self.stores * np.float32(1 / self.machine.store_ports)

    @cached_property
    def issuing(self) -> Real:
        found = self.slots + self.loads + self.stores + self.turns * np.float32(3)
        found = found + self.joins
        guard = self.statement.work.guard
        if guard:
            found = found + self.loads * np.float32(guard)
        return found * np.float32(1 / self.machine.issue)

    @cached_property
    def turns(self) -> Real:
        """Turns of the innermost loop that is not written out."""
        s = self.statement
        if s.vector is None:
            return self.tiles
        return self.tiles * most(self.wide * np.float32(1 / LONG_VECTOR), 1)

    @cached_property
    def fixed(self) -> Real:
        """Cycles of entering and leaving loops."""
        s = self.statement
        found = ZERO
        for n in range(s.own, s.start):
            extent = s.loops[n].extent
            if extent is not ONE:
                found = found + s.trips[n + 1] * (extent > 1)
        found = found * np.float32(TURN)
        if s.start == s.tile:
            return found
        ends = self.runs * (self.runs < self.tiles)
        return found + ends * np.float32(DRAIN)

    # -- traffic ---------------------------------------------------------------------

    def traffic(self, capacity: float) -> Real:
        """Lines that come from beyond a cache of some bytes, under this loop order.

        Outside the outermost level whose data fits, everything is fetched again for
        each iteration; in the loop just around it only what it moves to.
        """
        s = self.statement
        lines = capacity / self.machine.line
        found = self._fetched[-1]
        for at in range(len(s.levels) - 2, -1, -1):
            low, high = self._ranges[at + 1]
            if low >= lines * SPILLED:
                break
            if high <= lines * FULL:
                found = self._fetched[at]
            else:
                kept = self._fetched[at]
                found = kept + (found - kept) * _lost(s.occupied[at + 1], lines)
        if self.data.max() <= lines * FULL:
            return ZERO
        for known in self.before:
            found = most(found - known.lines * (1 - _lost(known.body, lines)), 0)
        return found * _lost(self.data, lines)

    @cached_property
    def _ranges(self) -> list[tuple[float, float]]:
        return [(float(x.min()), float(x.max())) for x in self.statement.occupied]

    @cached_property
    def _fetched(self) -> list[Real]:
        """Lines that come in for each level, if they stay while its loops run. A store
        brings its line in and takes it back."""
        s = self.statement
        found: list[Real] = []
        for at in range(len(s.levels) - 1, -1, -1):
            level = s.levels[at]
            once = s.lines[at]
            for access in s.stores:
                once = once + access.lines(level)
            total = once * s.trips[level]
            # Blocks at the end of a tensor are smaller than full ones: never more than
            # what the loops inside fetch.
            found.append(least(total, found[-1]) if found else total)
        return found[::-1]

    @cached_property
    def far(self) -> tuple[Real, Real, Real]:
        """Lines from beyond levels 1, 2 and 3."""
        first, second, third = (self.traffic(c) for c in self.machine.capacities)
        return first, second, third

    def _only(self, level: int) -> Real:
        """Lines that come from the next level, and not from further away."""
        here, beyond = self.far[level], self.far[level + 1]
        return here if beyond is ZERO else most(here - beyond, 0)

    @cached_property
    def short(self) -> Real:
        """Runs that begin for each line, on average over what is loaded."""
        lines, runs = ZERO, ZERO
        for access in self.statement.loads:
            touched = access.lines(0)
            lines = lines + touched
            runs = runs + touched / access.run
        return runs / lines if self.statement.loads else ZERO

    # -- time ------------------------------------------------------------------------

    @cached_property
    def compute(self) -> Real:
        """Seconds if all data were in the first cache level."""
        slowest = most(most(self.arithmetic, self.loading), self.issuing)
        others = self.arithmetic + self.loading + self.issuing - slowest
        cycles = slowest + np.float32(CROWD) * others + self.fixed
        return cycles * np.float32(1 / self.machine.hertz)

    @cached_property
    def near(self) -> Real:
        """Seconds but for data from beyond the second level."""
        m = self.machine
        fetching = self._only(0) * np.float32(m.line / m.bandwidths[0])
        shown = np.float32(OVERLAP) + np.float32(ALONE) * self.short
        shorter = least(self.compute, fetching)
        return most(self.compute, fetching) + shown * shorter

    @cached_property
    def memory(self) -> Real:
        """Seconds that data from beyond the second level takes."""
        m = self.machine
        found = self._only(1) * np.float32(FAR * m.line / m.bandwidths[1])
        if self.far[2] is not ZERO:
            found = found + self.far[2] * np.float32(FAR * m.line / m.bandwidths[2])
        return found if found is ZERO else found * (1 + np.float32(SHORT) * self.short)

    @cached_property
    def alone(self) -> Real:
        """Seconds on one core."""
        return self.near + self.memory

    @cached_property
    def tasks(self) -> Real:
        """Pieces of work that cores can take."""
        return self.statement.product(*PARALLEL)

    @cached_property
    def speedup(self) -> Real:
        """Cores that work at once, on average: the last round may be short."""
        if self.tasks is ONE or self.machine.cores == 1:
            return ONE
        return self.tasks / ceil(self.tasks * np.float32(1 / self.machine.cores))

    @cached_property
    def seconds(self) -> Real:
        """Seconds of the statement in the whole program."""
        if self.speedup is ONE:
            return self.alone
        together = least(self.speedup, np.float32(self.machine.shared))
        begin = self.machine.fork_join if self.statement.own == 0 else 0.0
        return self.near / self.speedup + self.memory / together + np.float32(begin)

    @cached_property
    def order(self) -> list[Access]:
        """The accesses, those of the biggest tensors first."""
        accesses = self.statement.accesses
        return sorted(accesses, key=lambda a: -a.size * a.bytes)


def _lost(occupied: Real, lines: float) -> Real:
    """The share of data that is gone when it is used again."""
    scale = np.float32(1 / (lines * (SPILLED - FULL)))
    share = occupied * scale - np.float32(FULL / (SPILLED - FULL))
    return least(most(share, 0), 1)
