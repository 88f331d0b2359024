"""Operators on each element, with NumPy's broadcasting for two operands."""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest

from ansor.errors import ExpressionError
from ansor.te import functions
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Scalar, Value, binary


def each(x: Tensor, function: Callable[[Value], Value], name: str) -> Tensor:
    """`function` of every element."""
    return compute(x.shape, lambda *i: function(x[i]), name=name)


def broadcast_shape(what: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape: axes line up from the last one, extent 1 repeats."""
    result: list[int] = []
    for extents in zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1):
        extent = max(extents)
        if any(e not in (1, extent) for e in extents):
            text = " and ".join(map(str, shapes))
            raise ExpressionError(what, f"shapes {text} do not broadcast")
        result.append(extent)
    return tuple(reversed(result))


def element(x: Tensor, shape: tuple[int, ...], indices: tuple[Value, ...]) -> Value:
    """The element that broadcasting `x` to `shape` puts at `indices`."""
    return x[repeated(x.shape, shape, indices)]


def repeated(
    own: tuple[int, ...], shape: tuple[int, ...], indices: tuple[Value, ...]
) -> tuple[Scalar, ...]:
    """Indices into extents `own`, which broadcast to `shape`."""
    first = len(shape) - len(own)
    both = zip(own, shape[first:], indices[first:], strict=True)
    return tuple(i if mine == extent else 0 for mine, extent, i in both)


def zipped(
    a: Tensor, b: Tensor, function: Callable[[Value, Value], Value], name: str
) -> Tensor:
    """`function` of corresponding elements."""
    shape = broadcast_shape(name, a.shape, b.shape)
    return compute(
        shape,
        lambda *i: function(element(a, shape, i), element(b, shape, i)),
        name=name,
    )


def add(a: Tensor, b: Tensor, name: str = "add") -> Tensor:
    """a + b, element by element.

    >>> import ansor
    >>> x, y = ansor.placeholder((4, 1)), ansor.placeholder((3,))
    >>> add(x, y)
    <tensor add: float32[4, 3]>
    """
    return zipped(a, b, lambda x, y: x + y, name)


def subtract(a: Tensor, b: Tensor, name: str = "subtract") -> Tensor:
    """a - b, element by element.

    >>> import ansor
    >>> x = ansor.placeholder((4,))
    >>> subtract(x, x)
    <tensor subtract: float32[4]>
    """
    return zipped(a, b, lambda x, y: x - y, name)


def multiply(a: Tensor, b: Tensor, name: str = "multiply") -> Tensor:
    """a * b, element by element.

    >>> import ansor
    >>> x = ansor.placeholder((4,))
    >>> multiply(x, x)
    <tensor multiply: float32[4]>
    """
    return zipped(a, b, lambda x, y: x * y, name)


def divide(a: Tensor, b: Tensor, name: str = "divide") -> Tensor:
    """a / b, element by element; float32 for integers.

    >>> import ansor
    >>> x = ansor.placeholder((4,))
    >>> divide(x, x)
    <tensor divide: float32[4]>
    """
    return zipped(a, b, lambda x, y: binary("div", x, y), name)


def maximum(a: Tensor, b: Tensor, name: str = "maximum") -> Tensor:
    """The greater of two elements.

    >>> import ansor
    >>> x = ansor.placeholder((4,))
    >>> maximum(x, x)
    <tensor maximum: float32[4]>
    """
    return zipped(a, b, functions.maximum, name)


def minimum(a: Tensor, b: Tensor, name: str = "minimum") -> Tensor:
    """The smaller of two elements.

    >>> import ansor
    >>> x = ansor.placeholder((4,))
    >>> minimum(x, x)
    <tensor minimum: float32[4]>
    """
    return zipped(a, b, functions.minimum, name)
