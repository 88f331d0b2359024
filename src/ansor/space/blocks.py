"""Blocks of data and of threads: sizes that a machine limits."""

from __future__ import annotations

from math import prod

import numpy as np

from ansor.ir.dtypes import DTYPES
from ansor.schedule.knobs import Column, Knob
from ansor.schedule.plan import Nest, SplitRelation
from ansor.space.view import View


def overlong_tiles(view: View) -> Column:
    """How many lengths exceed what there is left to cut."""
    count = view.one - 1
    for nest in view.nests:
        for split in nest.relations:
            if not isinstance(split, SplitRelation):
                continue
            if not any(isinstance(x, Knob) for x in split.lengths):
                continue
            whole = view.extent(nest, split.parent)
            inside = view.one
            for length in reversed(split.lengths):
                value = view.bounds.length(length)
                if isinstance(length, Knob):  # value > ceil(whole / inside)
                    over = (value - 1) * inside >= whole
                    least = length.candidates[0]
                    count = count + (over if least == 1 else over & (value > least))
                inside = inside * value
    return count


def block_bytes(view: View) -> Column:
    """Bytes of the largest buffer computed inside a loop."""
    most = view.one - 1
    for nest in view.nests:
        if nest.at is None:
            continue
        most = np.maximum(most, _bytes(view, nest))
    return most


def threads(view: View) -> Column:
    """Threads of the largest block."""
    return _most_bound(view, "threadIdx.x")


def virtual_threads(view: View) -> Column:
    return _most_bound(view, "vthread")


def _most_bound(view: View, kind: str) -> Column:
    most = view.one
    for nest in view.nests:
        loops = [x for x, found in nest.annotations.items() if found == kind]
        most = np.maximum(most, view.product(nest, loops))
    return most


def missing_threads(view: View) -> Column:
    """Threads that the smallest block lacks to fill a warp, though there is work."""
    gpu = view.target.gpu
    assert gpu is not None, "a limit of GPUs"
    most = view.one - 1
    for nest in view.nests:
        loops = [x for x, kind in nest.annotations.items() if kind == "threadIdx.x"]
        if nest.at is None and loops:
            work = prod(axis.extent for axis in nest.stage.axes)
            if work > 2 * gpu.warp:
                most = np.maximum(most, gpu.warp - view.product(nest, loops))
    return most


def shared_bytes(view: View) -> Column:
    """Shared memory of one block."""
    return _total_bytes(view, [n for n in view.nests if n.scope == "shared"])


def thread_words(view: View) -> Column:
    """32-bit registers that the results of one thread take."""
    inside = [n for n in view.nests if n.at is not None and n.scope == "local"]
    return -(-_total_bytes(view, inside) // 4)


def _total_bytes(view: View, nests: list[Nest]) -> Column:
    total = view.one - 1
    for nest in nests:
        total = total + _bytes(view, nest)
    return total


def _bytes(view: View, nest: Nest) -> Column:
    """Bytes of what one run of an attached nest computes."""
    size = view.one * sum(max(DTYPES[b.dtype].bits // 8, 1) for b in nest.stage.buffers)
    for region in view.bounds.regions(nest.name):
        size = size * region.span
    return size
