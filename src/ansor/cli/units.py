"""Quantities and computations as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from ansor.ir.expr import Buffer
from ansor.te.dag import DAG

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SIZES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "bytes"))


def duration(seconds: float) -> str:
    """The time of a call.

    >>> duration(0.0001507)
    '150.7 µs'
    """
    scale, unit = next((x for x in _UNITS if seconds >= x[0]), _UNITS[-1])
    return f"{seconds / scale:.4g} {unit}"


def clock(seconds: float) -> str:
    """A time that people wait.

    >>> clock(3.21), clock(75), clock(3700)
    ('3 s', '1:15 min', '1:01 h')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"


def size(count: int) -> str:
    """Bytes of memory.

    >>> size(65536), size(1 << 20)
    ('64 KiB', '1 MiB')
    """
    scale, unit = next((x for x in _SIZES if count >= x[0]), _SIZES[-1])
    return f"{count / scale:.4g} {unit}"


def plural(count: int, word: str) -> str:
    """A number of things.

    >>> plural(1, "record"), plural(2, "record")
    ('1 record', '2 records')
    """
    return f"{count} {word}{'' if count == 1 else 's'}"


def computation(dag: DAG) -> str:
    """What a DAG computes, in a line.

    >>> import ansor
    >>> A = ansor.placeholder((8, 9), name="A")
    >>> computation(ansor.Task(ansor.ops.softmax(A), "x86_64").dag)
    'softmax: float32[8, 9] -> float32[8, 9]'
    """
    name = ", ".join(x.name for x in dag.outputs)
    return f"{name}: {_shapes(dag.inputs)} -> {_shapes(dag.outputs)}"


def _shapes(buffers: Sequence[Buffer]) -> str:
    return ", ".join(f"{x.dtype}{list(x.shape)}" for x in buffers) or "nothing"
