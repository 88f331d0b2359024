"""What a machine can run: limits checked for whole matrices of points, no lowering.

A limit measures one quantity of every point and says how much of it the target has.
Points above a limit are masked out before anything is lowered or compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ansor.schedule.knobs import Column, Knob
from ansor.schedule.plan import Plan
from ansor.space.blocks import (
    block_bytes,
    missing_threads,
    overlong_tiles,
    shared_bytes,
    thread_words,
    threads,
    virtual_threads,
)
from ansor.space.code import code, longest
from ansor.space.registers import registers, steps
from ansor.space.table import Matrix
from ansor.space.view import Mask, View
from ansor.target import Target
from ansor.target.gpus import Gpu

CHUNK = 16384  # rows at a time: their columns stay in the cache
MOST_STEPS = 16  # of a reduction that are written out
MOST_CODE = 640  # statements after unrolling, of all stages but transforms
MOST_STAGE_CODE = 1536  # of one stage
MOST_GPU_CODE = 4096
MOST_VIRTUAL = 8
OTHER_REGISTERS = 64  # of a GPU's thread, that do not hold results


@dataclass(frozen=True)
class Limit:
    """One quantity of a program, and how much of it a target has."""

    name: str
    measure: Callable[[View], Column]
    most: Callable[[Target], int]


def feasible(
    plan: Plan,
    target: Target,
    knobs: tuple[Knob, ...],
    points: Matrix,
    only: frozenset[str] | None = None,
) -> Mask:
    """True for every point within all limits; of some stages `only`, if given."""
    mask = np.ones(len(points), np.bool_)
    for start in range(0, len(points), CHUNK):
        rows = slice(start, start + CHUNK)
        mask[rows] = _within_all(
            LIMITS[target.kind],
            lambda part: View.of(plan, target, knobs, part, only),
            points[rows],
        )
    return mask


def _within_all(
    groups: tuple[tuple[Limit, ...], ...],
    look: Callable[[Matrix], View],
    points: Matrix,
) -> Mask:
    """The mask of all limits. Once a group has refused many points, the next one only
    looks at those that are left."""
    view = look(points)
    mask = _within(view, groups[0])
    for limits in groups[1:]:
        if 2 * np.count_nonzero(mask) > len(points):
            mask &= _within(view, limits)
        elif mask.any():
            mask[mask] = _within(look(points[mask]), limits)
    return mask


def _within(view: View, limits: tuple[Limit, ...]) -> Mask:
    mask = np.ones(view.bounds.points.count, np.bool_)
    for limit in limits:
        mask &= limit.measure(view) <= limit.most(view.target)
    return mask


def broken(
    plan: Plan, target: Target, knobs: tuple[Knob, ...], point: Matrix
) -> list[str]:
    """The limits that one point exceeds, in words."""
    view = View.of(plan, target, knobs, point)
    found = []
    for limit in (limit for limits in LIMITS[target.kind] for limit in limits):
        used, most = int(limit.measure(view)[0]), limit.most(target)
        if used > most:
            found.append(f"{limit.name}: {used} of {most}")
    return found


def _cache(target: Target) -> int:
    """The largest cache; where unknown, what any machine has."""
    return max(*target.cache_bytes, 1 << 20)


def _gpu(target: Target) -> Gpu:
    assert target.gpu is not None, "a GPU has its limits"
    return target.gpu


def _spare_registers(target: Target) -> int:
    """What addresses, counters and operands leave to results."""
    return _gpu(target).thread_registers - OTHER_REGISTERS


# Limits that look at innermost loops only come first: what they refuse is not
# measured any further.
LIMITS: dict[str, tuple[tuple[Limit, ...], ...]] = {
    "cpu": (
        (
            Limit("unrolled steps of a reduction", steps, lambda t: MOST_STEPS),
            Limit("vector registers", registers, lambda t: t.vector_registers - 1),
        ),
        (
            Limit("tiles longer than what they tile", overlong_tiles, lambda t: 0),
            Limit("statements", code, lambda t: MOST_CODE),
            Limit("statements of a stage", longest, lambda t: MOST_STAGE_CODE),
            Limit("bytes of a block", block_bytes, _cache),
        ),
    ),
    "cuda": (
        (
            Limit("threads of a block", threads, lambda t: _gpu(t).max_threads),
            Limit("threads missing to a warp", missing_threads, lambda t: 0),
            Limit("virtual threads", virtual_threads, lambda t: MOST_VIRTUAL),
        ),
        (
            Limit("tiles longer than what they tile", overlong_tiles, lambda t: 0),
            Limit("statements of a stage", longest, lambda t: MOST_GPU_CODE),
            Limit("registers of a thread", thread_words, _spare_registers),
            Limit(
                "bytes of shared memory", shared_bytes, lambda t: _gpu(t).shared_bytes
            ),
        ),
    ),
}
