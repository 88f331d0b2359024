"""What converters of several topics say: axes, literals, casts, small compositions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.onnx.node import OnnxNode
from ansor.ir.dtypes import DTYPES


def as_axis(node: OnnxNode, axis: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -rank <= axis < max(rank, 1):
        raise ModelError(str(node), f"axis {axis}, but its input has {rank} axes")
    return axis % max(rank, 1)


def as_axes(node: OnnxNode, axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, in order."""
    found = sorted(as_axis(node, int(axis), rank) for axis in axes)
    if len(set(found)) < len(found):
        raise ModelError(str(node), f"axes {tuple(axes)} name one axis twice")
    return tuple(found)


def literal(build: Builder, number: float, dtype: str) -> Value:
    """A number as a value that broadcasts."""
    return build.constant(np.array(number, DTYPES[dtype].numpy), "number")


def beside(build: Builder, op: str, x: Value, number: float) -> Value:
    """A binary operator of `x` and a number."""
    return build.add(op, x, literal(build, number, x.dtype))


def cast(build: Builder, x: Value, dtype: str) -> Value:
    return x if x.dtype == dtype else build.add("cast", x, dtype=dtype)


def reshape(build: Builder, x: Value, shape: Sequence[int]) -> Value:
    wanted = tuple(map(int, shape))
    return x if x.shape == wanted else build.add("reshape", x, shape=wanted)


def along(build: Builder, x: Value, axis: int, rank: int) -> Value:
    """A vector that broadcasts along `axis` of something with `rank` axes."""
    return reshape(build, x, (x.size, *(1,) * (rank - axis - 1)))


def part(build: Builder, x: Value, axis: int, start: int, stop: int) -> Value:
    """Elements start … stop - 1 along an axis."""
    if (start, stop) == (0, x.shape[axis]):
        return x
    starts = tuple(start if d == axis else 0 for d in range(len(x.shape)))
    stops = tuple(stop if d == axis else n for d, n in enumerate(x.shape))
    steps = (1,) * len(x.shape)
    return build.add("slice", x, starts=starts, stops=stops, steps=steps)


def reduced(
    build: Builder, x: Value, kind: str, axes: Sequence[int], keepdims: bool = True
) -> Value:
    return build.add("reduce", x, kind=kind, axes=tuple(axes), keepdims=keepdims)


def working(dtype: str) -> str:
    """The type to compute in: float32 for floats of 16 bits."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def softmax(build: Builder, x: Value, axis: int) -> Value:
    """16 bits are rounded after every operation, as the standard spells it."""
    if DTYPES[x.dtype].bits > 16:
        return build.add("softmax", x, axis=axis)
    apart = build.add("subtract", x, reduced(build, x, "max", (axis,)))
    powers = build.add("exp", apart)
    return build.add("divide", powers, reduced(build, powers, "sum", (axis,)))
