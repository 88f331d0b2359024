"""Sequences and optional values whose length and presence are known."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.graph import Value
from ansor.frontend.onnx.scope import Entry, Items
from ansor.frontend.onnx.structure import Call, Structure, concat, stack

if TYPE_CHECKING:
    from ansor.frontend.onnx.walk import Walker

MOST_ITEMS = 4096  # of one sequence


def construct(walk: Walker, call: Call) -> tuple[Entry, ...]:
    return (Items(tuple(call.value(n) for n in range(len(call.inputs)))),)


def empty(walk: Walker, call: Call) -> tuple[Entry, ...]:
    return (Items(()),)


def at(walk: Walker, call: Call) -> tuple[Entry, ...]:
    items = call.items(0)
    return (items[_position(walk, call, 1, len(items), len(items) - 1)],)


def insert(walk: Walker, call: Call) -> tuple[Entry, ...]:
    items = call.items(0)
    where = len(items)
    if call.entry(2) is not None:
        where = _position(walk, call, 2, len(items), len(items))
    return (Items((*items[:where], call.value(1), *items[where:])),)


def erase(walk: Walker, call: Call) -> tuple[Entry, ...]:
    items = call.items(0)
    where = len(items) - 1
    if call.entry(1) is not None or not items:
        where = _position(walk, call, 1, len(items), len(items) - 1)
    return (Items((*items[:where], *items[where + 1 :])),)


def length(walk: Walker, call: Call) -> tuple[Entry, ...]:
    return (walk.build.constant(np.array(len(call.items(0)), np.int64)),)


def join(walk: Walker, call: Call) -> tuple[Entry, ...]:
    """ConcatFromSequence."""
    call.only("axis", "new_axis")
    items, axis = call.items(0), call.int("axis", 0)
    if not items:
        raise call.unsupported("an empty sequence")
    if call.int("new_axis", 0):
        return (stack(walk, call, items, axis),)
    rank = len(items[0].shape)
    if not -rank <= axis < rank:
        raise ModelError(call.what, f"axis {axis} of {rank}")
    return (concat(walk, items, axis % rank),)


def split(walk: Walker, call: Call) -> tuple[Entry, ...]:
    """SplitToSequence."""
    call.only("axis", "keepdims")
    x, axis = call.value(0), call.int("axis", 0)
    if not -len(x.shape) <= axis < len(x.shape):
        raise ModelError(call.what, f"{x} has no axis {axis}")
    axis %= len(x.shape)
    single = call.entry(1) is None
    lengths = [1] * x.shape[axis] if single else _lengths(walk, call, x.shape[axis])
    if len(lengths) > MOST_ITEMS:
        raise call.unsupported(f"{len(lengths)} parts, more than {MOST_ITEMS}")
    parts, start = [], 0
    for step in lengths:
        parts.append(_part(walk, x, axis, start, start + step))
        start += step
    if single and not call.int("keepdims", 1):
        shape = x.shape[:axis] + x.shape[axis + 1 :]
        parts = [walk.build.add("reshape", part, shape=shape) for part in parts]
    return (Items(tuple(parts)),)


def optional(walk: Walker, call: Call) -> tuple[Entry, ...]:
    return (call.entry(0),)


def has_element(walk: Walker, call: Call) -> tuple[Entry, ...]:
    return (walk.build.constant(np.array(call.entry(0) is not None)),)


def get_element(walk: Walker, call: Call) -> tuple[Entry, ...]:
    if call.entry(0) is None:
        raise ModelError(call.what, "its input has no element")
    return (call.entry(0),)


def _position(walk: Walker, call: Call, index: int, count: int, last: int) -> int:
    """A constant position in a sequence of `count`."""
    known = walk.build.known(call.value(index))
    if known is None or known.size != 1:
        raise call.unsupported("input 'position' is not constant")
    found = int(known.reshape(-1)[0])
    if not -count <= found <= last:
        raise ModelError(call.what, f"position {found} of {count}")
    return found + count if found < 0 else found


def _lengths(walk: Walker, call: Call, whole: int) -> list[int]:
    known = walk.build.known(call.value(1))
    if known is None:
        raise call.unsupported("input 'split' is not constant")
    if known.ndim:
        found = [int(x) for x in known.reshape(-1)]
    else:
        step = max(1, int(known))
        found = [min(step, whole - n) for n in range(0, whole, step)]
    if sum(found) != whole or min(found, default=0) < 0:
        raise ModelError(call.what, f"parts of {found[:8]} do not make up {whole}")
    return found


def _part(walk: Walker, x: Value, axis: int, start: int, stop: int) -> Value:
    if prod(x.shape) and (start, stop) == (0, x.shape[axis]):
        return x
    rank = range(len(x.shape))
    return walk.build.add(
        "slice",
        x,
        starts=tuple(start if n == axis else 0 for n in rank),
        stops=tuple(stop if n == axis else x.shape[n] for n in rank),
        steps=(1,) * len(rank),
    )


SEQUENCES: Mapping[str, Structure] = {
    "SequenceConstruct": construct,
    "SequenceEmpty": empty,
    "SequenceAt": at,
    "SequenceInsert": insert,
    "SequenceErase": erase,
    "SequenceLength": length,
    "ConcatFromSequence": join,
    "SplitToSequence": split,
    "Optional": optional,
    "OptionalHasElement": has_element,
    "OptionalGetElement": get_element,
}
