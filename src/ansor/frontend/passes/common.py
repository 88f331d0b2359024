"""Compute once what is computed twice."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from ansor.frontend.graph import Array, Graph, Value
from ansor.frontend.passes.rewriter import Rewriter

SAMPLE = 16  # elements, thrice, by which arrays are told apart before they are compared


def merge_common(graph: Graph) -> Graph:
    """Equal nodes (operator, inputs, attributes) and constants of equal bytes become
    one. Attributes are compared with their types: 1, 1.0 and True are three."""
    out = Rewriter(graph)
    constants = _merge_constants(out)
    seen: dict[Hashable, tuple[Value, ...]] = {}
    for old in graph.nodes:
        node = out.moved(old)
        attributes = tuple((k, repr(v)) for k, v in sorted(node.attributes.items()))
        key = (node.op, tuple(value.name for value in node.inputs), attributes)
        if key not in seen:
            seen[key] = node.outputs
            out.keep(node)
            continue
        for before, after in zip(node.outputs, seen[key], strict=True):
            out.stands_for(before, after)
    same = not constants and len(out.nodes) == len(graph.nodes)
    return graph if same else out.finished()


def _merge_constants(out: Rewriter) -> int:
    """How many constants stand for others now."""
    alike: dict[Hashable, list[str]] = {}
    merged = 0
    for name, array in out.graph.constants.items():
        found = alike.setdefault(_sample(array), [])
        for other in found:
            if _equal(array, out.constants[other]):
                dtype, shape = str(array.dtype), array.shape
                old, new = (Value(x, dtype, shape) for x in (name, other))
                out.stands_for(old, new)
                merged += 1
                break
        else:
            found.append(name)
    return merged


def _sample(array: Array) -> Hashable:
    """Equal for equal arrays, and cheap: arrays may lie in files, of which few pages
    are looked at."""
    starts = (0, array.size // 2, max(0, array.size - SAMPLE))
    some = b"".join(array.flat[at : at + SAMPLE].tobytes() for at in starts)
    return (str(array.dtype), array.shape, some)


def _equal(a: Array, b: Array) -> bool:
    """True for the same bits: NaN equals itself, 0.0 is not -0.0."""
    if _place(a) == _place(b):
        return True
    bits = f"u{a.dtype.itemsize}"
    left, right = (np.ascontiguousarray(x).view(bits) for x in (a, b))
    return bool(np.array_equal(left, right))


def _place(array: Array) -> Hashable:
    return (array.__array_interface__["data"][0], array.strides)
